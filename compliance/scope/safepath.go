package scope

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/writbot/writ/compliance/internal/visible"
	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// Limits of a path that a change may add.
const (
	// MaxPathBytes is a path's length. Windows' classical limit is 260 with the
	// checkout's own directory; Linux has 4096. Between them lies what people use.
	MaxPathBytes = 1024
	// MaxSegmentBytes is the longest file name that common file systems take.
	MaxSegmentBytes = 255
	// MaxDepth is the number of a path's segments.
	MaxDepth = 64
)

// CheckPath says why a path must not come into a repository, or "" (case S12).
// The sentence is fit for a violation's detail. Refused are
//
//   - what leaves the root or isn't normal: absolute, empty segments, . and ..;
//   - .git in any case, with code points that HFS+ ignores, as NTFS short name
//     (git~1), and the short names of .gitmodules, .gitattributes, .gitignore;
//   - segments that end in a dot or a space, or have a backslash, a colon,
//     or one of < > " | ? *: Windows maps them to other names or streams;
//   - device names of Windows, with any extension;
//   - segments that begin with a dash, and a tilde at the path's begin: programs
//     read options and shells somebody's home (case G1);
//   - control characters, line ends, invisible and bidirectional code points,
//     invalid UTF-8;
//   - what is too long or too deep.
func CheckPath(path string) string {
	switch {
	case path == "":
		return "The path is empty."
	case !utf8.ValidString(path):
		return "The path is not valid UTF-8."
	case len(path) > MaxPathBytes:
		return fmt.Sprintf("The path is longer than %d bytes.", MaxPathBytes)
	case strings.HasPrefix(path, "/"):
		return "The path is absolute."
	case visible.Any(path):
		return "The path has a control character or one that a reader can't see."
	case strings.ContainsAny(path, `\:<>"|?*`):
		return `The path has one of \ : < > " | ? *, which some systems read as something else.`
	case strings.Count(path, "/") >= MaxDepth:
		return fmt.Sprintf("The path has more than %d segments.", MaxDepth)
	}
	if strings.HasPrefix(path, "~") {
		return "The path begins with a tilde, which a shell reads as somebody's home."
	}
	for _, s := range strings.Split(path, "/") {
		if reason := badSegment(s); reason != "" {
			return reason
		}
	}
	return ""
}

func badSegment(s string) string {
	switch {
	case s == "":
		return "The path has an empty segment."
	case s == "." || s == "..":
		return "The path has . or .. as a segment."
	case len(s) > MaxSegmentBytes:
		return fmt.Sprintf("A name in the path is longer than %d bytes.", MaxSegmentBytes)
	case strings.HasPrefix(s, "-"):
		return "A name in the path begins with a dash, which programs read as an option."
	case isDotGit(s):
		return "The path has a name that some system reads as .git or as a file that steers git."
	case strings.HasSuffix(s, ".") || strings.HasSuffix(s, " "):
		return "A name in the path ends in a dot or a space, which some systems drop."
	case isDevice(s):
		return "A name in the path is a device on some systems."
	}
	return ""
}

// isDotGit reports whether some file system opens .git by this name.
func isDotGit(segment string) bool {
	s := strings.Map(func(r rune) rune {
		if visible.Hidden(r) {
			return -1
		}
		return r
	}, segment)
	s = strings.TrimRight(Fold(s), ". ")
	if s == ".git" {
		return true
	}
	stem, number, found := strings.Cut(s, "~")
	return found && number != "" && strings.Trim(number, "0123456789") == "" && shortNames[stem]
}

// shortNames are the stems of NTFS's 8.3 names, with and without its hash, of
// .git, .gitmodules, .gitattributes and .gitignore.
var shortNames = map[string]bool{
	"git": true, "gitmod": true, "gi7eba": true, "gitatt": true, "gi7d29": true, "gitign": true, "gi250a": true,
}

// isDevice reports whether Windows opens a device by this name.
func isDevice(segment string) bool {
	stem, _, _ := strings.Cut(strings.ToLower(segment), ".")
	stem = strings.TrimRight(stem, " ")
	switch stem {
	case "con", "prn", "aux", "nul", "conin$", "conout$":
		return true
	}
	for _, port := range []string{"com", "lpt"} {
		if rest, ok := strings.CutPrefix(stem, port); ok && utf8.RuneCountInString(rest) == 1 && strings.ContainsAny(rest, "0123456789¹²³") {
			return true
		}
	}
	return false
}

// Fold is the form in which two paths that some file system can't tell apart
// are equal: composed (NFC) and case-folded.
func Fold(s string) string {
	ascii := true
	for i := 0; i < len(s); i++ {
		if s[i] >= utf8.RuneSelf {
			ascii = false
			break
		}
	}
	if ascii {
		return strings.ToLower(s)
	}
	return norm.NFC.String(cases.Fold().String(norm.NFC.String(s)))
}

// maxShownPath is how much of a path stands in a message, in bytes.
const maxShownPath = 256

// Display makes any file name fit for a record: valid UTF-8, nothing that a
// terminal or reader takes for something else, no two names alike, of bounded
// length. What is cut has the begin of the hash of the whole name behind it.
func Display(path string) string {
	if len(path) > maxShownPath {
		sum := sha256.Sum256([]byte(path))
		return visible.Path(path[:maxShownPath]) + "…" + hex.EncodeToString(sum[:8])
	}
	return visible.Path(path)
}
