package kerneltest

import (
	"testing"

	"github.com/writbot/writ/kernel"
)

func headOf(state string, attempt, interruptions int64) Head {
	return Head{OID: state, State: state, Run: "r", Runner: "A", Approval: "x", Attempt: attempt, Interruptions: interruptions, Tree: "t"}
}

// TestOracle: what may follow what, and what it must say.
func TestOracle(t *testing.T) {
	rules := Rules{Attempts: 3, Interruptions: 2}
	stalled := headOf("stalled", 1, 1)
	stalled.Stalled = "r"
	halted, haltedTwice := stalled, stalled
	halted.Codes, halted.Interruptions = string(kernel.CodeTaskHalted), 0
	haltedTwice.Codes = halted.Codes
	done := headOf("completed", 1, 0)
	done.Change = "c"
	refused := headOf("blocked", 1, 0)
	refused.Codes = string(kernel.CodePushRefused)
	open := headOf("open", 0, 0)
	for _, tt := range []struct {
		name string
		step Step
		ok   bool
	}{
		{"first claim", Step{Effect: kernel.ActionClaim, New: headOf("working", 1, 0), Between: &open}, true},
		{"first claim as attempt 2", Step{Effect: kernel.ActionClaim, New: headOf("working", 2, 0), Between: &open}, false},
		{"claim of open", Step{Effect: kernel.ActionClaim, Old: headOf("open", 0, 0), New: headOf("working", 1, 0)}, true},
		{"claim of retry", Step{Effect: kernel.ActionClaim, Old: headOf("retry_pending", 1, 1), New: headOf("working", 2, 1)}, true},
		{"retry not counted", Step{Effect: kernel.ActionClaim, Old: headOf("retry_pending", 1, 0), New: headOf("working", 1, 0)}, false},
		{"one attempt too many", Step{Effect: kernel.ActionClaim, Old: headOf("retry_pending", 3, 0), New: headOf("working", 4, 0)}, false},
		{"interruptions reset", Step{Effect: kernel.ActionClaim, Old: headOf("stalled", 1, 2), New: headOf("working", 1, 0)}, false},
		{"claim over an end", Step{Effect: kernel.ActionClaim, Old: headOf("blocked", 1, 0), New: headOf("working", 1, 0)}, false},
		{"approved anew by a person", Step{Effect: kernel.ActionClaim, Old: headOf("blocked", 3, 0), New: headOf("working", 1, 0), Between: &open}, true},
		{"a person moved on from it", Step{Effect: kernel.ActionClaim, Old: headOf("blocked", 3, 0), New: headOf("working", 1, 0), Between: &open, Resumed: true}, true},
		{"claim over a lease", Step{Effect: kernel.ActionClaim, Old: headOf("working", 1, 0), New: headOf("working", 1, 0)}, false},
		{"takeover", Step{Effect: kernel.ActionTakeOver, Old: headOf("working", 1, 0), New: stalled}, true},
		{"takeover not counted", Step{Effect: kernel.ActionTakeOver, Old: headOf("working", 1, 1), New: stalled}, false},
		{"given back by a halt", Step{Effect: kernel.ActionRelease, Old: headOf("working", 1, 0), New: halted}, true},
		{"a halt that counts", Step{Effect: kernel.ActionRelease, Old: headOf("working", 1, 0), New: haltedTwice}, false},
		{"takeover of no lease", Step{Effect: kernel.ActionTakeOver, Old: headOf("open", 1, 0), New: stalled}, false},
		{"heartbeat", Step{Effect: kernel.ActionHeartbeat, Old: headOf("working", 1, 0), New: headOf("working", 1, 0)}, true},
		{"heartbeat that counts", Step{Effect: kernel.ActionHeartbeat, Old: headOf("working", 1, 0), New: headOf("working", 2, 0)}, false},
		{"completed", Step{Effect: kernel.ActionResult, Old: headOf("working", 1, 0), New: done}, true},
		{"completed without a change", Step{Effect: kernel.ActionResult, Old: headOf("working", 1, 0), New: headOf("completed", 1, 0)}, false},
		{"completed without a lease", Step{Effect: kernel.ActionResult, Old: headOf("stalled", 1, 0), New: done}, false},
		{"retry", Step{Effect: kernel.ActionResult, Old: headOf("working", 2, 0), New: headOf("retry_pending", 2, 0)}, true},
		{"retry after the last attempt", Step{Effect: kernel.ActionResult, Old: headOf("working", 3, 0), New: headOf("retry_pending", 3, 0)}, false},
		{"blocked", Step{Effect: kernel.ActionResult, Old: headOf("working", 3, 0), New: headOf("blocked", 3, 0)}, true},
		{"blocked early", Step{Effect: kernel.ActionResult, Old: headOf("working", 1, 0), New: headOf("blocked", 1, 0)}, false},
		{"blocked by the server", Step{Effect: kernel.ActionResult, Old: headOf("working", 1, 0), New: refused}, true},
		{"interruptions spent", Step{Effect: kernel.ActionResult, Old: headOf("stalled", 1, 3), New: headOf("blocked", 1, 3)}, true},
		{"interruptions left", Step{Effect: kernel.ActionResult, Old: headOf("stalled", 1, 2), New: headOf("blocked", 1, 2)}, false},
		{"waiting", Step{Effect: kernel.ActionWait, Old: headOf("working", 1, 0), New: headOf("waiting", 1, 0)}, true},
		{"a dispatch moves nothing", Step{Effect: kernel.ActionDispatch, Old: headOf("working", 1, 0), New: headOf("working", 1, 0)}, false},
		{"a person", Step{Human: true, Old: headOf("working", 1, 0), New: headOf("completed", 1, 0)}, true},
	} {
		if wrong := rules.Judge(tt.step); (wrong == "") != tt.ok {
			t.Errorf("%s: %q", tt.name, wrong)
		}
	}
}
