package git

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/writbot/writ/forge/git/gittest"
)

const (
	treeLine   = "tree 4b825dc642cb6eb9a060e54bf8d69288fbee4904\n"
	parentLine = "parent 1111111111111111111111111111111111111111\n"
	authorLine = "author A <a@example.com> 1700000000 +0000\n"
	commitLine = "committer C <c@example.com> 1700000001 +0200\n"
)

func TestG4_Ambiguous(t *testing.T) {
	person := func(rest string) string { return treeLine + authorLine + "committer " + rest + "\n\nm\n" }
	for name, raw := range map[string]string{
		"two trees":               treeLine + treeLine + authorLine + commitLine + "\nm\n",
		"two authors":             treeLine + authorLine + authorLine + commitLine + "\nm\n",
		"two committers":          treeLine + authorLine + commitLine + "committer E <e@example.com> 4102444800 +0000\n\nm\n",
		"committer before author": treeLine + commitLine + authorLine + "\nm\n",
		"parent behind author":    treeLine + authorLine + parentLine + commitLine + "\nm\n",
		"parent behind committer": treeLine + authorLine + commitLine + parentLine + "\nm\n",
		"no tree":                 authorLine + commitLine + "\nm\n",
		"no author":               treeLine + commitLine + "\nm\n",
		"no committer":            treeLine + authorLine + "\nm\n",
		"encoding":                treeLine + authorLine + commitLine + "encoding ISO-8859-1\n\nm\n",
		"two encodings":           treeLine + authorLine + commitLine + "encoding a\nencoding b\n\nm\n",
		"two signatures":          treeLine + authorLine + commitLine + "gpgsig a\ngpgsig b\n\nm\n",
		"NUL in the message":      treeLine + authorLine + commitLine + "\nseen\x00unseen\n",
		"NUL in a name":           person("C\x00D <c@example.com> 1 +0000"),
		"no blank line":           treeLine + authorLine + commitLine,
		"folded committer":        treeLine + authorLine + commitLine + " 4102444800 +0000\n\nm\n",
		"short tree":              "tree 4b825dc\n" + authorLine + commitLine + "\nm\n",
		"upper-case tree":         strings.ToUpper(treeLine[:45]) + "\n" + authorLine + commitLine + "\nm\n",
		"overflow":                person("C <c@example.com> 99999999999999999999 +0000"),
		"overflow to small":       person("C <c@example.com> 18446744073709551617 +0000"),
		"beyond the year 9999":    person("C <c@example.com> 253402300800 +0000"),
		"negative":                person("C <c@example.com> -1 +0000"),
		"plus":                    person("C <c@example.com> +1 +0000"),
		"leading zero":            person("C <c@example.com> 01700000000 +0000"),
		"hexadecimal":             person("C <c@example.com> 0x10 +0000"),
		"no date":                 person("C <c@example.com>"),
		"no zone":                 person("C <c@example.com> 1700000000"),
		"no space before date":    person("C <c@example.com>1700000000 +0000"),
		"zone too far":            person("C <c@example.com> 1700000000 +9999"),
		"zone of six digits":      person("C <c@example.com> 1700000000 +000000"),
		"zone in letters":         person("C <c@example.com> 1700000000 UTC"),
		"zone -0030":              person("C <c@example.com> 1700000000 -0030"),
		"carriage return":         person("C <c@example.com> 1700000000 +0000\r"),
		"two addresses":           person("C <c@example.com> <d@example.com> 1700000000 +0000"),
		"no address":              person("C 1700000000 +0000"),
		"date twice":              person("C <c@example.com> 1700000000 +0000 > 4102444800 +0000"),
		"empty":                   "",
	} {
		c, err := ParseCommit([]byte(raw))
		if CodeOf(err) != CodeCommitAmbiguous || len(c.Ambiguous) == 0 {
			t.Errorf("%s: %v", name, err)
		}
		if c.OID != hashObject(objCommit, []byte(raw)) || string(c.Raw) != raw {
			t.Errorf("%s: the facts are lost", name)
		}
	}
}

func TestG4_Clear(t *testing.T) {
	for name, raw := range map[string]string{
		"plain":           treeLine + authorLine + commitLine + "\nm\n",
		"merge":           treeLine + parentLine + strings.Replace(parentLine, "1", "2", 40) + authorLine + commitLine + "\nm\n",
		"empty message":   treeLine + authorLine + commitLine + "\n",
		"blank lines":     treeLine + authorLine + commitLine + "\n\n\nm\n\n\ntree x\n",
		"extra header":    treeLine + authorLine + commitLine + "extra value\n more\n\nm",
		"empty name":      treeLine + "author  <> 0 +0000\n" + commitLine + "\nm\n",
		"zone -0000":      treeLine + authorLine + "committer C <c@example.com> 1 -0000\n\nm\n",
		"the last second": treeLine + authorLine + "committer C <c@example.com> 253402300799 +1400\n\nm\n",
	} {
		c, err := ParseCommit([]byte(raw))
		if err != nil || !c.Author.OK || !c.Committer.OK {
			t.Errorf("%s: %v", name, err)
		}
	}
	c, err := ParseCommit([]byte(treeLine + authorLine + commitLine + "\nm\n"))
	want := Person{"C", "c@example.com", 1700000001, "+0200", true}
	if err != nil || c.Committer != want || string(c.Message) != "m\n" {
		t.Errorf("%+v, %v", c, err)
	}
}

// TestG4_FactsOfAmbiguous: a lease with a bad date must still be judged, so its
// tree, parents and message are there.
func TestG4_FactsOfAmbiguous(t *testing.T) {
	everywhere(t, func(t *testing.T, s served) {
		raw := treeLine + authorLine + "committer C <c@example.com> 99999999999999999999 +0000\n\naynig-state: working\n"
		gittest.GitInput(t, s.dir, "", "mktree")
		oid := gittest.GitInput(t, s.dir, raw, "hash-object", "-t", "commit", "--literally", "-w", "--stdin")
		if err := os.MkdirAll(filepath.Join(s.dir, "refs/writ/task"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(s.dir, stateRef), []byte(oid+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		c, err := s.open(t).Commit(t.Context(), OID(oid))
		wantCode(t, err, CodeCommitAmbiguous)
		if c.Committer.OK || c.Tree == "" || string(c.Message) != "aynig-state: working\n" || c.Committer.Name != "C" {
			t.Errorf("facts: %+v", c)
		}
		if _, err := s.open(t).Tree(t.Context(), OID(oid)); err != nil {
			t.Errorf("its tree: %v", err)
		}
	})
}

// TestG4_GitAgrees: what we call clear, git reads with the same facts.
func TestG4_GitAgrees(t *testing.T) {
	dir := gittest.NewBare(t)
	gittest.GitInput(t, dir, "", "mktree")
	for _, raw := range []string{
		treeLine + authorLine + commitLine + "\nsubject\n\nbody\n",
		treeLine + "author  <> 0 +0000\n" + commitLine + "\nm\n",
		treeLine + authorLine + "committer C D <c@example.com> 253402300799 +1400\n\nm\n",
		treeLine + authorLine + commitLine + "extra value\n more\n\nm\n",
	} {
		c, err := ParseCommit([]byte(raw))
		if err != nil {
			t.Fatal(err)
		}
		oid := gittest.GitInput(t, dir, raw, "hash-object", "-t", "commit", "-w", "--stdin")
		got := gittest.Git(t, dir, "log", "-1", "--format=%H %T %an|%ae|%at %cn|%ce|%ct%n%B", oid)
		want := fmt.Sprintf("%s %s %s|%s|%d %s|%s|%d\n%s", c.OID, c.Tree, c.Author.Name, c.Author.Email, c.Author.Seconds,
			c.Committer.Name, c.Committer.Email, c.Committer.Seconds, c.Message)
		if strings.TrimSpace(got) != strings.TrimSpace(want) {
			t.Errorf("git: %q\nwe: %q", got, want)
		}
	}
}

func FuzzParseCommit(f *testing.F) {
	f.Add([]byte(treeLine + parentLine + authorLine + commitLine + "gpgsig a\n b\n\nm\n"))
	f.Add([]byte(treeLine + authorLine + commitLine + "encoding x\n\nm\x00"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		c, err := ParseCommit(raw)
		if err != nil {
			return
		}
		// A clear commit without further headers is written back byte for byte.
		spec := CommitSpec{c.Tree, c.Parents, c.Author, c.Committer, c.Message}
		again, err := encodeCommit(spec, nil)
		if err != nil {
			t.Fatalf("clear, but can't be written: %v", err)
		}
		plain := strings.Count(string(raw[:len(raw)-len(c.Message)]), "\n") == 4+len(c.Parents)
		if plain && string(again) != string(raw) && !strings.Contains(string(raw), " <") {
			t.Fatalf("%q\n%q", raw, again)
		}
	})
}

func signed(t *testing.T, key ssh.Signer, message string) (*Objects, OID) {
	t.Helper()
	o := NewObjects()
	tree, err := o.Tree(nil)
	if err != nil {
		t.Fatal(err)
	}
	oid, err := o.Commit(CommitSpec{Tree: tree, Author: tester, Committer: tester, Message: []byte(message)}, NewSigner(key))
	if err != nil {
		t.Fatal(err)
	}
	return o, oid
}

func TestVerifyCommit(t *testing.T) {
	key, other := gittest.NewKey(t), gittest.NewKey(t)
	o, _ := signed(t, key, "a\n\nb: c\n")
	raw := o.list[len(o.list)-1].data
	trusted := []ssh.PublicKey{other.PublicKey(), key.PublicKey()}

	signer, err := VerifyCommit(raw, trusted)
	if err != nil || signer != ssh.FingerprintSHA256(key.PublicKey()) {
		t.Fatalf("%s, %v", signer, err)
	}
	signer, err = VerifyCommit(raw, trusted[:1])
	wantCode(t, err, CodeUntrusted)
	if signer != Fingerprint(key.PublicKey()) {
		t.Errorf("fingerprint of the stranger: %s", signer)
	}
	if _, err := VerifyCommit([]byte(strings.Replace(string(raw), "b: c", "b: d", 1)), trusted); CodeOf(err) != CodeSignature {
		t.Errorf("changed message: %v", err)
	}
	if _, err := VerifyCommit([]byte(strings.Replace(string(raw), "1700000000", "1700000001", 1)), trusted); CodeOf(err) != CodeSignature {
		t.Errorf("changed date: %v", err)
	}
	_, err = VerifyCommit([]byte(treeLine+authorLine+commitLine+"\nm\n"), trusted)
	wantCode(t, err, CodeCommitUnsigned)
	_, err = VerifyCommit([]byte(treeLine+authorLine+commitLine+"gpgsig -----BEGIN PGP SIGNATURE-----\n\nm\n"), trusted)
	wantCode(t, err, CodeSignature)
	head, rest, _ := strings.Cut(string(raw), "gpgsig ")
	_, err = VerifyCommit([]byte(head+"gpgsig x\ngpgsig "+rest), trusted)
	wantCode(t, err, CodeCommitAmbiguous)
}

// TestVerifyCommitAsGit: git verify-commit and VerifyCommit agree on what we
// sign, and on what git signs. It needs ssh-keygen, of openssh-client.
func TestVerifyCommitAsGit(t *testing.T) {
	key := gittest.NewKey(t)
	s := onFile(t)
	o, oid := signed(t, key, "ours\n")
	wantStatus(t, s.open(t).CompareAndSwap(t.Context(), []Command{{"refs/heads/main", ZeroOID, oid}}, o.Pack()), Won)

	allowed := filepath.Join(t.TempDir(), "allowed")
	line := "me@example.com " + string(ssh.MarshalAuthorizedKey(key.PublicKey()))
	if err := os.WriteFile(allowed, []byte(line), 0o600); err != nil {
		t.Fatal(err)
	}
	verify := []string{"-c", "gpg.format=ssh", "-c", "gpg.ssh.allowedSignersFile=" + allowed, "verify-commit"}
	if out, err := gittest.TryGit(s.dir, "", append(verify, string(oid))...); err != nil {
		t.Fatalf("git verify-commit (needs ssh-keygen: apt-get install openssh-client): %v %s", err, out)
	}
	stranger, strange := signed(t, gittest.NewKey(t), "theirs\n")
	wantStatus(t, s.open(t).CompareAndSwap(t.Context(), []Command{{"refs/heads/x", ZeroOID, strange}}, stranger.Pack()), Won)
	if _, err := gittest.TryGit(s.dir, "", append(verify, string(strange))...); err == nil {
		t.Error("git trusts a stranger")
	}

	file := filepath.Join(t.TempDir(), "key")
	gitKey := keygen(t, file)
	at := gittest.Git(t, s.dir, "-c", "gpg.format=ssh", "-c", "user.signingKey="+file,
		"commit-tree", "-S", "-m", "git signs", "4b825dc642cb6eb9a060e54bf8d69288fbee4904")
	c, err := s.open(t).Commit(t.Context(), OID(at))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Verify([]ssh.PublicKey{gitKey}); err != nil {
		t.Errorf("what git signed: %v", err)
	}
}

func TestErrorsByCode(t *testing.T) {
	err := fmt.Errorf("outer: %w", fail(CodeRefInvalid, "m", "r", os.ErrNotExist))
	if !errors.Is(err, &Error{Code: CodeRefInvalid}) || errors.Is(err, &Error{Code: CodeLost}) || !errors.Is(err, os.ErrNotExist) {
		t.Error("errors.Is does not go by code and cause")
	}
}
