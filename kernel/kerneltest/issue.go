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
	if h, _ := c.Server.At(c.StateRef); h.State != string(kernel.TaskCompleted) || c.accepted[h.Approval] != h.OID {
		c.wrong("E2: %s closes the issue, and HEAD %s says %q", instance, h.OID, h.State)
	}
}
