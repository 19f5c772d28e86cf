package trial

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/writbot/writ/compliance/contract"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/forge/git/gittest"
)

// BenchmarkTry tries a thousand commits of a repository with fifty thousand files, beside
// git's own list of what they changed.
func BenchmarkTry(b *testing.B) {
	dir, tip := largeHistory(b)
	k := contract.Default()
	var ours, theirs time.Duration
	for b.Loop() {
		began := time.Now()
		out, err := exec.Command("git", "-C", dir, "log", "--raw", "--first-parent", "--no-renames", "--no-abbrev", "-1000", string(tip)).Output()
		if err != nil || !bytes.Contains(out, []byte("dir1/")) {
			b.Fatal(err)
		}
		theirs += time.Since(began)
		began = time.Now()
		repo, err := git.Open(context.Background(), git.Endpoint{URL: dir}, git.Options{})
		if err != nil {
			b.Fatal(err)
		}
		s, err := Try(context.Background(), Read(repo), tip, 1000, k, nil)
		if err != nil || s.Commits != 1000 {
			b.Fatal(s.Commits, err)
		}
		_ = repo.Close()
		ours += time.Since(began)
	}
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 / float64(b.N) }
	b.ReportMetric(ms(ours), "ms/try")
	b.ReportMetric(ms(theirs), "ms/git-log")
	b.ReportMetric(ms(ours)/ms(theirs), "ratio")
}

// largeHistory makes fifty thousand files in some hundred directories, and 1,100 commits
// that each change, add and remove a few of them. It is packed as a clone is.
func largeHistory(b *testing.B) (string, git.OID) {
	b.Helper()
	dir := gittest.NewBare(b)
	var s strings.Builder
	const dirs, files, history = 100, 500, 1_100
	path := func(n int) string {
		return "dir" + strconv.Itoa(n%dirs) + "/sub" + strconv.Itoa(n/dirs%5) + "/file" + strconv.Itoa(n/dirs) + ".go"
	}
	head := func(mark, from int) {
		fmt.Fprintf(&s, "commit refs/heads/main\nmark :%d\ncommitter C <c@example.com> %d +0000\ndata 5\ntitle\n", mark, 1_700_000_000+mark)
		if from > 0 {
			fmt.Fprintf(&s, "from :%d\n", from)
		}
	}
	file := func(path string, rev int) {
		text := fmt.Sprintf("%s %d\n%s", path, rev, strings.Repeat("some line of code\n", 40))
		fmt.Fprintf(&s, "M 100644 inline %s\ndata %d\n%s\n", path, len(text), text)
	}
	head(1, 0)
	for n := range dirs * files {
		file(path(n), 0)
	}
	for rev := 1; rev <= history; rev++ {
		head(rev+1, rev)
		for i := range 4 {
			file(path((rev*7919+i*104_729)%(dirs*files)), rev)
		}
		file(fmt.Sprintf("dir%d/new%d.go", rev%dirs, rev), rev)
	}
	gittest.GitInput(b, dir, s.String(), "fast-import", "--quiet")
	gittest.Git(b, dir, "repack", "-adq")
	return dir, git.OID(gittest.RefOID(dir, "refs/heads/main"))
}
