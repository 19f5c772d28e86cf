package approval

import (
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
)

// Proven reports whether an approval's evidence is one of this package's: such a
// digest was shown, not assumed.
func Proven(a kernel.Approval) bool {
	switch a.Evidence {
	case EvidencePayload, EvidenceHistory, EvidenceNamed, EvidenceEarlier:
		return a.Digest.Valid()
	}
	return false
}

// again is the digest of the bytes that a retry has done again, where no payload
// shows them: those of the approval that the task was last claimed on, if the text
// is that one now, and nothing speaks of another one or of a change of mind since.
//
// It is no guess at what whoever retried had before him. The bytes were approved,
// provably, by somebody who could; nobody took that back; and somebody who can now
// says: again. At most an edit that the forge doesn't show was undone in between:
// then he may have read another text than the one that is carried out, which is
// still the approved one. So only a retry counts on it, which says that nothing
// else is wanted than before: a label and a run may be about any text. An edit that
// was undone and that the forge shows proves nothing any more.
func (f Facts) again(a Act) canon.Digest {
	e := f.Earlier
	if a.Verb != Retry || !Proven(e) || e.Digest != f.Digest || e.Time > a.At || f.editedSince(e.Time) {
		return ""
	}
	for _, other := range f.acts() {
		if other.takesBack() && other.Verb != Closed && other.At >= e.Time && !f.knownStranger(other) {
			return ""
		}
	}
	return f.Digest
}

// knownStranger reports whether an act is by somebody of whom the forge said that
// he may not. About whom it wasn't asked may be anybody.
func (f Facts) knownStranger(a Act) bool {
	_, known := f.Permissions[a.Actor.ID]
	return known && f.mayNot(a) != nil
}
