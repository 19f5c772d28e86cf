package instancekey

import (
	"crypto/ed25519"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/crypto/ssh"
	"golang.org/x/mod/sumdb/note"
)

// Public is the public half of an instance's key.
type Public struct {
	ssh ssh.PublicKey
	key ed25519.PublicKey
}

// Key is an instance's key. Its methods are safe for concurrent use.
type Key struct {
	Public
	private ed25519.PrivateKey
	signer  ssh.Signer
}

// New makes a Key of an ed25519 private key; another length is an error.
func New(private ed25519.PrivateKey) (*Key, error) {
	if len(private) != ed25519.PrivateKeySize {
		return nil, errors.New("instancekey: not an ed25519 private key")
	}
	signer, err := ssh.NewSignerFromSigner(private)
	if err != nil {
		return nil, fmt.Errorf("instancekey: %w", err)
	}
	pub := Public{ssh: signer.PublicKey(), key: private.Public().(ed25519.PublicKey)}
	return &Key{Public: pub, private: private, signer: signer}, nil
}

// ParsePublic reads one line as in key.pub; a comment is ignored. Keys other
// than ed25519 are refused.
func ParsePublic(line string) (Public, error) {
	key, _, _, rest, err := ssh.ParseAuthorizedKey([]byte(line))
	if err != nil {
		return Public{}, errors.New("instancekey: not an OpenSSH public key")
	}
	if len(rest) > 0 {
		return Public{}, errors.New("instancekey: more than one public key")
	}
	crypto, ok := key.(ssh.CryptoPublicKey)
	if !ok {
		return Public{}, errors.New("instancekey: not a plain public key")
	}
	raw, ok := crypto.CryptoPublicKey().(ed25519.PublicKey)
	if !ok {
		return Public{}, fmt.Errorf("instancekey: a %s key; only ssh-ed25519 signs for an instance", key.Type())
	}
	return Public{ssh: key, key: raw}, nil
}

// PublicOpenSSH is the key as "ssh-ed25519 AAAA…", without comment or newline.
func (p Public) PublicOpenSSH() string {
	return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(p.ssh)))
}

// Fingerprint is "SHA256:…" as ssh-keygen -l prints it. It names the instance.
func (p Public) Fingerprint() string { return ssh.FingerprintSHA256(p.ssh) }

// Ed25519 is the bare public key.
func (p Public) Ed25519() ed25519.PublicKey { return p.key }

// noteNameBytes is how much of the key its note name shows: enough to tell the
// instances of one repository apart; the note's key hash and the key itself
// decide.
const noteNameBytes = 4

// NoteName is the name on the key's signed notes: "writ-" and eight digits of
// the public key. (A note's name can't hold a plus sign or a space.)
func (p Public) NoteName() string {
	return "writ-" + hex.EncodeToString(p.key[:noteNameBytes])
}

// NoteVerifierKey is the key as golang.org/x/mod/sumdb/note writes verifiers:
// "<name>+<hash>+<base64>".
func (p Public) NoteVerifierKey() (string, error) {
	return note.NewEd25519VerifierKey(p.NoteName(), p.key)
}

// NoteVerifier checks signatures of the key's notes.
func (p Public) NoteVerifier() (note.Verifier, error) {
	text, err := p.NoteVerifierKey()
	if err != nil {
		return nil, fmt.Errorf("instancekey: %w", err)
	}
	return note.NewVerifier(text)
}

// SSHSigner signs as ssh does, for commits.
func (k *Key) SSHSigner() ssh.Signer { return k.signer }

// NoteSigner signs notes.
func (k *Key) NoteSigner() (note.Signer, error) {
	v, err := k.NoteVerifier()
	if err != nil {
		return nil, err
	}
	return noteSigner{name: v.Name(), hash: v.KeyHash(), key: k.private}, nil
}

type noteSigner struct {
	name string
	hash uint32
	key  ed25519.PrivateKey
}

func (s noteSigner) Name() string                    { return s.name }
func (s noteSigner) KeyHash() uint32                 { return s.hash }
func (s noteSigner) Sign(msg []byte) ([]byte, error) { return ed25519.Sign(s.key, msg), nil }

// String hides the private half from %v.
func (k *Key) String() string { return k.Fingerprint() }

// GoString hides the private half from %#v.
func (k *Key) GoString() string { return k.Fingerprint() }
