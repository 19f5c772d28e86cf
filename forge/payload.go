package forge

import (
	"fmt"
	"strings"
)

// The limits of a [Payload].
const (
	// MaxPayloadBytes is 25 MiB, the largest body that a forge of the field sends.
	MaxPayloadBytes = 25 << 20
	// MaxPayloadDepth is 64 open objects and arrays; those of the field stay
	// below ten.
	MaxPayloadDepth = 64
)

// PayloadEvent is what a payload tells of.
type PayloadEvent string

// The events of the embedded forge.
const (
	PayloadIssues  PayloadEvent = "issues"        // an issue was opened, edited, labeled, closed …
	PayloadComment PayloadEvent = "issue_comment" // a comment was created, edited or deleted
	PayloadPush    PayloadEvent = "push"          // a branch or tag was moved
	PayloadChange  PayloadEvent = "change"        // a change was opened, merged, closed …
)

// Payload is the body of a webhook of the embedded forge. It is a hint that
// somebody should look, and for approvals evidence of the text that was
// approved; nothing else is ever taken from it. Real bytes:
//
//	{"event":"issues","action":"labeled","repository":{"id":1,"owner":"o","name":"n"},
//	 "sender":{"id":2,"login":"l","kind":"person"},"label":"writ",
//	 "issue":{"number":3,"id":9,"title":"Add fails","body":"…"},"at_ms":1700000000000}
type Payload struct {
	Event      PayloadEvent      `json:"event"`
	Action     string            `json:"action,omitempty"`
	Repository PayloadRepository `json:"repository"`
	Sender     PayloadSender     `json:"sender"`
	Issue      *PayloadIssue     `json:"issue,omitempty"`   // of issues and issue_comment
	Label      string            `json:"label,omitempty"`   // of labeled and unlabeled
	Comment    *PayloadText      `json:"comment,omitempty"` // of issue_comment
	Ref        string            `json:"ref,omitempty"`     // of push and change, from refs/ on
	Before     string            `json:"before,omitempty"`  // object id
	After      string            `json:"after,omitempty"`   // object id
	AtMS       int64             `json:"at_ms"`             // Unix milliseconds
}

// PayloadRepository names a repository. ID alone is its identity.
type PayloadRepository struct {
	ID    int64  `json:"id"`
	Owner string `json:"owner"`
	Name  string `json:"name"`
}

// PayloadSender is whose act it was. ID alone is its identity.
type PayloadSender struct {
	ID    int64  `json:"id"`
	Login string `json:"login"`
	Kind  Kind   `json:"kind"`
}

// PayloadIssue is the issue as it stood right after the act.
type PayloadIssue struct {
	Number int64  `json:"number"`
	ID     int64  `json:"id"`
	Title  string `json:"title"`
	Body   string `json:"body"` // raw
}

// PayloadText is a comment.
type PayloadText struct {
	ID   int64  `json:"id"`
	Body string `json:"body"` // raw
}

// PayloadFault is why a payload can't be read.
type PayloadFault string

// The faults of a payload.
const (
	PayloadSize      PayloadFault = "larger than the limit"
	PayloadDepth     PayloadFault = "nested deeper than the limit"
	PayloadDuplicate PayloadFault = "a key stands twice in one object"
	PayloadSyntax    PayloadFault = "no JSON document"
	PayloadType      PayloadFault = "a member has the wrong type"
	PayloadMissing   PayloadFault = "a member that the event needs is missing"
)

// PayloadError says what is wrong, and where. It holds nothing of the text.
type PayloadError struct {
	Fault  PayloadFault
	Member string // with PayloadType and PayloadMissing: "issue.number"
	Offset int    // bytes from the start, elsewhere
}

func (e *PayloadError) Error() string {
	if e.Member != "" {
		return fmt.Sprintf("payload: %s: %s", e.Fault, e.Member)
	}
	return fmt.Sprintf("payload: %s, at byte %d", e.Fault, e.Offset)
}

// ParsePayload reads exactly one document. Names are compared case by case, an
// unknown member is skipped, since forges add some, and null is the same as
// absent. A key twice in any object, invalid UTF-8, a lone surrogate or a
// fraction where an integer belongs is a [*PayloadError]. What the event needs
// is looked at by [Payload.Check], not here.
func ParsePayload(data []byte) (Payload, error) {
	var p Payload
	if len(data) > MaxPayloadBytes {
		return p, &PayloadError{Fault: PayloadSize, Offset: MaxPayloadBytes}
	}
	r := newJSONReader(data, MaxPayloadDepth)
	if err := r.document(func() error { return r.members("", p.member(r)) }); err != nil {
		return Payload{}, err
	}
	return p, nil
}

// CheckJSON reports whether data is exactly one JSON document with at most
// depth open objects and arrays, and no key twice in any object. It allocates
// next to nothing, so it may go before a decoder that looks at less.
func CheckJSON(data []byte, depth int) error {
	r := newJSONReader(data, depth)
	return r.document(r.skip)
}

// Check reports whether the parts that the event needs are there.
func (p Payload) Check() error {
	var absent []string
	need := func(name string, there bool) {
		if !there {
			absent = append(absent, name)
		}
	}
	need("repository.id", p.Repository.ID > 0)
	need("sender.id", p.Sender.ID > 0)
	need("sender.kind", p.Sender.Kind == Person || p.Sender.Kind == Bot)
	need("at_ms", p.AtMS > 0)
	switch p.Event {
	case PayloadIssues, PayloadComment:
		need("action", p.Action != "")
		need("issue.number", p.Issue != nil && p.Issue.Number > 0)
		need("issue.id", p.Issue != nil && p.Issue.ID > 0)
		need("comment.id", p.Event == PayloadIssues || p.Comment != nil && p.Comment.ID > 0)
		need("label", !strings.HasSuffix(p.Action, "labeled") || p.Label != "")
	case PayloadPush:
		need("ref", strings.HasPrefix(p.Ref, "refs/"))
		need("before", p.Before != "")
		need("after", p.After != "")
	case PayloadChange:
		need("action", p.Action != "")
		need("ref", strings.HasPrefix(p.Ref, "refs/"))
	default:
		need("event", false)
	}
	if absent != nil {
		return &PayloadError{Fault: PayloadMissing, Member: strings.Join(absent, ", ")}
	}
	return nil
}

// Repo is the repository in the words of the role interfaces.
func (p PayloadRepository) Repo() Repo { return Repo(p) }

// User is the sender in the words of the role interfaces.
func (s PayloadSender) User() User { return User(s) }

// The readers of each object's members. A name that they don't know is skipped.

func (p *Payload) member(r *jsonReader) memberFunc {
	return func(key []byte) error {
		switch name := string(key); name {
		case "event":
			return r.text(name, (*string)(&p.Event))
		case "action":
			return r.text(name, &p.Action)
		case "repository":
			return r.members(name, p.Repository.member(r))
		case "sender":
			return r.members(name, p.Sender.member(r))
		case "issue":
			if r.peek() != 'n' {
				p.Issue = new(PayloadIssue)
			}
			return r.members(name, p.Issue.member(r))
		case "label":
			return r.text(name, &p.Label)
		case "comment":
			if r.peek() != 'n' {
				p.Comment = new(PayloadText)
			}
			return r.members(name, p.Comment.member(r))
		case "ref":
			return r.text(name, &p.Ref)
		case "before":
			return r.text(name, &p.Before)
		case "after":
			return r.text(name, &p.After)
		case "at_ms":
			return r.integer(name, &p.AtMS)
		}
		return r.skip()
	}
}

func (p *PayloadRepository) member(r *jsonReader) memberFunc {
	return func(key []byte) error {
		switch string(key) {
		case "id":
			return r.integer("repository.id", &p.ID)
		case "owner":
			return r.text("repository.owner", &p.Owner)
		case "name":
			return r.text("repository.name", &p.Name)
		}
		return r.skip()
	}
}

func (s *PayloadSender) member(r *jsonReader) memberFunc {
	return func(key []byte) error {
		switch string(key) {
		case "id":
			return r.integer("sender.id", &s.ID)
		case "login":
			return r.text("sender.login", &s.Login)
		case "kind":
			return r.text("sender.kind", (*string)(&s.Kind))
		}
		return r.skip()
	}
}

func (i *PayloadIssue) member(r *jsonReader) memberFunc {
	return func(key []byte) error {
		switch string(key) {
		case "number":
			return r.integer("issue.number", &i.Number)
		case "id":
			return r.integer("issue.id", &i.ID)
		case "title":
			return r.text("issue.title", &i.Title)
		case "body":
			return r.text("issue.body", &i.Body)
		}
		return r.skip()
	}
}

func (t *PayloadText) member(r *jsonReader) memberFunc {
	return func(key []byte) error {
		switch string(key) {
		case "id":
			return r.integer("comment.id", &t.ID)
		case "body":
			return r.text("comment.body", &t.Body)
		}
		return r.skip()
	}
}
