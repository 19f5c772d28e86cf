package supervisor

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/writbot/writ/compliance/replay"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
	"github.com/writbot/writ/kernel/machine"
)

// wayOf are the acts among records and the entries with whose they are, in order. It demands
// that a replay takes all records of the ledger.
func wayOf(t *testing.T, b *bench, from int) string {
	t.Helper()
	var way []string
	for _, r := range b.records()[from:] {
		switch r.Kind {
		case kernel.KindOperatorAct:
			var a kernel.OperatorAct
			must(t, canon.UnmarshalCanonical(r.Body, &a))
			way = append(way, a.Act)
		case kernel.KindAudit:
			var e machine.Entry
			must(t, canon.UnmarshalCanonical(r.Body, &e))
			if e.Actor == nil || *e.Actor != "ana" || r.Task == 0 != strings.HasSuffix(e.Kernel, "#0") {
				t.Errorf("an entry of task %d: %+v", r.Task, e)
			}
			way = append(way, e.Kernel[strings.LastIndexByte(e.Kernel, '#'):]+e.StateTo)
		}
	}
	fault, err := replay.VerifyWorld(func(yield func(kernel.Record, error) bool) {
		for _, r := range b.records() {
			if !yield(r, nil) {
				return
			}
		}
	})
	if err != nil || fault != nil {
		t.Errorf("a replay says %+v, %v", fault, err)
	}
	return strings.Join(way, " ")
}

const worldsWay = " #0VALIDATING #0ARBITRATING #0AUDITING #0IDLE"

// TestM1_PausesAreRequests: a pause and its end are requests to the kernel of the world, with
// act and entries in one append; each is recorded once, by whichever process.
func TestM1_PausesAreRequests(t *testing.T) {
	t.Parallel()
	b := newBench(t, newRepo(t), nil)
	all, file := Pause{kernel.PauseAll, 7, "ana", "the disk is full"}, Pause{Of: kernel.PauseFile, Actor: "ana"}
	for i, c := range []struct {
		now   []Pause
		way   string
		again bool
	}{
		{[]Pause{all}, "pause" + worldsWay, false},
		{[]Pause{all}, "", true},
		{[]Pause{file, all}, "pause" + worldsWay, false},
		{[]Pause{file}, "unpause" + worldsWay, false},
		{nil, "unpause" + worldsWay, true},
		{[]Pause{{kernel.PauseAll, 8, "ana", ""}}, "pause" + worldsWay, true},
	} {
		if c.again {
			b.close()
			o, err := b.place.open(context.Background())
			must(t, err)
			b.opened = o
			t.Cleanup(o.close)
		}
		before := len(b.records())
		must(t, b.sup.Pauses(t.Context(), c.now, "ana", ""))
		if way := wayOf(t, b, before); way != c.way || len(b.sup.world.Pauses()) != len(c.now) {
			t.Errorf("%d: %q, paused by %+v", i, way, b.sup.world.Pauses())
		}
	}
}

// TestM2_AtItsEndTheWorldsKernelTakesActs: SM37, SM40: a kernel at its end takes no request.
// What a person does to its task is one to the kernel of the world, and what the world doesn't
// take is refused; a resume alone is one to the task's, the first of the next epoch.
func TestM2_AtItsEndTheWorldsKernelTakesActs(t *testing.T) {
	t.Parallel()
	for _, open := range []bool{true, false} {
		b := newBench(t, newRepo(t), nil)
		b.reach(kernel.ActionDispatch)
		must(t, b.sup.Halt(t.Context(), 1, "ana", "wait"))
		must(t, b.task.haltKernel(t.Context()))
		if !open {
			b.task.Close()
		}
		if _, err := b.sup.boot(t.Context(), 1, 0, func(*machine.Machine) {}); !errors.Is(err, machine.ErrHalted) {
			t.Fatal(err)
		}
		for _, c := range []struct {
			do  func() error
			way string
		}{
			{func() error { return b.sup.Halt(t.Context(), 1, "ana", "once more") }, "halt" + worldsWay},
			{func() error {
				return b.sup.act(t.Context(), 1, kernel.OperatorAct{Act: kernel.ActStop, Actor: "ana"})
			}, "stop" + worldsWay},
			{func() error {
				return b.sup.act(t.Context(), 1, kernel.OperatorAct{Act: kernel.ActPutBack, Actor: "ana", Head: "nothing"})
			}, ""},
			{func() error { return b.sup.Resume(t.Context(), 1, "ana", "go on") }, "resume" + strings.ReplaceAll(worldsWay, "#0", "#1")},
		} {
			before := len(b.records())
			if err := c.do(); (err == nil) != (c.way != "") {
				t.Errorf("%q: %v", c.way, err)
			}
			if way := wayOf(t, b, before); way != c.way || c.way == "" && len(b.records()) != before {
				t.Errorf("%q instead of %q", way, c.way)
			}
		}
		last := slices.MaxFunc(b.records(), func(x, y kernel.Record) int { return int(x.Seq - y.Seq) })
		if e := b.lastEntry(); e.Epoch != 1 || e.Seq != 4 || last.Kind != kernel.KindReceipt {
			t.Errorf("the resume is not the first request of its epoch: %+v", e)
		}
	}
}
