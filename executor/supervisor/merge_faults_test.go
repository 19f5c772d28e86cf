package supervisor

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/writbot/writ/compliance/replay"
	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/forge/git/gittest"
	"github.com/writbot/writ/kernel"
)

// rebased writes the commits of the change branch again on the base as it is, as git and
// the forges do, and returns the last of them.
func (f *forged) rebased() string {
	f.t.Helper()
	clone := filepath.Join(f.t.TempDir(), "clone")
	gittest.Git(f.t, f.bare, "clone", "-q", f.bare, clone)
	gittest.Git(f.t, clone, "-c", "user.name=ana", "-c", "user.email=ana@example.com", "rebase", "-q", "origin/main", "origin/writ/change/1")
	oid := strings.TrimSpace(gittest.Git(f.t, clone, "rev-parse", "HEAD"))
	gittest.Git(f.t, clone, "push", "-q", "origin", "HEAD:refs/keep/rebased")
	return oid
}

// TestD44_RebaseMerges: the commits of a change are written again when it is merged, or
// before, on a base that has moved on; the blobs are those that were verified. That
// completes the task as verified, and the base's own files aren't taken for the change's. Only
// of a branch that was written again and merged without a look between can nobody say which
// files were the base's: they are named, too.
func TestD44_RebaseMerges(t *testing.T) {
	t.Parallel()
	for _, branch := range []bool{false, true} { // the forge rewrites the branch, too
		for _, looked := range []bool{false, true} { // between that and the merge
			for _, more := range []bool{false, true} { // a person's commit is on the branch
				for _, tampered := range []bool{false, true} {
					name := map[bool]string{true: "branch", false: "base"}[branch] + map[bool]string{true: " looked"}[looked] + map[bool]string{true: " more"}[more] + map[bool]string{true: " tampered"}[tampered]
					t.Run(name, func(t *testing.T) {
						t.Parallel()
						f := newWaiting(t)
						if more {
							f.reviewer(map[string]string{"out.txt": "hello\nyou\n"})
							f.later()
						}
						f.push("refs/heads/main", "Something else", map[string]string{"other.txt": "other\n"})
						last := f.rebased()
						if branch {
							gittest.Git(t, f.bare, "update-ref", changeRef, last)
							f.scene.SetBranch(f.scene.Repo, f.scene.Owner.User, "writ/change/1", last)
						}
						if looked {
							f.later()
						}
						gittest.Git(t, f.bare, "update-ref", "refs/heads/main", last)
						if tampered {
							last = f.push("refs/heads/main", "Sneaked in", map[string]string{"out.txt": "evil\n", "other.txt": "other\n"})
						}
						must(t, f.scene.Owner.Merge(t.Context(), f.scene.Repo, f.changeOf().Number, last))
						f.wants(f.later(), kernel.StandFinal)
						r := f.reportOf(f.ref(stateRef))
						want := map[bool]string{true: "out.txt"}[tampered]
						if branch && !looked {
							want = "other.txt" + map[bool]string{true: " out.txt"}[tampered || more]
						}
						if r.Merge == nil || strings.Join(r.Merge.Differs, " ") != want || r.Merge.AsVerified != (want == "") || f.started() != 1 {
							t.Errorf("the report says %+v, after %d builders", r.Merge, f.started())
						}
						f.shows("task 1 completed", kernel.LabelCompleted, false)
						f.verify(stateRef)
					})
				}
			}
		}
	}
}

// TestT24_TwoAtTheMerge: two installations find the change merged, and one pushes the end of
// the task between the other's decision and its push. The task is completed once, by
// whichever was first, and whoever lost tells the same.
func TestT24_TwoAtTheMerge(t *testing.T) {
	t.Parallel()
	for _, lost := range []bool{false, true} { // the other's answer
		f := newWaiting(t)
		other, result := f.another(), f.ref(stateRef)
		f.merge("Say hello (#2)", map[string]string{"out.txt": "hello\n"})
		first := ""
		f.sup.deps.Fault = func(at Point) {
			if first == "" && at == PointOf(kernel.ActionComplete, StageRecorded) {
				first = "pushed"
				_, err := other.looksAgain()
				must(t, err)
				first = f.ref(stateRef)
			}
		}
		if lost {
			f.sup.deps.Repo = &answerless{Repo: f.sup.deps.Repo}
		}
		f.clock.advance(120_000)
		for range 3 {
			_, _ = f.looksAgain() // what has no answer is settled by the next look
			f.clock.advance(60_000)
		}
		f.wants(f.later(), kernel.StandFinal)
		parent := strings.TrimSpace(gittest.Git(t, f.bare, "rev-parse", stateRef+"^"))
		if first == "" || first == result || f.ref(stateRef) != first || parent != result {
			t.Errorf("HEAD is %s on %s, the first end %s on %s", f.ref(stateRef), parent, first, result)
		}
		f.wants(func() Status { st, err := other.looksAgain(); must(t, err); return st }(), kernel.StandFinal)
		f.shows("merged_as_verified: `true`", kernel.LabelCompleted, false)
		if n := f.acts(f.scene.Robot, forge.EventClosed); n != 1 || f.started() != 1 || len(other.exec.builds) > 0 {
			t.Errorf("closed %d times", n)
		}
		r, err := replay.VerifyTask(t.Context(), f.repo, stateRef, replay.Options{Keys: []ssh.PublicKey{f.key, other.key}})
		if must(t, err); !r.OK {
			t.Error(r.Plain())
		}
	}
}

// answerless pushes, and has no answer.
type answerless struct{ Repo }

func (a *answerless) CompareAndSwap(ctx context.Context, cmds []git.Command, pack git.Pack) git.Outcome {
	a.Repo.CompareAndSwap(ctx, cmds, pack)
	return git.Outcome{Status: git.Unknown}
}

// TestT24_ClocksAtTheMerge: the clock jumps before or after the merge, by a day or a year.
// The task is completed all the same, once, with evidence that holds, and no date at the ref
// goes back.
func TestT24_ClocksAtTheMerge(t *testing.T) {
	t.Parallel()
	const day = 86_400_000
	for _, jump := range []int64{-366 * day, -day, day, 366 * day} {
		for _, before := range []bool{true, false} {
			f := newWaiting(t)
			wall := func(ms int64) {
				f.clock.mu.Lock()
				defer f.clock.mu.Unlock()
				f.clock.now.WallMs += ms
			}
			if before {
				wall(jump)
				f.later()
			}
			f.merge("Say hello (#2)", map[string]string{"out.txt": "hello\n"})
			if !before {
				wall(jump)
			}
			f.wants(f.later(), kernel.StandFinal)
			f.shows("merged_as_verified: `true`", kernel.LabelCompleted, false)
			wall(-jump)
			f.wants(f.later(), kernel.StandFinal)
			f.shows("merged_as_verified: `true`", kernel.LabelCompleted, false)
			dates := strings.Fields(gittest.Git(t, f.bare, "log", "--format=%ct", stateRef))
			if !slices.IsSortedFunc(dates, func(a, b string) int { return strings.Compare(b, a) }) || f.started() != 1 {
				t.Errorf("jump %d: %d builders, dates %v", jump, f.started(), dates)
			}
			f.verify(stateRef)
		}
	}
}

// TestG7_CommitThatCannotBeRead: the commit at HEAD of a state ref is truncated, damaged or
// gone on the server. Nothing is decided of that task, said of it, or pushed; its trouble is
// named, other tasks go on, and so does it once the object is mended.
func TestG7_CommitThatCannotBeRead(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(data []byte) []byte{
		"truncated": func(data []byte) []byte { return data[:len(data)/2] },
		"empty":     func([]byte) []byte { return nil },
		"damaged":   func(data []byte) []byte { data[len(data)-20] ^= 1; return data },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newTold(t, func(f *forged) {
				f.exec.build = failing
				f.place.terms = "version: 1\nbudgets: {attempts: 2}\n"
			})
			f.drive()
			head, said := f.ref(stateRef), f.said()
			path := filepath.Join(f.bare, "objects", head[:2], head[2:])
			whole, err := os.ReadFile(path)
			must(t, err)
			must(t, os.Chmod(path, 0o600))
			must(t, os.WriteFile(path, spoil(slices.Clone(whole)), 0o600))
			f.open() // nobody has it in memory
			for range 5 {
				st, err := f.looksAgain()
				if err == nil || !Passing(err) {
					t.Errorf("the look comes to %s %v, %v", st.Decision.Standing, st.Decision.Codes, err)
				}
				f.clock.advance(3_600_000)
			}
			if o, is := f.sup.Outage(); !is || o.Words == "" {
				t.Errorf("nothing is said of it: %+v", o)
			}
			if now := f.said(); now != said || f.ref(stateRef) != head || f.started() != 1 {
				t.Errorf("%d builders, and the issue is\n%s", f.started(), now)
			}
			must(t, os.WriteFile(path, whole, 0o600))
			f.exec.build = writes(map[string]string{"out.txt": "hello\n"})
			f.wants(f.later(), kernel.StandFinal)
			f.shows("task 1 completed", kernel.LabelCompleted, false)
		})
	}
}
