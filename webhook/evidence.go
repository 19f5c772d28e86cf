package webhook

import (
	"strings"
	"time"
	"unicode"

	"github.com/writbot/writ/kernel"
)

// approvingEvent is an event by which a person may approve, as a payload tells of it.
type approvingEvent struct {
	kind  string // EvidenceLabel or EvidenceComment
	ref   string // the label, or the comment's number
	actor int64
	text  issueText
	at    time.Time // zero where the payload has none
}

// issueText is title and body of an issue as a payload has them.
type issueText struct {
	title, body string
	whole       bool // both are there, and were not changed on their way
}

// maxIssueText bounds what is read of a title and of a body, in bytes as they
// are sent: four times the largest that a forge keeps. Nobody approves more, and
// an answer within a second can't be given to it.
const maxIssueText = 4 << 20

// bounded is a value that isn't too large to be read as text; absent where it is.
func bounded(v value) value {
	if len(v) > maxIssueText {
		return nil
	}
	return v
}

// textOf reads title and body. A body that is null is an empty one.
func textOf(title, body value) issueText {
	t, ok := bounded(title).text()
	b, whole := bounded(body).text()
	return issueText{t, b, ok && (whole || body.null())}
}

// timeOf is a time, the zero one for none.
func timeOf(v value) time.Time {
	t, _ := v.time()
	return t
}

// maxRef bounds the name of a label in bytes: four times the longest of any
// forge.
const maxRef = 1 << 10

// evidence is what an event leaves: nothing, where the payload doesn't show the
// text, the account or the time. Then the approval is shown in another way.
func (a approvingEvent) evidence(k Key) []Evidence {
	if !a.text.whole || a.at.IsZero() || a.actor == 0 || !refFits(a.ref) {
		return nil
	}
	digest, err := kernel.ApprovalDigest(a.text.title, a.text.body)
	if err != nil {
		return nil
	}
	return []Evidence{{Key: k, Kind: a.kind, Ref: a.ref, Actor: a.actor, Digest: digest, At: a.at.In(time.UTC)}}
}

// refFits reports whether a name can be stored.
func refFits(ref string) bool {
	return ref != "" && len(ref) <= maxRef && !strings.ContainsFunc(ref, unicode.IsControl)
}
