package server

import (
	"strconv"
	"strings"
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

// hostOf is the forge's part of a world's identity.
func hostOf(world string) string {
	host, _, _ := strings.Cut(world, "#")
	return host
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
