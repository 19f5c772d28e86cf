package contract

import (
	"fmt"

	"github.com/writbot/writ/kernel"
)

// Caps are the server's upper limits; zero caps nothing.
type Caps struct {
	Budgets        kernel.Budgets
	CheckTimeoutMs int64
	Checks         int64 // how many checks may run
}

// Preparation returns the steps under the caps; Apply says which timeouts are lowered.
func (c Contract) Preparation(caps Caps) []kernel.Step {
	out := c.Steps()
	for i := range out {
		if limit := caps.CheckTimeoutMs; limit > 0 {
			out[i].TimeoutMs = min(out[i].TimeoutMs, limit)
		}
	}
	return out
}

// Apply returns the budgets and checks under the caps. A value above its cap is
// lowered, and a sentence says so (conformance D8): it goes into the report.
// More checks than may run can't be cut silently: that is
// policy.budget_exceeded.
func (c Contract) Apply(caps Caps, checks []kernel.Check) (kernel.Budgets, []kernel.Check, []string, []kernel.Violation) {
	b := c.Budgets.Budgets
	b.Cost = c.Budgets.CostCents * microOfCent
	var notes []string
	clampAs := func(written func(int64) string, key string, value *int64, limit int64) {
		if limit > 0 && *value > limit {
			notes = append(notes, fmt.Sprintf("%s: lowered from %s to %s, the server's cap.", key, written(*value), written(limit)))
			*value = limit
		}
	}
	clamp := func(key string, value *int64, limit int64) {
		clampAs(func(n int64) string { return fmt.Sprint(n) }, key, value, limit)
	}
	m := caps.Budgets
	clamp("budgets.start_timeout (ms)", &b.StartTimeoutMs, m.StartTimeoutMs)
	clamp("budgets.build_timeout (ms)", &b.BuildTimeoutMs, m.BuildTimeoutMs)
	clamp("budgets.idle_timeout (ms)", &b.IdleTimeoutMs, m.IdleTimeoutMs)
	clamp("budgets.attempts", &b.Attempts, m.Attempts)
	clamp("budgets.interruptions", &b.Interruptions, m.Interruptions)
	clamp("budgets.retry_backoff (ms)", &b.RetryBackoffMs, m.RetryBackoffMs)
	clamp("budgets.retry_backoff_max (ms)", &b.RetryBackoffMaxMs, m.RetryBackoffMaxMs)
	clamp("budgets.files", &b.Files, m.Files)
	clamp("budgets.bytes", &b.Bytes, m.Bytes)
	clamp("budgets.interpretations", &b.Interpretations, m.Interpretations)
	clamp("budgets.nodes", &b.Nodes, m.Nodes)
	clamp("budgets.steps", &b.Steps, m.Steps)
	clamp("budgets.depth", &b.Depth, m.Depth)
	clamp("budgets.contradictions", &b.Contradictions, m.Contradictions)
	clamp("budgets.tokens", &b.Tokens, m.Tokens)
	clampAs(kernel.Money, "budgets.cost_cents (in the currency)", &b.Cost, m.Cost)
	for _, s := range c.Steps() {
		clamp("prepare."+s.Name+".timeout (ms)", &s.TimeoutMs, caps.CheckTimeoutMs)
	}
	out := append([]kernel.Check{}, checks...)
	for i := range out {
		clamp("checks."+out[i].Name+".timeout (ms)", &out[i].TimeoutMs, caps.CheckTimeoutMs)
	}
	if caps.Checks > 0 && int64(len(out)) > caps.Checks {
		return b, out, notes, []kernel.Violation{{Code: kernel.CodeBudgetExceeded, Subject: "checks",
			Detail: fmt.Sprintf("%d checks are to run; the server allows %d.", len(out), caps.Checks)}}
	}
	return b, out, notes, nil
}
