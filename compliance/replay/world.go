package replay

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
	"github.com/writbot/writ/kernel/machine"
	"github.com/writbot/writ/kernel/plan"
	"github.com/writbot/writ/kernel/world"
)

// WorldFault is the first record of a ledger that breaks a rule of its world.
type WorldFault struct {
	Seq    int64
	Detail string // a sentence
}

// VerifyWorld folds the records of a ledger, genesis first, as a server does at its
// start: each receipt must be the one that the records before it give. Beyond that,
// refusals, acts and proposals say nothing that what they rest on doesn't. The error is
// about reading. The chain itself is package ledger's to verify.
func VerifyWorld(records iter.Seq2[kernel.Record, error]) (*WorldFault, error) {
	var k *world.Kernel
	last, asked := lastOf{}, asked{}
	for r, err := range records {
		if err != nil {
			return nil, err
		}
		if k == nil {
			k, err = world.OpenGenesis(r)
		} else {
			err = k.Apply(r)
		}
		if err == nil {
			err = last.checkWords(r)
		}
		if err == nil {
			err = asked.check(r)
		}
		if err != nil {
			return &WorldFault{r.Seq, brokenRule(err)}, nil
		}
		if r.Kind == kernel.KindDecision || r.Kind == kernel.KindSpec {
			last[ofTask{r.Kind, r.Task}] = r
		}
	}
	if len(asked.due) > 0 {
		return &WorldFault{asked.seq, "the request of a person's word about the whole world isn't recorded"}, nil
	}
	return nil, nil
}

// asked follows the kernel of the world itself: what a person declares about the whole of it
// is a request, whose audit entries follow in the same append.
type asked struct {
	due []canon.Sealed // entries that come next
	seq int64          // of the last record
}

// check holds a record against what the world's kernel is to have recorded next.
func (a *asked) check(r kernel.Record) error {
	a.seq = r.Seq
	entry := r.Kind == kernel.KindAudit && r.Task == 0
	switch {
	case len(a.due) == 0 && !entry:
		return a.begin(r)
	case len(a.due) == 0:
		return errors.New("it is of a request of the world's kernel that nobody made")
	case !entry || r.Run != "" || !bytes.Equal(a.due[0].Bytes(), r.Body):
		return errors.New("the request of a person's word about the whole world isn't recorded as its kernel would")
	}
	a.due = a.due[1:]
	return nil
}

// begin makes the entries of what a record asks of the world's kernel, if it does.
func (a *asked) begin(r kernel.Record) error {
	if r.Kind != kernel.KindAdoption {
		return nil
	}
	said, err := decoded[kernel.Adoption](r.Body)
	if err != nil {
		return err
	}
	m, err := machine.New(machine.Config{Kernel: kernel.MachineOf(r.World, 0), Epoch: said.History, Now: r.Time})
	if err != nil {
		return err
	}
	sum := canon.Sum(r.Body)
	req := machine.Request{ID: "adopt:" + string(sum), Actor: said.Actor, Intent: "adopt", Evidence: sum, Now: r.Time}
	if _, err = m.Booted(nil); err == nil {
		_, err = m.Submit(req)
	}
	if err == nil {
		_, err = m.Validated(req, nil)
	}
	if err != nil {
		return err
	}
	next, err := m.Decided(req, machine.Verdict{Decision: machine.Allow, Summary: "adopt"})
	a.due = next.Sealed
	return err
}

// lastOf has the last decision and spec of each task.
type lastOf map[ofTask]kernel.Record

type ofTask struct {
	kind kernel.Kind
	task int64
}

func brokenRule(err error) string {
	var broken *world.Error
	if errors.As(err, &broken) {
		return "it breaks a rule of its world: " + broken.Detail
	}
	return err.Error()
}

// checkWords holds what a record says to people against what it rests on; no state of
// the world has it.
func (last lastOf) checkWords(r kernel.Record) error {
	switch r.Kind {
	case kernel.KindRefusal:
		return checkRefused(last[ofTask{kernel.KindDecision, r.Task}], r)
	case kernel.KindOperatorAct:
		return checkAct(r)
	case kernel.KindPlanProposal:
		p, err := decoded[plan.Proposal](r.Body)
		if err != nil || r.Run != last[ofTask{kernel.KindSpec, r.Task}].Run || !equal(plan.Propose(p.Plan), *p) {
			return errors.New("the proposal is not that of its plan")
		}
	case kernel.KindAdoption:
		return checkAdoption(r)
	case kernel.KindKeyRotation:
		if r.Run != "" {
			return errors.New("it concerns no run")
		}
	}
	return nil
}

// checkAdoption: one thing shows that the ledger is older, be it checkpoints, commits or
// that there is no checkpoint.
func checkAdoption(r kernel.Record) error {
	a, err := decoded[kernel.Adoption](r.Body)
	if err != nil {
		return err
	}
	shown := 0
	for _, there := range []bool{len(a.Abandoned) > 0, len(a.Heads) > 0, a.Unsigned} {
		if there {
			shown++
		}
	}
	noCommit := func(h string) bool { return !git.OID(h).Valid() }
	if r.Run != "" || shown != 1 || slices.ContainsFunc(a.Heads, noCommit) {
		return errors.New("it concerns a run, or does not say what alone shows that the ledger is older")
	}
	return nil
}

// checkRefused compares a refusal with the decision before it. Its remedies are in the
// words of the program that wrote it.
func checkRefused(ruling, r kernel.Record) error {
	d, err := decoded[kernel.Decision](ruling.Body)
	said, err2 := decoded[kernel.Refusal](r.Body)
	if err != nil || err2 != nil {
		return errors.New("the refusal is of no decision")
	}
	want := kernel.NewRefusal(r.World, r.Task, *d, []canon.Digest{d.Facts})
	if len(want.Required) == len(said.Required) {
		for i := range want.Required {
			want.Required[i].Required = said.Required[i].Required
		}
	}
	if r.Run != ruling.Run || !equal(want, *said) {
		return errors.New("the refusal is not that of the decision before it")
	}
	return nil
}

// checkAct: an act says who, and what it needs, and nothing else.
func checkAct(r kernel.Record) error {
	a, err := decoded[kernel.OperatorAct](r.Body)
	if err != nil {
		return err
	}
	resumes := a.Act == kernel.ActResume
	withHead := resumes || a.Act == kernel.ActPutBack
	if r.Run != "" || a.Actor == "" || a.Key == "" || a.Round < 1 || !resumes && (a.Epoch != 0 || a.ActID != "") || !withHead && a.Head != "" {
		return fmt.Errorf("the act %q lacks its actor, key or round, or says what such an act doesn't", a.Act)
	}
	return nil
}
