package worldref

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/hiddeco/sshsig"
	"golang.org/x/crypto/ssh"

	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/kernel/canon"
)

// The words of the acts.
const (
	Rebind = "rebind"
	Rotate = "rotate"
	Revoke = "revoke"
	Repair = "repair"
)

const (
	// File is the one file of an act's tree.
	File = "act.json"
	// refWord takes the place of the state refs' last word.
	refWord, taskWord = "world", "task/"

	actKind    = "world_act"
	actVersion = 1
	// proofNamespace keeps a proof from being taken for any other signature.
	proofNamespace = "writ-rotation"

	maxText = 2 << 10 // bytes of actor and reason
	maxRefs = 200_000 // of one act: more tasks than any repository has
)

// Ref is the ref of a world's acts, beside its state refs: refs/writ/world for
// refs/writ/task/.
func Ref(statePrefix string) string { return strings.TrimSuffix(statePrefix, taskWord) + refWord }

// Mark is a commit on a ref. In a repair the zero id is a ref that wasn't there.
type Mark struct {
	Ref  string `json:"ref"`
	Head string `json:"head"`
}

// Act is the content of a commit on the ref.
type Act struct {
	Kind   string `json:"kind"` // "world_act"
	V      int64  `json:"v"`
	Act    string `json:"act"`      // one of the words
	World  string `json:"world_id"` // in which it was made
	Actor  string `json:"actor"`
	Reason string `json:"reason"`
	Time   int64  `json:"time"` // Unix milliseconds
	// Old and New are worlds of a rebinding, keys (OpenSSH, one line without a
	// comment) of a rotation; a revocation has no New, a repair neither.
	Old string `json:"old"`
	New string `json:"new"`
	// Proof is the old key's signature over a rotation without its proof.
	Proof string `json:"proof"`
	Refs  []Mark `json:"refs"` // by ref, each once
}

// check is what is wrong with an act; nil for nothing.
func (a Act) check() error {
	switch {
	case a.Kind != actKind || a.V != actVersion:
		return errors.New("it is of another kind or version")
	case !word(a.World) || a.Time < 0 || len(a.Actor)+len(a.Reason) > maxText || a.Actor == "":
		return errors.New("it doesn't say where, by whom or when, or says too much")
	case len(a.Refs) > maxRefs || !slices.IsSortedFunc(a.Refs, func(x, y Mark) int { return cmp.Compare(x.Ref, y.Ref) }):
		return errors.New("its refs are too many or not in order")
	}
	for i, m := range a.Refs {
		if git.ValidateRef(m.Ref) != nil || !git.OID(m.Head).Valid() || git.OID(m.Head).IsZero() && a.Act != Repair || i > 0 && a.Refs[i-1].Ref == m.Ref {
			return fmt.Errorf("its ref %q can't be", m.Ref)
		}
	}
	return a.checkSubject()
}

// checkSubject looks at what the act is about.
func (a Act) checkSubject() error {
	ok := a.Proof == ""
	switch a.Act {
	case Rebind:
		ok = ok && word(a.Old) && a.New == a.World && a.Old != a.New
	case Rotate:
		ok = keyOf(a.Old) != "" && keyOf(a.New) != "" && keyOf(a.Old) != keyOf(a.New)
	case Revoke:
		ok = ok && keyOf(a.Old) != "" && a.New == ""
	case Repair:
		ok = ok && a.Old == "" && a.New == "" && len(a.Refs) > 0
	default:
		ok = false
	}
	if !ok {
		return fmt.Errorf("it doesn't say what a %q says", a.Act)
	}
	return nil
}

// word reports whether a world's name can stand in a trailer.
func word(s string) bool {
	return s != "" && len(s) <= 1024 && !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r == 0x7f || r == 0xfffd })
}

// keyOf is the fingerprint of a key that is written as it must be, "" of any other.
func keyOf(line string) string {
	key, comment, options, rest, err := ssh.ParseAuthorizedKey([]byte(line))
	if err != nil || comment != "" || len(options) > 0 || len(rest) > 0 || KeyLine(key) != line {
		return ""
	}
	return git.Fingerprint(key)
}

// KeyLine is how an act names a key.
func KeyLine(key ssh.PublicKey) string {
	return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key)))
}

// parse reads an act strictly: what is read is written in its one form.
func parse(data []byte) (Act, error) {
	var a Act
	if err := canon.UnmarshalCanonical(data, &a); err != nil {
		return a, errors.New("it isn't canonical")
	}
	return a, a.check()
}

// message is the commit message of an act.
func (a Act) message() []byte {
	return fmt.Appendf(nil, "writ: %s\n\nwrit-format: 1\nwrit-world: %s\nwrit-act: %s\n", a.Act, a.World, a.Act)
}

// Prove has the key that is replaced say so itself.
func (a *Act) Prove(old ssh.Signer) error {
	text, err := a.proved()
	if err != nil {
		return err
	}
	sig, err := sshsig.Sign(bytes.NewReader(text), old, sshsig.HashSHA512, proofNamespace)
	if err != nil {
		return fmt.Errorf("worldref: the old key can't sign: %w", err)
	}
	a.Proof = string(sshsig.Armor(sig))
	return nil
}

// proved are the bytes that a proof is over.
func (a Act) proved() ([]byte, error) {
	a.Proof = ""
	return canon.Marshal(a)
}

// proven reports whether the old key itself says what a rotation says.
func (a Act) proven() bool {
	sig, err := sshsig.Unarmor([]byte(a.Proof))
	if a.Act != Rotate || err != nil || git.Fingerprint(sig.PublicKey) != keyOf(a.Old) {
		return false
	}
	text, err := a.proved()
	return err == nil && sshsig.Verify(bytes.NewReader(text), sig, sig.PublicKey, sig.HashAlgorithm, proofNamespace) == nil
}
