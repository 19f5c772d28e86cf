package server

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/writbot/writ/cmd/internal/installation"
	"github.com/writbot/writ/executor/scheduler"
	"github.com/writbot/writ/forge/git/gittest"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/webhook/inbox"
)

// lastLook is a runner whose look ends when it is killed, and leaves the act that
// killed it to a look that never comes.
type lastLook struct{ began chan struct{} }

func (l lastLook) Drive(_ context.Context, j *scheduler.Job) (scheduler.Result, error) {
	killed := make(chan struct{})
	j.OnKill(sync.OnceFunc(func() { close(killed) }))
	close(l.began)
	<-killed
	return scheduler.Result{}, nil
}

// TestM2_HaltsWhereTheLookEnded: a task whose look ends before it takes the halt in is
// halted all the same, also where a pause keeps it from being looked at again.
func TestM2_HaltsWhereTheLookEnded(t *testing.T) {
	p := newServerPlace(t)
	s := p.server()
	w, n := s.worlds.open()[0], p.File("default")
	k := scheduler.Key{World: w.World, Task: n}
	look := lastLook{make(chan struct{})}
	sched, err := scheduler.New(schedule{s.inbox}, notes{s.inbox}, look, scheduler.Options{NewID: uuid.NewString, Pauses: []scheduler.PauseSource{pauses{s.inbox}}})
	must(t, err)
	s.sched = sched
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { sched.Run(ctx) })
	defer running.Wait()
	defer cancel()
	must(t, s.inbox.Mark(ctx, []inbox.Key{inbox.Key(k)}, time.Now().UnixMilli()))
	<-look.began
	must(t, s.inbox.SetPause(ctx, inbox.Pause{By: "local:0:root"}, true))
	said, err := s.haltTask(ctx, w, k, installation.Request{Act: kernel.ActHalt, Task: n, Actor: "local:0:root", Reason: "no"})
	if err != nil || said != "" || !w.sup.View(n).Halted {
		t.Errorf("%q, %v, halted: %v", said, err, w.sup.View(n).Halted)
	}
	said, err = s.resumeTask(ctx, w, k, installation.Request{Act: kernel.ActResume, Task: n, Actor: "local:0:root", Reason: "yes"})
	if err != nil || said != "" {
		t.Errorf("%q, %v", said, err)
	}
	if note, err := s.inbox.Note(ctx, inbox.Key(k)); err != nil || len(note.Acts) != 0 {
		t.Errorf("the halt waits for the next look at a task that is resumed: %v, %v", note.Acts, err)
	}
}

// TestM2_ResumesOverALostResult: a lease at HEAD over which the server had acknowledged a
// result, and lost it, may be moved on from.
func TestM2_ResumesOverALostResult(t *testing.T) {
	p := newServerPlace(t)
	s := p.Serve()
	p.UntilReady()
	n := p.File("hangs")
	p.Approve(n)
	p.Until("the task is claimed", func() bool { return p.Head(n) == "working" })
	lease := strings.TrimSpace(gittest.Git(t, p.Store.GitDir(p.Repo.ID), "rev-parse", fmt.Sprintf("refs/writ/task/%d", n)))
	s.End()
	gittest.Git(t, p.Store.GitDir(p.Repo.ID), "update-ref", fmt.Sprintf("refs/writ/task/%d", n), lease)
	w := p.server().worlds.open()[0]
	for unshown, may := range map[string]bool{"": false, lease: false, strings.Repeat("1", 40): true} {
		for _, resumed := range []string{"", lease} { // a halt was taken back before
			err := w.Resumable(t.Context(), w.sup, kernel.TaskView{Task: n, Seen: lease, SeenSeq: 1, Unshown: unshown, ResumedHead: resumed})
			if (err == nil) != may {
				t.Errorf("with %q, resumed at %q: %v", unshown, resumed, err)
			}
		}
	}
}

// TestM2_ResumeOfADeadProcess: a resume that a process left stored behind a halt that it
// had recorded is carried out before the task is looked at.
func TestM2_ResumeOfADeadProcess(t *testing.T) {
	p := newServerPlace(t)
	s := p.server()
	w, n := s.worlds.open()[0], p.File("default")
	k := scheduler.Key{World: w.World, Task: n}
	must(t, w.sup.Halt(t.Context(), n, "local:0:root", "a look"))
	if resumed, err := s.resumeFirst(t.Context(), w, k); resumed || err != nil {
		t.Errorf("resumed %t, %v, and nobody asked", resumed, err)
	}
	must(t, s.inbox.AddAct(t.Context(), inbox.Key(k), inbox.Act{ID: uuid.NewString(), Kind: kernel.ActResume, Actor: "local:0:root"}))
	resumed, err := s.resumeFirst(t.Context(), w, k)
	note, err2 := s.inbox.Note(t.Context(), inbox.Key(k))
	if !resumed || err != nil || err2 != nil || w.sup.View(n).Halted || len(note.Acts) > 0 {
		t.Errorf("resumed %t, %v, %v, halted %t, left %v", resumed, err, err2, w.sup.View(n).Halted, note.Acts)
	}
}
