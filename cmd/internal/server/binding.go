package server

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/writbot/writ/cmd/internal/installation"
	"github.com/writbot/writ/cmd/internal/problem"
	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/kernel"
)

// BindingNote is the cursor that says by what number and name a forge last knew
// the repository of a world.
const BindingNote = "repository"

// binding is how a repository was called when it was seen last. It decides nothing
// about records, which go by the world's identity: it tells which repository an
// operator means by a name, for forges give names away.
type binding struct {
	id   int64  // the forge's number
	name string // owner/name
}

func (b binding) String() string { return strconv.FormatInt(b.id, 10) + " " + b.name }

func parseBinding(text string) (b binding, ok bool) {
	number, name, _ := strings.Cut(text, " ")
	id, err := strconv.ParseInt(number, 10, 64)
	return binding{id, name}, err == nil && id > 0
}

// hostOf is the forge's part of a world's identity.
func hostOf(world string) string {
	host, _, _ := strings.Cut(world, "#")
	return host
}

// readBindings reads what the store knows.
func (s *server) readBindings(ctx context.Context) error {
	notes, err := s.inbox.Cursors(ctx, BindingNote)
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
		if hostOf(world) == l.forge.Identity && strings.EqualFold(b.name, l.name) {
			l.world, l.id = world, b.id
			return
		}
	}
}

// mayOpen refuses a listing that a forge answers with another repository than the
// one which the operator listed: who takes a name that became free must not get the
// builders that were meant for its owner (case I12).
func (ws *worlds) mayOpen(l *listing, world string, at forge.Repo) error {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	for known, b := range ws.bound {
		if hostOf(known) == l.forge.Identity && known != world && strings.EqualFold(b.name, at.String()) {
			return &problem.Error{
				Code: kernel.CodeTargetIneligible, Exit: problem.ExitRefused,
				Text: fmt.Sprintf("%s is another repository now: it is %s, and the one that was listed is %s.", l.name, world, known),
				Remedy: fmt.Sprintf("If that one was renamed, list its new name in place of this one. If this one goes on in its place: writ world rebind '%s' '%s' --repo %s, with this server's --state-dir and --config. ", known, world, l.forge.CloneURL(at)) +
					`See operations.md, "Renamed and moved repositories".`,
			}
		}
	}
	for _, other := range ws.list {
		if other != l && other.served != nil && other.world == world {
			return &problem.Error{
				Code: kernel.CodeConfigInvalid, Exit: problem.ExitRefused,
				Text: fmt.Sprintf("%s is the same repository as %s.", l.name, other.name), Remedy: "Leave one of them in forges.",
			}
		}
	}
	return nil
}

// bind notes durably how a world's repository is called.
func (s *server) bind(ctx context.Context, world string, at forge.Repo) error {
	now := binding{at.ID, at.String()}
	var before binding
	s.worlds.locked(func() { before = s.worlds.bound[world] })
	if before == now {
		return nil
	}
	if err := s.inbox.SetCursor(ctx, world, BindingNote, now.String()); err != nil {
		return err
	}
	s.worlds.locked(func() { s.worlds.bound[world] = now })
	if before.id != 0 && !strings.EqualFold(before.name, now.name) {
		s.log.Info("a repository has another name; it is the same world", installation.LogWorld, world, "was", before.name, "is", now.name)
	}
	return nil
}
