package supervisor

import (
	"bytes"
	"compress/zlib"
	"context"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/writbot/writ/compliance/approval"
	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/forgetest"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/forge/worldtest"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/kerneltest"
)

// simHosted is what a simulation has beside a [simForged] where the issue is on
// GitHub or GitLab and each runner reaches it through the real adapter, past a
// liar of its own.
type simHosted struct {
	world *worldtest.World
	// now is the forge's clock; it passes with the simulation's.
	now    func() time.Time
	rows   rows     // what signed payloads said
	labels []string // of people's, which stay
	post   []*simRunner
}

// hostedPlace makes an empty repository on a forge with that clock.
type hostedPlace func(now func() time.Time) *worldtest.World

// newSimHosted files an issue and approves it.
func newSimHosted(t testing.TB, seed int64, place hostedPlace, skews ...int64) *sim {
	return newSimHostedUnder(t, seed, place, simContract, simRules, skews...)
}

func newSimHostedUnder(t testing.TB, seed int64, place hostedPlace, terms string, rules kerneltest.Rules, skews ...int64) *sim {
	s := simOf(t, seed, terms, rules)
	s.time.Advance(time.Now().UnixMilli() - s.began) // the emulator's clock is the real one
	s.began = s.time.Now()
	h := &simHosted{now: func() time.Time { return time.UnixMilli(s.time.Now()) }}
	h.world = place(h.now)
	w, ctx := h.world, context.Background()
	owner, err := w.Maintainer.Self(ctx)
	must(t, err)
	s.forged = &simForged{
		Repo: w.Repo, Owner: w.Maintainer, owner: owner.ID, Reader: w.Reader, hosted: h,
		Robot: simRobot{w.Client(t, worldtest.Wiring{Now: h.now}), forge.User{ID: w.Bot}},
	}
	_, err = w.Reader.FileIssue(ctx, w.Repo, "Say hello", issueBody)
	must(t, err)
	must(t, w.Maintainer.EnsureLabels(ctx, w.Repo, []forge.Label{{Name: "bug", Color: "ff0000"}, {Name: "docs", Color: "00ff00"}}))
	must(t, w.Maintainer.AddLabel(ctx, w.Repo, 1, "bug"))
	must(t, w.Maintainer.AddLabel(ctx, w.Repo, 1, worldtest.Label))
	h.labels = []string{"bug", worldtest.Label}
	s.evidence(approval.ByLabel, 0)
	return startSim(s, skews...)
}

// evidence keeps what the signed payload of the owner's act said, as the webhook
// does before anybody looks at the issue.
func (s *sim) evidence(kind approval.RowKind, comment int64) {
	issue, err := s.forged.Owner.Issue(context.Background(), s.forged.Repo, 1)
	must(s.t, err)
	digest, err := kernel.ApprovalDigest(issue.Title, issue.Body)
	must(s.t, err)
	row := approval.Row{Kind: kind, Actor: s.forged.owner, Ref: comment, Digest: digest, At: issue.UpdatedAt.UnixMilli()}
	if kind == approval.ByLabel {
		row.Label = worldtest.Label
	}
	s.forged.hosted.rows = append(s.forged.hosted.rows, row)
}

// hosted is a process's client: the adapter as it starts, with nothing remembered.
func (p *simProc) hosted() *Forge {
	r, h := p.r, p.r.s.forged.hosted
	now := func() time.Time { return time.UnixMilli(r.clock.Now().WallMs) }
	if r.liar == nil {
		r.liar = forgetest.NewLiar(h.now, func(l forgetest.Lie, q *http.Request) {
			r.s.logf("%s: %s %s meets %q", r.name, q.Method, q.URL.Path, l)
		})
	}
	r.client = forgetest.Wrap(h.world.Client(r.s.t, worldtest.Wiring{Wrap: r.liar.Wrap, Now: now}))
	return &Forge{Client: &simClient{r.client, p}, Repo: h.world.Repo, EditHistory: h.world.EditHistory, Evidence: &h.rows}
}

// showHosted copies the change to the forge's repository, where a push would have
// left it.
func (s *sim) showHosted() {
	id, w := s.server.Ref(s.check.ChangeRef), s.forged.hosted.world
	if id == "" {
		return
	}
	s.export(w.GitDir, id)
	w.SetBranch(s.t, strings.TrimPrefix(s.check.ChangeRef, "refs/heads/"), id)
}

// export writes an object and what it names as loose objects.
func (s *sim) export(dir, id string) {
	o, known := s.server.Object(id)
	if !known {
		s.fail("the model lacks the object %s", id)
	}
	path := filepath.Join(dir, "objects", id[:2], id[2:])
	if _, err := os.Stat(path); err == nil {
		return
	}
	must(s.t, os.MkdirAll(filepath.Dir(path), 0o750))
	var b bytes.Buffer
	z := zlib.NewWriter(&b)
	fmt.Fprintf(z, "%s %d\x00%s", o.Kind, len(o.Data), o.Data)
	must(s.t, z.Close())
	must(s.t, os.WriteFile(path, b.Bytes(), 0o600))
	switch o.Kind {
	case "commit":
		c, err := git.ParseCommit(o.Data)
		must(s.t, err)
		s.export(dir, string(c.Tree))
		for _, parent := range c.Parents {
			s.export(dir, string(parent))
		}
	case "tree":
		for rest := o.Data; len(rest) > 0; {
			const oid = 20
			end := bytes.IndexByte(rest, 0) + 1
			s.export(dir, fmt.Sprintf("%x", rest[end:end+oid]))
			rest = rest[end+oid:]
		}
	}
}

// hint is a delivery about the issue: to each runner it comes now or later, twice,
// or never. It says nothing but that the issue is worth a look.
func (s *sim) hint() {
	for _, r := range s.runners {
		for range s.choice.Intn(3) {
			s.forged.hosted.post = append(s.forged.hosted.post, r)
		}
	}
}

// deliver brings one of the deliveries that are on their way, in any order.
func (s *sim) deliver() {
	h := s.forged.hosted
	if len(h.post) == 0 {
		return
	}
	n := s.choice.Intn(len(h.post))
	h.post[n].looked = -1
	h.post = slices.Delete(h.post, n, n+1)
}

// lieHosted is one lie of the forge to one runner, or something that happens there.
func (s *sim) lieHosted() {
	r, h, ctx := kerneltest.Pick(s.choice, s.runners), s.forged.hosted, context.Background()
	times := 1 + s.choice.Intn(3)
	if r.liar == nil {
		return
	}
	onWrites := func(lies ...forgetest.Lie) func() {
		return func() { r.liar.Order(kerneltest.Pick(s.choice, lies), times, forgetest.WritesTo) }
	}
	acts := []func(){
		onWrites(forgetest.BrokenAfter, forgetest.Lost),
		onWrites(forgetest.BrokenAfter, forgetest.Lost),
		onWrites(forgetest.Broken, forgetest.Down),
		func() {
			r.liar.Order(kerneltest.Pick(s.choice, []forgetest.Lie{forgetest.Broken, forgetest.Lost, forgetest.Down}), 4*times, nil)
		},
		func() {
			r.liar.Order(kerneltest.Pick(s.choice, []forgetest.Lie{forgetest.LimitedFor, forgetest.LimitedUntil, forgetest.LimitedSilently, forgetest.LimitedBare}), times, nil)
		},
		onWrites(forgetest.LimitedFor, forgetest.LimitedUntil, forgetest.LimitedSilently, forgetest.LimitedBare),
		func() { s.check.Stale = true; r.liar.Order(forgetest.Stale, 4*times, nil) },
		func() { s.check.Stale = true; r.liar.Order(forgetest.Stale, 4*times, nil) },
		func() { h.world.Trouble(s.t, true); s.refusals(1 + s.choice.Intn(6)); h.world.Trouble(s.t, false) },
		func() {
			if h.world.Expire != nil {
				h.world.Expire(s.t)
			}
		},
		s.twice,
		func() { s.says(kerneltest.Pick(s.choice, []string{"/writ stop", "/writ retry", "/writ explain"})) },
		func() {
			_, err := s.forged.Reader.AddComment(ctx, s.forged.Repo, 1, "/writ stop")
			must(s.t, err)
			s.hint()
		},
		func() {
			must(s.t, s.forged.Owner.AddLabel(ctx, s.forged.Repo, 1, "docs"))
			h.labels = append(h.labels, "docs")
			s.hint()
		},
	}
	n := s.choice.Intn(len(acts))
	s.logf("the forge: %d, to %s", n, r.name)
	acts[n]()
}

// refusals lets runners work while the forge refuses writ.
func (s *sim) refusals(steps int) {
	s.logf("the forge refuses writ")
	for range steps {
		s.proceed()
	}
	s.logf("the forge lets writ in again")
}

// expectHosted is what else must be so at the end: nobody's label is lost, and
// each ledger is read as it was written.
func (s *sim) expectHosted() {
	i, _ := s.onForge()
	for _, l := range s.forged.hosted.labels {
		if !slices.Contains(i.Labels, l) {
			s.fail("the label %s is lost: %v", l, i.Labels)
		}
	}
	for _, r := range s.runners {
		if _, err := Replay(r.ledger.all()); err != nil {
			s.fail("the ledger of %s: %v", r.name, err)
		}
	}
}

// calmHosted ends all lies and faults. Processes that can go on do so at times:
// what one of them took a lie for, it must get over by itself.
func (s *sim) calmHosted() {
	anew := s.choice.Chance(50) || slices.ContainsFunc(s.runners, func(r *simRunner) bool { return r.disks > 1 })
	if anew {
		s.calm()
	}
	s.logf("lies stop")
	for s.server.Late() > 0 {
		s.server.Deliver()
	}
	for _, r := range s.runners {
		r.push, r.noReads, r.dieAt, r.dieIn, r.ledger.fail, r.beforePush = kerneltest.NoFault, 0, "", 0, false, nil
		r.up()
		r.liar.Stop()
		r.client.Clear()
		r.looked = -1
	}
}

func simulateHosted(t testing.TB, name string, seed int64, place hostedPlace) *sim {
	c := kerneltest.NewChoice(-seed)
	s := newSimHosted(t, seed, place, c.Between(-40_000, 40_000), c.Between(-2_000, 2_000))
	s.trace = append([]string{fmt.Sprintf("rerun with -run %s/%s -seed %d", "TestSim_F5_F6_LyingForges", name, seed)}, s.trace...)
	steps := 15 + s.choice.Intn(30)
	for faults := 2 + s.choice.Intn(6); steps > 0; steps-- {
		switch {
		case faults > 0 && s.choice.Chance(12):
			faults--
			s.disturb()
		case faults > 0 && s.choice.Chance(25):
			faults--
			s.lieHosted()
		}
		s.deliver()
		s.proceed()
	}
	s.calmHosted()
	s.settleForged()
	if s.head().State == string(kernel.TaskCompleted) && s.choice.Chance(50) {
		s.says("/writ retry") // what is completed is not done again
		for _, r := range s.runners {
			r.looked = -1
		}
		s.settleForged()
	}
	s.expectHosted()
	return s
}

// hostedWorlds make an empty repository with that clock, by the names of the forges.
func hostedWorlds(t *testing.T) map[string]hostedPlace {
	t.Helper()
	github, gitlab := worldtest.Emulated(t), worldtest.Faked()
	return map[string]hostedPlace{
		"github": func(func() time.Time) *worldtest.World { return github(t) },
		"gitlab": func(now func() time.Time) *worldtest.World { return gitlab(t, now) },
	}
}

// TestSim_F5_F6_LyingForges lets two installations contend for one issue on GitHub and on
// GitLab, through the real adapters, while processes die, pushes fail, and the
// forge lies: it answers 5xx after and before doing what was asked, ends
// connections, answers from stale replicas, asks to be left alone with and without
// headers, suspends the bot and ends its token; deliveries come late, twice, out of
// order or never. E2, E3, E5 and E7 are held with every effect, and once the lies
// stop the task ends and the forge shows what HEAD says: E1 to E8 (cases K5, K6,
// F4, F5, F6).
func TestSim_F5_F6_LyingForges(t *testing.T) {
	t.Parallel()
	for _, name := range slices.Sorted(maps.Keys(hostedSeeds(*simHostedSeeds))) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			place := hostedWorlds(t)[name]
			if *simSeed != 0 {
				for _, line := range simulateHosted(t, name, *simSeed, place).trace {
					t.Log(line)
				}
				return
			}
			began, count := time.Now(), hostedSeeds(*simHostedSeeds)[name]
			t.Run("seeds", func(t *testing.T) {
				for seed := int64(1); seed <= int64(count); seed++ {
					t.Run(fmt.Sprint(seed), func(t *testing.T) {
						t.Parallel()
						simulateHosted(t, name, seed, place)
					})
				}
			})
			t.Logf("%d seeds, %.1f a second", count, float64(count)/time.Since(began).Seconds())
		})
	}
}

// hostedSeeds divides seeds by what they cost: the emulator is another process.
func hostedSeeds(all int) map[string]int {
	const share = 5
	return map[string]int{"github": all / share, "gitlab": all - all/share}
}

// TestI3_OwnReactionsAreNoEdits: writ answers commands by reactions, which on GitLab move
// the time of the comment. No command is another one for it, nor given later: the retry
// after a stop stays the newest act, and the run on a command goes on.
func TestI3_OwnReactionsAreNoEdits(t *testing.T) {
	t.Parallel()
	for name, place := range hostedWorlds(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSimHosted(t, 1, place, 0)
			a := s.runners[0]
			s.says("/writ stop")
			s.says("/writ retry")
			a.reach(kernel.ActionDispatch)
			for range 3 {
				s.advance(20_000)
				a.tell(a.tick())
			}
			s.finishForged(a)
			s.expect("completed", 1, 1, 1)
			s.expectIssue("completed")
		})
	}
}
