package supervisor

import (
	"strings"
	"testing"

	"github.com/writbot/writ/executor"
	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/forgetest"
	"github.com/writbot/writ/forge/git/gittest"
	"github.com/writbot/writ/kernel"
)

// newReviewed is an installation whose delivered work somebody has reviewed, at its first
// line; its builder does next what is asked.
func newReviewed(t *testing.T, terms string) (f *forged, checks *int) {
	t.Helper()
	f, checks = newDelivered(t, terms)
	f.showBranch()
	f.later() // the change is opened
	f.review(f.scene.Owner, "Say it to the world.")
	f.exec.build = edits(t, map[string]string{"out.txt": "hello, world\n"}, nil)
	f.exec.started = func(job executor.BuildJob) { f.job = job }
	return f, checks
}

// review has somebody comment on the first line of out.txt.
func (f *forged) review(by *forgetest.Account, body string) {
	f.t.Helper()
	f.clock.advance(1000)
	at := forge.ReviewPlace{Path: "out.txt", Start: 1, End: 1, Commit: f.ref(changeRef)}
	must(f.t, by.ReviewAt(f.t.Context(), f.scene.Repo, f.changeOf().Number, at, body))
}

// saysThere has somebody comment in the conversation of the change.
func (f *forged) saysThere(by *forgetest.Account, body string) int64 {
	f.t.Helper()
	f.clock.advance(1000)
	k, err := by.AddComment(f.t.Context(), f.scene.Repo, f.changeOf().Number, body)
	must(f.t, err)
	return k.ID
}

// revised fails unless the change branch is one commit on another, with this text, of which
// HEAD tells.
func (f *forged) revisedOn(was, of, text string) {
	f.t.Helper()
	if parent := strings.TrimSpace(gittest.Git(f.t, f.bare, "rev-parse", changeRef+"^")); parent != was {
		f.t.Errorf("the change stands on %s, want %s", parent, was)
	}
	if got := strings.TrimSpace(gittest.Git(f.t, f.bare, "show", changeRef+":out.txt")); got != strings.TrimSpace(text) {
		f.t.Errorf("the change says %q", got)
	}
	if f.trailer("writ-fixes") != of || f.trailer("writ-base") != was || f.trailer("writ-change") != f.ref(changeRef) || f.trailer("writ-attempt") != "1" || f.trailer("writ-fix") == "" {
		f.t.Errorf("HEAD fixes %q on %q as %q, attempt %s", f.trailer("writ-fixes"), f.trailer("writ-base"), f.trailer("writ-change"), f.trailer("writ-attempt"))
	}
	f.verify(stateRef)
}

// TestE1_RevisedAfterAReview: what a reviewer said is told to a builder, who works on the
// delivered commit; one commit is added for each time that somebody asks, and none of it is
// asked twice. All of it verifies offline, also once it is merged.
func TestE1_RevisedAfterAReview(t *testing.T) {
	t.Parallel()
	for _, terms := range []string{checkedTerms, checkedTerms + "close_on: merged\n"} {
		f, checks := newReviewed(t, terms)
		was, run := f.ref(changeRef), f.trailer("writ-run-id")
		f.later()
		if f.trailer("writ-run-id") != run {
			t.Fatal("it was revised and nobody asked")
		}
		asked := f.saysThere(f.scene.Owner, "/writ fix and keep it short")
		f.later()
		f.showBranch()
		f.later()
		f.reacted(asked, forge.ReactionDone)
		f.revisedOn(was, run, "hello, world\n")
		if f.started() != 2 || *checks != 2 {
			t.Fatalf("%d builders, checks ran %d times", f.started(), *checks)
		}
		told := f.job.Instruction
		for _, part := range []string{"> Say it to the world.", "> and keep it short", "hello"} {
			if !strings.Contains(told, part) {
				t.Errorf("the builder isn't told %q:\n%s", part, told)
			}
		}
		if strings.Contains(told, "/writ fix") || f.job.Base.Commit != was {
			t.Errorf("the builder works on %s and is told\n%s", f.job.Base.Commit, told)
		}
		second := f.ref(changeRef)
		run = f.trailer("writ-run-id")
		nothing := f.says(f.scene.Owner, "/writ fix")
		f.later()
		f.reacted(nothing, forge.ReactionConfused)
		if said := f.answeredWith(nothing); !strings.Contains(said, string(kernel.CodeReviewNothing)) || !strings.Contains(said, "An earlier revision was for it.") {
			t.Errorf("it is answered %s", said)
		}
		f.exec.build = edits(t, map[string]string{"out.txt": "hello, all\n"}, nil)
		f.says(f.scene.Owner, "/writ fix say all")
		f.later()
		f.showBranch()
		f.later()
		f.revisedOn(second, run, "hello, all\n")
		if strings.Contains(f.job.Instruction, "Say it to the world") {
			t.Errorf("it is asked twice:\n%s", f.job.Instruction)
		}
		if got := f.changeOf(); got.Number != 2 || got.State != forge.ChangeOpen {
			t.Errorf("the change is %d, %v", got.Number, got.State)
		}
		if terms == checkedTerms {
			continue
		}
		f.merge("Say hello (#2)", map[string]string{"out.txt": "hello, all\n"})
		f.wants(f.later(), kernel.StandFinal)
		f.shows("merged_as_verified: `true`", kernel.LabelCompleted, false)
		f.verify(stateRef)
	}
}
