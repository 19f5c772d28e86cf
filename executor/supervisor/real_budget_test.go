package supervisor

import (
	"path/filepath"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/writbot/writ/compliance/ledger"
	"github.com/writbot/writ/compliance/ledger/instancekey"
	"github.com/writbot/writ/compliance/replay"
	"github.com/writbot/writ/compliance/store"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/kernel"
)

// pots are what is used and held of the budgets of time, by what a dead installation has
// recorded. Its records must replay.
func (w *town) pots(name string) map[string]kernel.Pot {
	w.t.Helper()
	db, err := store.Open(w.t.Context(), filepath.Join(w.dirs[name], "writ.db"), store.Options{})
	must(w.t, err)
	defer func() { must(w.t, db.Close()) }()
	key, _, err := instancekey.LoadOrCreate(w.dirs[name])
	must(w.t, err)
	led, err := ledger.New(db, key, ledger.Options{}).World(w.t.Context(), testConfig(name).World)
	must(w.t, err)
	if fault, err := replay.VerifyWorld(led.Records(w.t.Context(), 0, 0)); fault != nil || err != nil {
		w.t.Errorf("the records don't replay: %+v, %v", fault, err)
	}
	h, err := Replay(led.Records(w.t.Context(), 0, 0))
	must(w.t, err)
	out := map[string]kernel.Pot{}
	for _, scope := range []string{kernel.ScopeTask, kernel.ScopeWorld, kernel.ScopeDay} {
		out[scope] = h.World.Pot(scope, 1, fixtureTime+w.now)
	}
	return out
}

// TestBudget_TimeKilledBetween: wherever between the reservation of time and its settlement a
// process is killed, the time of a builder counts once: all that was reserved for one whose end
// nobody recorded, what it took for one whose end is recorded, and nothing for one that was
// never dispatched. A process that follows, and a second death there, know the same, the task
// is completed, and the evidence verifies.
func TestBudget_TimeKilledBetween(t *testing.T) {
	t.Parallel()
	const minute, reserved, took = 60_000, 10, 6
	for at, c := range map[Point]struct{ deaths, used, end int64 }{ // used after the deaths and at the end, in minutes
		PointOf(kernel.ActionClaim, StageRecorded):     {2, 0, took},
		PointOf(kernel.ActionClaim, StageDone):         {2, 0, took},
		PointOf(kernel.ActionClaim, StageSettled):      {2, 0, took},
		PointOf(kernel.ActionDispatch, StageDecided):   {2, 0, took},
		PointOf(kernel.ActionDispatch, StageRecorded):  {2, 2 * reserved, 2*reserved + took},
		PointOf(kernel.ActionDispatch, StageDone):      {2, 2 * reserved, 2*reserved + took},
		PointOf(kernel.ActionDispatch, StageSettled):   {2, 2 * reserved, 2*reserved + took},
		PointOf(kernel.ActionHeartbeat, StageRecorded): {2, 2 * reserved, 2*reserved + took},
		PointOf(kernel.ActionSeal, StageDecided):       {1, reserved, reserved}, // the work is there, and gone on with
		PointOf(kernel.ActionSeal, StageRecorded):      {1, took, took},
		PointOf(kernel.ActionChecks, StageRecorded):    {2, took, took},
	} {
		t.Run(string(at), func(t *testing.T) {
			t.Parallel()
			w := newTown(t)
			w.terms = "version: 1\nchecks: [{name: test, run: [\"true\"]}]\nbudgets: {attempts: 3, interruptions: 10, retry_backoff: 1s, retry_backoff_max: 1s, build_timeout: 10m}\n"
			timed := func(s *setup) { s.Time, s.Takes = 100*minute, took*minute }
			wants := func(when string, minutes int64) {
				t.Helper()
				for scope, p := range w.pots("a") {
					if p.Used.Time != minutes*minute || p.Held.Time != 0 {
						t.Errorf("%s: of the %s %d minutes are used and %d held, want %d", when, scope, p.Used.Time/minute, p.Held.Time/minute, minutes)
					}
				}
			}
			for range c.deaths {
				w.runner("a", timed).provoke(at)
			}
			wants("after the deaths", c.used)
			a := w.runner("a", timed)
			a.final()
			a.kill()
			wants("at the end", c.end)
			w.oneDispatchPerRun()
			repo, err := git.Open(t.Context(), git.Endpoint{URL: w.url}, git.Options{})
			must(t, err)
			key, _, _, _, err := ssh.ParseAuthorizedKey([]byte(w.keys["a"]))
			must(t, err)
			r, err := replay.VerifyTask(t.Context(), repo, stateRef, replay.Options{Keys: []ssh.PublicKey{key}, World: testConfig("a").World})
			if must(t, repo.Close()); err != nil || !r.OK || r.State != kernel.TaskCompleted {
				t.Errorf("%v\n%s", err, r.Plain())
			}
		})
	}
}
