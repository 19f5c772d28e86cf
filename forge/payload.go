package forge

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
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
	if len(data) > MaxPayloadBytes {
		return Payload{}, &PayloadError{Fault: PayloadSize, Offset: MaxPayloadBytes}
	}
	if _, err := Members(data, MaxPayloadDepth); err != nil {
		return Payload{}, err
	}
	var p Payload
	if err := json.Unmarshal(data, &p); err != nil {
		return Payload{}, wrongType(err)
	}
	return p, nil
}

// wrongType names the member that a document couldn't be read into. Its name is one of
// ours.
func wrongType(err error) error {
	var e *json.SemanticError
	if !errors.As(err, &e) {
		return &PayloadError{Fault: PayloadSyntax}
	}
	name := strings.ReplaceAll(strings.TrimPrefix(string(e.JSONPointer), "/"), "/", ".")
	return &PayloadError{Fault: PayloadType, Member: cmp.Or(name, "the document")}
}

// Members checks that data is exactly one JSON document with at most depth open objects and
// arrays, and no key twice in any object, and gives those members of its object that are
// named, by their exact names: their bytes as they stand in data. A document that is no
// object has none. It keeps names and no values, so it may go before a decoder that looks
// at less.
func Members[Bytes ~[]byte](data Bytes, depth int, names ...string) (map[string]Bytes, error) {
	found := make(map[string]Bytes, len(names))
	d := jsontext.NewDecoder(bytes.NewBuffer(data))
	var name string
	var from int64 // the end of the name
	for open := 1; open > 0; {
		token, err := d.ReadToken()
		if err != nil {
			return nil, unreadable(err, len(data))
		}
		if open = d.StackDepth(); open > depth {
			return nil, &PayloadError{Fault: PayloadDepth, Offset: int(d.InputOffset()) - 1}
		}
		if open != 1 {
			continue
		}
		switch kind, n := d.StackIndex(open); {
		case kind != '{' || n == 0:
		case n%2 == 1:
			name, from = token.String(), d.InputOffset()
		case slices.Contains(names, name):
			found[name] = bytes.TrimLeft(data[from:d.InputOffset()], ": \t\r\n")
		}
	}
	if _, err := d.ReadToken(); !errors.Is(err, io.EOF) {
		return nil, &PayloadError{Fault: PayloadSyntax, Offset: int(d.InputOffset())}
	}
	return found, nil
}

// unreadable is why a document of that size breaks off: at its end, or before.
func unreadable(err error, size int) error {
	var e *jsontext.SyntacticError
	switch {
	case !errors.As(err, &e):
		return &PayloadError{Fault: PayloadSyntax, Offset: size}
	case errors.Is(err, jsontext.ErrDuplicateName):
		return &PayloadError{Fault: PayloadDuplicate, Offset: int(e.ByteOffset)}
	}
	return &PayloadError{Fault: PayloadSyntax, Offset: int(e.ByteOffset)}
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
