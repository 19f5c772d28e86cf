package builder

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/writbot/writ/compliance/scope"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
)

const (
	// maxResultBytes bounds a builder's result: 1 MiB holds ten thousand long
	// paths and a log; larger logs belong on standard output.
	maxResultBytes = 1 << 20
	// maxResultDepth is more than the format needs.
	maxResultDepth = 4
	// maxCommitHash holds an id of git with either hash. The value is recorded
	// and never used (REQUIREMENTS T20).
	maxCommitHash = 64
	// maxNameBytes bounds a reported path that is kept: Linux has no longer ones.
	maxNameBytes = 4 << 10
)

// resultSubject names the result in violations.
const resultSubject = "WRIT_RESULT"

// readResult reads a builder's result, strictly: one JSON document with exactly
// the seed's fields (seed 001, "Required Executor Output"; case X7). No file is
// no fault here; whether one is owed is the caller's rule.
func readResult(dir string) (*kernel.Result, []kernel.Violation) {
	bad := func(format string, args ...any) (*kernel.Result, []kernel.Violation) {
		return nil, []kernel.Violation{{Code: kernel.CodeResultInvalid, Subject: resultSubject, Detail: fmt.Sprintf(format, args...)}}
	}
	data, err := readRegular(filepath.Join(dir, resultName), maxResultBytes)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return bad("The result can't be read: %v.", err)
	}
	var r kernel.Result
	if err := canon.Unmarshal(data, &r, canon.Limits{MaxBytes: maxResultBytes, MaxDepth: maxResultDepth}); err != nil {
		return bad("The result isn't of the required form: %v.", err)
	}
	switch {
	case r.Status != kernel.ResultSuccess && r.Status != kernel.ResultFailure:
		return bad("The status is neither success nor failure.")
	case !isTimestamp(r.Timestamp):
		return bad("The timestamp isn't UTC in ISO 8601, such as 2026-01-31T08:00:00Z.")
	case r.CommitHash != nil && len(*r.CommitHash) > maxCommitHash:
		return bad("The commit hash is longer than %d characters.", maxCommitHash)
	}
	return &r, nil
}

// isTimestamp accepts UTC with seconds, and a fraction of them. time.Parse alone
// is too lenient: it takes one-digit hours and a comma.
func isTimestamp(s string) bool {
	whole, ok := strings.CutSuffix(s, "Z")
	if !ok {
		return false
	}
	whole, fraction, dotted := strings.Cut(whole, ".")
	if dotted && (fraction == "" || len(fraction) > 9 || strings.Trim(fraction, "0123456789") != "") {
		return false
	}
	const layout = "2006-01-02T15:04:05"
	t, err := time.Parse(layout, whole)
	return err == nil && t.Format(layout) == whole
}

// kept is a result as it is recorded: claims of a stranger, redacted and cut.
func (l *Local) kept(r *kernel.Result) *kernel.Result {
	if r == nil {
		return nil
	}
	out := *r
	out.ChangedFiles = l.cleanAll(r.ChangedFiles[:min(len(r.ChangedFiles), scope.MaxListed)], maxNameBytes)
	out.Logs = l.clean(r.Logs, tailBytes)
	if r.CommitHash != nil {
		hash := l.clean(*r.CommitHash, maxCommitHash)
		out.CommitHash = &hash
	}
	return &out
}

// readRegular reads a file that a builder may have made: no link is followed,
// nothing but a regular file is read, and it never blocks.
func readRegular(path string, limit int64) ([]byte, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), path)
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, err
	}
	switch {
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		return nil, errors.New("it is no regular file")
	case st.Nlink != 1:
		return nil, errors.New("it has more than one name")
	}
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(data)) > limit {
		return nil, fmt.Errorf("it is larger than %d bytes", limit)
	}
	return data, nil
}

// compose makes the result of a program that knows nothing of Writ, from its
// exit and output (REQUIREMENTS T21). It claims no tests.
func (b *build) compose(end ending, v scope.Verdict, w *watch, endedMs int64) *kernel.Result {
	r := &kernel.Result{
		Status: kernel.ResultFailure, ChangedFiles: []string{}, Logs: b.l.tailOf(&w.stdout.Capture),
		Timestamp: kernel.Timestamp(endedMs / 1000),
	}
	if b.said != nil {
		r.Logs = b.l.clean(b.said.logs(), tailBytes)
	}
	if end.succeeded() && len(b.saidFaults(end)) == 0 {
		r.Status = kernel.ResultSuccess
	}
	for _, c := range v.Changes {
		r.ChangedFiles = append(r.ChangedFiles, c.Path)
	}
	sort.Strings(r.ChangedFiles)
	return r
}
