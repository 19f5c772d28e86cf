package trial

import (
	"context"
	"slices"
	"strings"
	"unicode"

	"github.com/writbot/writ/compliance/contract"
	"github.com/writbot/writ/compliance/scope"
	"github.com/writbot/writ/forge/git"
)

// rare is how seldom a directory may be touched before no pattern reaches it: by fewer
// than one commit in twenty. What is hardly ever worked on isn't allowed by default.
const rare = 20

// Propose returns patterns for defaults.allowed_files: where the commits of a history
// were made that a task could have made. A pattern covers a whole directory (dir/**)
// only if there is no rarely touched one anywhere below it, and else the files that
// lie in it itself (dir/*).
func Propose(ctx context.Context, h *History, tip git.OID, last int, k contract.Contract) ([]string, error) {
	guard, faults := scope.NewProtection(k.Paths.Protected, k.Paths.Unprotect)
	if len(faults) > 0 {
		return nil, faults[0]
	}
	p := proposal{ctx: ctx, trees: h.trees, guard: guard, by: map[string]int64{}}
	if _, err := h.Each(ctx, tip, last, func(c Commit) error { p.count(c); return nil }); err != nil {
		return nil, err
	}
	now, err := h.commit(ctx, tip)
	if err != nil {
		return nil, err
	}
	if _, err := p.below("", now.Tree, 0); err != nil {
		return nil, err
	}
	slices.Sort(p.patterns)
	return p.patterns[:min(len(p.patterns), maxProposed)], nil
}

const (
	// maxProposed is how many patterns a person is shown: as many as he reads.
	maxProposed = 32
	// maxProposedDepth is how deep directories are looked at for it.
	maxProposedDepth = 16
)

type proposal struct {
	ctx      context.Context //nolint:containedctx // of one call
	trees    *git.Trees
	guard    scope.Protection
	commits  int64
	by       map[string]int64 // commits that touch a directory (a/b/), files right in it (a/b/*), or a file of the root
	patterns []string
}

// count counts where a commit was made, but for protected paths.
func (p *proposal) count(c Commit) {
	p.commits++
	seen := map[string]bool{}
	for _, change := range c.Changes {
		if p.guard.Match(change.Path) {
			continue
		}
		slash := strings.LastIndexByte(change.Path, '/')
		if slash < 0 {
			seen[change.Path] = true
		} else {
			seen[change.Path[:slash+1]+"*"] = true
		}
		for i, r := range change.Path {
			if r == '/' {
				seen[change.Path[:i+1]] = true
			}
		}
	}
	for at := range seen {
		p.by[at]++
	}
}

func (p *proposal) often(at string) bool { return p.by[at]*rare >= p.commits }

// below proposes for a directory, and reports whether all of it is often touched.
func (p *proposal) below(dir string, tree git.OID, depth int) (whole bool, err error) {
	list, err := p.trees.List(p.ctx, tree)
	if err != nil {
		return false, err
	}
	before, whole := len(p.patterns), dir != ""
	for _, e := range list {
		switch {
		case e.Mode == git.ModeTree && p.often(dir+e.Path+"/") && depth < maxProposedDepth:
			sub, err := p.below(dir+e.Path+"/", e.OID, depth+1)
			if err != nil {
				return false, err
			}
			whole = whole && sub
		case e.Mode == git.ModeTree:
			whole = false
		case dir == "" && p.often(e.Path):
			p.add(e.Path)
		}
	}
	switch {
	case whole:
		p.patterns = p.patterns[:before]
		return p.add(dir + "**"), nil
	case dir != "" && p.often(dir+"*"):
		p.add(dir + "*")
	}
	return false, nil
}

// add proposes a pattern unless it can't stand in a contract.
func (p *proposal) add(pattern string) bool {
	name := strings.TrimSuffix(strings.TrimSuffix(pattern, "*"), "*")
	if strings.ContainsAny(name, "*?") || len(scope.CheckAllowed([]string{pattern}, p.guard, false)) > 0 {
		return false
	}
	p.patterns = append(p.patterns, pattern)
	return true
}

// Flow are patterns as a contract takes them, between brackets.
func Flow(patterns []string) string {
	out := make([]string, len(patterns))
	for i, p := range patterns {
		out[i] = p
		if strings.ContainsFunc(p, func(r rune) bool {
			return !strings.ContainsRune("/._-*", r) && !unicode.IsLetter(r) && !unicode.IsDigit(r)
		}) || !unicode.IsLetter([]rune(p)[0]) {
			out[i] = "'" + strings.ReplaceAll(p, "'", "''") + "'"
		}
	}
	return strings.Join(out, ", ")
}
