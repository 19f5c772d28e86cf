package supervisor

import (
	"flag"
	"fmt"
	"testing"

	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/kerneltest"
	"github.com/writbot/writ/kernel/lease"
)

var (
	simSeed  = flag.Int64("seed", 0, "run the simulation of this seed only, and print what happens")
	simSeeds = flag.Int("seeds", defaultSeeds, "how many seeds the simulation runs")

	simHostedSeeds = flag.Int("hosted-seeds", defaultHostedSeeds, "how many seeds it runs over the adapters of GitHub and GitLab")
)

// noTurns reports whether everything is run of which the suite takes turns, as make seeds does.
func noTurns() bool { return *simHostedSeeds > defaultHostedSeeds }

func leasePolicy() lease.Policy { return lease.DefaultPolicy() }

// TestSim_K7_Seeds lets three runners with clocks that disagree work on one task
// while everything fails that can: processes die at fault points and in
// between, pushes are lost, delayed and refused, disks are full and are lost,
// machines sleep, people push. The invariants are looked at after every step;
// once faults stop, the task ends in bounded virtual time (E8).
func TestSim_K7_Seeds(t *testing.T) {
	t.Parallel()
	if *simSeed != 0 {
		s := simulate(t, *simSeed)
		for _, line := range s.trace {
			t.Log(line)
		}
		return
	}
	for seed := int64(1); seed <= int64(*simSeeds); seed++ {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			simulate(t, seed)
		})
	}
}

func simulate(t testing.TB, seed int64) *sim {
	c := kerneltest.NewChoice(-seed)
	s := newSim(t, seed, c.Between(-40_000, 40_000), c.Between(-4_000_000, 4_000_000), c.Between(-2_000, 2_000))
	s.trace = append([]string{fmt.Sprintf("rerun with -run TestSim_K7_Seeds -seed %d", seed)}, s.trace...)
	steps := 20 + s.choice.Intn(60)
	for faults := 1 + s.choice.Intn(8); steps > 0; steps-- {
		if faults > 0 && s.choice.Chance(15) {
			faults--
			s.disturb()
		}
		s.proceed()
		if s.head().State == string(kernel.TaskCompleted) && s.choice.Chance(30) {
			break // little comes after it
		}
	}
	s.calm()
	s.settle()
	return s
}

// idle: since the runner last looked nothing has changed, and what it waits for
// isn't due.
func (r *simRunner) idle() bool {
	d := r.last.Decision
	if r.lastError != nil || r.untold || r.looked != r.s.server.Version {
		return false
	}
	switch d.Standing {
	case kernel.StandHeld, kernel.StandDue:
		return r.clock.Now().WallMs < d.Wake
	case kernel.StandFinal, kernel.StandWaiting, kernel.StandRefused:
		return d.Wake == 0 || r.clock.Now().WallMs < d.Wake
	case kernel.StandRunning:
		run := r.proc != nil && r.proc.task != nil && r.proc.task.worker.run != nil
		return run && !r.proc.task.worker.run.due.RenewDue(r.clock.Now()) && len(r.building()) > 0
	}
	return false
}

// busy is a runner that has something to do, if there is one; now and then one
// looks all the same.
func (s *sim) busy() *simRunner {
	first := s.choice.Intn(len(s.runners))
	for i := range s.runners {
		r := s.runners[(first+i)%len(s.runners)]
		if r.proc != nil && !r.asleep && (!r.idle() || s.choice.Chance(5)) {
			return r
		}
	}
	return nil
}

// proceed does one thing that happens without any fault.
func (s *sim) proceed() {
	switch n := s.choice.Intn(10); {
	case n < 6:
		r := s.busy()
		if r == nil {
			s.advance(s.choice.Between(1_000, 70_000))
			return
		}
		r.build = "good"
		if s.choice.Chance(40) {
			r.build = kerneltest.Pick(s.choice, []string{"bad", "leaks"})
		}
		r.tick()
	case n < 8:
		s.advance(s.choice.Between(1_000, 70_000))
	default:
		for _, r := range s.runners {
			for _, j := range r.building() {
				if s.choice.Chance(50) {
					j.finish()
				}
			}
		}
	}
}

// disturb is one fault.
func (s *sim) disturb() {
	r := kerneltest.Pick(s.choice, s.runners)
	faults := []func(){
		func() { r.crash() },
		func() { r.crash(); r.clock.Reboot() },
		func() { r.dieIn = 1 + s.choice.Intn(12) },
		func() { r.dieIn = 1 + s.choice.Intn(12) },
		func() { r.push = kerneltest.Pick(s.choice, kerneltest.Faults()) },
		func() { r.push = kerneltest.Pick(s.choice, kerneltest.Faults()) },
		func() { r.noReads = 1 + s.choice.Intn(6) },
		func() { r.ledger.fail = true },
		func() { r.asleep = true },
		func() { r.clock.Jump(s.choice.Between(-3_600_000, 3_600_000)) },
		func() { s.server.Deliver() },
		func() { _, _ = r.ask(kernel.RequestShutdown); r.crash() },
		func() { r.crash(); r.newDisk() },
		s.meddle,
		func() { r.snapshot() },
		func() { r.snapshot() },
		func() { r.beforePush = func() { s.others(r, 1) } },
		func() { r.beforePush = func() { s.others(r, 1+s.choice.Intn(12)) } },
		func() {
			f, n := kerneltest.Pick(s.choice, kerneltest.Faults()), 1+s.choice.Intn(8)
			r.beforePush = func() { r.push, r.noReads = f, n }
		},
	}
	n := s.choice.Intn(len(faults))
	s.logf("fault %d on %s", n, r.name)
	faults[n]()
	for _, r := range s.runners {
		if s.choice.Chance(40) {
			r.up()
		}
	}
}

// others work while a runner stands between its reading and its push.
func (s *sim) others(but *simRunner, steps int) {
	s.logf("%s has read and not pushed", but.name)
	s.check.Outage = s.check.Outage || steps > 1 // an answer that comes after the lease, whoever was slow, is nobody's interruption
	for range steps {
		if o := kerneltest.Pick(s.choice, s.runners); o != but {
			o.tick()
		}
		if steps > 1 {
			s.advance(s.choice.Between(1_000, 60_000))
		}
	}
	s.logf("%s pushes", but.name)
}

// meddle is a person with push rights. Who sets HEAD back can't be told from a server that
// shows too late what was pushed, and what ends over that counts nothing. Who set back a
// task that is refreshed, and says then that it is to go on, gets a second result.
func (s *sim) meddle() {
	head := s.head()
	s.check.Outage = true
	switch n := s.choice.Intn(7); {
	case n == 0 || head.OID == "" || s.refreshed && n != 1 && n != 4:
		s.server.Force(s.check.StateRef, s.commit(head.OID, "hello from a person\n", map[string]string{"x": "y"}))
	case n == 1:
		s.server.Force(s.check.StateRef, s.commit(head.OID, "done\n\naynig-state: completed\n", nil))
	case n == 2 && s.server.Late() == 0:
		s.server.Force(s.check.StateRef, head.Parent) // to an ancestor, or none
	case n == 4:
		s.copied(kerneltest.Pick(s.choice, s.runners), head.OID, kerneltest.Pick(s.choice, elsewhere()))
	case n == 5 && s.server.Late() == 0:
		for range s.choice.Intn(6) {
			if o, ok := s.server.Object(head.Parent); ok {
				head = kerneltest.ReadHead(head.Parent, o)
			}
		}
		s.server.Force(s.check.StateRef, head.OID)
	default:
		s.server.Force(s.check.StateRef, "")
	}
}

// calm ends all faults: late pushes arrive, everybody is up and awake.
func (s *sim) calm() {
	s.logf("faults stop")
	for s.server.Late() > 0 {
		s.server.Deliver()
	}
	for _, r := range s.runners {
		r.push, r.noReads, r.dieAt, r.dieIn, r.ledger.fail = kerneltest.NoFault, 0, "", 0, false
		r.beforePush = nil
		r.crash() // its next process lists the keys of new disks
		r.up()
	}
}

// boundMs is how much virtual time a task may take once faults stop: the whole
// schedule of interruptions (ten, five minutes each at most) and attempts, and
// an absurd clock's lease.
const boundMs = 3 * 3_600_000

// settle lets everybody work until the task has ended for all of them. A person
// moves on from what needs repair. If it doesn't end in time, that is E8.
func (s *sim) settle() {
	from := s.time.Now()
	for s.time.Now()-from < boundMs {
		wake := int64(20_000)
		ended := true
		for _, r := range s.runners {
			r.up() // a kernel that halted with its process is booted again
			r.build = "good"
			if !r.idle() {
				r.tick()
			}
			st := r.last
			switch {
			case r.older():
				ended = false
				s.logf("a person adopts the ledger of %s", r.name)
				r.adopt()
			case r.lastError != nil || !standsStill(st):
				ended = false
			case st.Decision.WaitingFor == kernel.WaitRepair:
				ended = false
				s.logf("a person moves on")
				must(s.t, r.proc.sup.Resume(s.t.Context(), 1, "alice", "looked at it"))
				r.looked = -1
			}
			if st.Decision.Standing == kernel.StandActing {
				wake = 0
			}
			for _, j := range r.building() {
				j.finish()
			}
		}
		if ended {
			return
		}
		s.advance(max(wake, 1))
	}
	s.fail("E8: HEAD is still %q", s.head().State)
}

// standsStill: no runner has anything to do with the task by itself.
func standsStill(st Status) bool {
	switch st.Decision.Standing {
	case kernel.StandFinal, kernel.StandWaiting, kernel.StandRefused:
		return true
	}
	return false
}
