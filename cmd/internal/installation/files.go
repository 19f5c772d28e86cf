package installation

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/writbot/writ/cmd/internal/problem"
	"github.com/writbot/writ/compliance/lazyregexp"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/kernel"
)

// ReadLimited reads a regular file of at most that many bytes.
func ReadLimited(path string, most int64) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0) // a named pipe would wait for its writer
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no regular file", path)
	}
	data, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(data)) > most {
		err = fmt.Errorf("%s has more than %d bytes", path, most)
	}
	return data, err
}

// PathFlag refuses what could be meant as a flag.
func PathFlag(flag, path string) error {
	if strings.HasPrefix(path, "-") {
		return problem.Usage("--%s begins with a dash; for a file of that name write ./ before it.", flag)
	}
	return nil
}

var leadingDigits = lazyregexp.New(`^0*([1-9][0-9]{0,14})(?:[^0-9]|$)`)

// TaskNumber is the number of the task: the one given, the digits that the
// issue's file name begins with, or 1.
func TaskNumber(given int64, set bool, issue string) (int64, error) {
	if set {
		if given < 1 {
			return 0, problem.Usage("--number must be at least 1.")
		}
		return given, nil
	}
	if m := leadingDigits().FindStringSubmatch(filepath.Base(issue)); m != nil {
		return strconv.ParseInt(m[1], 10, 64)
	}
	return 1, nil
}

// ArgNumber is the task's number as an argument.
func ArgNumber(arg string) (int64, error) {
	n, err := strconv.ParseInt(arg, 10, 64)
	if err != nil || n < 1 {
		return 0, problem.Usage("%q is no task's number: give a whole number from 1.", arg)
	}
	return n, nil
}

// RefPrefix is where state refs live.
func RefPrefix(refs string) string {
	if refs == "heads" {
		return "refs/heads/writ/task/"
	}
	return "refs/writ/task/"
}

// StateRef is the ref of a task's state.
func StateRef(refs string, task int64) string { return RefPrefix(refs) + strconv.FormatInt(task, 10) }

// ShortReason is what a person gives as a reason: one line that shows all that is
// in it, since it stands in records, logs and comments.
func ShortReason(s string) (string, error) {
	hidden := func(r rune) bool { return !unicode.IsGraphic(r) }
	if !utf8.ValidString(s) || strings.ContainsFunc(s, hidden) {
		return "", problem.Usage("--reason holds a line break, or a character that can't be seen: give one line of plain text.")
	}
	s = strings.TrimSpace(s)
	if len(s) > maxReason {
		return "", problem.Usage("--reason is longer than %d bytes.", maxReason)
	}
	return s, nil
}

// CodesIn reads the codes that a state commit names.
func CodesIn(text string) []kernel.Code {
	var out []kernel.Code
	for _, w := range strings.Fields(text) {
		out = append(out, kernel.Code(w))
	}
	return out
}

// PlainOID writes the zero id as "".
func PlainOID(oid git.OID) string {
	if oid.IsZero() {
		return ""
	}
	return string(oid)
}
