package supervisor

import (
	"github.com/writbot/writ/compliance/worldref"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/lease"
)

func (sj *subject) issueAt(head string) string {
	if sj.remote && sj.issueName == "" {
		return head
	}
	return sj.issueName
}

// bind reads a commit's stamp and holds it against the task's place. A commit of a
// world that goes on as this one is bound here up to the very commit that the
// rebinding names: who made that has held the issue against it, which has another
// number at another forge.
func (sj *subject) bind(h *kernel.HeadFacts, ev lease.Event, st worldref.Standing) {
	s, err := kernel.ReadStamp(ev.Trailers)
	if err != nil {
		h.Binding = kernel.BindNone
		return
	}
	here := kernel.Stamp{World: sj.s.cfg.World, Ref: sj.StateRef(), Task: sj.number, Issue: sj.issueAt(s.Issue)}
	rebound := s.World != here.World && st.Bound(s.World, here.Ref, h.OID)
	if rebound {
		here.World, here.Issue = s.World, s.Issue
	}
	if h.Format, h.Binding = kernel.StateFormat, s.Binding(here); h.Binding == kernel.BindElsewhere {
		h.Named = s.String()
		return
	}
	if h.Seq, h.Issue = s.Seq, s.Issue; rebound {
		h.Issue = sj.issueAt("")
	}
}
