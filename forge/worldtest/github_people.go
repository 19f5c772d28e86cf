package worldtest

import (
	"strings"
	"testing"

	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/github/githubtest"
)

// hubPeople are those of a place of the emulator.
type hubPeople struct {
	w *World
	p *githubtest.Place
}

var hubMethods = map[Method]githubtest.Method{ByMerge: githubtest.ByMerge, BySquash: githubtest.BySquash, ByRebase: githubtest.ByRebase}

func (h *hubPeople) Methods() []Method { return []Method{ByMerge, BySquash, ByRebase} }

func (*hubPeople) Prepare(testing.TB, forge.Change, Method) string { return "" }

func (h *hubPeople) Merge(t testing.TB, c forge.Change, by Method) {
	t.Helper()
	h.p.Merge(t, c, hubMethods[by])
}

func (h *hubPeople) Revert(t testing.TB, c forge.Change, by Method) {
	t.Helper()
	h.p.Revert(t, c, hubMethods[by])
}

func (h *hubPeople) CloseChange(t testing.TB, c forge.Change) {
	t.Helper()
	h.p.CloseChange(t, c.Number)
}

func (h *hubPeople) DeleteBranch(t testing.TB, name string) {
	t.Helper()
	h.p.DeleteBranch(t, name)
}

func (h *hubPeople) RenameDefaultBranch(t testing.TB, to string) {
	t.Helper()
	h.p.RenameDefaultBranch(t, to)
}

func (h *hubPeople) Move(t testing.TB, owner, name string) {
	t.Helper()
	from := h.p.Repo.String()
	if owner == h.p.Repo.Owner {
		h.p.Rename(t, name)
	} else {
		h.p.Transfer(t, owner, name)
	}
	h.w.Repo, h.w.Maintainer, h.w.Reader = h.p.Repo, h.p.As(t, h.p.Maintainer), h.p.As(t, h.p.Reader)
	h.w.Config = strings.Replace(h.w.Config, from, h.w.Repo.String(), 1)
}
