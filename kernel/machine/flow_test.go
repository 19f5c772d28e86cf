package machine_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/writbot/writ/kernel/machine"
)

type codedError struct{}

func (codedError) Error() string { return "the server refused" }
func (codedError) Fault() machine.Fault {
	return machine.Fault{Code: "forge.push_refused", Subject: "refs/x", Detail: "the server refused"}
}

// M1; SM4, SM9, SM14, SM15, SM20 to SM23, SM27, SM28, SM33, SM43, SM47, SM52:
// the way of each outcome, one entry for each change.
func TestM1_OneRequest(t *testing.T) {
	fault := machine.Fault{Code: "path.unsafe", Subject: "a\\b", Detail: "no"}
	verdict := func(v machine.Verdict) *handler {
		return &handler{arbitrate: func(machine.Request) machine.Verdict { return v }}
	}
	way := func(to ...string) []string { return to }
	const iv, va, ax, xu, ui = "IDLE>VALIDATING", "VALIDATING>ARBITRATING", "ARBITRATING>EXECUTING", "EXECUTING>AUDITING", "AUDITING>IDLE"
	for _, c := range []struct {
		name    string
		handler *handler
		status  machine.Status
		to      machine.State
		appends int
		path    []string
		last    string // code of the closing entry's error
		summary string
	}{
		{"nothing to do", &handler{}, machine.Accepted, idle, 1, way(iv, va, "ARBITRATING>AUDITING", ui), "", "nothing to do"},
		{"effect", withTool(done), machine.Accepted, idle, 2, way(iv, va, ax, xu, ui), "", "pushed"},
		{"invalid", &handler{validate: func(machine.Request) []machine.Fault { return []machine.Fault{fault} }},
			machine.Rejected, idle, 1, way(iv, "VALIDATING>AUDITING", ui), "", "denied: the request is not valid"},
		{"denied", verdict(machine.Verdict{Decision: machine.Deny, Faults: []machine.Fault{fault, fault}, Summary: "no"}),
			machine.Rejected, idle, 1, way(iv, va, "ARBITRATING>AUDITING", ui), "", "no"},
		{"halt decided", verdict(machine.Verdict{Decision: machine.Halt, Faults: []machine.Fault{fault}, Summary: "rollback"}),
			machine.Accepted, halted, 1, way(iv, va, "ARBITRATING>HALTED"), "", "rollback"},
		{"effect fails", withTool(func(machine.ToolCall) (machine.Result, error) { return machine.Result{}, errors.New("lost") }),
			machine.Failed, idle, 2, way(iv, va, ax, xu, ui), machine.CodeEffectFailed, "do it"},
		{"effect fails with a code", withTool(func(machine.ToolCall) (machine.Result, error) {
			return machine.Result{}, fmt.Errorf("push: %w", codedError{})
		}), machine.Failed, idle, 2, way(iv, va, ax, xu, ui), "forge.push_refused", "do it"},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := &auditor{}
			m := booted(t, a, c.handler)
			r, err := m.Submit(request("r1"))
			if err != nil || r.Status != c.status || r.To != c.to || r.From != idle || r.RequestID != "r1" {
				t.Fatalf("receipt %+v, %v", r, err)
			}
			if diff := cmp.Diff(c.path, path(a.entries)); diff != "" || a.calls != c.appends || m.State() != c.to {
				t.Errorf("%d appends, then %v; %s", a.calls, m.State(), diff)
			}
			closing := a.last()
			code := ""
			if closing.Error != nil {
				code = closing.Error.Code
			}
			if code != c.last || *closing.Summary != c.summary || len(closing.Faults) != len(r.Faults) || *closing.Decision != r.Decision {
				t.Errorf("closing entry %+v of receipt %+v", closing, r)
			}
			if (r.Err != nil) != (c.status == machine.Failed) {
				t.Errorf("error %v in a receipt that says %s", r.Err, r.Status)
			}
			if d, err := closing.Digest(); err != nil || d != r.Entry || d != m.Snapshot().Last {
				t.Errorf("the receipt's entry is %s, the last one %s, %v", r.Entry, d, err)
			}
			verify(t, a)
		})
	}
}

// SM13, SM15, T39: the machine itself checks what each request must have, and
// names all that is wrong.
func TestM1_MalformedRequest(t *testing.T) {
	a := &auditor{}
	m := booted(t, a, &handler{})
	r, err := m.Submit(machine.Request{
		ID: "\xff", Intent: strings.Repeat("x", machine.MaxTextBytes+1), Params: []byte(`{"b":1, "a":1}`), Evidence: "sha1:00",
	})
	if err != nil || r.Status != machine.Rejected || r.Decision != machine.Deny {
		t.Fatalf("%+v, %v", r, err)
	}
	var subjects []string
	for _, f := range r.Faults {
		if f.Code != machine.CodeRequestMalformed {
			t.Errorf("code %s", f.Code)
		}
		subjects = append(subjects, f.Subject)
	}
	if diff := cmp.Diff([]string{"id", "actor", "intent", "params", "evidence"}, subjects); diff != "" {
		t.Error(diff)
	}
	verify(t, a)
}

// SM17, SM49, SM50: same state and request, same entries; SM51, case R9: only
// the given time counts, and the clock never goes back.
func TestM1_DeterministicAndClock(t *testing.T) {
	run := func() []machine.Entry {
		a := &auditor{}
		m := booted(t, a, withTool(done))
		for _, now := range []int64{1000, 900, 2000, -5} {
			req := request("same id")
			req.Now = now
			if r, err := m.Submit(req); err != nil || r.Time != m.Snapshot().Time {
				t.Fatal(r, err)
			}
		}
		return a.entries
	}
	one, two := run(), run()
	if diff := cmp.Diff(one, two); diff != "" {
		t.Error(diff)
	}
	var times []int64
	for _, e := range one {
		times = append(times, e.Time)
	}
	if want := []int64{1000, 2000}; !slices.IsSorted(times) || !slices.Equal(slices.Compact(times), want) {
		t.Errorf("times %v", times)
	}
}

// SM7, SM13, SM19, SM26, SM32, SM35, T31: a probe in each state: what the seed has a state
// for is done while the machine says so, and each append comes before what it tells of.
func TestM1_EachStateIsSeen(t *testing.T) {
	fault := func(machine.Request) []machine.Fault { return []machine.Fault{{Code: "c"}} }
	const effectless = "append of IDLE>VALIDATING VALIDATING>ARBITRATING ARBITRATING>AUDITING AUDITING>IDLE in AUDITING"
	for name, c := range map[string]struct {
		handler *handler
		want    []string
	}{
		"effect": {withTool(done), []string{"loading in BOOTING", "validation in VALIDATING", "decision in ARBITRATING",
			"append of IDLE>VALIDATING VALIDATING>ARBITRATING ARBITRATING>EXECUTING in ARBITRATING",
			"effect in EXECUTING", "append of EXECUTING>AUDITING AUDITING>IDLE in AUDITING"}},
		"nothing": {&handler{}, []string{"loading in BOOTING", "validation in VALIDATING", "decision in ARBITRATING", effectless}},
		"invalid": {&handler{validate: fault}, []string{"loading in BOOTING", "validation in VALIDATING",
			"append of IDLE>VALIDATING VALIDATING>AUDITING AUDITING>IDLE in AUDITING"}},
		"halt": {verdict(machine.Verdict{Decision: machine.Halt}), []string{"loading in BOOTING", "validation in VALIDATING",
			"decision in ARBITRATING", "append of IDLE>VALIDATING VALIDATING>ARBITRATING ARBITRATING>HALTED in ARBITRATING"}},
	} {
		m := newMachine(t, &auditor{}, c.handler)
		if err := m.Boot(func() error { return nil }); err != nil {
			t.Fatal(err)
		}
		_, _ = m.Submit(request("r")) // what is seen counts
		if diff := cmp.Diff(c.want, m.seen); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// SM23: the strictest decision wins, and nothing is allowed by silence.
func TestStrictest(t *testing.T) {
	const y, n, h = machine.Allow, machine.Deny, machine.Halt
	for _, c := range []struct {
		in   []machine.Decision
		want machine.Decision
	}{
		{nil, n},
		{[]machine.Decision{y}, y},
		{[]machine.Decision{y, y}, y},
		{[]machine.Decision{n, y}, n},
		{[]machine.Decision{y, n}, n},
		{[]machine.Decision{y, h, n}, h},
		{[]machine.Decision{h, y}, h},
		{[]machine.Decision{n, h}, h},
		{[]machine.Decision{y, "allow"}, n},
		{[]machine.Decision{""}, n},
	} {
		if got := machine.Strictest(c.in...); got != c.want {
			t.Errorf("%v: %s, want %s", c.in, got, c.want)
		}
	}
}

func TestNew_Refuses(t *testing.T) {
	good := machine.Config{Kernel: "k"}
	for name, spoil := range map[string]func(*machine.Config){
		"no kernel":        func(c *machine.Config) { c.Kernel = "" },
		"kernel not UTF-8": func(c *machine.Config) { c.Kernel = "\xff" },
		"negative epoch":   func(c *machine.Config) { c.Epoch = -1 },
		"empty last entry": func(c *machine.Config) { c.LastEntry = &machine.Entry{} },
		"entry of another kernel": func(c *machine.Config) {
			a := &auditor{}
			in(t, a, halted)
			c.LastEntry = a.last()
		},
	} {
		c := good
		spoil(&c)
		var ce *machine.ConfigError
		if _, err := machine.New(c); !errors.As(err, &ce) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
