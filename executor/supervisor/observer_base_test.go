package supervisor

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/writbot/writ/executor"
	"github.com/writbot/writ/executor/builder"
	"github.com/writbot/writ/executor/sandbox"
	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/forge/git/gittest"
	"github.com/writbot/writ/kernel"
)

// surveying is an executor that starts nothing, and tries bases as the real one
// does.
type surveying struct {
	*fakeExecutor
	local *builder.Local
	fails error // what Survey answers instead
}

func (s *surveying) Survey(ctx context.Context, name string, base executor.Base) ([]kernel.Violation, error) {
	if s.fails != nil {
		return nil, s.fails
	}
	return s.local.Survey(ctx, name, base)
}

// newSurveyed is an approved issue whose executor tries bases.
func newSurveyed(t *testing.T, change func(*forged)) (*forged, *surveying) {
	t.Helper()
	local := builder.New(builder.Config{
		Sandbox: &sandbox.None{}, Builders: map[string]builder.Builder{"default": {Argv: []string{"true"}}}, WorkDir: t.TempDir(),
		Now: func() int64 { return fixtureTime },
	})
	t.Cleanup(local.Close)
	var s *surveying
	return newTold(t, func(f *forged) {
		s = &surveying{fakeExecutor: f.exec, local: local}
		f.place.exec = s
		if change != nil {
			change(f)
		}
	}), s
}

// blob stores a file's content.
func (f *forged) blob(text string) string {
	return gittest.GitInput(f.t, f.bare, text, "hash-object", "-w", "--stdin")
}

// onBase commits a tree to main as it is, and returns its commit.
func (f *forged) onBase(entries ...gittest.TreeEntry) string {
	f.t.Helper()
	return gittest.CommitTree(f.t, f.bare, "refs/heads/main", gittest.RawTree(f.t, f.bare, entries...))
}

// refused fails unless the task is refused for its base, unclaimed, with this path
// and these words in the one comment on its issue, however often it is looked at.
func (f *forged) refused(path, words string) {
	f.t.Helper()
	var first []forge.Comment
	for range 3 {
		st := f.drive()
		if st.Decision.Standing != kernel.StandRefused || !slices.Equal(st.Decision.Codes, []kernel.Code{kernel.CodeEnvBase}) {
			f.t.Fatalf("%s %v, want a refusal for the base", st.Decision.Standing, st.Decision.Violations)
		}
		if now := f.clock.Now().WallMs; st.Wake < now+baseSoon.Milliseconds() || st.Wake > now+baseAgain.Milliseconds() {
			f.t.Errorf("it is looked at again %d ms later", st.Wake-now)
		}
		list := f.marked("task")
		if len(list) != 1 || !strings.Contains(list[0].Body, path) || !strings.Contains(list[0].Body, words) {
			f.t.Fatalf("the issue is told %+v, want one comment with %q and %q", list, path, words)
		}
		if first == nil {
			first = list
		}
		if list[0] != first[0] {
			f.t.Error("the issue is told once more")
		}
		f.clock.advance(baseAgain.Milliseconds())
	}
	if f.ref("refs/writ/task/1") != "" {
		f.t.Error("the task was claimed")
	}
}

// completes mends the base and has the task done.
func (f *forged) completes() {
	f.t.Helper()
	f.onBase(gittest.TreeEntry{Mode: "100644", Name: "README", OID: f.blob("hi\n")})
	if st := f.drive(); st.Decision.State != kernel.TaskCompleted {
		f.t.Errorf("on a base that is well: %s %v", st.Decision.Standing, st.Decision.Violations)
	}
}

// A base that no run can use keeps its tasks from being claimed: their issues are
// told where and why, once, and they go on when the base moves.
func TestK12_UnusableBaseIsNotClaimed(t *testing.T) {
	t.Parallel()
	file := func(f *forged, mode, name string) gittest.TreeEntry {
		return gittest.TreeEntry{Mode: mode, Name: name, OID: f.blob("x\n")}
	}
	deep := func(f *forged, levels int) gittest.TreeEntry {
		e := file(f, "100644", "leaf")
		for range levels {
			e = gittest.TreeEntry{Mode: "40000", Name: "d", OID: gittest.RawTree(f.t, f.bare, e)}
		}
		return e
	}
	for name, c := range map[string]struct {
		entry       func(*forged) gittest.TreeEntry
		path, words string
	}{
		"mode":        {func(f *forged) gittest.TreeEntry { return file(f, "140000", "odd") }, "odd", "mode"},
		"git's name":  {func(f *forged) gittest.TreeEntry { return file(f, "100644", ".GIT") }, ".GIT", "reads a name in its path as .git"},
		"short name":  {func(f *forged) gittest.TreeEntry { return file(f, "100644", "git~1") }, "git~1", "reads a name in its path as .git"},
		"long name":   {func(f *forged) gittest.TreeEntry { return file(f, "100644", strings.Repeat("n", 256)) }, "nnnn", "255 bytes"},
		"depth":       {func(f *forged) gittest.TreeEntry { return deep(f, 300) }, "d/d/d", "deeper than"},
		"great depth": {func(f *forged) gittest.TreeEntry { return deep(f, 2100) }, "d/d/d", "nested too deeply"},
		"empty link": {func(f *forged) gittest.TreeEntry {
			return gittest.TreeEntry{Mode: "120000", Name: "link", OID: f.blob("")}
		}, "link", "no possible path"},
		"missing file": {func(_ *forged) gittest.TreeEntry {
			return gittest.TreeEntry{Mode: "100644", Name: "gone", OID: strings.Repeat("1", 40)}
		}, "gone", "no object"},
		"no blob": {func(f *forged) gittest.TreeEntry {
			return gittest.TreeEntry{Mode: "100644", Name: "commit", OID: f.ref("refs/heads/main")}
		}, "commit", "no blob"},
		"spoilt file": {func(f *forged) gittest.TreeEntry {
			e := file(f, "100644", "spoilt")
			path := filepath.Join(f.bare, "objects", e.OID[:2], e.OID[2:])
			must(f.t, os.Chmod(path, 0o600))
			data, err := os.ReadFile(filepath.Join(f.bare, "objects", f.blob("y\n")[:2], f.blob("y\n")[2:]))
			must(f.t, err)
			must(f.t, os.WriteFile(path, data, 0o600))
			return e
		}, "spoilt", "does not hash to its name"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, _ := newSurveyed(t, nil)
			f.onBase(c.entry(f))
			f.refused(c.path, c.words)
			f.completes()
		})
	}
}

// What git has as a plain file is one: the permissions that old programs stored
// keep nothing from being done, nor do they show in the change.
func TestK12_OldModesArePlainFiles(t *testing.T) {
	t.Parallel()
	f, _ := newSurveyed(t, nil)
	f.onBase(gittest.TreeEntry{Mode: "100664", Name: "README", OID: f.blob("hi\n")})
	if st := f.drive(); st.Decision.State != kernel.TaskCompleted {
		t.Fatalf("%s %v", st.Decision.Standing, st.Decision.Violations)
	}
	delivered(t, f.bare)
}

// A base that the server doesn't give is asked for again; what lacks for a moment
// is told to nobody, and what lasts is.
func TestK12_BaseThatIsNotGiven(t *testing.T) {
	t.Parallel()
	for name, err := range map[string]error{
		"an object":  &git.Error{Code: git.CodeObjectMissing, Msg: "no object 17"},
		"the server": &git.Error{Code: git.CodeUnreachable, Msg: "the server answers 500"},
	} {
		t.Run(name, func(t *testing.T) {
			f, s := newSurveyed(t, nil)
			s.fails = err
			for range 3 {
				if _, got := f.task.Drive(t.Context(), DriveOptions{Actor: "writ", Yield: true}); !errors.Is(got, err) {
					t.Fatalf("%v", got)
				}
				f.clock.advance(10_000)
			}
			if list := f.marked("task"); len(list) != 0 {
				t.Fatalf("told at once: %+v", list)
			}
			f.clock.advance(baseDoubt.Milliseconds())
			st := f.drive()
			if st.Decision.Standing != kernel.StandRefused || st.Wake != f.clock.Now().WallMs+baseSoon.Milliseconds() {
				t.Fatalf("%s %v, again in %d ms", st.Decision.Standing, st.Decision.Codes, st.Wake-f.clock.Now().WallMs)
			}
			if list := f.marked("task"); len(list) != 1 || !strings.Contains(list[0].Body, git.Reason(err)) {
				t.Errorf("the issue is told %+v", list)
			}
			s.fails = nil
			if st := f.drive(); st.Decision.State != kernel.TaskCompleted {
				t.Errorf("once it is given: %s %v", st.Decision.Standing, st.Decision.Violations)
			}
		})
	}
}

// brokenRepo gives refs and commits, and no tree while it is broken.
type brokenRepo struct {
	Repo
	broken error
}

func (r *brokenRepo) Tree(ctx context.Context, oid git.OID) (git.Tree, error) {
	if r.broken != nil {
		return git.Tree{}, r.broken
	}
	return r.Repo.Tree(ctx, oid)
}

// Where the base's tree can't be read, nobody knows the contract: a task that
// waits to be done is told, and one that is done stays as it is.
func TestK12_UnreadableContract(t *testing.T) {
	t.Parallel()
	var repo *brokenRepo
	f, _ := newSurveyed(t, func(f *forged) {
		f.place.wrap = func(r Repo) Repo { repo = &brokenRepo{Repo: r}; return repo }
	})
	repo.broken = &git.Error{Code: git.CodeProtocol, Msg: "possible repository corruption on the remote side"}
	look := func() (Status, error) {
		return f.task.Drive(t.Context(), DriveOptions{Actor: "writ", Yield: true})
	}
	if _, err := look(); !errors.Is(err, repo.broken) {
		t.Fatal(err)
	}
	f.clock.advance(baseDoubt.Milliseconds())
	f.refused(f.ref("refs/heads/main"), "possible repository corruption")
	repo.broken = nil
	if st := f.drive(); st.Decision.State != kernel.TaskCompleted {
		t.Fatalf("%s %v", st.Decision.Standing, st.Decision.Violations)
	}
	done := f.marked("task")
	repo.broken = &git.Error{Code: git.CodeObjectMissing, Msg: "no object"}
	gittest.Commit(t, f.bare, "refs/heads/main", f.ref("refs/heads/main"), map[string]string{"more": "x\n"})
	for range 3 {
		if _, err := look(); !errors.Is(err, repo.broken) {
			t.Fatal(err)
		}
		f.clock.advance(baseDoubt.Milliseconds())
	}
	if now := f.marked("task"); len(now) != 1 || now[0] != done[0] {
		t.Errorf("a completed task's issue is told %+v", now)
	}
}

// What only a run finds out about a base is known to the tasks after it.
func TestK12_RunCondemnsTheBase(t *testing.T) {
	t.Parallel()
	f := newTold(t, nil)
	bad := kernel.Violation{Code: kernel.CodeEnvBase, Subject: "big/file", Detail: "The base tree can't be used: too large."}
	f.exec.build = func(job executor.BuildJob) (executor.BuildOutcome, error) {
		o, err := writes(nil)(job)
		o.Result.Exit = kernel.Exit{Code: -1, Cause: kernel.CauseStartFailed}
		o.Violations = []kernel.Violation{bad}
		return o, err
	}
	st := f.drive()
	for range 3 {
		if st.Decision.Standing == kernel.StandRefused {
			break
		}
		f.clock.advance(int64(time.Hour / time.Millisecond))
		st = f.drive()
	}
	if st.Decision.Standing != kernel.StandRefused || !slices.Contains(st.Decision.Codes, kernel.CodeEnvBase) || len(f.exec.builds) != 1 {
		t.Fatalf("%s %v after %d builds", st.Decision.Standing, st.Decision.Codes, len(f.exec.builds))
	}
	if list := f.marked("task"); len(list) != 1 || !strings.Contains(list[0].Body, "big/file") {
		t.Errorf("the issue is told %+v", list)
	}
}

// What stands in the contract's place, and is none, is never no contract.
func TestI11_ContractsThatAreNone(t *testing.T) {
	t.Parallel()
	for name, entries := range map[string]func(*forged) gittest.TreeEntry{
		"a directory": func(f *forged) gittest.TreeEntry {
			inner := gittest.RawTree(t, f.bare, gittest.TreeEntry{Mode: "100644", Name: "part.yaml", OID: f.blob("mode: observe\n")})
			return gittest.TreeEntry{Mode: "40000", Name: "contract.yaml", OID: inner}
		},
		"yml": func(f *forged) gittest.TreeEntry {
			return gittest.TreeEntry{Mode: "100644", Name: "contract.yml", OID: f.blob("mode: observe\n")}
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newTold(t, nil)
			dir := gittest.RawTree(t, f.bare, entries(f))
			f.onBase(gittest.TreeEntry{Mode: "40000", Name: ".writ", OID: dir}, gittest.TreeEntry{Mode: "100644", Name: "README", OID: f.blob("hi\n")})
			st := f.drive()
			if st.Decision.Standing != kernel.StandRefused || !slices.Contains(st.Decision.Codes, kernel.CodeGovernanceInvalid) {
				t.Errorf("%s %v", st.Decision.Standing, st.Decision.Violations)
			}
		})
	}
}

// headless is a server that doesn't say which branch its HEAD names while that isn't there.
type headless struct{ Repo }

func (h headless) Refs(ctx context.Context, names ...string) (git.Refs, error) {
	refs, err := h.Repo.Refs(ctx, names...)
	refs.Head = ""
	return refs, err
}

// TestG7_ADeletedBaseIsNamed: whoever has to bring a base branch back that was deleted is
// told which, also where the server doesn't name it.
func TestG7_ADeletedBaseIsNamed(t *testing.T) {
	t.Parallel()
	for name, mute := range map[string]bool{"the server names it": false, "the forge does": true} {
		t.Run(name, func(t *testing.T) {
			f := newTold(t, func(f *forged) {
				if mute {
					f.place.wrap = func(r Repo) Repo { return headless{r} }
				}
			})
			gittest.Git(t, f.bare, "update-ref", "-d", "refs/heads/main")
			_, err := f.task.Tick(t.Context(), kernel.RequestTick, "writ")
			if err == nil || !strings.Contains(err.Error(), `the base branch "main" isn't there`) {
				t.Errorf("it says %v", err)
			}
		})
	}
}
