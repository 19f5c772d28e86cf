package kerneltest

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
)

const (
	run1   = "11111111-1111-4111-8111-111111111111"
	run2   = "22222222-2222-4222-8222-222222222222"
	run3   = "33333333-3333-4333-8333-333333333333"
	change = "refs/heads/writ/change/1"
)

// scene is a checker with what has happened so far.
type scene struct {
	t     *testing.T
	c     *Checker
	chain map[string]kernel.Chain
	made  int
}

func newScene(t *testing.T) *scene {
	c := NewChecker(NewServer(), ref, change, Rules{Attempts: 3, Interruptions: 2})
	c.Canary = []byte("CANARY")
	return &scene{t: t, c: c, chain: map[string]kernel.Chain{}}
}

// record stores one record in an instance's ledger.
func (s *scene) record(instance, run string, kind kernel.Kind, body any) {
	s.t.Helper()
	c, ok := s.chain[instance]
	if !ok {
		c = kernel.Chain{World: "w", Instance: instance, Head: kernel.NoHead()}
	}
	records, next, err := c.Seal(Start, []kernel.Draft{{Kind: kind, Task: 1, Run: run, Body: body}})
	if err != nil {
		s.t.Fatal(err)
	}
	s.chain[instance] = next
	s.c.Stored(instance, records[0])
}

// commit makes a commit of the state ref with these trailers on HEAD.
func (s *scene) commit(parent, trailers string) string {
	s.made++
	head := fmt.Sprintf("tree %040d\n", 7)
	if parent != "" {
		head += "parent " + parent + "\n"
	}
	who := "A <a@b.c> 1800000000 +0000\n"
	o := Object{"commit", []byte(head + "author " + who + "committer " + who + "\n" + fmt.Sprintf("event %d\n\n%s", s.made, trailers))}
	s.c.Server.Put(o)
	return o.ID()
}

func leaseOf(run string, attempt int) string {
	return fmt.Sprintf("aynig-state: working\naynig-origin-state: open\naynig-run-id: %s\naynig-runner-id: A\naynig-lease-seconds: 120\nwrit-attempt: %d\nwrit-interruptions: 0\n", run, attempt)
}

// intend records the intent of a push to a commit.
func (s *scene) intend(instance, run string, a kernel.Action, to string) {
	s.t.Helper()
	s.record(instance, run, kernel.KindIntent, kernel.Intent{Kind: "intent", Key: string(a) + ":" + to, Effect: a, New: to})
}

// push moves the state ref, after its intent.
func (s *scene) push(instance, run string, a kernel.Action, to string, more ...Move) {
	s.t.Helper()
	s.intend(instance, run, a, to)
	s.c.Server.Swap(instance, append([]Move{{ref, s.c.Server.Ref(ref), to}}, more...), nil, NoFault)
}

// claim takes the task from nothing, as it should be done.
func (s *scene) claim(instance, run string) string {
	s.t.Helper()
	return s.claimOn(instance, run, "")
}

// claimOn is claim on an act of the forge.
func (s *scene) claimOn(instance, run, act string) string {
	s.t.Helper()
	event := s.commit(s.c.Server.Ref(ref), "aynig-state: open\n")
	to := s.commit(event, leaseOf(run, 1)+actLine(act))
	s.push(instance, run, kernel.ActionClaim, to)
	return to
}

// dispatch starts a builder, as it should be done.
func (s *scene) dispatch(instance, run string) {
	s.t.Helper()
	bytes := []byte(`{"kind":"dispatch","run_id":"` + run + `"}`)
	s.record(instance, run, kernel.KindDecision, kernel.Decision{Kind: "decision", Verdict: kernel.Allow, Action: kernel.ActionDispatch})
	s.record(instance, run, kernel.KindDispatch, json.RawMessage(bytes))
	s.record(instance, run, kernel.KindIntent, kernel.Intent{Kind: "intent", Key: "dispatch:" + run, Effect: kernel.ActionDispatch, Digest: canon.Sum(bytes)})
	s.c.Started(instance, run, bytes)
}

func actLine(act string) string {
	if act == "" {
		return ""
	}
	return kernel.TrailerAct + ": " + act + "\n"
}

func (s *scene) complete(instance, run string) {
	s.t.Helper()
	s.completeOn(instance, run, "")
}

func (s *scene) completeOn(instance, run, act string) {
	s.t.Helper()
	to := s.commit(s.c.Server.Ref(ref), "aynig-state: completed\nwrit-attempt: 1\nwrit-change: c0ffee\nwrit-approval: x\n"+actLine(act))
	s.push(instance, run, kernel.ActionResult, to, Move{change, s.c.Server.Ref(change), "c0ffee"})
}

// delivered is a first result of run1, whose change is the commit c1.
func (s *scene) delivered() {
	s.t.Helper()
	s.claim("A", run1)
	s.dispatch("A", run1)
	to := s.commit(s.c.Server.Ref(ref), "aynig-state: completed\nwrit-attempt: 1\nwrit-interruptions: 0\nwrit-run-id: "+run1+"\nwrit-change: c1\nwrit-approval: x\nwrit-base: b0\n")
	s.push("A", run1, kernel.ActionResult, to, Move{change, "", "c1"})
}

// revise claims a revision with a list over a result and its commit, builds it, and
// delivers a commit.
func (s *scene) revise(run, over, list, base, commit string) {
	s.t.Helper()
	more := "writ-approval: x\nwrit-base: " + base + "\nwrit-fixes: " + over + "\nwrit-fix: " + list + "\n"
	s.push("A", run, kernel.ActionClaim, s.commit(s.c.Server.Ref(ref), leaseOf(run, 1)+more))
	s.dispatch("A", run)
	to := s.commit(s.c.Server.Ref(ref), "aynig-state: completed\nwrit-attempt: 1\nwrit-interruptions: 0\nwrit-run-id: "+run+"\nwrit-change: "+commit+"\n"+more)
	s.push("A", run, kernel.ActionResult, to, Move{change, s.c.Server.Ref(change), commit})
}

// TestChecker: each invariant is seen when it is broken, and none when all is
// well.
func TestChecker(t *testing.T) {
	for _, tt := range []struct {
		name string
		want string // of what is wrong; "" for nothing
		do   func(*scene)
	}{
		{"all is well", "", func(s *scene) { s.claim("A", run1); s.dispatch("A", run1); s.complete("A", run1) }},
		{"a person does as they like", "", func(s *scene) {
			s.claim("A", run1)
			s.c.Server.Force(ref, s.commit("", "no event"))
			s.c.Server.Force(change, "")
		}},
		{"two results", "E1", func(s *scene) {
			for _, run := range []string{run1, run2} {
				s.claim("A", run)
				s.dispatch("A", run)
				s.complete("A", run)
				s.c.Server.Force(ref, "")
				s.c.Server.Force(change, "")
			}
		}},
		{"two revisions", "", func(s *scene) {
			s.delivered()
			s.revise(run2, run1, "L1", "c1", "c2")
			s.revise(run3, run2, "L2", "c2", "c3")
			if s.c.Fixed != 2 || s.c.Accepted != 3 {
				s.t.Errorf("%d revisions, %d accepted", s.c.Fixed, s.c.Accepted)
			}
		}},
		{"a revision over another result", "E1", func(s *scene) { s.delivered(); s.revise(run2, run3, "L1", "c1", "c2") }},
		{"a revision on another commit", "E1", func(s *scene) { s.delivered(); s.revise(run2, run1, "L1", "b0", "c2") }},
		{"a list twice on one base", "E1", func(s *scene) {
			s.delivered()
			s.revise(run2, run1, "L1", "c1", "c1")
			s.revise(run3, run2, "L1", "c1", "c2")
		}},
		{"a revision without a list", "oracle", func(s *scene) { s.delivered(); s.revise(run2, run1, "", "c1", "c2") }},
		{"the same list again", "oracle", func(s *scene) {
			s.delivered()
			s.revise(run2, run1, "L1", "c1", "c2")
			s.revise(run3, run2, "L1", "c2", "c3")
		}},
		{"a revision over a change of somebody's", "E2", func(s *scene) {
			s.delivered()
			s.c.Server.Force(change, "theirs")
			s.revise(run2, run1, "L1", "c1", "c2")
		}},
		{"a result of nothing", "E1", func(s *scene) { s.claim("A", run1); s.complete("A", run1) }},
		{"the change alone", "E2", func(s *scene) { s.c.Server.Swap("A", []Move{{change, "", "c0ffee"}}, nil, NoFault) }},
		{"the change of a result unannounced", "E3", func(s *scene) {
			s.claim("A", run1)
			s.dispatch("A", run1)
			s.complete("A", run1)
			s.c.Server.Force(change, "")
			s.c.Server.Swap("B", []Move{{change, "", "c0ffee"}}, nil, NoFault)
		}},
		{"the change with a failure", "E2", func(s *scene) {
			s.claim("A", run1)
			to := s.commit(s.c.Server.Ref(ref), "aynig-state: retry_pending\nwrit-attempt: 1\n")
			s.push("A", run1, kernel.ActionResult, to, Move{change, "", "c0ffee"})
		}},
		{"another change than it names", "E2", func(s *scene) {
			s.claim("A", run1)
			s.dispatch("A", run1)
			to := s.commit(s.c.Server.Ref(ref), "aynig-state: completed\nwrit-attempt: 1\nwrit-change: c0ffee\n")
			s.push("A", run1, kernel.ActionResult, to, Move{change, "", "beef"})
		}},
		{"over somebody's change", "E2", func(s *scene) {
			s.c.Server.Force(change, "theirs")
			s.claim("A", run1)
			s.dispatch("A", run1)
			s.complete("A", run1)
		}},
		{"a push without an intent", "E3", func(s *scene) {
			s.c.Server.Swap("A", []Move{{ref, "", s.commit("", leaseOf(run1, 1))}}, nil, NoFault)
		}},
		{"a push that another intended", "E3", func(s *scene) {
			to := s.commit("", leaseOf(run1, 1))
			s.intend("B", run1, kernel.ActionClaim, to)
			s.c.Server.Swap("A", []Move{{ref, "", to}}, nil, NoFault)
		}},
		{"a builder without an intent", "E3", func(s *scene) { s.c.Started("A", run1, []byte("{}")) }},
		{"a builder without a decision", "E4", func(s *scene) {
			s.record("A", run1, kernel.KindIntent, kernel.Intent{Kind: "intent", Key: "dispatch:" + run1, Digest: canon.Sum([]byte("{}"))})
			s.c.Started("A", run1, []byte("{}"))
		}},
		{"other bytes than recorded", "E4", func(s *scene) {
			s.dispatch("A", run2)
			s.record("A", run1, kernel.KindDecision, kernel.Decision{Kind: "decision", Verdict: kernel.Allow, Action: kernel.ActionDispatch})
			s.record("A", run1, kernel.KindIntent, kernel.Intent{Kind: "intent", Key: "dispatch:" + run1, Digest: canon.Sum([]byte("{}"))})
			s.c.Started("A", run1, []byte(`{"x":1}`))
		}},
		{"two dispatches of a run", "P5", func(s *scene) { s.claim("A", run1); s.dispatch("A", run1); s.dispatch("A", run1) }},
		{"a stranger renews", "E5", func(s *scene) {
			s.claim("A", run1)
			s.push("B", run1, kernel.ActionHeartbeat, s.commit(s.c.Server.Ref(ref), leaseOf(run1, 1)))
		}},
		{"the own lease twice", "L2", func(s *scene) { s.claim("A", run1); s.c.Server.Force(ref, ""); s.claim("A", run1) }},
		{"a ledger that starts over", "E6", func(s *scene) {
			s.dispatch("A", run1)
			delete(s.chain, "A")
			s.record("A", run1, kernel.KindOutcome, kernel.Outcome{Kind: "outcome"})
		}},
		{"a ledger that was cut", "E6", func(s *scene) { s.dispatch("A", run1); s.c.Reopened("A", kernel.NoHead()) }},
		{"a secret in a record", "E7", func(s *scene) {
			s.record("A", run1, kernel.KindOutcome, kernel.Outcome{Kind: "outcome", Detail: "token CANARY"})
		}},
		{"a builder on what was taken back", "P10", func(s *scene) {
			s.claimOn("A", run1, "1000/event:1")
			s.c.TakenBack(1001)
			s.dispatch("A", run1)
		}},
		{"a builder on what was approved since", "", func(s *scene) {
			s.c.TakenBack(1001)
			s.claimOn("A", run1, "1002/event:1")
			s.dispatch("A", run1)
		}},
		{"a result on what was taken back", "P10", func(s *scene) {
			s.claimOn("A", run1, "1000/event:1")
			s.dispatch("A", run1)
			s.c.TakenBack(1001)
			s.completeOn("A", run1, "1000/event:1")
		}},
		{"a result that was on its way", "", func(s *scene) {
			s.claimOn("A", run1, "1000/event:1")
			s.dispatch("A", run1)
			s.c.Server.behind = true
			s.c.TakenBack(1001)
			s.completeOn("A", run1, "1000/event:1")
		}},
		{"a builder on what it was shown", "", func(s *scene) {
			s.claimOn("A", run1, "1000/event:1")
			s.c.TakenBack(1001)
			s.c.Stale = true
			s.dispatch("A", run1)
		}},
		{"a wait over another's dead lease", "", func(s *scene) {
			s.claim("A", run1)
			s.push("B", run1, kernel.ActionWait, s.commit(s.c.Server.Ref(ref), "aynig-state: waiting\nwrit-waiting-for: approval\nwrit-attempt: 1\nwrit-interruptions: 0\n"))
		}},
		{"a secret in a push", "E7", func(s *scene) { s.c.Server.Put(Object{"blob", []byte("my CANARY\n")}) }},
		{"a claim over an end", "oracle", func(s *scene) {
			s.claim("A", run1)
			s.dispatch("A", run1)
			s.complete("A", run1)
			s.push("B", run2, kernel.ActionClaim, s.commit(s.c.Server.Ref(ref), leaseOf(run2, 1)))
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newScene(t)
			tt.do(s)
			all := strings.Join(s.c.Wrong, "; ")
			if tt.want == "" && all != "" || !strings.Contains(all, tt.want) {
				t.Errorf("wrong is %q, want %q", all, tt.want)
			}
		})
	}
}
