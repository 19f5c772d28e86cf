package git

import (
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/writbot/writ/forge/git/gittest"
)

// TestG6_G7_Words: what forges say, by hand of a hook on a real git over HTTP,
// and what it is taken for at first sight.
func TestG6_G7_Words(t *testing.T) {
	for words, want := range map[string]guess{
		// GitHub.
		"error: GH013: Repository rule violations found for refs/heads/writ/change/1.\n- Push cannot contain secrets":                                             {status: Refused},
		"error: GH009: Secrets detected! This push failed.\nGITHUB PUSH PROTECTION\nResolve the following secrets before pushing again.":                          {status: Refused},
		"error: GH006: Protected branch update failed for refs/heads/main.":                                                                                       {status: Refused},
		"error: GH001: Large files detected. You may want to try Git Large File Storage\nFile a is 120.00 MB; this exceeds GitHub's file size limit of 100.00 MB": {status: Refused},
		"This repository was archived so it is read-only.":                                                                                                        {status: Refused},
		"Internal Server Error": {status: Unable},
		"fatal: This repository is currently being migrated. Please try again later.": {status: Unable},
		"GitHub is temporarily in read-only mode for maintenance":                     {status: Unable},
		"fatal: the remote end is overloaded: secondary rate limit":                   {status: Unable},
		// GitLab.
		"GitLab: You are not allowed to push code to protected branches on this project.":                                                          {status: Refused},
		"GitLab: PUSH BLOCKED: Secrets detected in code changes. Push protection is on.":                                                           {status: Refused},
		"GitLab: Commit message does not follow the pattern 'JIRA-\\d+' (push rule)":                                                               {status: Refused},
		"GitLab: You can't push code to a read-only GitLab instance.":                                                                              {status: Unable},
		"GitLab: Internal API error (503)":                                                                                                         {status: Unable},
		"GitLab: API is not accessible":                                                                                                            {status: Unable},
		"GitLab: The git server, Gitaly, is not available at this time. Please contact your administrator.":                                        {status: Unable},
		"GitLab: Your push to this repository has been rejected because it would exceed storage limits. Please contact your GitLab administrator.": {status: Unable, space: true},
		"GitLab: File \"a.bin\" is larger than the allowed size of 1 MiB. Use Git LFS to manage this file.":                                        {status: Unable, space: true},
		// Gitea and Forgejo, and hooks of a server's own.
		"Gitea: Not allowed to push to protected branch main":    {status: Refused},
		"Gitea: Repository size exceeds the quota":               {status: Unable, space: true},
		"policy 7: bots may not make branches":                   {status: Refused, general: true},
		"mktemp: failed to create file: No space left on device": {status: Unable, space: true},
	} {
		t.Run(strings.Fields(words)[0]+" "+strings.Fields(words)[1], func(t *testing.T) {
			s := onHTTP(t)
			r := s.open(t)
			old := claim(t, r, stateRef, runID(1))
			gittest.Hook(t, s.dir, "pre-receive", "cat >/dev/null\ncat >&2 <<'EOT'\n"+words+"\nEOT\nexit 1")
			o := NewObjects()
			next := addCommit(t, o, old, runID(2))
			for _, cmds := range [][]Command{{{stateRef, old, next}}, {{stateRef, old, next}, {"refs/heads/writ/change/1", ZeroOID, next}}} {
				out := r.CompareAndSwap(t.Context(), cmds, o.Pack())
				if out.Status != want.status || out.Space != want.space || !strings.Contains(out.Reason, strings.Fields(words)[1]) {
					t.Errorf("%s, space %v, %q", out.Status, out.Space, out.Reason)
				}
				code := map[Status]string{Refused: CodePushRefused, Unable: CodeUnable}[want.status]
				wantCode(t, out.Err, code)
			}
			wantRef(t, s.dir, stateRef, old)
		})
	}
}

// TestG6_G7_Forbidden: a 403 of maintenance is no rule; one that names what the
// account may not is.
func TestG6_G7_Forbidden(t *testing.T) {
	s := onHTTP(t)
	r := s.open(t)
	old := claim(t, r, stateRef, runID(1))
	next, pack := lease(t, old, runID(2))
	html := func(http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			w.WriteHeader(http.StatusForbidden)
			_, _ = io.WriteString(w, "<h1>permission to rest</h1>")
		})
	}
	for _, c := range []struct {
		fault gittest.Fault
		want  Status
	}{
		{gittest.Status(403, "Permission to o/r.git denied to writ-bot."), Refused},
		{gittest.Status(403, "Write access to repository not granted."), Refused},
		{gittest.Status(403, "Resource not accessible by integration"), Refused},
		{gittest.Status(403, "You are not allowed to push code to this project."), Refused},
		{gittest.Status(403, "Your account is suspended. Please visit the support page."), Refused},
		{gittest.Status(403, ""), Unable},
		{gittest.Status(403, "Forbidden"), Unable},
		{gittest.Status(403, "We are down for maintenance."), Unable},
		{gittest.Status(403, "You can't push code to a read-only GitLab instance."), Unable},
		{gittest.Status(403, "You have exceeded a secondary rate limit."), Unable},
		{html, Unable},
	} {
		for _, all := range []bool{false, true} {
			fault := c.fault
			if !all {
				fault = gittest.OnPush(fault)
			}
			s.http.Set(fault)
			out := r.CompareAndSwap(t.Context(), []Command{{stateRef, old, next}}, pack)
			wantStatus(t, out, c.want)
			if out.Account != (c.want == Refused) {
				t.Errorf("%s: account %v", out.Reason, out.Account)
			}
			if c.want == Unable {
				wantCode(t, out.Err, CodeUnable)
			}
		}
		_, err := r.Refs(t.Context(), stateRef)
		wantCode(t, err, map[Status]string{Refused: CodeUnauthorized, Unable: CodeUnable}[c.want])
	}
	s.http.Set(nil)
	wantRef(t, s.dir, stateRef, old)
}

// broken is a repository on which something of the machine fails, until mend.
func broken(t *testing.T, spoil func(t *testing.T, d *gittest.Disk) (mend func()), want Status, space bool, words string) {
	t.Helper()
	d := gittest.NewDisk(t)
	r := openAt(t, Endpoint{URL: d.URL}, Options{})
	old := claim(t, r, stateRef, runID(1))
	mend := spoil(t, d)
	o := NewObjects()
	o.Blob(noise(256 << 10))
	next := addCommit(t, o, old, runID(2))
	for _, cmds := range [][]Command{{{stateRef, old, next}}, {{stateRef, old, next}, {"refs/heads/writ/change/1", ZeroOID, next}}} {
		out := r.CompareAndSwap(t.Context(), cmds, o.Pack())
		wantStatus(t, out, want)
		if out.Space != space || !strings.Contains(strings.ToLower(out.Reason), words) {
			t.Errorf("space %v, %q", out.Space, out.Reason)
		}
	}
	if refs, err := r.Refs(t.Context(), stateRef); err != nil || refs.OID(stateRef) != old {
		t.Errorf("%v %v", refs, err)
	}
	mend()
	wantStatus(t, r.CompareAndSwap(t.Context(), []Command{{stateRef, old, next}}, o.Pack()), Won)
}

// noise is data that doesn't compress.
func noise(n int) []byte {
	b := make([]byte, n)
	x := uint32(1)
	for i := range b {
		x = x*1664525 + 1013904223
		b[i] = byte(x >> 24)
	}
	return b
}

func TestG7_DiskFull(t *testing.T) {
	broken(t, func(t *testing.T, d *gittest.Disk) func() {
		d.Fill(t)
		return func() { d.Drain(t) }
	}, Unable, true, "no space left")
}

func TestG7_ReadOnlyDisk(t *testing.T) {
	broken(t, func(t *testing.T, d *gittest.Disk) func() {
		d.ReadOnly(t, true)
		return func() { d.ReadOnly(t, false) }
	}, Unable, false, "unable to create")
}

// TestG7_PackTooLarge: a limit for good looks like a broken unpacker. Who pushes
// finds out, for a smaller push is taken.
func TestG7_PackTooLarge(t *testing.T) {
	broken(t, func(t *testing.T, d *gittest.Disk) func() {
		d.Run(t, "git", "-C", d.Repo, "config", "receive.maxInputSize", "64k")
		return func() { d.Run(t, "git", "-C", d.Repo, "config", "--unset", "receive.maxInputSize") }
	}, Unable, true, "exceeds maximum allowed size")
}

// TestG7_BrokenUnpacker: the unpacker fails over something that isn't a disk's.
func TestG7_BrokenUnpacker(t *testing.T) {
	broken(t, func(t *testing.T, d *gittest.Disk) func() {
		packs := filepath.Join(d.Repo, "objects", "pack")
		d.Run(t, "git", "-C", d.Repo, "config", "receive.unpackLimit", "1")
		d.Run(t, "sh", "-c", `rm -r "$0" && touch "$0"`, packs)
		return func() { d.Run(t, "sh", "-c", `rm "$0" && mkdir "$0"`, packs) }
	}, Unable, false, "unpack")
}

// TestG7_NoWord: git's general words alone, and the ref stays where it was.
func TestG7_NoWord(t *testing.T) {
	s := onHTTP(t)
	r := s.open(t)
	old := claim(t, r, stateRef, runID(1))
	next, pack := lease(t, old, runID(2))
	cmds := []Command{{stateRef, old, next}}
	out := r.settle(t.Context(), cmds, Outcome{PerRef: []RefStatus{{stateRef, Unknown, "failed to update ref"}}}, "")
	wantStatus(t, out, Unable)
	wantCode(t, out.Err, CodeUnable)
	wantStatus(t, r.CompareAndSwap(t.Context(), cmds, pack), Won)
	out = r.settle(t.Context(), cmds, Outcome{PerRef: []RefStatus{{stateRef, Unknown, "failed to update ref"}}}, "")
	wantStatus(t, out, Lost)
}

// TestG7_StaleLock: a lock file that a dead process left looks like a rival. Who
// pushes finds out, for HEAD stays where it was expected.
func TestG7_StaleLock(t *testing.T) {
	broken(t, func(t *testing.T, d *gittest.Disk) func() {
		lock := filepath.Join(d.Repo, filepath.FromSlash(stateRef)+".lock")
		d.Run(t, "touch", lock)
		return func() { d.Run(t, "rm", lock) }
	}, Lost, false, "file exists")
}
