package supervisor

import (
	"github.com/writbot/writ/compliance/approval"
	"github.com/writbot/writ/compliance/worldref"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/lease"
)

// place is where the task's state belongs. An issue that is gone can't be asked for
// its name: then it is what the state says that it was.
func (sj *subject) place(head kernel.HeadFacts) kernel.Stamp {
	return kernel.Stamp{World: sj.s.cfg.World, Ref: sj.StateRef(), Task: sj.number, Issue: sj.issueAt(head.Issue)}
}

func (sj *subject) issueAt(head string) string {
	if sj.remote && sj.issueName == "" {
		return head
	}
	return sj.issueName
}

// nameIssue keeps which of the forge's issues this one is.
func (sj *subject) nameIssue(seen *approval.Facts) {
	if seen == nil || seen.Issue.ID == 0 {
		return
	}
	var created int64
	if at := seen.Issue.CreatedAt; !at.IsZero() {
		created = at.Unix()
	}
	sj.issueName = kernel.IssueName(seen.Issue.ID, created)
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
