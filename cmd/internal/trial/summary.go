package trial

import (
	"cmp"
	"context"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/writbot/writ/compliance/contract"
	"github.com/writbot/writ/compliance/scope"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/kernel"
)

// MaxListed bounds each list of a summary, so that it stays one document whatever the
// history holds. The numbers beside a list count all.
const MaxListed = 1000

// Summary is what a contract would have said to a history.
type Summary struct {
	Kind     string `json:"kind"` // "contract_try"
	Source   string `json:"contract_source"`
	Hash     string `json:"governance_hash"`
	Tip      string `json:"tip"`    // the newest commit
	Oldest   string `json:"oldest"` //
	Commits  int64  `json:"commits"`
	Merges   int64  `json:"merges"`     // compared with their first parents
	Shallow  bool   `json:"shallow"`    // the clone ends before the history does
	OwnPaths bool   `json:"own_paths"`  // each commit's paths were its scope
	Checked  bool   `json:"checks_run"` // always false
	Accepted int64  `json:"accepted"`
	Refused  int64  `json:"refused"`
	// Waiting counts those of the accepted that would have waited for somebody to accept
	// their guarded paths.
	Waiting int64 `json:"waiting"`
	// Classes count the commits that change what is protected, by the gravest class.
	Classes Classes `json:"classes"`
	// Named counts the commits whose first line, as its author wrote it, matches the
	// contract's pattern. Writ writes its own, so that nothing is refused for it.
	Named int64 `json:"pattern_matches"`
	// Discards counts the commits of which a part would have been left out.
	Discards int64     `json:"discards"`
	Rules    []Rule    `json:"rules"`
	Refusals []Refusal `json:"refusals"` // newest first
	Second   *Second   `json:"what_if"`
}

// Classes count commits by the gravest class of what they change.
type Classes struct {
	Forbidden int64 `json:"forbidden"`
	Guarded   int64 `json:"guarded"`
	Lock      int64 `json:"lock_with_manifest"` // lock files that come with their manifests, and nothing graver
}

func (k *Classes) add(c scope.Class) {
	k.Forbidden += count(c == scope.ClassForbidden)
	k.Guarded += count(c == scope.ClassGuarded)
	k.Lock += count(c == scope.ClassLock)
}

// Rule is what came of one rule.
type Rule struct {
	Code    kernel.Code `json:"code"`
	Commits int64       `json:"commits"` // that broke it
	Places  []Place     `json:"places"`  // most commits first
}

// Place is a directory, with a slash at its end, a file of the root, or a key of the
// contract.
type Place struct {
	Name    string `json:"name"`
	Commits int64  `json:"commits"`
}

// Refusal is a commit that would have been refused.
type Refusal struct {
	Commit string        `json:"commit"`
	Title  string        `json:"title"`
	Codes  []kernel.Code `json:"codes"`
}

// Second is what another contract says otherwise.
type Second struct {
	Source   string `json:"contract_source"`
	Hash     string `json:"governance_hash"`
	Accepted int64  `json:"accepted"`
	Refused  int64  `json:"refused"`
	Moves    int64  `json:"moves"` // commits that change sides
	Moved    []Move `json:"moved"` // newest first
}

// Move is a commit that changes sides: one of the lists of codes is empty.
type Move struct {
	Commit string        `json:"commit"`
	Title  string        `json:"title"`
	Before []kernel.Code `json:"before"`
	After  []kernel.Code `json:"after"`
}

// Try judges the last commits before and with tip by a contract, and by a second one
// if there is any.
func Try(ctx context.Context, h *History, tip git.OID, last int, k contract.Contract, second *contract.Contract) (Summary, error) {
	s := Summary{Kind: "contract_try", Source: k.Source, Hash: string(k.Hash), Tip: string(tip), OwnPaths: len(k.Defaults.AllowedFiles) == 0, Refusals: []Refusal{}}
	if second != nil {
		s.Second = &Second{Source: second.Source, Hash: string(second.Hash), Moved: []Move{}}
	}
	pattern, err := regexp.Compile(k.Commit.Pattern)
	if err != nil {
		return s, err // which the contract's loading refuses
	}
	t := tally{}
	s.Shallow, err = h.Each(ctx, tip, last, func(c Commit) error {
		v, err := Judge(ctx, c, k)
		if err != nil {
			return err
		}
		s.Commits++
		s.Oldest = string(c.ID)
		s.Merges += count(c.Merge)
		s.Named += count(pattern.MatchString(c.Title))
		s.Discards += count(len(v.Discarded) > 0)
		s.Accepted += count(v.Accepted())
		s.Refused += count(!v.Accepted())
		s.Waiting += count(v.Accepted() && v.Waits)
		s.Classes.add(v.Class)
		t.add(v)
		if !v.Accepted() && len(s.Refusals) < MaxListed {
			s.Refusals = append(s.Refusals, Refusal{string(c.ID), contract.SafeTitle(c.Title), codes(v)})
		}
		if second == nil {
			return nil
		}
		return s.Second.add(ctx, c, *second, v)
	})
	s.Rules = t.rules()
	return s, err
}

// add judges a commit by the second contract.
func (s *Second) add(ctx context.Context, c Commit, k contract.Contract, before Verdict) error {
	v, err := Judge(ctx, c, k)
	if err != nil {
		return err
	}
	s.Accepted += count(v.Accepted())
	s.Refused += count(!v.Accepted())
	if v.Accepted() == before.Accepted() {
		return nil
	}
	if s.Moves++; len(s.Moved) < MaxListed {
		s.Moved = append(s.Moved, Move{string(c.ID), contract.SafeTitle(c.Title), codes(before), codes(v)})
	}
	return nil
}

func count(is bool) int64 {
	if is {
		return 1
	}
	return 0
}

// codes are the rules that a verdict names, each once.
func codes(v Verdict) []kernel.Code {
	out := []kernel.Code{}
	for _, x := range v.Violations {
		out = append(out, x.Code)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// tally counts commits by rule and place.
type tally map[kernel.Code]map[string]int64

// add counts each rule and each of its places once for a commit. The place "" counts
// the rule itself.
func (t tally) add(v Verdict) {
	type at struct {
		code  kernel.Code
		place string
	}
	seen := map[at]bool{}
	for _, x := range v.Violations {
		for _, a := range []at{{x.Code, ""}, {x.Code, place(x.Subject)}} {
			if seen[a] {
				continue
			}
			seen[a] = true
			if t[a.code] == nil {
				t[a.code] = map[string]int64{}
			}
			t[a.code][a.place]++
		}
	}
}

// place is where a violation's subject belongs.
func place(subject string) string {
	if dir := path.Dir(subject); dir != "." && strings.Contains(subject, "/") {
		return dir + "/"
	}
	return subject
}

func (t tally) rules() []Rule {
	out := []Rule{}
	for code, places := range t {
		r := Rule{Code: code, Commits: places[""], Places: []Place{}}
		for _, name := range slices.Sorted(maps.Keys(places)) {
			if name != "" {
				r.Places = append(r.Places, Place{name, places[name]})
			}
		}
		slices.SortStableFunc(r.Places, func(a, b Place) int { return cmp.Compare(b.Commits, a.Commits) })
		r.Places = r.Places[:min(len(r.Places), MaxListed)]
		out = append(out, r)
	}
	slices.SortFunc(out, func(a, b Rule) int {
		return cmp.Or(cmp.Compare(b.Commits, a.Commits), cmp.Compare(a.Code, b.Code))
	})
	return out
}
