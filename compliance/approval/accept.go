package approval

import (
	"fmt"
	"slices"

	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
)

// maxAccepters bounds about how many accounts the forge is asked for one acceptance.
const maxAccepters = 10

// accepters are the comments that accept guarded paths by their digest, the newest first:
// unedited, by people, not answered with a no before, and newer than what took the approval
// back before it was given anew. Writ's own and those of bots, whoever names them, accept
// nothing.
func (f Facts) accepters(digest canon.Digest) []Act {
	var out []Act
	since := f.AnewSince()
	for _, c := range slices.Backward(f.Comments) {
		cmd, ok := ParseCommand(c.Body)
		if !ok || cmd.Verb != Accept || cmd.Fault != "" || cmd.Digest != digest || edited(c) || f.TurnedDown.Has(c.ID) || c.Author.ID == 0 || c.Author.Kind != forge.Person {
			continue
		}
		if a := (Act{Verb: Accept, Actor: c.Author, Ref: c.ID, At: c.CreatedAt.UnixMilli(), Digest: cmd.Digest}); kernel.NewerAct(a.ID(), since) {
			out = append(out, a)
		}
	}
	return out[:min(len(out), maxAccepters)]
}

// Accepters are the accounts whose live permission decides whether guarded paths are
// accepted. Ask, and put the answers into Permissions: what was heard before counts for
// nothing.
func Accepters(f Facts, digest canon.Digest) []int64 {
	var out []int64
	for _, a := range f.accepters(digest) {
		if !slices.Contains(out, a.Actor.ID) {
			out = append(out, a.Actor.ID)
		}
	}
	return out
}

// Acceptance is the act that accepts guarded paths: the newest by somebody who has at least
// a permission, a word of the contract's. nil for none.
func Acceptance(f Facts, digest canon.Digest, least string) *kernel.Acceptance {
	needs, err := forge.ParsePermission(least)
	if err != nil || needs < forge.Write || !digest.Valid() {
		return nil
	}
	for _, a := range f.accepters(digest) {
		if has := f.Permissions[a.Actor.ID]; has >= needs {
			return &kernel.Acceptance{Act: a.ID(), Actor: fmt.Sprintf("%d:%s", a.Actor.ID, a.Actor.Login), Permission: has.String(), Digest: digest}
		}
	}
	return nil
}
