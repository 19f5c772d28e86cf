package supervisor

import (
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/kernel"
)

// lookUpUnknown stages the outcome of effects that an earlier process left
// unknown: a push shows at HEAD, and what ran in a dead process is over.
func (w *worker) lookUpUnknown(c *observation, head git.OID) {
	for _, o := range w.s.world.UnknownIntents(w.number) {
		if w.pending != nil && o.Intent.Key == w.pending.key || o.Intent.Effect.OnForge() {
			continue
		}
		out := kernel.Outcome{Kind: string(kernel.KindOutcome), Key: o.Intent.Key, Effect: o.Intent.Effect,
			Status: kernel.OutcomeLost, Code: kernel.CodeTaskInterrupted, Detail: "HEAD doesn't show it"}
		switch {
		case c.answer != nil && c.answer.Key == o.Intent.Key:
			out = *c.answer
		case o.Intent.New != "" && (o.Intent.New == string(head) || o.Intent.New == string(c.change)):
			out.Status, out.Code, out.Detail = kernel.OutcomeDone, "", ""
		}
		c.stage(kernel.KindOutcome, o.Run, out)
	}
}
