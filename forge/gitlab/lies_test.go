package gitlab

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/gitlab/gitlabtest"
)

// writes is each writing method, the way of its request, and whether it was done.
type write struct {
	method, path string
	do           func(context.Context) error
	done         func(*testing.T) bool
}

func (w *world) writes(t *testing.T) map[string]write {
	t.Helper()
	i := w.file(t)
	c := must[forge.Comment](t)(w.bot.AddComment(t.Context(), w.repo, i.Number, "first"))
	gone := must[forge.Comment](t)(w.bot.AddComment(t.Context(), w.repo, i.Number, "gone"))
	change := w.change(t, "writ/change/1", "Fix it", "")
	w.Branch(w.repo.ID, w.bot.user.ID, "writ/change/2", map[string]string{"2": "x"})
	bot, r := w.bot, w.repo
	says := func(part string) func(*testing.T) bool {
		return func(t *testing.T) bool {
			var all strings.Builder
			for _, c := range w.comments(t, i.Number) {
				all.WriteString(c.Body + "\n")
			}
			return strings.Contains(all.String(), part)
		}
	}
	return map[string]write{
		"SetState": {"PUT", "/issues/", func(ctx context.Context) error { return bot.SetState(ctx, r, i.Number, forge.Closed) },
			func(t *testing.T) bool { return w.issue(t, i.Number).State == forge.Closed }},
		"AddLabel": {"PUT", "/issues/", func(ctx context.Context) error { return bot.AddLabel(ctx, r, i.Number, "writ") },
			func(t *testing.T) bool { return len(w.issue(t, i.Number).Labels) > 0 }},
		"AddComment":  {"POST", "/notes", func(ctx context.Context) error { return second(bot.AddComment(ctx, r, i.Number, "report")) }, says("report")},
		"EditComment": {"PUT", "/notes/", func(ctx context.Context) error { return bot.EditComment(ctx, r, c.ID, "edited") }, says("edited")},
		"DeleteComment": {"DELETE", "/notes/", func(ctx context.Context) error { return bot.DeleteComment(ctx, r, gone.ID) },
			func(t *testing.T) bool { return !says("gone")(t) }},
		"React": {"POST", "/award_emoji", func(ctx context.Context) error { return bot.React(ctx, r, c.ID, forge.ReactionSeen) },
			func(*testing.T) bool { return len(w.Awards(r.ID, c.ID, w.bot.user.ID)) > 0 }},
		"ReactToIssue": {"POST", "/award_emoji", func(ctx context.Context) error { return bot.ReactToIssue(ctx, r, i.Number, forge.ReactionSeen) },
			func(*testing.T) bool { return len(w.IssueAwards(r.ID, i.Number, w.bot.user.ID)) > 0 }},
		"EnsureLabels": {"POST", "/labels", func(ctx context.Context) error {
			return bot.EnsureLabels(ctx, r, []forge.Label{{Name: "new", Color: "ededed"}})
		}, nil},
		"OpenChange": {"POST", "/merge_requests", func(ctx context.Context) error {
			return second(bot.OpenChange(ctx, r, forge.Change{Title: "x", Head: "writ/change/2", Base: "main"}))
		}, func(t *testing.T) bool { return second(bot.FindChange(t.Context(), r, "writ/change/2", "")) == nil }},
		"EditChange": {"PUT", "/merge_requests/", func(ctx context.Context) error { return bot.EditChange(ctx, r, change.Number, "New", "") },
			func(t *testing.T) bool {
				return must[forge.Change](t)(bot.FindChange(t.Context(), r, change.Head, "")).Title == "New"
			}},
		"SetCheck": {"POST", "/statuses/", func(ctx context.Context) error {
			return bot.SetCheck(ctx, r, change.HeadOID, forge.Check{Name: "writ", State: forge.CheckPassed})
		}, func(t *testing.T) bool { return len(w.checks(t, change.HeadOID)) > 0 }},
	}
}

// lies are answers, and what the caller is to be told.
var lies = map[string]struct {
	fault   gitlabtest.Fault
	reason  forge.Reason
	applied bool
	pause   time.Duration
}{
	"502 after it was done":   {gitlabtest.Broken(http.StatusBadGateway), forge.Unavailable, true, 0},
	"an answer that got lost": {gitlabtest.Lost(), forge.Unavailable, true, 0},
	"500 and nothing done":    {gitlabtest.Refuse(http.StatusInternalServerError), forge.Unavailable, true, 0},
	"429 that says how long":  {gitlabtest.Refuse(http.StatusTooManyRequests, "Retry-After", "17"), forge.Limited, false, 17 * time.Second},
	"429 that doesn't":        {gitlabtest.Refuse(http.StatusTooManyRequests), forge.Limited, false, time.Minute},
	"403":                     {gitlabtest.Refuse(http.StatusForbidden), forge.Forbidden, false, 0},
	"401":                     {gitlabtest.Refuse(http.StatusUnauthorized), forge.Unauthorized, false, 0},
	"404":                     {gitlabtest.Refuse(http.StatusNotFound), forge.NotFound, false, 0},
	"409":                     {gitlabtest.Refuse(http.StatusConflict), forge.Conflict, false, 0},
	"422":                     {gitlabtest.Refuse(http.StatusUnprocessableEntity), forge.Invalid, false, 0},
	"a redirect":              {gitlabtest.Refuse(http.StatusTemporaryRedirect, "Location", "https://elsewhere.example/"), forge.NotFound, false, 0},
	"a page instead of JSON":  {gitlabtest.Fault{Status: http.StatusOK, Body: "<html>"}, forge.Unavailable, true, 0},
}

// TestF5_Lies: each write under each lie is tried once, and the caller is told what
// it was, and whether it may have been done all the same.
func TestF5_Lies(t *testing.T) {
	for said, lie := range lies {
		t.Run(said, func(t *testing.T) {
			w := newWorld(t)
			for name, call := range w.writes(t) {
				if name == "DeleteComment" && lie.fault.Body != "" {
					continue // its answer is not read
				}
				before := len(w.asked(call))
				w.Lie(call.method, call.path, 1, lie.fault)
				err := call.do(t.Context())
				var e *forge.Error
				if !errors.As(err, &e) || e.Reason != lie.reason || e.Applied != lie.applied || e.RetryAfter != lie.pause || e.Op == "" {
					t.Errorf("%s: told %#v, want %s, applied %v, pause %s", name, err, lie.reason, lie.applied, lie.pause)
				}
				if tried := len(w.asked(call)) - before; tried != 1 {
					t.Errorf("%s was tried %d times", name, tried)
				}
				w.Honest()
				if lie.pause > 0 {
					return // GitLab is left alone now
				}
				if call.done != nil && call.done(t) != lie.fault.Applied {
					t.Errorf("%s: done %v, want %v", name, !lie.fault.Applied, lie.fault.Applied)
				}
			}
		})
	}
}

// asked are the requests of a write's way.
func (w *world) asked(call write) []gitlabtest.Request {
	var out []gitlabtest.Request
	for _, r := range w.Requests() {
		if r.Method == call.method && strings.Contains(r.Path, call.path) {
			out = append(out, r)
		}
	}
	return out
}

// TestF4_LeftAlone: after a 429 nothing more is sent until the pause is over.
func TestF4_LeftAlone(t *testing.T) {
	w := newWorld(t)
	i := w.file(t)
	w.Lie("", "", 1, gitlabtest.Refuse(http.StatusTooManyRequests, "Retry-After", "60"))
	if _, err := w.bot.Issue(t.Context(), w.repo, i.Number); !forge.IsReason(err, forge.Limited) {
		t.Errorf("told %v", err)
	}
	before := len(w.Requests())
	_, err := w.bot.Issue(t.Context(), w.repo, i.Number)
	var e *forge.Error
	if !errors.As(err, &e) || e.Reason != forge.Limited || e.RetryAfter <= 0 || e.RetryAfter > time.Minute || len(w.Requests()) != before {
		t.Errorf("told %v, and %d requests more", err, len(w.Requests())-before)
	}
}

// TestF4_Allowance: the published headers count.
func TestF4_Allowance(t *testing.T) {
	w := newWorld(t, func(o *gitlabtest.Options) { o.RateLimit = 3 })
	for n := range 5 {
		_, err := w.bot.Repository(t.Context(), w.repo.ID)
		if limited := forge.IsReason(err, forge.Limited); limited != (n >= 3) {
			t.Errorf("request %d: %v", n, err)
		}
	}
	if sent := len(w.Requests()); sent != 3 {
		t.Errorf("%d requests were sent, the last ones knowing better", sent)
	}
}

// TestI3_StaleReplica: a read may be old; permission and writes go on with it
// as told, and a write's own answer counts.
func TestI3_StaleReplica(t *testing.T) {
	w := newWorld(t)
	i := w.file(t)
	w.Lag(1)
	ok(t, w.bot.AddLabel(t.Context(), w.repo, i.Number, "writ"))
	if got := w.issue(t, i.Number).Labels; len(got) != 0 {
		t.Errorf("the replica knows of %q", got)
	}
	if got := w.issue(t, i.Number).Labels; len(got) != 1 {
		t.Errorf("afterwards the labels are %q", got)
	}
}

// TestI5_LiveAndConditional: an answer that didn't change isn't sent again; a permission is
// always asked for anew.
func TestI5_LiveAndConditional(t *testing.T) {
	w := newWorld(t)
	i := w.file(t)
	first := w.issue(t, i.Number)
	if again := w.issue(t, i.Number); again.Title != first.Title || again.UpdatedAt != first.UpdatedAt {
		t.Errorf("read again: %+v", again)
	}
	for range 2 {
		must[forge.Permission](t)(w.bot.Permission(t.Context(), w.repo, w.owner.user.ID))
	}
	unchanged := 0
	for _, r := range w.Requests() {
		if r.Status == http.StatusNotModified {
			unchanged++
			if strings.Contains(r.Path, "members") {
				t.Errorf("a permission from a cache: %+v", r)
			}
		}
	}
	if unchanged == 0 {
		t.Error("nothing was asked conditionally")
	}
	ok(t, w.owner.EditIssue(t.Context(), w.repo, i.Number, "Changed", "text"))
	if got := w.issue(t, i.Number).Title; got != "Changed" {
		t.Errorf("read after an edit: %q", got)
	}
}

// TestI4_AnswerAboutSomethingElse: an answer of success that names another thing, or
// none, is not believed.
func TestI4_AnswerAboutSomethingElse(t *testing.T) {
	w := newWorld(t)
	ctx, i := t.Context(), w.file(t)
	someone := w.AddUser("tom")
	fresh := func() *person { return w.person(t, w.bot.user, w.bot.token) }
	for _, body := range []string{`{}`, `{"id": "9", "iid": 77, "state": "opened", "access_level": 50, "path_with_namespace": "a/b"}`, `{"id": 987654321, "iid": 77, "state": "active", "access_level": 50, "path_with_namespace": "a/b", "web_url": "x"}`} {
		for name, call := range map[string]func() error{
			"Repository": func() error { return second(fresh().Repository(ctx, w.repo.ID)) },
			"Issue":      func() error { return second(fresh().Issue(ctx, w.repo, i.Number)) },
			"SetState":   func() error { return fresh().SetState(ctx, w.repo, i.Number, forge.Open) },
			"Permission": func() error { return second(fresh().Permission(ctx, w.repo, someone.ID)) },
			"EditChange": func() error { return fresh().EditChange(ctx, w.repo, ChangeNumber(1), "x", "") },
		} {
			w.Lie("", "", -1, gitlabtest.Fault{Status: http.StatusOK, Body: body})
			if err := call(); !forge.IsReason(err, forge.Unavailable) {
				t.Errorf("%s takes %s: %v", name, body, err)
			}
			w.Honest()
		}
	}
}

// TestI14_AnyShape: an answer of any other shape is an error or nothing found, and
// never the end of the process.
func TestI14_AnyShape(t *testing.T) {
	w := newWorld(t)
	calls := w.writes(t)
	ctx, r := t.Context(), w.repo
	for name, read := range map[string]func() error{
		"Repository": func() error { return second(w.bot.Repository(ctx, r.ID)) },
		"Issue":      func() error { return second(w.bot.Issue(ctx, r, 1)) },
		"ListIssues": func() error { return w.bot.ListIssues(ctx, r, time.Time{}, func(forge.Issue) error { return nil }) },
		"History":    func() error { return second(w.bot.History(ctx, r, 1)) },
		"Comments":   func() error { return second(w.bot.Comments(ctx, r, 1)) },
		"Self":       func() error { return second(w.person(t, w.bot.user, w.bot.token).Self(ctx)) },
		"Permission": func() error { return second(w.bot.Permission(ctx, r, 1)) },
		"FindChange": func() error { return second(w.bot.FindChange(ctx, r, "writ/change/1", "")) },
		"Token":      func() error { return second(w.bot.host.Token(ctx)) },
		"Hooks":      func() error { return second(w.bot.host.Hooks(ctx, r)) },
		"Thread":     func() error { return w.person(t, w.bot.user, w.bot.token).EditComment(ctx, r, 1, "x") },
	} {
		calls[name] = write{do: func(context.Context) error { return read() }}
	}
	for _, body := range []string{
		``, ` `, `null`, `[]`, `[null]`, `{}`, `[{}]`, `"x"`, `7`, `true`, `{"id":null}`, `{"id":{}}`, `[{"id":"x"}]`, `[{"id":1,"labels":[{},1]}]`,
		`{"iid":1,"labels":[{"name":"x"},"y"],"author":null}`, `[{"author":null,"user":null,"label":null,"created_at":null,"updated_at":null}]`,
		`{"data":null}`, `{"data":{"note":{}}}`, `{"errors":[{}]}`, `{"expires_at":"x"}`, strings.Repeat("[", 20_000),
	} {
		w.Lie("", "", -1, gitlabtest.Fault{Status: http.StatusOK, Body: body, Header: http.Header{"X-Next-Page": {"2"}}})
		for _, call := range calls {
			_ = call.do(ctx) // what it says is not the point here
		}
		w.Honest()
	}
}

// TestW12_Circles: a listing whose pages lead back ends.
func TestW12_Circles(t *testing.T) {
	w := newWorld(t)
	i := w.file(t)
	w.Lie("GET", "/notes", 50, gitlabtest.Fault{Status: http.StatusOK, Body: `[]`, Header: http.Header{"X-Next-Page": {"1"}}})
	if err := second(w.bot.Comments(t.Context(), w.repo, i.Number)); !forge.IsReason(err, forge.Invalid) {
		t.Errorf("pages in circles: %v", err)
	}
}
