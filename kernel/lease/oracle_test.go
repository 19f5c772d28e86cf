package lease

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// oracleBatch is how many messages one git process reads. Two arguments of
// some twenty bytes each stay far below the kernel's limit on arguments.
const oracleBatch = 2500

// gitTrailers asks git itself for the trailers of each message: one process
// for many files, a marker message between them. Each answer is the list of
// lines that git printed.
func gitTrailers(t testing.TB, messages [][]byte) [][]string {
	t.Helper()
	var answers [][]string
	for len(messages) > 0 {
		n := min(len(messages), oracleBatch)
		answers = append(answers, gitTrailersOnce(t, messages[:n])...)
		messages = messages[n:]
	}
	return answers
}

const marker = "zz-end-of-message"

func gitTrailersOnce(t testing.TB, messages [][]byte) [][]string {
	t.Helper()
	dir, err := os.MkdirTemp(t.TempDir(), "batch-*")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }() // a million messages are as many files
	write(t, dir, "m", []byte("t\n\n"+marker+": x\n"))
	args := []string{"interpret-trailers", "--parse", "--no-divider"}
	for i, m := range messages {
		write(t, dir, strconv.Itoa(i), m)
		args = append(args, strconv.Itoa(i), "m")
	}
	parts := strings.Split(string(runGit(t, dir, nil, args...)), marker+": x\n")
	if len(parts) != len(messages)+1 || parts[len(messages)] != "" {
		t.Fatalf("git answered for %d messages, asked for %d", len(parts)-1, len(messages))
	}
	answers := make([][]string, len(messages))
	for i := range messages {
		answers[i] = strings.SplitAfter(parts[i], "\n")
		answers[i] = answers[i][:len(answers[i])-1]
	}
	return answers
}

// runGit runs git with its default configuration, nobody's home and no pager.
func runGit(t testing.TB, dir string, stdin []byte, args ...string) []byte {
	t.Helper()
	git, err := exec.LookPath("git")
	if err != nil {
		t.Fatalf("git is the oracle of these tests; install it (apt-get install git): %v", err)
	}
	cmd := exec.Command(git, args...)
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "LC_ALL=C", "TZ=UTC",
		"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=" + os.DevNull, "GIT_CEILING_DIRECTORIES=" + filepath.Dir(dir),
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.org", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.org"}
	cmd.Stdin = bytes.NewReader(stdin)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("git %s: %v\n%s", args[0], err, stderr.String())
	}
	return out
}

func write(t testing.TB, dir, name string, data []byte) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// printed writes trailers as git prints them.
func printed(ts []Trailer) []string {
	out := []string{}
	for _, tr := range ts {
		out = append(out, fmt.Sprintf("%s: %s\n", tr.Key, tr.Value))
	}
	return out
}
