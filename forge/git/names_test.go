package git

import (
	"os/exec"
	"strings"
	"testing"
)

func TestG1_URLs(t *testing.T) {
	for _, good := range []string{
		"/srv/git/repo.git", "file:///srv/git/repo.git", "https://example.com/o/n.git", "https://example.com:8443/o/n",
		"http://127.0.0.1:3000/o/n.git", "ssh://git@example.com/o/n.git", "ssh://example.com:2222/o/n", "git@example.com:o/n.git",
		"https://[::1]:8080/o/n", "https://example.com/o/~n",
	} {
		if err := ValidateURL(good); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
	for _, bad := range []string{
		"", "-", "--upload-pack=touch /tmp/x", "ext::sh -c touch% /tmp/x", "fd::17", "git://example.com/o/n", "ftp://example.com/o/n",
		"https://user:secret@example.com/o/n", "https://user@example.com/o/n", "ssh://git:secret@example.com/o/n",
		"ssh://-oProxyCommand=x/o/n", "ssh://git@-oProxyCommand=x/o/n", "ssh://-x@example.com/o/n", "git@-oProxyCommand=x:o/n",
		"-git@example.com:o/n", "git@example.com:-o/n", "git@example.com:../n", "git@example.com::sh -c x",
		"https://example.com/o/../n", "https://example.com/o/%2e%2e/n", "https://example.com/o/%0an", "https://example.com/o/n\n", "https://example.com",
		"https:///o/n", "https://example.com/o/n?x=y", "https://example.com/o/n#f", "relative/path", "../path", "./path", `C:\repo`,
		"/srv/../etc", "/srv/git\x00/x", "file://otherhost/srv/x", "file:relative", "HTTPS\u202e://example.com/x", "https://exa mple.com/o/n",
		"javascript:alert(1)", "/" + strings.Repeat("x", maxURL),
	} {
		err := ValidateURL(bad)
		wantCode(t, err, CodeURLInvalid)
		if _, openErr := Open(t.Context(), Endpoint{URL: bad}, Options{}); CodeOf(openErr) != CodeURLInvalid {
			t.Errorf("Open(%q): %v", bad, openErr)
		}
		if strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: the error repeats the credential", bad)
		}
	}
}

func TestG1_Refs(t *testing.T) {
	names := []string{
		"refs/heads/main", "refs/heads/writ/change/1", "refs/writ/task/12", "refs/tags/v1.0", "refs/heads/ü",
		"-", "--upload-pack=x", "HEAD", "main", "refs/heads/", "refs//heads", "refs/heads/a..b", "refs/heads/a@{1}", "refs/heads/a\nb",
		"refs/heads/.a", "refs/heads/a.lock", "refs/heads/a.lock/b", "refs/heads/a.", "refs/heads/a b", "refs/heads/a~1", "refs/heads/a^",
		"refs/heads/a:b", "refs/heads/a?", "refs/heads/a*", "refs/heads/[a", `refs/heads/a\b`, "/refs/heads/a", "refs/heads/a/", "refs/heads/\x7f",
		"refs/heads/@", "refs/heads/a@b", "refs/heads/{a}", "",
	}
	for _, n := range names {
		ours := ValidateRef(n) == nil
		// --end-of-options, because a name may look like an option.
		git := exec.Command("git", "check-ref-format", n).Run() == nil
		if ours && (!git || !strings.HasPrefix(n, "refs/")) {
			t.Errorf("%q: accepted, git says no", n)
		}
		if !ours && git && strings.HasPrefix(n, "refs/") {
			t.Errorf("%q: refused, git says yes", n)
		}
	}
	// Stricter than git, on purpose.
	for _, n := range []string{"refs/heads/-x", "refs/heads/-/x", "refs/heads/" + strings.Repeat("x", maxRef), "refs/x"} {
		wantCode(t, ValidateRef(n), CodeRefInvalid)
	}
	s := onFile(t)
	_, err := s.open(t).Refs(t.Context(), "refs/heads/../../config")
	wantCode(t, err, CodeRefInvalid)
	oid, pack := lease(t, ZeroOID, runID(1))
	out := s.open(t).CompareAndSwap(t.Context(), []Command{{"refs/heads/--exec=x", ZeroOID, oid}}, pack)
	wantStatus(t, out, Refused)
	wantCode(t, out.Err, CodeRefInvalid)
}

func TestG1_Paths(t *testing.T) {
	for _, good := range []string{"a", ".writ/contract.yaml", "a/b c/ü", "a..b", ".github/x", ".gitignore"} {
		if err := ValidatePath(good); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
	for _, bad := range []string{
		"", "/a", "a/", "a//b", ".", "..", "../a", "a/../b", "a/./b", "-a", "--upload-pack=x", "a\nb", "a\x00b", `a\b`,
		".git", ".git/config", "a/.GIT/hooks/x", strings.Repeat("a", maxPath+1),
	} {
		wantCode(t, ValidatePath(bad), CodePathInvalid)
	}
}
