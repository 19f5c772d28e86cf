package approval

import (
	"fmt"
	"slices"
	"strings"

	"github.com/writbot/writ/compliance/contract"
	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
)

// How the approved bytes are known.
const (
	EvidencePayload = "payload" // the signed payload of the approving event
	EvidenceHistory = "history" // the forge's own history
	EvidenceNamed   = "named"   // the approver named the digest
	EvidenceEarlier = "earlier" // of a retry: an approval before it was of these bytes
)

// Verdict is what the facts come to.
type Verdict struct {
	// Act is the newest act of somebody who may; zero where there is none. It may
	// be one that takes back.
	Act Act
	// Approval is what the act approved; zero where it approves nothing. Its digest
	// is "" where nobody can show it.
	Approval kernel.Approval
	// Violations are all that speaks against carrying the task out, in no order.
	// That the text isn't the approved one is not among them: who compares the
	// approval's digest sees it.
	Violations []kernel.Violation
	// Human is what a person did that ends a run: a stop, the label taken off, the
	// issue closed.
	Human []kernel.Violation
	// TakenBack is the newest act that approves and that Human takes back; zero where there
	// was nothing to take back.
	TakenBack Act
	// Closing is who closed the issue, nil while it is open.
	Closing *Closing
}

// Closing is the last closing of a closed issue.
type Closing struct {
	Event int64 // its number in the history, 0 where the history doesn't show it
	By    forge.User
	Class Class
}

// Class says whose act something was.
type Class string

// The classes of accounts. A bot that the contract names counts as a person.
const (
	BySelf   Class = "self"
	ByPerson Class = "person"
	ByBot    Class = "bot"
)

// ClassOf says whose act something was. An installation with a person's own
// token is that person as far as anybody can tell.
func ClassOf(u forge.User, self forge.User, t contract.Trigger) Class {
	switch {
	case u.ID == self.ID && self.Kind == forge.Bot:
		return BySelf
	case u.Kind == forge.Bot && !named(u, t):
		return ByBot
	}
	return ByPerson
}

// named reports whether the contract names the account, which must be a bot: a
// person may bear a bot's name.
func named(u forge.User, t contract.Trigger) bool {
	return u.Kind == forge.Bot && slices.ContainsFunc(t.Bots, func(name string) bool {
		name = strings.TrimPrefix(name, "@")
		return name == u.Login || strings.TrimSuffix(name, "[bot]") == strings.TrimSuffix(u.Login, "[bot]")
	})
}

// Judge names the act that counts and lists all violations.
func Judge(f Facts) Verdict {
	var v Verdict
	v.target(f)
	refused := v.find(f)
	v.closing(f)
	v.judge(f, refused)
	if len(v.Human) > 0 {
		v.TakenBack = f.approving()
	}
	return v
}

func (v *Verdict) judge(f Facts, refused []refusal) {
	switch {
	case v.Act.Verb == "" && len(refused) > 0:
		v.Violations = append(v.Violations, f.revoked(refused)...)
	case v.Act.Verb == "", v.Act.Verb == Closed && f.approving().Verb == "":
		v.bad(kernel.CodeEventStale, "", "Nobody has approved the issue as it stands now.")
	case v.Act.Verb == Stop:
		v.human(kernel.CodeTaskStopped, v.Act.ID(), "Stopped by %s.", v.Act.Actor.Login)
	case v.Act.Verb == Unlabeled:
		v.human(kernel.CodeSuperseded, v.Act.ID(), "%s took the label %s off.", v.Act.Actor.Login, f.Trigger.Label)
	case v.Act.Verb == Closed && len(v.Human) > 0:
		// it is closed still, and that was said
	case v.Act.Verb == Closed:
		v.human(kernel.CodeSuperseded, v.Act.ID(), "%s closed the issue. Since it was put back open, nobody has approved it anew.", v.Act.Actor.Login)
	default:
		v.approve(f)
		v.beforeAnew(f)
	}
}

// beforeAnew notes what took back the act that a live run rests on, where somebody
// approved anew since: the run was for another act.
func (v *Verdict) beforeAnew(f Facts) {
	list := f.acts()
	at := slices.IndexFunc(list, func(a Act) bool { return a.ID() == v.Act.ID() })
	if at < 0 || len(v.Human) > 0 {
		return
	}
	for _, a := range f.sinceLive(list, at) {
		if f.mayNot(a) != nil {
			continue
		}
		code := kernel.CodeSuperseded
		if a.Verb == Stop {
			code = kernel.CodeTaskStopped
		}
		v.human(code, a.ID(), "%s took back what the run rests on (%s), before it was approved anew.", a.Actor.Login, a.Verb)
		return
	}
}

// approving is the newest act that approves, whether or not it still counts; zero for none.
func (f Facts) approving() Act {
	for _, a := range f.acts() {
		if !a.takesBack() && a.Actor.ID != 0 && !f.knownStranger(a) {
			return a
		}
	}
	return Act{}
}

func (v *Verdict) bad(c kernel.Code, subject, format string, args ...any) {
	v.Violations = append(v.Violations, kernel.Violation{Code: c, Subject: subject, Detail: fmt.Sprintf(format, args...)})
}

// human notes what speaks against a start and ends a run.
func (v *Verdict) human(c kernel.Code, subject, format string, args ...any) {
	v.bad(c, subject, format, args...)
	v.Human = append(v.Human, v.Violations[len(v.Violations)-1])
}

// target holds the place against what was configured. Only numbers identify.
func (v *Verdict) target(f Facts) {
	t := f.Target
	switch {
	case t.Found == nil:
		v.bad(kernel.CodeTargetIneligible, t.Wanted.String(), "The repository is gone, or hidden from writ.")
		return
	case t.Found.ID != t.Wanted.ID:
		v.bad(kernel.CodeTargetIneligible, t.Wanted.String(), "It is another repository by that name: its id is %d, configured is %d.", t.Found.ID, t.Wanted.ID)
	}
	if !t.Allowed {
		v.bad(kernel.CodeTargetNotAllowed, t.Found.String(), "The operator's allow-list doesn't have the repository.")
	}
	for _, c := range []struct {
		is   bool
		what string
	}{
		{t.Found.Archived, "The repository is archived."},
		{t.Found.Fork, "The repository is a fork."},
		{f.Issue.IsChange, "It is a change, not an issue."},
		{f.Issue.Locked, "The issue is locked."},
	} {
		if c.is {
			v.bad(kernel.CodeTargetIneligible, "", "%s", c.what)
		}
	}
}

// find looks for the newest act of somebody who may, and collects why those
// after it don't count.
func (v *Verdict) find(f Facts) (refused []refusal) {
	for _, a := range f.acts() {
		why := f.mayNot(a)
		if why == nil {
			v.Act = a
			return nil
		}
		refused = append(refused, refusal{a, *why})
	}
	return refused
}

type refusal struct {
	act Act
	why kernel.Violation
}

// revoked lists why nobody's act counts. Where the task was claimed on one of
// them, whoever did it could, then.
func (f Facts) revoked(list []refusal) []kernel.Violation {
	newest := list[0].why
	for _, r := range list {
		if r.act.ID() == f.Prior && f.Prior != "" && r.why.Code == kernel.CodeAuthority {
			return []kernel.Violation{{Code: kernel.CodeAuthorityRevoked, Subject: r.act.ID(),
				Detail: fmt.Sprintf("%s approved it, and may not do so any more.", r.act.Actor.Login)}}
		}
	}
	return []kernel.Violation{newest}
}

// asked reports whether an act turns on its actor's live permission.
func (f Facts) asked(a Act) bool {
	return !a.anybodys() && a.ID() != f.Stopped && a.Actor.ID != 0 && f.own(a) == nil && a.Actor.Kind == forge.Person
}

// own refuses what writ did itself. With a person's token the person's acts and
// writ's have one account; writ gives no commands and never sets the label, so
// those are his.
func (f Facts) own(a Act) *kernel.Violation {
	if a.Actor.ID == f.Self.ID && f.Self.Kind == forge.Bot {
		return &kernel.Violation{Code: kernel.CodeRecursion, Subject: a.ID(), Detail: "It is writ's own act."}
	}
	return nil
}

// mayNot says why an act doesn't count, nil if it does.
func (f Facts) mayNot(a Act) *kernel.Violation {
	if a.anybodys() || a.Verb == Stop && a.ID() == f.Stopped {
		return nil
	}
	no := func(format string, args ...any) *kernel.Violation {
		return &kernel.Violation{Code: kernel.CodeAuthority, Subject: a.ID(), Detail: fmt.Sprintf(format, args...)}
	}
	if own := f.own(a); own != nil {
		return own
	}
	least, err := forge.ParsePermission(f.Trigger.Permission)
	switch {
	case err != nil:
		return no("The contract's permission is none: %s.", f.Trigger.Permission)
	case a.Actor.ID == 0:
		return no("The label %s was there from the start; nobody with permission set it.", f.Trigger.Label)
	case a.Actor.Kind == forge.Bot && !named(a.Actor, f.Trigger):
		return no("%s is a bot that the contract doesn't name.", a.Actor.Login)
	case a.Actor.Kind == forge.Bot:
		return nil
	case a.Actor.Kind != forge.Person:
		return no("What kind of account %s is, isn't known.", a.Actor.Login)
	}
	if has := f.Permissions[a.Actor.ID]; has < least || least <= forge.None {
		return no("%s has the permission %s, needed is %s.", a.Actor.Login, has, least)
	}
	return nil
}

// approve notes what the act approved.
func (v *Verdict) approve(f Facts) {
	v.Approval = kernel.Approval{Actor: fmt.Sprintf("%d:%s", v.Act.Actor.ID, v.Act.Actor.Login), Time: v.Act.At}
	v.Approval.Digest, v.Approval.Evidence = f.proof(v.Act)
	switch {
	case v.Act.Verb == Approve && v.Act.Digest != f.Digest && !f.editedSince(v.Act.At):
		v.Approval.Digest, v.Approval.Evidence, v.Approval.Time = "", "", 0 // no payload that is on its way shows it
		v.bad(kernel.CodeApprovalUnproven, v.Act.ID(),
			"The digest that %s named isn't that of the issue as it is now. Read it, then comment: /writ approve %s", v.Act.Actor.Login, f.Digest)
	case v.Approval.Digest == "":
		v.bad(kernel.CodeApprovalUnproven, v.Act.ID(),
			"Nobody can show which text %s approved. Read the issue as it is now, then comment: /writ approve %s", v.Act.Actor.Login, f.Digest)
	}
	if e := f.transferredAfter(v.Act.At); e != nil {
		v.bad(kernel.CodeTargetIneligible, "", "The issue was transferred after its approval, by %s.", e.Actor.Login)
	}
}

func (f Facts) transferredAfter(at int64) *forge.Event {
	for _, e := range f.History {
		if e.Kind == forge.EventTransferred && e.At.UnixMilli() >= at {
			return &e
		}
	}
	return nil
}

// closing says who closed a closed issue. A person's closing ends the matter. A
// bot's, and writ's own, does so only while nothing was claimed: afterwards the
// issue is put back open.
func (v *Verdict) closing(f Facts) {
	if f.Issue.State != forge.Closed {
		return
	}
	v.Closing = &Closing{Class: ByPerson}
	subject := ""
	for _, e := range slices.Backward(f.History) {
		if e.Kind == forge.EventClosed {
			v.Closing = &Closing{Event: e.ID, By: e.Actor, Class: ClassOf(e.Actor, f.Self, f.Trigger)}
			subject = Act{Verb: Closed, Ref: e.ID, At: e.At.UnixMilli()}.ID()
			break
		}
	}
	switch {
	case v.Closing.Class == ByPerson:
		v.human(kernel.CodeSuperseded, subject, "The issue was closed by a person: %s.", v.Closing.By.Login)
	case f.Prior == "":
		v.bad(kernel.CodeTargetIneligible, "", "The issue is closed.")
	}
}

// proof finds the digest of the bytes that an act approved.
func (f Facts) proof(a Act) (canon.Digest, string) {
	if a.Verb == Approve {
		return a.Digest, EvidenceNamed
	}
	if d := f.payload(a); d != "" {
		return d, EvidencePayload
	}
	if d := f.shown(a); d != "" {
		return d, EvidenceHistory
	}
	if d := f.again(a); d != "" {
		return d, EvidenceEarlier
	}
	return "", ""
}

// payload is the digest that a signed payload shows. Two payloads of one act
// that show different texts prove nothing.
func (f Facts) payload(a Act) canon.Digest {
	var found canon.Digest
	only := a.byLabel() && f.labelledOnce(a.Actor.ID)
	for _, r := range f.Rows {
		if !r.of(a, f.Trigger.Label, only) || !r.Digest.Valid() {
			continue
		}
		if found != "" && found != r.Digest {
			return ""
		}
		found = r.Digest
	}
	return found
}

// labelledOnce reports whether an account set the label once and never again.
func (f Facts) labelledOnce(account int64) bool {
	n := 0
	for _, e := range f.History {
		if e.Kind == forge.EventLabeled && e.Label == f.Trigger.Label && e.Actor.ID == account {
			n++
		}
	}
	return n == 1
}

// of reports whether the row is of the act. GitHub's payload of a label has no
// time but the issue's last update, which may be that before the label. Where the
// account set the label only once, the row can be of no other act.
func (r Row) of(a Act, label string, only bool) bool {
	if r.Actor != a.Actor.ID {
		return false
	}
	if a.byLabel() {
		return r.Kind == ByLabel && r.Label == label && r.At-a.At <= rowSlackMs && (only || a.At-r.At <= rowSlackMs)
	}
	return r.Kind == ByComment && r.Ref == a.Ref
}

// shown is the digest that the forge's history shows: of the act itself, or of
// the text now if there was no edit since.
func (f Facts) shown(a Act) canon.Digest {
	if a.byLabel() && a.Digest.Valid() {
		return a.Digest
	}
	if !f.EditHistory || f.editedSince(a.At) {
		return ""
	}
	return f.Digest
}

// editedSince reports whether the history shows an edit since then, Unix milliseconds.
func (f Facts) editedSince(at int64) bool {
	return slices.ContainsFunc(f.History, func(e forge.Event) bool {
		return e.Kind == forge.EventEdited && e.At.UnixMilli() >= at
	})
}
