package machine_test

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/writbot/writ/kernel/machine"
)

// M4; SM11, SM44, SM59 to SM61: a thousand callers, one request at a time, and
// a reader that never waits and sees nothing between two states. Who is refused comes
// again, and is taken like any other. That nothing overlaps, the race detector says:
// running is guarded by the machine alone.
func TestM4_ConcurrentSubmits(t *testing.T) {
	const callers = 1000
	running := 0
	step := func() {
		if running++; running != 1 {
			t.Error("two requests at once")
		}
		running--
	}
	h := withTool(func(c machine.ToolCall) (machine.Result, error) { step(); return done(c) })
	h.validate = func(machine.Request) []machine.Fault { step(); return nil }
	a := &auditor{}
	m := booted(t, a, h)
	m.tb = nil

	stop := make(chan struct{})
	var reader sync.WaitGroup
	reader.Add(1)
	go func() {
		defer reader.Done()
		read(t, m.Machine, stop)
	}()
	var busy atomic.Int64
	var submits sync.WaitGroup
	for i := range callers {
		submits.Add(1)
		go func() {
			defer submits.Done()
			for {
				r, err := m.Submit(request(fmt.Sprint(i)))
				if errors.Is(err, machine.ErrBusy) {
					busy.Add(1)
					runtime.Gosched()
					continue
				}
				if err != nil || r.Status != machine.Accepted || r.From != idle || r.To != idle {
					t.Errorf("%+v, %v", r, err)
				}
				return
			}
		}()
	}
	submits.Wait()
	close(stop)
	reader.Wait()

	if n := int64(len(a.entries)); n != 5*callers || m.Snapshot().Seq != n || m.State() != idle {
		t.Errorf("%d entries for %d requests, in %v", n, callers, m.State())
	}
	verify(t, a)
}

// read looks at the machine until stop: number of entries and clock only grow.
func read(t *testing.T, m *machine.Machine, stop <-chan struct{}) {
	var last machine.Snapshot
	for {
		select {
		case <-stop:
			return
		default:
		}
		s := m.Snapshot()
		if s.State == booting || s.State >= halted || s.Seq < last.Seq || s.Time < last.Time || s.Changes < last.Changes {
			t.Errorf("%+v after %+v", s, last)
			return
		}
		last = s
	}
}

// M4; SM30: while an effect call is out, others are refused at once, and the
// state can be read.
func TestM4_BusyWhileExecuting(t *testing.T) {
	a := &auditor{}
	entered, leave := make(chan bool), make(chan bool)
	m := booted(t, a, withTool(func(c machine.ToolCall) (machine.Result, error) {
		entered <- true
		<-leave
		return done(c)
	}))
	result := make(chan error)
	go func() {
		_, err := m.Submit(request("one"))
		result <- err
	}()
	<-entered
	before := m.Snapshot()
	if _, err := m.Submit(request("two")); !errors.Is(err, machine.ErrBusy) || before.State != executing || m.Snapshot() != before {
		t.Errorf("%v in %v", err, before.State)
	}
	close(leave)
	if err := <-result; err != nil || m.State() != idle {
		t.Errorf("%v, in %v", err, m.State())
	}
	if strings.Contains(fmt.Sprint(path(a.entries)), "HALTED") || len(a.entries) != 5 {
		t.Error(path(a.entries))
	}
}
