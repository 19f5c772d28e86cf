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
	if asked.owed() {
		return &WorldFault{asked.seq, "the request of a person's word about the whole world isn't recorded"}, nil
	}
	return nil, nil
}

// asked follows the kernels of what concerns no task: what a person declares about the whole
// world, does to it, or does to a task whose kernel is at its end, is a request, whose audit
// entries follow in the same append.
type asked struct {
	due  []canon.Sealed // entries that come next
	must bool           // they have to: the first was there, or no older program left them out
	last *machine.Entry // of the world's own kernel
	keys int64          // rotations
	seq  int64          // of the last record
}

// owed reports whether entries are missing.
func (a *asked) owed() bool { return a.must && len(a.due) > 0 }

// check holds a record against what such a kernel is to have recorded next.
func (a *asked) check(r kernel.Record) error {
	a.seq = r.Seq
	entry := r.Kind == kernel.KindAudit && r.Task == 0
	switch {
	case !entry && a.owed(), entry && len(a.due) > 0 && (r.Run != "" || !bytes.Equal(a.due[0].Bytes(), r.Body)):
		return errors.New("the request of a person's word about the whole world isn't recorded as its kernel would")
	case !entry:
		a.due, a.must = nil, false
		return a.begin(r)
	case len(a.due) == 0:
		return errors.New("it is of a request of the world's kernel that nobody made")
	}
	e, err := decoded[machine.Entry](r.Body)
	if err != nil {
		return err
	}
	if e.Time != r.Time {
		return errors.New("the entry is of another time than its record")
	}
	if e.Kernel == kernel.MachineOf(r.World, 0) {
		a.last = e
	}
	a.due, a.must = a.due[1:], true
	return nil
}

// begin makes the entries of what a record asks, if it does. A rotation, and an act on a task
// whose kernel is at its end, were only records in the ledgers of earlier commits.
func (a *asked) begin(r kernel.Record) error {
	own, epoch := kernel.MachineOf(r.World, 0), int64(1)
	if a.last != nil {
		epoch = a.last.Epoch
	}
	switch r.Kind {
	case kernel.KindAdoption:
		said, err := decoded[kernel.Adoption](r.Body)
		if err != nil {
			return err
		}
		a.must = true
		return a.request(r, own, said.History, said.Actor, "adopt")
	case kernel.KindKeyRotation:
		said, err := decoded[kernel.KeyRotation](r.Body)
		if err != nil {
			return err
		}
		a.keys++
		return a.request(r, r.World+"#key", a.keys, said.Actor, "rotate")
	case kernel.KindOperatorAct:
		said, err := decoded[kernel.OperatorAct](r.Body)
		if err != nil {
			return err
		}
		a.must = r.Task == 0
		return a.request(r, own, epoch, said.Actor, said.Act)
	}
	return nil
}

// request is one that is allowed and has no effect.
func (a *asked) request(r kernel.Record, of string, epoch int64, actor, intent string) error {
	c := machine.Config{Kernel: of, Epoch: epoch, Now: r.Time}
	if a.last != nil && a.last.Kernel == of && a.last.Epoch == epoch {
		c.LastEntry = a.last
	}
	m, err := machine.New(c)
	if err != nil {
		return err
	}
	sum := canon.Sum(r.Body)
	req := machine.Request{ID: intent + ":" + string(sum), Actor: actor, Intent: intent, Evidence: sum, Now: r.Time}
	if _, err = m.Booted(nil); err == nil {
		_, err = m.Submit(req)
	}
	if err == nil {
		_, err = m.Validated(req, nil)
	}
	if err != nil {
		return err
	}
	next, err := m.Decided(req, machine.Verdict{Decision: machine.Allow, Summary: intent})
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
	if r.Run != "" || a.Actor == "" || a.Key == "" || a.Round < 1 || !resumes && (a.Epoch != 0 || a.ActID != "") || !withHead && a.Head != "" ||
		!a.Global() && (a.Pause != "" || a.Since != 0) {
		return fmt.Errorf("the act %q lacks its actor, key or round, or says what such an act doesn't", a.Act)
	}
	return nil
}
