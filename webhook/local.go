package webhook

import (
	"net/http"
	"strconv"
	"time"

	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/kernel"
)

// The headers of the embedded forge, beside [HeaderSignature].
const (
	HeaderEvent    = "X-Writ-Event"
	HeaderDelivery = "X-Writ-Delivery" // a UUID
)

// LocalConfig is what a [LocalHook] needs.
type LocalConfig struct {
	// Secrets sign deliveries; each of them is enough.
	Secrets []string
	// Unsigned takes deliveries without any secret, for development. [New]
	// refuses such a hook unless it listens on loopback.
	Unsigned bool
	// Self is writ's own account at the forge, whose acts are no news to it; 0 for
	// none.
	Self int64
	// World looks up a repository, by the forge's number of it, among those
	// that the operator allowed.
	World func(repository int64) (world string, allowed bool)
}

// LocalHook is /hooks/local, the embedded forge's.
type LocalHook struct {
	target
	signature *bodySignature // nil: unsigned
}

// NewLocalHook refuses an empty secret (config.secret.empty) unless Unsigned is
// set and there is no secret at all.
func NewLocalHook(c LocalConfig) (*LocalHook, error) {
	h := &LocalHook{target: target{world: c.World, self: c.Self}}
	if err := h.check(); err != nil {
		return nil, err
	}
	if c.Unsigned && len(c.Secrets) == 0 {
		return h, nil
	}
	var err error
	h.signature, err = newBodySignature(c.Secrets)
	return h, err
}

// Name is local.
func (h *LocalHook) Name() string { return "local" }

// Unsigned reports whether deliveries are taken without a signature.
func (h *LocalHook) Unsigned() bool { return h.signature == nil }

// Delivery is the UUID of [HeaderDelivery].
func (h *LocalHook) Delivery(head http.Header) string {
	if id := one(head, HeaderDelivery); isGUID(id) {
		return idOf(id)
	}
	return ""
}

// Verify checks the signature.
func (h *LocalHook) Verify(head http.Header, body []byte) error {
	if h.signature == nil {
		return nil
	}
	return h.signature.Verify(head, body)
}

// Parse reads a [forge.Payload]. The event's header isn't signed, so a body of
// another event is webhook.event.mismatch, recorded and left alone.
func (h *LocalHook) Parse(head http.Header, body []byte) (Event, error) {
	p, err := forge.ParsePayload(body)
	if err != nil {
		return Event{}, malformed(err)
	}
	var e Event
	if h.signature != nil {
		e.Signature = one(head, HeaderSignature)
	}
	if kind := one(head, HeaderEvent); actionForm().MatchString(kind) {
		e.Kind = kind
	}
	if actionForm().MatchString(p.Action) {
		e.Action = p.Action
	}
	k, ignored := h.concerns(e.Kind, p)
	if e.Ignored = ignored; ignored != "" {
		if k.World != "" && p.Event == forge.PayloadPush {
			e.Pushed = pushedTo(p.Ref, k.World)
		}
		return e, nil
	}
	e.Keys = []Key{k}
	if a, ok := localApproval(p); ok {
		e.Evidence = a.evidence(k)
	}
	return e, nil
}

// concerns is the task of an event, or why there is none; then the key has the
// world at most.
func (h *LocalHook) concerns(kind string, p forge.Payload) (Key, kernel.Code) {
	if !localEvent(kind) {
		return Key{}, kernel.CodeEventUnused
	}
	if kind != string(p.Event) || p.Check() != nil {
		return Key{}, kernel.CodeEventMismatch
	}
	world, allowed := h.world(p.Repository.ID)
	if !allowed {
		return Key{}, kernel.CodeTargetNotAllowed
	}
	if h.isOwn(p.Sender.ID) {
		return Key{}, kernel.CodeRecursion
	}
	k := Key{World: world, Task: taskOf(p)}
	if k.Task == 0 {
		return k, kernel.CodeEventUnused
	}
	return k, ""
}

func localEvent(kind string) bool {
	switch forge.PayloadEvent(kind) {
	case forge.PayloadIssues, forge.PayloadComment, forge.PayloadPush, forge.PayloadChange:
		return true
	}
	return false
}

// taskOf is the task that an event concerns; 0 for none. A push, a change and what is said
// of one concern the task of its branch; other branches are looked at by the sweep.
func taskOf(p forge.Payload) int64 {
	if p.Event == forge.PayloadIssues || p.Event == forge.PayloadComment && p.Ref == "" {
		return p.Issue.Number
	}
	return taskOfRef(p.Ref)
}

// localApproval is an event by which a person may approve: a label that was set, a comment
// that was made on an issue.
func localApproval(p forge.Payload) (approvingEvent, bool) {
	a := approvingEvent{actor: p.Sender.ID, at: time.UnixMilli(p.AtMS)}
	switch {
	case p.Event == forge.PayloadIssues && p.Action == "labeled":
		a.kind, a.ref = EvidenceLabel, p.Label
	case p.Event == forge.PayloadComment && p.Action == "created" && p.Ref == "":
		a.kind, a.ref = EvidenceComment, strconv.FormatInt(p.Comment.ID, 10)
	default:
		return approvingEvent{}, false
	}
	a.text = issueText{p.Issue.Title, p.Issue.Body, len(p.Issue.Title) <= maxIssueText && len(p.Issue.Body) <= maxIssueText}
	return a, true
}
