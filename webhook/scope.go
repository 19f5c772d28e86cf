package webhook

import (
	"strings"
	"time"
	"unicode"

	"github.com/writbot/writ/kernel"
)

// scope is what a hook knows of the outside: which repositories count, and who
// writ is.
type scope struct {
	world    func(repository int64) (world string, allowed bool)
	self     int64
	personal bool
}

func (s scope) check() error {
	if s.world == nil {
		return refuse(kernel.CodeConfigInvalid, "The hook has no list of repositories.")
	}
	return nil
}

// own reports whether an act of this account is no news. With a personal token
// writ's acts and its owner's look alike, so that none is left out here; writ
// knows its own by what it recorded.
func (s scope) own(sender int64) bool { return s.self != 0 && sender == s.self && !s.personal }

// act is an event that may approve, as a payload tells of it.
type act struct {
	kind  string // EvidenceLabel or EvidenceComment
	ref   string // the label, or the comment's number
	actor int64
	text  issueText
	at    value
}

// issueText is title and body of an issue as a payload has them. A body that is
// null is an empty one; one that is absent, or was changed on its way, is none.
type issueText struct{ title, body value }

// maxIssueText bounds what is read of a title and of a body, in bytes as they
// are sent: four times the largest that a forge keeps. Nobody approves more, and
// an answer within a second can't be given to it.
const maxIssueText = 4 << 20

func textOf(title, body value) issueText {
	if len(title) > maxIssueText || len(body) > maxIssueText {
		return issueText{}
	}
	return issueText{title, body}
}

// maxRef bounds the name of a label in bytes: four times the longest of any
// forge.
const maxRef = 1 << 10

// evidence is what an act leaves: nothing, where the payload doesn't show the
// text, the account or the time. Then the approval is shown in another way.
func (a act) evidence(k Key) []Evidence {
	title, ok := a.text.title.text()
	body, whole := a.text.body.text()
	at, dated := a.at.time()
	if !ok || !whole && !a.text.body.null() || !dated || a.actor == 0 || !refFits(a.ref) {
		return nil
	}
	digest, err := kernel.ApprovalDigest(title, body)
	if err != nil {
		return nil
	}
	return []Evidence{{Key: k, Kind: a.kind, Ref: a.ref, Actor: a.actor, Digest: digest, At: at.In(time.UTC)}}
}

// refFits reports whether a name can be stored.
func refFits(ref string) bool {
	return ref != "" && len(ref) <= maxRef && !strings.ContainsFunc(ref, unicode.IsControl)
}
