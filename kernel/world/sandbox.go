package world

import "github.com/writbot/writ/kernel/canon"

// ExecutionSandbox runs code that is not the kernel's (seed 002, Execution
// Sandbox Interface). It is declared here because its two kinds of code are
// the world's words, and it is called outside the kernel only: what it answers
// comes in as recorded proposals and is never asked for during a fold.
//
// Agent code is a builder's work and never runs in this process; mechanism
// code is CEL and does, bounded and without side effects.
// An implementation that can't run one of the kinds answers with an error in
// the result, not by running it unguarded.
type ExecutionSandbox interface {
	ExecuteAgentCode(code string, context SandboxContext) SandboxResult
	ExecuteMechanismCode(code string, context SandboxContext) SandboxResult
}

// SandboxContext is everything that the code may see.
type SandboxContext struct {
	WorldID  string       `json:"world_id"` // the world
	RoundID  int64        `json:"round_id"` // number of the round
	AgentID  string       `json:"agent_id"` // who proposed the code
	Snapshot canon.Digest `json:"snapshot"` // state hash of the world it runs against
	Limit    int64        `json:"limit"`    // cost units of a mechanism, milliseconds of an agent; at least 1
	Input    string       `json:"input"`    // canonical JSON, the code's only input
}

// SandboxResult is what came of it.
type SandboxResult struct {
	Executed bool   `json:"executed"` // it ran to its end within the limit
	Output   string `json:"output"`   // canonical JSON, "" when not executed
	Cost     int64  `json:"cost"`     // used of the limit, in its units
	Error    string `json:"error"`    // failure code, "" when executed
}
