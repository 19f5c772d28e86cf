package git

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/writbot/writ/forge/git/gittest"
)

// history100k is the length of the large history.
const history100k = 100_000

// largeRepository is made once for the process, with git fast-import.
var largeRepository = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "writ-bench-")
	if err != nil {
		return "", err
	}
	dir = filepath.Join(dir, "large.git")
	if out, err := gittest.TryGit("/", "", "init", "--quiet", "--bare", "--initial-branch=main", dir); err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	var b strings.Builder
	for i := range history100k {
		text := fmt.Sprintf("content %d\n", i)
		fmt.Fprintf(&b, "commit refs/heads/main\ncommitter C <c@example.com> %d +0000\ndata 2\nm\n", 1_600_000_000+i)
		fmt.Fprintf(&b, "M 100644 inline dir%d/file%d\ndata %d\n%s\n", i%100, i%1000, len(text), text)
	}
	out, err := gittest.TryGit(dir, b.String(), "fast-import", "--quiet")
	if err == nil {
		out, err = configure(dir)
	}
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return dir, nil
})

// configure gives it what NewBare gives.
func configure(dir string) (string, error) {
	return gittest.TryGit(dir, "", "config", "uploadpack.allowFilter", "true")
}

func TestMain(m *testing.M) {
	code := gittest.InMemory(m).Run()
	if dir, err := benchDir(); err == nil && dir != "" {
		_ = os.RemoveAll(filepath.Dir(dir))
	}
	os.Exit(code)
}

// benchDir returns the large repository if a benchmark has made it.
func benchDir() (string, error) {
	if !largeMade {
		return "", nil
	}
	return largeRepository()
}

var largeMade bool

func benchRepositories(b *testing.B, f func(b *testing.B, url, dir string)) {
	small := gittest.NewBare(b)
	gittest.Commit(b, small, "refs/heads/main", "", map[string]string{"README": "hello\n"})
	for _, size := range []string{"small", "100k"} {
		for _, scheme := range []string{"file", "http"} {
			b.Run(scheme+"/"+size, func(b *testing.B) {
				dir := small
				if size == "100k" {
					largeMade = true
					var err error
					if dir, err = largeRepository(); err != nil {
						b.Fatal(err)
					}
				}
				url := dir
				if scheme == "http" {
					url = gittest.ServeHTTP(b, dir).URL
				}
				f(b, url, dir)
			})
		}
	}
}

// peer is the git binary doing the same: commit-tree, then push.
type peer struct{ work, url string }

func newPeer(b *testing.B, url string) peer {
	b.Helper()
	work := b.TempDir()
	gittest.Git(b, work, "init", "--quiet")
	return peer{work, url}
}

func (p peer) git(b *testing.B, args ...string) string {
	cmd := exec.Command("git", args...)
	cmd.Dir, cmd.Env = p.work, gittest.Env()
	out, err := cmd.Output()
	if err != nil {
		b.Fatalf("git %v: %v", args, err)
	}
	return strings.TrimSpace(string(out))
}

// tree writes the files' tree into the peer's own repository.
func (p peer) tree(b *testing.B, files map[string][]byte) string {
	b.Helper()
	index := "GIT_INDEX_FILE=" + filepath.Join(p.work, ".git", "bench-index")
	var lines strings.Builder
	for path, data := range files {
		oid := gittest.GitInput(b, p.work, string(data), "hash-object", "-w", "--stdin")
		fmt.Fprintf(&lines, "100644 %s\t%s\n", oid, path)
	}
	var out []byte
	for _, args := range [][]string{{"read-tree", "--empty"}, {"update-index", "--index-info"}, {"write-tree"}} {
		cmd := exec.Command("git", args...)
		cmd.Dir, cmd.Env, cmd.Stdin = p.work, append(gittest.Env(), index), strings.NewReader(lines.String())
		var err error
		if out, err = cmd.Output(); err != nil {
			b.Fatalf("git %v: %v", args, err)
		}
	}
	return strings.TrimSpace(string(out))
}

func (p peer) step(b *testing.B, tree, parent, ref, message string) string {
	args := []string{"commit-tree", "-m", message, tree}
	if parent != "" {
		args = append(args, "-p", parent)
	}
	oid := p.git(b, args...)
	p.git(b, "push", "--quiet", "--force-with-lease="+ref+":"+parent, p.url, oid+":"+ref)
	return oid
}

// settle waits for what our git process does after its answer, so that the peer
// is not measured beside it.
func settle(b *testing.B, r *Repo) {
	b.Helper()
	if t, ok := r.tr.(*processTransport); ok {
		t.running.Wait()
	}
}

// report gives both medians, in milliseconds, and their ratio.
func report(b *testing.B, ours, theirs []time.Duration) {
	slices.Sort(ours)
	slices.Sort(theirs)
	o, p := ours[len(ours)/2], theirs[len(theirs)/2]
	b.ReportMetric(float64(o)/float64(p), "ratio")
	b.ReportMetric(float64(o)/1e6, "ms/ours")
	b.ReportMetric(float64(p)/1e6, "ms/git")
	b.ReportMetric(0, "ns/op")
}

// evidence is about what a claim's tree holds.
func evidence(i int) map[string][]byte {
	return map[string][]byte{
		"seed/issue.md":      fmt.Appendf(nil, "%d\n%s", i, strings.Repeat("text of the issue\n", 100)),
		"seed/contract.yaml": []byte(strings.Repeat("key: value\n", 50)),
		"dispatch.json":      fmt.Appendf(nil, `{"kind":"dispatch","n":%d}`, i),
	}
}

// BenchmarkClaim is a claim with its real tree: event and lease commits, signed,
// created by compare-and-swap from the zero id. The peer commits such a tree,
// which was written before, and pushes it: one commit, unsigned.
func BenchmarkClaim(b *testing.B) {
	benchRepositories(b, func(b *testing.B, url, dir string) {
		r := openAt(b, Endpoint{URL: url}, Options{})
		signer := NewSigner(gittest.NewKey(b))
		p := newPeer(b, url)
		var ours, theirs []time.Duration
		stamp := time.Now().UnixNano()
		for i := 0; b.Loop(); i++ {
			ref := fmt.Sprintf("refs/heads/bench/%d-%d", stamp, i)
			began := time.Now()
			oid, pack := claimObjects(b, signer, i)
			wantStatus(b, r.CompareAndSwap(b.Context(), []Command{{ref + "a", ZeroOID, oid}}, pack), Won)
			ours = append(ours, time.Since(began))
			b.StopTimer()
			settle(b, r)
			tree := p.tree(b, evidence(-i-1))
			b.StartTimer()
			began = time.Now()
			p.step(b, tree, "", ref+"b", fmt.Sprint("claim ", i))
			theirs = append(theirs, time.Since(began))
			b.StopTimer()
			gittest.Git(b, dir, "update-ref", "-d", ref+"a")
			gittest.Git(b, dir, "update-ref", "-d", ref+"b")
			b.StartTimer()
		}
		report(b, ours, theirs)
	})
}

func claimObjects(b *testing.B, signer Signer, i int) (OID, Pack) {
	o := NewObjects()
	var entries []Entry
	for path, data := range evidence(i) {
		entries = append(entries, Entry{path, ModeFile, o.Blob(data)})
	}
	tree, err := o.Tree(entries)
	if err != nil {
		b.Fatal(err)
	}
	open, err := o.Commit(CommitSpec{Tree: tree, Author: tester, Committer: tester, Message: []byte("open\n")}, signer)
	if err != nil {
		b.Fatal(err)
	}
	spec := CommitSpec{Tree: tree, Parents: []OID{open}, Author: tester, Committer: tester, Message: []byte(runID(i))}
	oid, err := o.Commit(spec, signer)
	if err != nil {
		b.Fatal(err)
	}
	return oid, o.Pack()
}

// BenchmarkHeartbeat is one signed commit on the last, with its tree.
func BenchmarkHeartbeat(b *testing.B) {
	benchRepositories(b, func(b *testing.B, url, _ string) {
		r := openAt(b, Endpoint{URL: url}, Options{})
		signer := NewSigner(gittest.NewKey(b))
		p := newPeer(b, url)
		tree := p.git(b, "hash-object", "-t", "tree", "-w", "--stdin")
		ref := fmt.Sprintf("refs/heads/beat/%d", time.Now().UnixNano())
		mine := claim(b, r, ref+"a", runID(0))
		its := p.step(b, tree, "", ref+"b", "claim")
		var ours, theirs []time.Duration
		for i := 0; b.Loop(); i++ {
			began := time.Now()
			o := NewObjects()
			spec := CommitSpec{Tree: OID(tree), Parents: []OID{mine}, Author: tester, Committer: tester, Message: []byte(runID(i))}
			next, err := o.Commit(spec, signer)
			if err != nil {
				b.Fatal(err)
			}
			wantStatus(b, r.CompareAndSwap(b.Context(), []Command{{ref + "a", mine, next}}, o.Pack()), Won)
			ours = append(ours, time.Since(began))
			mine = next
			settle(b, r)
			began = time.Now()
			its = p.step(b, tree, its, ref+"b", fmt.Sprint("beat ", i))
			theirs = append(theirs, time.Since(began))
		}
		report(b, ours, theirs)
	})
}

// BenchmarkRefs reads where one ref is.
func BenchmarkRefs(b *testing.B) {
	benchRepositories(b, func(b *testing.B, url, _ string) {
		r := openAt(b, Endpoint{URL: url}, Options{})
		for b.Loop() {
			if _, err := r.Refs(b.Context(), stateRef); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkCommit opens the repository and reads the commit at a ref, as a
// process that has just started does.
func BenchmarkCommit(b *testing.B) {
	benchRepositories(b, func(b *testing.B, url, _ string) {
		for b.Loop() {
			r, err := Open(b.Context(), Endpoint{URL: url}, Options{})
			if err != nil {
				b.Fatal(err)
			}
			refs, err := r.Refs(b.Context(), "refs/heads/main")
			if err != nil {
				b.Fatal(err)
			}
			if _, err := r.Commit(b.Context(), refs.OID("refs/heads/main")); err != nil {
				b.Fatal(err)
			}
			if err := r.Close(); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkTree reads a tree of 1,000 files and all its blobs.
func BenchmarkTree(b *testing.B) {
	files := map[string]string{}
	for i := range 1000 {
		files[fmt.Sprintf("dir%02d/file%d", i%40, i)] = strings.Repeat(fmt.Sprintf("line %d\n", i), 300)
	}
	dir := gittest.NewBare(b)
	at := gittest.Commit(b, dir, "refs/heads/main", "", files)
	gittest.Git(b, dir, "repack", "-adfq")
	for name, url := range map[string]string{"file": dir, "http": gittest.ServeHTTP(b, dir).URL} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				r := openAt(b, Endpoint{URL: url}, Options{})
				tree, err := r.Tree(b.Context(), OID(at))
				if err != nil {
					b.Fatal(err)
				}
				var oids []OID
				for _, e := range tree.Entries {
					oids = append(oids, e.OID)
				}
				n := 0
				err = r.Blobs(b.Context(), oids, func(OID, []byte) error { n++; return nil })
				if err != nil || n != len(files) {
					b.Fatal(n, err)
				}
			}
		})
	}
}
