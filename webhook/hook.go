package webhook

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/writbot/writ/compliance/lazyregexp"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
)

// Hook knows the deliveries of one kind of forge. It is used by many requests
// at once. Its errors are [*Error]; their codes decide the status.
type Hook interface {
	// Name is the last part of its path, /hooks/<name>: lower-case letters,
	// digits and dashes.
	Name() string
	// Delivery is the forge's id of the delivery, "" if the headers don't have
	// exactly one. It may be asked before Verify and is believed only after it.
	Delivery(h http.Header) string
	// Verify returns nil if the sender of body knows the secret. Nothing is parsed before.
	Verify(h http.Header, body []byte) error
	// Parse reads a body that Verify took. It refuses what isn't one JSON document,
	// has a name twice in an object, or is deeper than forge.MaxPayloadDepth: nobody
	// has looked at that before. An event that concerns no task is an Event with
	// Ignored, not an error. The Event doesn't keep body.
	Parse(h http.Header, body []byte) (Event, error)
}

// unsigned is implemented by hooks that may have been made without a secret.
type unsigned interface{ Unsigned() bool }

// Key names a task of a world.
type Key struct {
	World string
	Task  int64
}

// Event is what a hook understood of a delivery.
type Event struct {
	Kind     string // the forge's word: "issues"
	Action   string // the forge's word: "labeled"; "" if it has none
	Keys     []Key  // the tasks that it concerns
	Evidence []Evidence
	Access   *Access // of an event about what writ may do, nil elsewhere
	// Pushed is the world of the branch that was pushed to, "" elsewhere. It makes
	// nothing due by itself: a branch that is no task's may be the base, where work
	// is reverted. It is a hint, and isn't made durable.
	Pushed    string
	Signature string // what Verify took; kept with evidence. Never a token
	// Ignored is why nothing is due, "" if something is: target.not_allowed,
	// target.ineligible, recursion.self, webhook.event.mismatch,
	// webhook.event.unused.
	Ignored kernel.Code
}

// Access is a hint that what writ may do in some worlds has changed: an
// installation was made, taken away, suspended or resumed, repositories were
// added to it or removed, a repository was renamed, transferred, archived or
// deleted. The receiver's owner asks the forge whether each of the worlds is still
// reachable, and makes its open tasks due. It isn't made durable: a process that
// starts asks anyway.
type Access struct {
	Installation int64    // the forge's number, 0 if the event names none
	Worlds       []string // none: every world of the forge
}

// Evidence is an event that may approve a task.
type Evidence struct {
	Key    Key
	Kind   string       // EvidenceLabel or EvidenceComment
	Ref    string       // the label, or the comment's number
	Actor  int64        // the forge's number of the account
	Digest canon.Digest // of title and raw body as they stood, see kernel.ApprovalDigest
	At     time.Time    // as the forge says
}

// The kinds of evidence.
const (
	EvidenceLabel   = "label"   // a label was set
	EvidenceComment = "comment" // a comment was made
)

// Delivery is what is made durable.
type Delivery struct {
	Hook     string
	ID       string // the forge's; unique within Hook
	Event    Event
	Received time.Time
	Digest   canon.Digest // of the raw body
	// Body is the raw body where Event has evidence, nil elsewhere. It is the
	// inbox's until Accept returns.
	Body []byte
}

// Inbox makes deliveries durable. Its consistency contract: when Accept returns
// nil, the delivery and a due time for each of its keys survive a crash, both or
// neither. A delivery that is there already is a duplicate, and its keys are
// due all the same. Accept may be called by many at once, may take as long as
// the context lasts, and should not take longer. Its errors mean that the sender
// should try again, but for an [*Error], which has its own code.
type Inbox interface {
	Accept(ctx context.Context, d Delivery) (duplicate bool, err error)
}

// target is what a hook knows of the outside: the repositories that count, and the account
// that writ acts as.
type target struct {
	world    func(repository int64) (world string, allowed bool)
	self     int64
	personal bool
}

func (t target) check() error {
	if t.world == nil {
		return refuse(kernel.CodeConfigInvalid, "The hook has no list of repositories.")
	}
	return nil
}

// isOwn reports whether an act of this account is no news. With a personal token
// writ's acts and its owner's look alike, so that none is left out here; writ
// knows its own by what it recorded.
func (t target) isOwn(sender int64) bool { return t.self != 0 && sender == t.self && !t.personal }

// one is a header's only value, "" if it has none or several.
func one(h http.Header, name string) string {
	if values := h.Values(name); len(values) == 1 {
		return values[0]
	}
	return ""
}

func isGUID(id string) bool { return len(id) == len(uuid.Nil.String()) && uuid.Validate(id) == nil }

// idOf is an id in the form in which it is compared; "" for what is none.
func idOf(id string) string {
	switch {
	case isGUID(id):
		return strings.ToLower(id)
	case deliveryID().MatchString(id):
		return id
	}
	return ""
}

// actionForm is the form of an event's or action's name that is kept.
var actionForm = lazyregexp.New(`^[a-z][a-z_]{0,39}$`)

// actions are those of an event that are used; nil for an event without any.
type actions []string

func (a actions) has(action string) bool {
	return a == nil && action == "" || slices.Contains(a, action)
}
