package onboard_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/writbot/writ/cmd/internal/onboard"
	"github.com/writbot/writ/compliance/contract"
	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/forge/git/gittest"
	"github.com/writbot/writ/forge/local"
	"github.com/writbot/writ/forge/local/localtest"
	"github.com/writbot/writ/kernel"
)

// scene is a repository on the embedded forge, with real git over HTTP.
type scene struct {
	*testing.T
	place *localtest.Place
	site  onboard.Site
}

func newScene(t *testing.T, files map[string]string) *scene {
	t.Helper()
	s := &scene{T: t, place: localtest.New(t)}
	spec := local.RepoSpec{Owner: "o", Name: "shop", Files: map[string][]byte{}}
	self, err := s.place.Maintainer.Self(t.Context())
	s.must(err)
	spec.Author = self
	for path, text := range files {
		spec.Files[path] = []byte(text)
	}
	repo, err := s.place.Store.CreateRepo(t.Context(), spec)
	s.must(err)
	for user, may := range map[int64]forge.Permission{self.ID: forge.Maintain, s.place.Bot.ID: forge.Write} {
		s.must(s.place.Store.Grant(t.Context(), repo.ID, user, may))
	}
	g, err := git.Open(t.Context(), git.Endpoint{
		URL: s.place.URL + "/o/shop.git", Auth: git.Auth{Username: "writ", Password: s.place.Token},
	}, git.Options{})
	s.must(err)
	s.site = onboard.Site{
		Kind: onboard.GitHub, Repo: repo, Changes: s.place.Store.As(s.place.Bot), Git: g,
		Name: "writ", Email: "writ@localhost", Now: time.Unix(1_700_000_000, 0),
	}
	return s
}

func (s *scene) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

func (s *scene) open(want onboard.State) onboard.Outcome {
	s.Helper()
	out, err := onboard.Open(s.Context(), s.site)
	if err != nil || out.State != want {
		s.Fatalf("%+v, %v; wanted %s", out, err, want)
	}
	return out
}

// refused is an onboarding that fails with a code.
func (s *scene) refused(code kernel.Code) *onboard.Error {
	s.Helper()
	out, err := onboard.Open(s.Context(), s.site)
	var e *onboard.Error
	if !errors.As(err, &e) || e.Code != code || e.Remedy == "" {
		s.Fatalf("%+v, %v; wanted %s with a remedy", out, err, code)
	}
	return e
}

func (s *scene) tip(branch string) git.OID {
	s.Helper()
	refs, err := s.site.Git.Refs(s.Context(), "refs/heads/"+branch)
	s.must(err)
	return refs.OID("refs/heads/" + branch)
}

// text is a file on a branch; "" where there is none.
func (s *scene) text(branch, path string) string {
	s.Helper()
	tree, err := s.site.Git.Tree(s.Context(), s.tip(branch))
	s.must(err)
	e, ok := tree.Find(path)
	if !ok {
		return ""
	}
	data, err := s.site.Git.Blob(s.Context(), e.OID)
	s.must(err)
	return string(data)
}

func (s *scene) drop(branch string) {
	s.Helper()
	if out := s.site.Git.CompareAndSwap(s.Context(), []git.Command{{Ref: "refs/heads/" + branch, Old: s.tip(branch)}}, git.Pack{}); out.Status != git.Won {
		s.Fatal(out)
	}
}

// TestOpen: the change adds what is missing and nothing else, to the tip of the
// default branch; a second call finds it.
func TestOpen(t *testing.T) {
	s := newScene(t, map[string]string{"README.md": "mine\n", "src/a.go": "package a\n"})
	out := s.open(onboard.Opened)
	if out.Change.Base != s.site.Repo.DefaultBranch || out.Change.Head != onboard.Branch || out.Change.State != forge.ChangeOpen || len(out.Kept) > 0 {
		t.Errorf("%+v", out)
	}
	for _, f := range onboard.Files(onboard.GitHub) {
		if s.text(onboard.Branch, f.Path) != string(f.Data) || !slices.Contains(out.Added, f.Path) || !strings.Contains(out.Change.Body, "`"+f.Path+"`") {
			t.Errorf("%s isn't proposed, or not named", f.Path)
		}
	}
	if s.text(onboard.Branch, "README.md") != "mine\n" || s.text(onboard.Branch, "src/a.go") != "package a\n" {
		t.Error("a file of the repository has changed")
	}
	tip := s.tip(onboard.Branch)
	commit, err := s.site.Git.Commit(t.Context(), tip)
	s.must(err)
	if len(commit.Parents) != 1 || commit.Parents[0] != s.tip(s.site.Repo.DefaultBranch) {
		t.Errorf("the commit's parents are %v", commit.Parents)
	}
	c, _, faults := contract.Load([]byte(s.text(onboard.Branch, contract.Path)), contract.Source{Name: contract.Path, Mode: "100644"})
	if len(faults) > 0 || c.Mode != contract.ModeObserve || c.CloseOn != contract.CloseMerged {
		t.Errorf("the contract is %+v, %v", c, faults)
	}
	again := s.open(onboard.Waiting)
	for _, o := range []onboard.Outcome{out, again} {
		if lines := o.Lines(onboard.GitHub); !strings.Contains(lines[len(lines)-1], onboard.Branch+" checked out, `writ contract try`") {
			t.Errorf("it doesn't say how the contract is tried: %q", lines)
		}
	}
	if again.Change.Number != out.Change.Number || s.tip(onboard.Branch) != tip {
		t.Errorf("the second call made %+v", again)
	}
}

// TestOpen_Keeps: what is there stays as it is, whatever it is, and is named.
func TestOpen_Keeps(t *testing.T) {
	mine := map[string]string{contract.Path: "version: 1\n", ".github/issue_template/WRIT.yml": "name: mine\n"}
	s := newScene(t, mine)
	out := s.open(onboard.Opened)
	if !slices.Equal(out.Kept, []string{contract.Path, contract.IssueFormPath}) || !slices.Equal(out.Added, []string{onboard.GuidePath}) {
		t.Errorf("kept %v, added %v", out.Kept, out.Added)
	}
	for path, text := range mine {
		if s.text(onboard.Branch, path) != text {
			t.Errorf("%s was overwritten", path)
		}
	}
	if s.text(onboard.Branch, contract.IssueFormPath) != "" || !strings.Contains(strings.Join(out.Lines(onboard.GitHub), "\n"), "leaves "+contract.Path) {
		t.Error("what stays isn't named, or there twice")
	}
	s = newScene(t, map[string]string{".writ": "a file\n"})
	if out := s.open(onboard.Opened); !slices.Equal(out.Kept, []string{contract.Path, onboard.GuidePath}) {
		t.Errorf("kept %v", out.Kept)
	}
}

// TestOpen_PeopleDecide: a change that was merged or closed isn't opened again
// behind anybody's back.
func TestOpen_PeopleDecide(t *testing.T) {
	s := newScene(t, map[string]string{"a": "a\n"})
	out := s.open(onboard.Opened)
	s.must(s.place.Maintainer.CloseChange(t.Context(), s.site.Repo.Repo, out.Change.Number))
	if again := s.open(onboard.Closed); again.Change.Number != out.Change.Number {
		t.Errorf("%+v", again)
	}
	s.drop(onboard.Branch)
	next := s.open(onboard.Opened)
	if next.Change.Number == out.Change.Number {
		t.Errorf("%+v", next)
	}
	_, err := s.place.Maintainer.MergeChange(t.Context(), s.site.Repo.Repo, next.Change.Number)
	s.must(err)
	if !s.tip(onboard.Branch).IsZero() {
		s.open(onboard.Merged)
		s.drop(onboard.Branch)
	}
	if done := s.open(onboard.Complete); len(done.Kept) != 3 || !s.tip(onboard.Branch).IsZero() {
		t.Errorf("%+v", done)
	}
}

// flaky opens a change, or not, and says that it didn't.
type flaky struct {
	onboard.Changes
	opens bool
}

func (f flaky) OpenChange(ctx context.Context, r forge.Repo, c forge.Change) (forge.Change, error) {
	if f.opens {
		if _, err := f.Changes.OpenChange(ctx, r, c); err != nil {
			return forge.Change{}, err
		}
	}
	return forge.Change{}, &forge.Error{Reason: forge.Unavailable, Op: "open a change", Applied: true}
}

// TestOpen_GoesOn: a lost answer is looked up, and what was cut short goes on.
func TestOpen_GoesOn(t *testing.T) {
	s := newScene(t, map[string]string{"a": "a\n"})
	forges := s.site.Changes
	s.site.Changes = flaky{forges, false}
	if out, err := onboard.Open(t.Context(), s.site); !forge.IsReason(err, forge.Unavailable) {
		t.Fatalf("%+v, %v", out, err)
	}
	tip := s.tip(onboard.Branch)
	s.site.Changes = flaky{forges, true}
	out := s.open(onboard.Opened)
	s.site.Changes = forges
	if again := s.open(onboard.Waiting); again.Change.Number != out.Change.Number || s.tip(onboard.Branch) != tip {
		t.Errorf("%+v", again)
	}

	s = newScene(t, map[string]string{"a": "a\n"})
	pushed := make(chan struct{})
	s.place.Through(gittest.OnPush(func(next http.Handler) http.Handler {
		dropped := gittest.DropResponse(next)
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			select {
			case <-pushed:
				next.ServeHTTP(w, r)
			default:
				close(pushed)
				dropped.ServeHTTP(w, r)
			}
		})
	}))
	s.open(onboard.Opened)
}

// TestOpen_Refuses: what can't be done is said with its remedy, and somebody
// else's branch is never proposed.
func TestOpen_Refuses(t *testing.T) {
	s := newScene(t, nil)
	if e := s.refused(kernel.CodeEnvRepository); !strings.Contains(e.Text, "no commit") {
		t.Error(e)
	}
	s = newScene(t, map[string]string{"a": "a\n"})
	gittest.Hook(t, s.place.Store.GitDir(s.site.Repo.ID), "update", `case "$1" in refs/heads/writ/*) echo "no branches of robots" >&2; exit 1;; esac`)
	if e := s.refused(kernel.CodePushRefused); !strings.Contains(e.Text, onboard.Branch) {
		t.Error(e)
	}
	if !s.tip(onboard.Branch).IsZero() {
		t.Error("the branch is there")
	}
	dir := s.place.Store.GitDir(s.site.Repo.ID)
	gittest.Hook(t, dir, "update", "exit 0")
	main := string(s.tip(s.site.Repo.DefaultBranch))
	gittest.Commit(t, dir, "refs/heads/"+onboard.Branch, main, map[string]string{"a": "a\n", contract.Path: "version: 1\n"})
	if e := s.refused(kernel.CodeEnvRepository); !strings.Contains(e.Text, "isn't what writ would propose") {
		t.Error(e)
	}
	if _, err := s.site.Changes.FindChange(t.Context(), s.site.Repo.Repo, onboard.Branch, ""); !forge.IsReason(err, forge.NotFound) {
		t.Errorf("somebody else's branch was proposed: %v", err)
	}
}

// TestFiles: each forge gets what it looks for, the guide is short and in its
// words, and no file lies where workflows do.
func TestFiles(t *testing.T) {
	for kind, form := range map[onboard.Kind]string{onboard.GitHub: contract.IssueFormPath, onboard.GitLab: contract.IssueTemplatePath, onboard.Local: ""} {
		found := form == ""
		for _, f := range onboard.Files(kind) {
			found = found || f.Path == form
			if strings.HasPrefix(f.Path, ".github/workflows") || len(f.Data) == 0 {
				t.Errorf("%s: %s", kind, f.Path)
			}
		}
		if !found {
			t.Errorf("%s has no form", kind)
		}
		guide := onboard.Guide(kind)
		if n := strings.Count(guide, "\n"); n < 10 || n > 30 || strings.ContainsAny(guide, "{}") {
			t.Errorf("the guide for %s has %d lines:\n%s", kind, n, guide)
		}
		for _, word := range []string{"File", "Approve", "/writ stop", contract.ModeObserve, contract.CloseMerged} {
			if !strings.Contains(guide, word) {
				t.Errorf("the guide for %s doesn't say %s", kind, word)
			}
		}
	}
	if !strings.Contains(onboard.Guide(onboard.GitLab), "merge request") || strings.Contains(onboard.Guide(onboard.GitLab), "pull request") {
		t.Error("GitLab's guide isn't in GitLab's words")
	}
	if _, err := onboard.KindOf("gitea"); err == nil {
		t.Error("any name is a forge")
	}
}
