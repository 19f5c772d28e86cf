package webhook

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/kernel"
)

// The headers of the embedded forge, beside [HeaderSignature].
const (
	HeaderEvent    = "X-Writ-Event"
	HeaderDelivery = "X-Writ-Delivery" // a UUID
)

// branches that belong to a task are named by its number.
var taskBranches = []string{"refs/heads/writ/change/", "refs/heads/writ/task/"}

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
	signature *Signature // nil: unsigned
	world     func(int64) (string, bool)
	self      int64
}

// NewLocalHook refuses an empty secret (config.secret.empty) unless Unsigned is
// set and there is no secret at all.
func NewLocalHook(c LocalConfig) (*LocalHook, error) {
	h := &LocalHook{world: c.World, self: c.Self}
	if c.World == nil {
		return nil, refuse(kernel.CodeConfigInvalid, "The local hook has no list of repositories.")
	}
	if c.Unsigned && len(c.Secrets) == 0 {
		return h, nil
	}
	var err error
	h.signature, err = NewSignature(c.Secrets)
	return h, err
}

// Name is local.
func (h *LocalHook) Name() string { return "local" }

// Unsigned reports whether anybody's delivery is taken.
func (h *LocalHook) Unsigned() bool { return h.signature == nil }

// Delivery is the UUID of [HeaderDelivery].
func (h *LocalHook) Delivery(head http.Header) string {
	id := one(head, HeaderDelivery)
	if len(id) != len(uuid.Nil.String()) || uuid.Validate(id) != nil {
		return ""
	}
	return strings.ToLower(id)
}

// Verify checks the signature.
func (h *LocalHook) Verify(head http.Header, body []byte) error {
	if h.signature == nil {
		return nil
	}
	return h.signature.Verify(head, body)
}

// word is the form of an event's or action's name that is kept.
var word = lazy(`^[a-z][a-z_]{0,39}$`)

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
	if kind := one(head, HeaderEvent); word().MatchString(kind) {
		e.Kind = kind
	}
	if word().MatchString(p.Action) {
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
	e.Evidence, err = evidence(k, p)
	return e, err
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
	if h.self != 0 && p.Sender.ID == h.self {
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
// of one concern the task whose branch it is; other branches are looked at by the sweep.
func taskOf(p forge.Payload) int64 {
	if p.Event == forge.PayloadIssues || p.Event == forge.PayloadComment && p.Ref == "" {
		return p.Issue.Number
	}
	return taskOfRef(p.Ref)
}

// pushedTo is the world if a push was to one of its branches, "" otherwise.
func pushedTo(ref, world string) string {
	if !strings.HasPrefix(ref, "refs/heads/") {
		return ""
	}
	return world
}

// maxTask is the largest number that a record holds, see package canon.
const maxTask = 1<<53 - 1

// taskOfRef is the task whose branch a ref is; 0 for none.
func taskOfRef(ref string) int64 {
	for _, prefix := range taskBranches {
		if rest, ok := strings.CutPrefix(ref, prefix); ok {
			n, err := strconv.ParseInt(rest, 10, 64)
			if err == nil && n > 0 && n <= maxTask && strconv.FormatInt(n, 10) == rest {
				return n
			}
		}
	}
	return 0
}

// evidence is kept of the two acts by which a person approves.
func evidence(k Key, p forge.Payload) ([]Evidence, error) {
	var kind, ref string
	switch {
	case p.Event == forge.PayloadIssues && p.Action == "labeled":
		kind, ref = EvidenceLabel, p.Label
	case p.Event == forge.PayloadComment && p.Action == "created" && p.Ref == "": // on an issue
		kind, ref = EvidenceComment, strconv.FormatInt(p.Comment.ID, 10)
	default:
		return nil, nil
	}
	digest, err := kernel.ApprovalDigest(p.Issue.Title, p.Issue.Body)
	if err != nil {
		return nil, refuse(kernel.CodeBodyMalformed, "The issue's text can't be hashed.")
	}
	return []Evidence{{Key: k, Kind: kind, Ref: ref, Actor: p.Sender.ID, Digest: digest, At: time.UnixMilli(p.AtMS)}}, nil
}

// one is a header's only value, "" if it has none or several.
func one(h http.Header, name string) string {
	if values := h.Values(name); len(values) == 1 {
		return values[0]
	}
	return ""
}
