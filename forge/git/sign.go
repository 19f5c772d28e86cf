package git

import (
	"bytes"
	"encoding/pem"
	"strings"

	"github.com/hiddeco/sshsig"
	"golang.org/x/crypto/ssh"
)

// signatureNamespace is the namespace that git uses, so that git verify-commit
// accepts what is signed here, and nothing signed for another purpose counts.
const signatureNamespace = "git"

// Signer signs commits in the SSH signature format.
type Signer interface {
	// Sign returns the armored signature of message in the namespace "git".
	Sign(message []byte) ([]byte, error)
	PublicKey() ssh.PublicKey
}

type sshSigner struct{ key ssh.Signer }

// NewSigner makes a Signer of an SSH private key.
func NewSigner(key ssh.Signer) Signer { return sshSigner{key} }

func (s sshSigner) PublicKey() ssh.PublicKey { return s.key.PublicKey() }

func (s sshSigner) Sign(message []byte) ([]byte, error) {
	sig, err := sshsig.Sign(bytes.NewReader(message), s.key, sshsig.HashSHA512, signatureNamespace)
	if err != nil {
		return nil, fail(CodeSignature, "the key can't sign", "check the instance's key", err)
	}
	return sshsig.Armor(sig), nil
}

// Fingerprint names a key as OpenSSH does: SHA256:… .
func Fingerprint(key ssh.PublicKey) string { return ssh.FingerprintSHA256(key) }

// VerifyCommit checks the SSH signature of a raw commit object and returns the
// fingerprint (SHA256:…) of the key that made it. If the signature is good but
// the key is not among trusted, the fingerprint comes with an error of code
// commit.untrusted. A commit that can be read in two ways is never verified.
func VerifyCommit(raw []byte, trusted []ssh.PublicKey) (string, error) {
	c, err := ParseCommit(raw)
	if err != nil {
		return "", err
	}
	return c.Verify(trusted)
}

// Verify is VerifyCommit for a commit that was read already.
func (c Commit) Verify(trusted []ssh.PublicKey) (string, error) {
	if len(c.Ambiguous) > 0 || c.payload == nil {
		return "", fail(CodeCommitAmbiguous, "commit "+string(c.OID)+" is not beyond doubt", "", nil)
	}
	if len(c.Signature) == 0 {
		return "", fail(CodeCommitUnsigned, "commit "+string(c.OID)+" is not signed", "sign it with an SSH key", nil)
	}
	sig, err := parseSignature(c.Signature)
	if err == nil {
		err = sshsig.Verify(bytes.NewReader(c.payload), sig, sig.PublicKey, sig.HashAlgorithm, signatureNamespace)
	}
	if err != nil {
		return "", fail(CodeSignature, "the signature of commit "+string(c.OID)+" does not verify", "", err)
	}
	signer := Fingerprint(sig.PublicKey)
	for _, k := range trusted {
		if bytes.Equal(k.Marshal(), sig.PublicKey.Marshal()) {
			return signer, nil
		}
	}
	return signer, fail(CodeUntrusted, "commit "+string(c.OID)+" is signed by "+signer+", which is not trusted",
		"list the key if you trust it", nil)
}

// parseSignature reads one armored SSH signature and nothing beside it.
func parseSignature(armored []byte) (*sshsig.Signature, error) {
	s := strings.TrimSpace(string(armored))
	block, rest := pem.Decode([]byte(s + "\n"))
	if block == nil || block.Type != sshsig.PEMType || len(rest) > 0 || len(block.Headers) > 0 ||
		!strings.HasPrefix(s, "-----BEGIN "+sshsig.PEMType+"-----\n") {
		return nil, fail(CodeSignature, "not an SSH signature", "", nil)
	}
	return sshsig.ParseSignature(block.Bytes)
}
