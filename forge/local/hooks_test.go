package local

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/forge/git/gittest"
)

var secret = []byte("shared-secret")

// receiver is who is told. answer may refuse; what was answered with 2xx is kept.
type receiver struct {
	*httptest.Server
	changed chan struct{}

	mu     sync.Mutex
	answer func(n int, r *http.Request) int // n counts the requests from 1
	tries  int
	got    []received
}

type received struct {
	id      string
	payload forge.Payload
}

func newReceiver(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{changed: make(chan struct{}, 1), answer: func(int, *http.Request) int { return http.StatusAccepted }}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) { r.serve(t, w, q) }))
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) serve(t *testing.T, w http.ResponseWriter, q *http.Request) {
	body, err := io.ReadAll(q.Body)
	if err != nil {
		t.Error(err)
	}
	p, err := forge.ParsePayload(body)
	if err != nil || p.Check() != nil {
		t.Errorf("payload %s: %v, %v", body, err, p.Check())
	}
	mac := hmac.New(sha256.New, secret)
	mac.Write(body)
	if got := q.Header.Get(HeaderSignature); got != "sha256="+hex.EncodeToString(mac.Sum(nil)) {
		t.Errorf("signature %q of %s", got, body)
	}
	if got := q.Header.Get(HeaderEvent); got != string(p.Event) {
		t.Errorf("event %q in the header, %q in the body", got, p.Event)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tries++
	status := r.answer(r.tries, q)
	if status < 300 {
		r.got = append(r.got, received{q.Header.Get(HeaderDelivery), p})
	}
	w.WriteHeader(status)
	select {
	case r.changed <- struct{}{}:
	default:
	}
}

func (r *receiver) hook() Hook { return Hook{URL: r.URL + "/hooks/local", Secret: secret} }

func (r *receiver) set(answer func(n int, q *http.Request) int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answer = answer
}

func (r *receiver) received() []received {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.got)
}

// wait waits until so many were taken.
func (r *receiver) wait(t *testing.T, n int) []received {
	t.Helper()
	until(t, r.changed, func() bool { return len(r.received()) >= n })
	return r.received()
}

func actions(got []received) []string {
	var out []string
	for _, g := range got {
		text := fmt.Sprintf("%s %s", g.payload.Event, g.payload.Action)
		if g.payload.Label != "" {
			text += " " + g.payload.Label
		}
		if g.payload.Issue != nil {
			text += fmt.Sprintf(" #%d", g.payload.Issue.Number)
		}
		out = append(out, text+g.payload.Ref)
	}
	return out
}

func quick(o *Options) { o.Retry = quickRetry }

var quickRetry = Retry{Min: time.Millisecond, Max: 4 * time.Millisecond}

// TestHooks_EverythingIsTold: signed, in order, in the shape that the receiver
// reads, with the text as it stood right after the act.
func TestHooks_EverythingIsTold(t *testing.T) {
	r := newReceiver(t)
	w := newWorld(t, quick)
	ok(t, w.AddHook(t.Context(), r.hook()))
	ctx := t.Context()
	i := w.file(t, "Add fails", "It subtracts: <b>&amp; \u2028 \"quoted\"")
	ok(t, w.owner.AddLabel(ctx, w.repo, i.Number, "writ"))
	ok(t, w.owner.AddLabel(ctx, w.repo, i.Number, "writ"))
	ok(t, w.owner.EditIssue(ctx, w.repo, i.Number, "Add fails", "edited"))
	c := must[forge.Comment](t)(w.bot.AddComment(ctx, w.repo, i.Number, "working"))
	ok(t, w.bot.EditComment(ctx, w.repo, c.ID, "done"))
	ok(t, w.bot.SetState(ctx, w.repo, i.Number, forge.Closed))
	ok(t, w.owner.RemoveLabel(ctx, w.repo, i.Number, "writ"))
	ok(t, w.bot.DeleteComment(ctx, w.repo, c.ID))
	oid := w.branch(t, "writ/change/1", "main", map[string]string{"calc/add.go": "package calc\n"})
	change := must[forge.Change](t)(w.bot.OpenChange(ctx, w.repo, forge.Change{Title: "Fix", Head: "writ/change/1"}))
	must[forge.Change](t)(w.owner.MergeChange(ctx, w.repo, change.Number))

	want := []string{
		"issues opened #1", "issues labeled writ #1", "issues edited #1", "issue_comment created #1",
		"issue_comment edited #1", "issues closed #1", "issues unlabeled writ #1", "issue_comment deleted #1",
		"push refs/heads/writ/change/1", "change openedrefs/heads/writ/change/1",
		"push refs/heads/main", "change mergedrefs/heads/writ/change/1",
	}
	got := r.wait(t, len(want))
	if texts := actions(got); !slices.Equal(texts, want) {
		t.Fatalf("told\n%s\nwant\n%s", strings.Join(texts, "\n"), strings.Join(want, "\n"))
	}
	if p := got[0].payload; p.Issue.Body != i.Body || p.Issue.ID != i.ID || p.Repository.Repo() != w.repo || p.Sender.User() != w.owner.user || p.AtMS == 0 {
		t.Errorf("payload %+v of issue %+v", p, i)
	}
	if got[2].payload.Issue.Body != "edited" || got[4].payload.Comment.Body != "done" || got[3].payload.Sender.Kind != forge.Bot {
		t.Errorf("texts: %+v, %+v", got[2].payload, got[4].payload)
	}
	if p := got[8].payload; p.Before != string(git.ZeroOID) || p.After != oid {
		t.Errorf("push %+v, want from nothing to %s", p, oid)
	}
}

// TestW12_ReceiverDown: nothing is lost while the receiver refuses, hangs up or
// is away, and what comes at last comes in order and under its own id.
func TestW12_ReceiverDown(t *testing.T) {
	r := newReceiver(t)
	w := newWorld(t, quick)
	ok(t, w.AddHook(t.Context(), r.hook()))
	ids := map[string]int{}
	r.set(func(n int, q *http.Request) int {
		ids[q.Header.Get(HeaderDelivery)]++
		if n <= 7 {
			return []int{500, 404, 302, 503}[n%4]
		}
		return http.StatusOK
	})
	for n := range 4 {
		w.file(t, fmt.Sprint("Issue ", n), "")
	}
	got := r.wait(t, 4)
	want := []string{"issues opened #1", "issues opened #2", "issues opened #3", "issues opened #4"}
	if texts := actions(got); !slices.Equal(texts, want) {
		t.Errorf("told %q", texts)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(ids) != 4 || ids[got[0].id] != 8 {
		t.Errorf("tries by id: %v", ids)
	}
}

// TestW10_HookCannotBeNoted: where the file takes nothing, a delivery is as due as
// before, and is tried again as one that failed is: later each time.
func TestW10_HookCannotBeNoted(t *testing.T) {
	r := newReceiver(t)
	w := newWorld(t, quick)
	s := w.Store
	ok(t, s.update(t.Context(), "break", func(x *session) error {
		return errors.Join(
			x.do(`INSERT INTO hooks (url, at) VALUES (?, ?)`, r.hook().URL, x.now),
			x.do(`CREATE TRIGGER full BEFORE UPDATE ON hook_deliveries BEGIN SELECT RAISE(FAIL, 'no space'); END`))
	}))
	w.file(t, "Issue", "")
	n := &sender{s: s, hook: r.hook(), wake: make(chan struct{}, 1)}
	for tries, want := range []time.Duration{quickRetry.Min, 2 * quickRetry.Min, quickRetry.Max, quickRetry.Max} {
		if got := n.next(t.Context()); got != want || len(r.wait(t, tries+1)) != tries+1 {
			t.Errorf("try %d is followed by %v, want %v", tries+1, got, want)
		}
	}
	ok(t, s.update(t.Context(), "mend", func(x *session) error { return x.do(`DROP TRIGGER full`) }))
	if got := n.next(t.Context()); got != idle || n.unnoted != 0 {
		t.Errorf("mended, the next look is after %v", got)
	}
}

// TestW12_OutlivesTheForge: deliveries that were not taken are sent by the next
// process, once.
func TestW12_OutlivesTheForge(t *testing.T) {
	r := newReceiver(t)
	r.set(func(int, *http.Request) int { return http.StatusServiceUnavailable })
	w := newWorld(t, quick)
	ok(t, w.AddHook(t.Context(), r.hook()))
	w.file(t, "Told later", "")
	w.file(t, "And this", "")
	ok(t, w.Close())
	r.set(func(int, *http.Request) int { return http.StatusOK })
	s, err := Open(t.Context(), Options{Dir: w.dir, Hooks: []Hook{r.hook()}})
	ok(t, err)
	defer s.Close()
	got := r.wait(t, 2)
	if texts := actions(got); !slices.Equal(texts, []string{"issues opened #1", "issues opened #2"}) {
		t.Errorf("told %q", texts)
	}
}

// TestHooks_AnotherProcess: what another process does to the same forge is told
// by the one that sends, until the hook is forgotten.
func TestHooks_AnotherProcess(t *testing.T) {
	r := newReceiver(t)
	w := newWorld(t, quick)
	ok(t, w.AddHook(t.Context(), r.hook()))
	other, err := Open(t.Context(), Options{Dir: w.dir})
	ok(t, err)
	defer other.Close()
	must[forge.Issue](t)(other.As(w.bot.user).FileIssue(t.Context(), w.repo, "From elsewhere", ""))
	if texts := actions(r.wait(t, 1)); !slices.Equal(texts, []string{"issues opened #1"}) {
		t.Errorf("told %q", texts)
	}
	ok(t, other.ForgetHook(t.Context(), r.hook().URL))
	w.file(t, "Told to nobody", "")
	if all := must[[]Delivery](t)(w.Deliveries(t.Context())); len(all) != 1 {
		t.Errorf("deliveries: %+v", all)
	}
	wantReason(t, "forget it again", w.ForgetHook(t.Context(), r.hook().URL), forge.NotFound)
}

// TestHooks_UntoldPush: a push that was done when the process died is told by
// the next one, as what it was.
func TestHooks_UntoldPush(t *testing.T) {
	r := newReceiver(t)
	w := newWorld(t)
	main := gittest.RefOID(w.GitDir(w.repo.ID), "refs/heads/main")
	ok(t, w.Close())
	dir := w.GitDir(w.repo.ID)
	moved := gittest.Commit(t, dir, "refs/heads/main", main, map[string]string{"a": "b"})
	hidden := gittest.Commit(t, dir, "refs/writ/task/1", "", map[string]string{"a": "b"})
	s, err := Open(t.Context(), Options{Dir: w.dir, Hooks: []Hook{r.hook()}})
	ok(t, err)
	defer s.Close()
	got := r.wait(t, 1)[0].payload
	if got.Ref != "refs/heads/main" || got.Before != main || got.After != moved || got.Sender.Kind != forge.Bot {
		t.Errorf("told %+v, want main from %s to %s", got, main, moved)
	}
	// Told again, it is nothing new; a hidden ref is told to nobody.
	again := []RefUpdate{{"refs/heads/main", git.OID(main), git.OID(moved)}, {"refs/writ/task/1", git.ZeroOID, git.OID(hidden)}}
	ok(t, s.Received(t.Context(), w.repo.ID, w.owner.user, again))
	if all := must[[]Delivery](t)(s.Deliveries(t.Context())); len(all) != 1 {
		t.Errorf("deliveries: %+v", all)
	}
}

// TestHooks_DroppedAndRedelivered: a test can lose a delivery, and send any again.
func TestHooks_DroppedAndRedelivered(t *testing.T) {
	r := newReceiver(t)
	w := newWorld(t, quick)
	hook := r.hook()
	hook.Drop = func(d Delivery) bool { return strings.Contains(string(d.Body), "Lost") }
	ok(t, w.AddHook(t.Context(), hook))
	w.file(t, "Lost", "")
	w.file(t, "Arrives", "")
	if texts := actions(r.wait(t, 1)); !slices.Equal(texts, []string{"issues opened #2"}) {
		t.Errorf("told %q", texts)
	}
	all := must[[]Delivery](t)(w.Deliveries(t.Context()))
	if len(all) != 2 || all[0].State != DeliveryDropped {
		t.Fatalf("deliveries %+v", all)
	}
	ok(t, w.Redeliver(t.Context(), all[0].ID))
	r.wait(t, 2)
	ok(t, w.Redeliver(t.Context(), all[1].ID))
	got := r.wait(t, 3)
	if got[1].payload.Issue.Number != 1 || got[2].id != got[0].id {
		t.Errorf("redelivered: %+v", got)
	}
	wantReason(t, "a delivery that never was", w.Redeliver(t.Context(), "x"), forge.NotFound)
}

// TestHooks_SameTransaction: an act that is refused is told to nobody, and one
// that is told has been done.
func TestHooks_SameTransaction(t *testing.T) {
	r := newReceiver(t)
	w := newWorld(t, quick)
	ok(t, w.AddHook(t.Context(), r.hook()))
	ok(t, w.update(t.Context(), "break", func(x *session) error {
		return x.do(`CREATE TRIGGER full BEFORE INSERT ON hook_deliveries BEGIN SELECT RAISE(ABORT, 'full'); END`)
	}))
	wantReason(t, "an act that can't be told of", second(w.owner.FileIssue(t.Context(), w.repo, "Untold", "")), forge.Unavailable)
	ok(t, w.update(t.Context(), "repair", func(x *session) error { return x.do(`DROP TRIGGER full`) }))
	w.file(t, "Told", "")
	got := r.wait(t, 1)
	if got[0].payload.Issue.Title != "Told" || got[0].payload.Issue.Number != 1 {
		t.Errorf("told %+v: the untold issue should not be there", got[0].payload.Issue)
	}
}

// TestW3_HookNeedsASecret: what can't be signed is not sent.
func TestW3_HookNeedsASecret(t *testing.T) {
	w := newWorld(t)
	for _, h := range []Hook{
		{URL: "http://127.0.0.1:1/hook"}, {URL: "ftp://127.0.0.1/", Secret: secret},
		{URL: "http://user:word@127.0.0.1/", Secret: secret}, {URL: "", Secret: secret},
	} {
		wantReason(t, h.URL, w.AddHook(t.Context(), h), forge.Invalid)
	}
}

// TestF3_SecretsStayHere: neither the hook's secret nor a token is in the log or
// in the list of deliveries.
func TestF3_SecretsStayHere(t *testing.T) {
	r := newReceiver(t)
	r.set(func(n int, _ *http.Request) int { return map[bool]int{true: 500, false: 200}[n == 1] })
	w := newWorld(t, quick)
	ok(t, w.AddHook(t.Context(), r.hook()))
	token := must[string](t)(w.NewToken(t.Context(), w.owner.user.ID))
	w.file(t, "Quiet", "")
	r.wait(t, 1)
	out := w.log.String() + fmt.Sprintf("%+v", must[[]Delivery](t)(w.Deliveries(t.Context())))
	for _, hidden := range []string{string(secret), token} {
		if strings.Contains(out, hidden) {
			t.Errorf("a secret is in the log or the deliveries:\n%s", out)
		}
	}
}
