package gitlab

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/gitlab/gitlabtest"
)

func (w *world) permission(t *testing.T, user int64) forge.Permission {
	t.Helper()
	return must[forge.Permission](t)(w.bot.Permission(t.Context(), w.repo, user))
}

// TestI4_Levels: each level of GitLab's has one word of the contract's.
func TestI4_Levels(t *testing.T) {
	w := newWorld(t)
	u := w.AddUser("tom")
	const securityManager, ofTheFuture = 25, 60
	for level, want := range map[int]forge.Permission{
		gitlabtest.Minimal: forge.None, gitlabtest.Guest: forge.Read, gitlabtest.Planner: forge.Triage, gitlabtest.Reporter: forge.Triage,
		securityManager: forge.Triage, gitlabtest.Developer: forge.Write, gitlabtest.Maintainer: forge.Maintain, gitlabtest.Owner: forge.Admin,
		ofTheFuture: forge.Admin,
	} {
		w.SetMember(w.repo.ID, u.ID, level)
		if got := w.permission(t, u.ID); got != want {
			t.Errorf("level %d is %s, want %s", level, got, want)
		}
	}
}

// TestI4_Inherited: a group's members, and those of an invited group up
// to its level, count; the best of all memberships does.
func TestI4_Inherited(t *testing.T) {
	w := newWorld(t)
	u := w.AddUser("tom")
	w.AddGroup("guests")
	w.SetGroupMember("guests", u.ID, gitlabtest.Owner)
	w.Share(w.repo.ID, "guests", gitlabtest.Reporter)
	if got := w.permission(t, u.ID); got != forge.Triage {
		t.Errorf("an owner of a group that was invited as Reporter has %s", got)
	}
	w.SetGroupMember("acme", u.ID, gitlabtest.Developer)
	if got := w.permission(t, u.ID); got != forge.Write {
		t.Errorf("a Developer of the group above has %s", got)
	}
	w.SetMember(w.repo.ID, u.ID, gitlabtest.Guest)
	if got := w.permission(t, u.ID); got != forge.Write {
		t.Errorf("a Guest who is a Developer of the group above has %s", got)
	}
}

// TestI5_EndedMembership: a membership counts only while it does.
func TestI5_EndedMembership(t *testing.T) {
	w := newWorld(t)
	u := w.AddUser("tom")
	now := time.Now()
	w.SetMemberUntil(w.repo.ID, u.ID, gitlabtest.Maintainer, now.AddDate(0, 0, 2))
	if got := w.permission(t, u.ID); got != forge.Maintain {
		t.Errorf("before its last day a membership is %s", got)
	}
	w.SetMemberUntil(w.repo.ID, u.ID, gitlabtest.Maintainer, now.AddDate(0, 0, -1))
	if got := w.permission(t, u.ID); got != forge.None {
		t.Errorf("a membership that has ended is %s", got)
	}
	w.SetMemberAwaiting(w.repo.ID, u.ID, gitlabtest.Maintainer)
	if got := w.permission(t, u.ID); got != forge.None {
		t.Errorf("a membership that waits for a seat is %s", got)
	}
	w.SetMember(w.repo.ID, u.ID, gitlabtest.Maintainer)
	for _, state := range []string{"blocked", "ldap_blocked", "banned", "deactivated", "blocked_pending_approval"} {
		w.SetUserState(u.ID, state)
		if got := w.permission(t, u.ID); got != forge.None {
			t.Errorf("a maintainer who is %s has %s", state, got)
		}
	}
}

// TestI4_Strangers: without a membership, an active account may read
// what isn't private.
func TestI4_Strangers(t *testing.T) {
	w := newWorld(t)
	u := w.AddUser("tom")
	for visibility, want := range map[string]forge.Permission{gitlabtest.Public: forge.Read, gitlabtest.Internal: forge.Read, gitlabtest.Private: forge.None} {
		w.ChangeProject(w.repo.ID, gitlabtest.ProjectChange{Visibility: visibility})
		if got := w.permission(t, u.ID); got != want {
			t.Errorf("a stranger has %s in a %s project, want %s", got, visibility, want)
		}
	}
	w.ChangeProject(w.repo.ID, gitlabtest.ProjectChange{Visibility: gitlabtest.Public})
	w.SetUserState(u.ID, "blocked")
	if got := w.permission(t, u.ID); got != forge.None {
		t.Errorf("a blocked stranger has %s", got)
	}
	w.RemoveUser(u.ID)
	if got := w.permission(t, u.ID); got != forge.None {
		t.Errorf("a deleted account has %s", got)
	}
}

// TestI5_TroubleIsNoAnswer: what can't be read is not "none".
func TestI5_TroubleIsNoAnswer(t *testing.T) {
	w := newWorld(t)
	for _, status := range []int{http.StatusInternalServerError, http.StatusForbidden, http.StatusUnauthorized} {
		w.Lie("GET", "/members/", 1, gitlabtest.Refuse(status))
		if _, err := w.bot.Permission(t.Context(), w.repo, w.owner.user.ID); err == nil {
			t.Errorf("a %d was taken for an answer", status)
		}
	}
}

// TestI4_Kinds: bots of tokens, and service accounts, are bots wherever they appear.
func TestI4_Kinds(t *testing.T) {
	w := newWorld(t)
	service := w.AddBot("deploy")
	w.SetMember(w.repo.ID, service.ID, gitlabtest.Developer)
	robot := w.person(t, service, w.Token(service.ID))
	robot.user.Bot = false // speaks as people do
	i := must[forge.Issue](t)(robot.FileIssue(t.Context(), w.repo, "From a service account", ""))
	must[forge.Comment](t)(w.bot.AddComment(t.Context(), w.repo, i.Number, "from a token's bot"))
	must[forge.Comment](t)(w.reader.AddComment(t.Context(), w.repo, i.Number, "from a person"))
	ok(t, robot.AddLabel(t.Context(), w.repo, i.Number, "writ"))
	if got := w.issue(t, i.Number).Author; got.Kind != forge.Bot || got.ID != service.ID {
		t.Errorf("the issue's author is %+v", got)
	}
	all := w.comments(t, i.Number)
	if all[0].Author.Kind != forge.Bot || all[1].Author.Kind != forge.Person {
		t.Errorf("comments by %+v and %+v", all[0].Author, all[1].Author)
	}
	events := must[[]forge.Event](t)(w.bot.History(t.Context(), w.repo, i.Number))
	if len(events) != 1 || events[0].Actor.Kind != forge.Bot {
		t.Errorf("labelled by %+v", events)
	}
	asked := 0
	for _, r := range w.Requests() {
		if r.User == w.bot.user.ID && strings.HasPrefix(r.Path, "/users/") {
			asked++
		}
	}
	if asked > 3 {
		t.Errorf("%d requests for the kinds of three accounts", asked)
	}
}

// TestI4_DeletedAccount: what a deleted account did stays readable.
func TestI4_DeletedAccount(t *testing.T) {
	w := newWorld(t)
	u := w.AddUser("tom")
	tom := w.person(t, u, w.Token(u.ID))
	i := must[forge.Issue](t)(tom.FileIssue(t.Context(), w.repo, "Before he left", ""))
	w.RemoveUser(u.ID)
	if got := w.issue(t, i.Number); got.Author.ID != u.ID {
		t.Errorf("read as %+v", got)
	}
}

// TestToken_Personal: a person's token works, and is warned of once; a project's isn't.
func TestToken_Personal(t *testing.T) {
	w := newWorld(t)
	for range 2 {
		if got := must[forge.User](t)(w.owner.Self(t.Context())); got.Kind != forge.Person {
			t.Errorf("the owner is %+v", got)
		}
		if got := must[forge.User](t)(w.bot.Self(t.Context())); got.Kind != forge.Bot {
			t.Errorf("the bot is %+v", got)
		}
	}
	if len(w.owner.host.Warnings()) != 1 || len(w.bot.host.Warnings()) != 0 {
		t.Errorf("warnings %q and %q", w.owner.host.Warnings(), w.bot.host.Warnings())
	}
	if got := strings.Count(w.log.String(), "level=WARN"); got != 1 || !strings.Contains(w.log.String(), "account=ana") {
		t.Errorf("%d warnings: %s", got, w.log)
	}
}

// TestToken_About: scopes and end, for whoever checks an installation.
func TestToken_About(t *testing.T) {
	w := newWorld(t)
	w.Expire(w.bot.token, time.Now().AddDate(0, 1, 0))
	got := must[Token](t)(w.bot.host.Token(t.Context()))
	if len(got.Scopes) != 1 || got.Scopes[0] != "api" || got.Expires.Before(time.Now()) {
		t.Errorf("the token is %+v", got)
	}
}

// TestF6_TokenEnded: a token that was revoked, or may only read, is told apart.
func TestF6_TokenEnded(t *testing.T) {
	w := newWorld(t)
	i := w.file(t)
	reads := w.person(t, w.bot.user, w.Token(w.bot.user.ID, "read_api"))
	if err := reads.AddLabel(t.Context(), w.repo, i.Number, "writ"); !forge.IsReason(err, forge.Forbidden) {
		t.Errorf("with a token that may only read: %v", err)
	}
	w.Revoke(w.bot.token)
	if err := w.bot.AddLabel(t.Context(), w.repo, i.Number, "writ"); !forge.IsReason(err, forge.Unauthorized) {
		t.Errorf("with a revoked token: %v", err)
	}
}
