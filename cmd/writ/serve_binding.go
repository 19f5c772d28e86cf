package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/kernel"
)

// bindingNote is the cursor that says which repository a world's records are of.
const bindingNote = "repository"

// binding is the repository that a world is bound to: forges give names away, and
// never a number.
type binding struct {
	id   int64  // the forge's number
	name string // when it was seen last: owner/name
}

func (b binding) String() string { return strconv.FormatInt(b.id, 10) + " " + b.name }

func parseBinding(text string) (b binding, ok bool) {
	number, name, _ := strings.Cut(text, " ")
	id, err := strconv.ParseInt(number, 10, 64)
	return binding{id, name}, err == nil && id > 0
}

// hostOf is the forge's part of a world's name.
func hostOf(world string) string {
	host, _, _ := strings.Cut(world, "/")
	return host
}

// readBindings reads what the store knows.
func (s *server) readBindings(ctx context.Context) error {
	notes, err := s.inbox.Cursors(ctx, bindingNote)
	if err != nil {
		return err
	}
	s.worlds.locked(func() {
		for world, text := range notes {
			if b, ok := parseBinding(text); ok {
				s.worlds.bound[world] = b
			}
		}
	})
	return nil
}

// likely fills in what is known of a listing before its forge has answered: a
// world of that forge whose repository had this name when it was seen last.
// ws.mu is held.
func (ws *worlds) likely(l *listing) {
	l.world = l.first
	for world, b := range ws.bound {
		if hostOf(world) == hostOf(l.first) && strings.EqualFold(b.name, l.name) {
			l.world, l.id = world, b.id
			return
		}
	}
}

// worldOf decides which world a repository is. Its records go on under the name
// that they began with, whatever the repository is called now; and the records of
// one repository are never those of another that has taken its name (case I12).
func (ws *worlds) worldOf(l *listing, at forge.Repo) (world string, err error) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	world = l.forge.world(at)
	for known, b := range ws.bound {
		if hostOf(known) == hostOf(world) && b.id == at.ID {
			world = known
			break
		}
	}
	for known, b := range ws.bound {
		if strings.EqualFold(known, world) && b.id != at.ID {
			return "", &problem{
				code: kernel.CodeTargetIneligible, exit: exitRefused,
				text: fmt.Sprintf("%s is another repository now (number %d): the records of %s are of number %d, which was %s.", l.name, at.ID, known, b.id, b.name),
				remedy: "If that one was renamed, list its new name in place of this one. To govern this one, serve it with another state directory: " +
					`operations.md, "Renamed and moved repositories".`,
			}
		}
	}
	for _, other := range ws.list {
		if other != l && other.served != nil && other.world == world {
			return "", &problem{
				code: kernel.CodeConfigInvalid, exit: exitRefused,
				text: fmt.Sprintf("%s is the same repository as %s.", l.name, other.name), remedy: "Leave one of them in forges.",
			}
		}
	}
	return world, nil
}

// bind notes durably which repository a world is of, and by what name.
func (s *server) bind(ctx context.Context, world string, at forge.Repo) error {
	now := binding{at.ID, at.String()}
	var before binding
	s.worlds.locked(func() { before = s.worlds.bound[world] })
	if before == now {
		return nil
	}
	if err := s.inbox.SetCursor(ctx, world, bindingNote, now.String()); err != nil {
		return err
	}
	s.worlds.locked(func() { s.worlds.bound[world] = now })
	if before.id != 0 && !strings.EqualFold(before.name, now.name) {
		s.log.Warn("a repository has another name; its records go on under the old one", logWorld, world, "was", before.name, "is", now.name)
	}
	return nil
}
