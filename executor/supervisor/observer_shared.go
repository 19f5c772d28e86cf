package supervisor

import (
	"context"

	"github.com/writbot/writ/kernel"
)

// readShared reads what other tasks of the world change, at the last moment and
// with the world to itself: the time of the last record, the path space, and
// the evidence, whose checkpoint must end with the record that the result names.
func (o *observer) readShared(ctx context.Context, c *observation) {
	c.facts.Now = o.virtualNow(c.clock)
	if o.worker.run == nil {
		c.facts.Policy = append(c.facts.Policy, o.s.world.Admit(o.number, c.intake.Spec.AllowedFiles)...)
		o.readBudget(c)
		return
	}
	if o.worker.run.phase == kernel.PhaseJudged {
		var err error
		if c.evidence, err = o.s.deps.Ledger.Evidence(ctx, o.number, o.worker.run.from); err != nil {
			o.say("the evidence can't be packed whole: %v", err)
			o.worker.run.slim = true
		}
	}
}
