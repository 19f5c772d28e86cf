package kerneltest

import "github.com/writbot/writ/kernel"

// Told is a write to the issue that an instance is about to send: its effect must
// be announced (E3), its texts hold no secret (E7), and a closing needs the
// accepted result at HEAD right now (E2).
func (c *Checker) Told(instance string, a kernel.Action, texts ...string) {
	i, ok := c.moving[instance]
	if !ok || i.Effect != a {
		c.wrong("E3: %s does %s to the issue, announced is %q", instance, a, i.Key)
	}
	for _, t := range texts {
		c.canary("a text for the forge", []byte(t))
	}
	if a != kernel.ActionClose {
		return
	}
	if h, _ := c.Server.At(c.StateRef); h.State != string(kernel.TaskCompleted) || c.stands[h.Approval].OID != h.OID {
		c.wrong("E2: %s closes the issue, and HEAD %s says %q", instance, h.OID, h.State)
	}
}

// TakenBack is a person who took the approval back on the issue, at a time by the forge's
// clock: what was approved before it counts no more, to whichever instance looks after it.
func (c *Checker) TakenBack(at int64) { c.taken = max(c.taken, at) }

// approved is P10: nothing is started or accepted on an act that was taken back, but for
// a push that was on its way already. Of two acts at one time nobody knows the first.
func (c *Checker) approved(what, run, act string) {
	if at := kernel.ActTime(act); act != "" && at < c.taken && !c.Stale {
		c.wrong("P10: run %s is %s on %s, which was taken back at %d", run, what, act, c.taken)
	}
}
