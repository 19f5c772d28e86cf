package local

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/forgetest"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/forge/git/gittest"
	"github.com/writbot/writ/kernel"
)

func TestExercise_Local(t *testing.T) {
	forgetest.Exercise(t, func(t *testing.T) *forgetest.Place {
		w := newWorld(t)
		commits := 0
		return &forgetest.Place{
			Repo: w.repo, Bot: w.bot, Owner: w.owner, Reader: w.reader, Digests: true,
			Grant: func(t *testing.T, user int64, p forge.Permission) { ok(t, w.Grant(t.Context(), w.repo.ID, user, p)) },
			Branch: func(t *testing.T, name string) string {
				commits++
				return w.branch(t, name, "main", map[string]string{"work.txt": fmt.Sprint(commits)})
			},
			Merge: func(t *testing.T, number int64) {
				must[forge.Change](t)(w.owner.MergeChange(t.Context(), w.repo, number))
			},
			Checks: func(t *testing.T, oid string) []forge.Check {
				return must[[]forge.Check](t)(w.owner.Checks(t.Context(), w.repo, oid))
			},
		}
	})
}

// TestI4_PermissionsAreEnforced: each permission allows what it says and no
// more, and a name alone is nobody.
func TestI4_PermissionsAreEnforced(t *testing.T) {
	w := newWorld(t)
	ctx, r := t.Context(), w.repo
	i := w.file(t, "Whose word counts", "text")
	c := must[forge.Comment](t)(w.owner.AddComment(ctx, r, i.Number, "the owner's"))
	ok(t, w.owner.EnsureLabels(ctx, r, []forge.Label{{Name: "writ", Color: "1d76db"}}))
	w.branch(t, "work", "main", map[string]string{"a": "b"})
	acts := []struct {
		name string
		need forge.Permission
		act  func(c *Client) error
	}{
		{"comment", forge.Read, func(c *Client) error { return second(c.AddComment(ctx, r, i.Number, "word")) }},
		{"react", forge.Read, func(by *Client) error { return by.React(ctx, r, c.ID, forge.ReactionSeen) }},
		{"react to the issue", forge.Read, func(by *Client) error { return by.ReactToIssue(ctx, r, i.Number, forge.ReactionSeen) }},
		{"file", forge.Read, func(c *Client) error { return second(c.FileIssue(ctx, r, "Mine", "")) }},
		{"label", forge.Triage, func(c *Client) error { return c.AddLabel(ctx, r, i.Number, "writ") }},
		{"unlabel", forge.Triage, func(c *Client) error { return c.RemoveLabel(ctx, r, i.Number, "writ") }},
		{"close", forge.Triage, func(c *Client) error { return c.SetState(ctx, r, i.Number, forge.Closed) }},
		{"reopen", forge.Triage, func(c *Client) error { return c.SetState(ctx, r, i.Number, forge.Open) }},
		{"edit another's text", forge.Write, func(c *Client) error { return c.EditIssue(ctx, r, i.Number, "Whose word counts", c.user.Login) }},
		{"edit another's comment", forge.Write, func(by *Client) error { return by.EditComment(ctx, r, c.ID, "forged") }},
		{"make labels", forge.Write, func(c *Client) error { return c.EnsureLabels(ctx, r, []forge.Label{{Name: c.user.Login}}) }},
		{"set a check", forge.Write, func(c *Client) error {
			return c.SetCheck(ctx, r, gittest.RefOID(w.GitDir(r.ID), "refs/heads/main"), forge.Check{Name: "x", State: forge.CheckPassed})
		}},
		{"open and close a change", forge.Write, func(c *Client) error {
			opened, err := c.OpenChange(ctx, r, forge.Change{Title: "Work", Head: "work"})
			if err != nil {
				return err
			}
			return c.CloseChange(ctx, r, opened.Number)
		}},
	}
	for _, a := range acts {
		for _, who := range []struct {
			c   *Client
			may forge.Permission
		}{{w.reader, forge.Read}, {w.triage, forge.Triage}, {w.bot, forge.Write}} {
			switch err := a.act(who.c); {
			case who.may >= a.need:
				if err != nil {
					t.Errorf("%s may %s: %v", who.c.user.Login, a.name, err)
				}
			default:
				wantReason(t, who.c.user.Login+" to "+a.name, err, forge.Forbidden)
			}
		}
	}
	wantReason(t, "a label that isn't offered, by triage", w.triage.AddLabel(ctx, r, i.Number, "new"), forge.Invalid)
	nobody := w.As(forge.User{Login: "ana"})
	wantReason(t, "a name without an account", nobody.AddLabel(ctx, r, i.Number, "writ"), forge.Unauthorized)
}

// TestI5_RevokedAtOnce: the permission is asked for at each call.
func TestI5_RevokedAtOnce(t *testing.T) {
	w := newWorld(t)
	i := w.file(t, "Revoked", "")
	ok(t, w.bot.AddLabel(t.Context(), w.repo, i.Number, "writ"))
	ok(t, w.Grant(t.Context(), w.repo.ID, w.bot.user.ID, forge.Read))
	wantReason(t, "after the permission was taken", w.bot.RemoveLabel(t.Context(), w.repo, i.Number, "writ"), forge.Forbidden)
	token := must[string](t)(w.NewToken(t.Context(), w.bot.user.ID))
	ok(t, w.RevokeTokens(t.Context(), w.bot.user.ID))
	wantReason(t, "a revoked token", second(w.Authenticate(t.Context(), token)), forge.Unauthorized)
}

// TestI1_EveryVersionIsKept: what was approved can be told from what stands now,
// edits within one moment included.
func TestI1_EveryVersionIsKept(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	i := w.file(t, "Add fails", "first")
	ok(t, w.owner.AddLabel(ctx, w.repo, i.Number, "writ"))
	ok(t, w.owner.EditIssue(ctx, w.repo, i.Number, "Add fails", "second"))
	ok(t, w.owner.EditIssue(ctx, w.repo, i.Number, "Add fails", "first"))
	versions := must[[]Version](t)(w.bot.Versions(ctx, w.repo, i.Number))
	var bodies []string
	for n, v := range versions {
		bodies = append(bodies, v.Body)
		want, err := kernel.ApprovalDigest(v.Title, v.Body)
		ok(t, err)
		if v.N != int64(n+1) || v.Digest != string(want) || v.Editor.ID != w.owner.user.ID {
			t.Errorf("version %+v, want number %d with the digest %s", v, n+1, want)
		}
	}
	if !slices.Equal(bodies, []string{"first", "second", "first"}) {
		t.Errorf("versions %q", bodies)
	}
	events := must[[]forge.Event](t)(w.bot.History(ctx, w.repo, i.Number))
	if len(events) != 3 || events[0].Digest != versions[0].Digest || events[1].Digest != versions[1].Digest || events[2].Digest != versions[0].Digest {
		t.Errorf("history %+v", events)
	}
}

// TestI12_WorldsAreNeverGivenTwice: the identity of a repository outlives its name,
// is noted in its git directory, and is neither that of another repository nor that
// of one with the same name and number at a forge that was made anew.
func TestI12_WorldsAreNeverGivenTwice(t *testing.T) {
	w, ctx := newWorld(t), t.Context()
	world := must[string](t)(w.World(ctx, w.repo.ID))
	if noted := must[string](t)(git.Identity(w.GitDir(w.repo.ID))); noted != world {
		t.Errorf("%q is noted of %q", noted, world)
	}
	forgeID := must[string](t)(w.Identity(ctx))
	if !strings.HasPrefix(world, forgeID+"#") {
		t.Errorf("%q is of another forge than %q", world, forgeID)
	}
	ok(t, w.RenameRepo(ctx, w.repo.ID, "acme", "old-shop"))
	again := must[forge.Repository](t)(w.CreateRepo(ctx, RepoSpec{Owner: "acme", Name: "shop"}))
	if got := must[string](t)(w.World(ctx, w.repo.ID)); got != world {
		t.Errorf("after the rename %q, before it %q", got, world)
	}
	if got := must[string](t)(w.World(ctx, again.ID)); got == world {
		t.Error("who took the name is the same world")
	}
	anew := newWorld(t)
	if got := must[string](t)(anew.World(ctx, anew.repo.ID)); got == world || anew.repo.ID != w.repo.ID || strings.HasPrefix(got, forgeID) {
		t.Errorf("made anew it is %q, before it was %q", got, world)
	}
	wantReason(t, "a repository that isn't there", second(w.World(ctx, 4711)), forge.NotFound)
}

// TestI12_IdentityIsTheNumber: renamed, made again under the old name, archived,
// private, transferred.
func TestI12_IdentityIsTheNumber(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	i := w.file(t, "Before the move", "")
	ok(t, w.RenameRepo(ctx, w.repo.ID, "acme", "old-shop"))
	again := must[forge.Repository](t)(w.CreateRepo(ctx, RepoSpec{Owner: "acme", Name: "shop"}))
	if got := must[forge.Issue](t)(w.bot.Issue(ctx, w.repo, i.Number)); got.ID != i.ID {
		t.Errorf("after the rename: %+v", got)
	}
	wantReason(t, "the same name, another id", second(w.bot.Issue(ctx, again.Repo, i.Number)), forge.NotFound)
	wantReason(t, "a name that is taken", w.RenameRepo(ctx, w.repo.ID, "ACME", "Shop"), forge.Conflict)

	ok(t, w.Grant(ctx, again.ID, w.owner.user.ID, forge.Write))
	moved := must[forge.Issue](t)(w.owner.Transfer(ctx, w.repo, i.Number, again.Repo))
	wantReason(t, "a transferred issue", second(w.bot.Issue(ctx, w.repo, i.Number)), forge.NotFound)
	if moved.ID != i.ID || moved.Number != 1 {
		t.Errorf("transferred as %+v", moved)
	}
	ok(t, w.SetArchived(ctx, w.repo.ID, true))
	wantReason(t, "file in an archived repository", second(w.owner.FileIssue(ctx, w.repo, "x", "")), forge.Forbidden)
	ok(t, w.SetPrivate(ctx, w.repo.ID, true))
	wantReason(t, "a private repository", second(w.reader.Repository(ctx, w.repo.ID)), forge.NotFound)
	if got := must[forge.Permission](t)(w.bot.Permission(ctx, w.repo, w.reader.user.ID)); got != forge.None {
		t.Errorf("a stranger has %s in a private repository", got)
	}
	if got := must[[]forge.Repository](t)(w.reader.Repositories(ctx)); len(got) != 1 || got[0].ID != again.ID {
		t.Errorf("a stranger sees %+v", got)
	}
}

// TestI14_LargeThings: what is too large is refused whole, and what is large for
// writ is kept whole.
func TestI14_LargeThings(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	large := strings.Repeat("x", 300<<10)
	i := w.file(t, "Large", large)
	if got := must[forge.Issue](t)(w.bot.Issue(ctx, w.repo, i.Number)); got.Body != large {
		t.Errorf("%d bytes came back of %d", len(got.Body), len(large))
	}
	wantReason(t, "a larger text", w.owner.EditIssue(ctx, w.repo, i.Number, "Large", strings.Repeat("x", maxBody+1)), forge.Invalid)
	wantReason(t, "a larger comment", second(w.bot.AddComment(ctx, w.repo, i.Number, strings.Repeat("x", maxComment+1))), forge.Invalid)
	wantReason(t, "no UTF-8", second(w.bot.AddComment(ctx, w.repo, i.Number, "a\xffb")), forge.Invalid)
	wantReason(t, "an empty title", second(w.owner.FileIssue(ctx, w.repo, " ", "")), forge.Invalid)
	wantReason(t, "a title of two lines", second(w.owner.FileIssue(ctx, w.repo, "a\nb", "")), forge.Invalid)
}

// TestStore_Reopened: everything is there again, and no token is in the files.
func TestStore_Reopened(t *testing.T) {
	w := newWorld(t)
	i := w.file(t, "Durable", "text")
	token := must[string](t)(w.NewToken(t.Context(), w.bot.user.ID))
	ok(t, w.Close())
	files, err := filepath.Glob(filepath.Join(w.dir, "forge.db*"))
	ok(t, err)
	for _, name := range files {
		data, err := os.ReadFile(name)
		ok(t, err)
		if strings.Contains(string(data), token) {
			t.Errorf("%s holds a token", name)
		}
		if info, err := os.Stat(name); err != nil || info.Mode().Perm() != fileMode {
			t.Errorf("%s has mode %v (%v)", name, info.Mode(), err)
		}
	}
	s, err := Open(t.Context(), Options{Dir: w.dir})
	ok(t, err)
	defer s.Close()
	user := must[forge.User](t)(s.Authenticate(t.Context(), token))
	if got := must[forge.Issue](t)(s.As(user).Issue(t.Context(), w.repo, i.Number)); got.Body != "text" {
		t.Errorf("after reopening: %+v", got)
	}
}

// TestStore_ForeignFile: a file of another program is left alone.
func TestStore_ForeignFile(t *testing.T) {
	w := newWorld(t)
	ok(t, w.update(t.Context(), "spoil", func(x *session) error { return x.do(`PRAGMA application_id = 1`) }))
	if s, err := Open(t.Context(), Options{Dir: w.dir}); err == nil {
		_ = s.Close()
		t.Error("a foreign file was opened")
	}
}

// TestStore_ConcurrentActs: no label and no comment is lost, numbers are unique.
func TestStore_ConcurrentActs(t *testing.T) {
	w := newWorld(t)
	i := w.file(t, "Busy", "")
	const writers = 12
	var wg sync.WaitGroup
	filed := make([]forge.Issue, writers)
	errs := make([]error, writers)
	for n := range writers {
		wg.Go(func() {
			if errs[n] = w.bot.AddLabel(t.Context(), w.repo, i.Number, fmt.Sprint("label ", n)); errs[n] == nil {
				filed[n], errs[n] = w.reader.FileIssue(t.Context(), w.repo, "Another", "")
			}
		})
	}
	wg.Wait()
	seen := map[int64]bool{i.Number: true}
	for n := range writers {
		ok(t, errs[n])
		if seen[filed[n].Number] {
			t.Errorf("#%d was given twice", filed[n].Number)
		}
		seen[filed[n].Number] = true
	}
	if got := must[forge.Issue](t)(w.bot.Issue(t.Context(), w.repo, i.Number)); len(got.Labels) != writers {
		t.Errorf("labels %q", got.Labels)
	}
}

// TestStore_Names: what could be an option, a path or markup is no name.
func TestStore_Names(t *testing.T) {
	w := newWorld(t)
	for _, name := range []string{"", "-x", "..", ".git", "a/b", "a b", "shop.git", "x.GIT", "<b>", "é", strings.Repeat("x", 40), "a\n", "a."} {
		wantReason(t, fmt.Sprintf("the login %q", name), second(w.CreateUser(t.Context(), name, forge.Person)), forge.Invalid)
		wantReason(t, fmt.Sprintf("the repository %q", name), second(w.CreateRepo(t.Context(), RepoSpec{Owner: "acme", Name: name})), forge.Invalid)
	}
	wantReason(t, "a login in other letters", second(w.CreateUser(t.Context(), "ANA", forge.Person)), forge.Conflict)
}
