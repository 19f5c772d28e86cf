package git

import (
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/writbot/writ/compliance/lazyregexp"
)

// Limits on names, in bytes. Longer ones serve nobody but an attacker.
const (
	maxURL  = 4096
	maxRef  = 1024 // forges cut at 255 a component; a path of several is fine
	maxPath = 4096
)

const (
	urlRemedy = "use an absolute path, or a file, http, https or ssh URL without credentials"
	refRemedy = "use a full name such as refs/heads/main, as git check-ref-format has it"
)

// scpForm is the short form of an SSH URL. The user is required: without one
// "host:path" is too easily something else.
var scpForm = lazyregexp.New(`^[A-Za-z0-9_][A-Za-z0-9._-]*@[A-Za-z0-9][A-Za-z0-9.-]*:[^:]`)

var (
	hostForm = lazyregexp.New(`^(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?)(:[0-9]{1,5})?$`)
	userForm = lazyregexp.New(`^[A-Za-z0-9_][A-Za-z0-9._-]*$`)
)

// location is a validated URL.
type location struct {
	scheme string // file, http, https, ssh
	user   string // ssh only
	host   string // with port, if one was given
	path   string
}

// IsURL reports whether a repository is named by a URL, of whatever kind, rather than by
// a path: [ValidateURL] says whether it is one that writ takes.
func IsURL(repo string) bool {
	return strings.Contains(repo, "://") || strings.Contains(repo, "::") || scpForm().MatchString(repo)
}

// ValidateURL says whether a repository URL is on the allow-list: an absolute
// local path, file, http, https or ssh, user@host:path. It refuses transport
// helpers (ext::), anything that a program could read as an option, control
// characters, dot-dot, and credentials, which belong in Auth (case G1).
func ValidateURL(raw string) error {
	_, err := parseURL(raw)
	return err
}

func badURL(why string) error { return fail(CodeURLInvalid, "the repository URL "+why, urlRemedy, nil) }

func parseURL(raw string) (location, error) {
	switch {
	case raw == "":
		return location{}, badURL("is empty")
	case len(raw) > maxURL:
		return location{}, badURL("is too long")
	case raw[0] == '-':
		return location{}, badURL("begins with a dash")
	case hasControl(raw) || strings.ContainsAny(raw, `\`):
		return location{}, badURL("holds a control character or a backslash")
	case raw[0] == '/':
		return localLocation(raw)
	case scpForm().MatchString(raw):
		user, rest, _ := strings.Cut(raw, "@")
		host, path, _ := strings.Cut(rest, ":")
		return remotePath(location{scheme: "ssh", user: user, host: host, path: path})
	}
	return parseSchemeURL(raw)
}

func localLocation(path string) (location, error) {
	if hasDotDot(path) {
		return location{}, badURL("holds a .. segment")
	}
	return location{scheme: "file", path: path}, nil
}

func parseSchemeURL(raw string) (location, error) {
	u, err := url.Parse(raw)
	if err != nil || u.Opaque != "" || !strings.Contains(raw, "://") {
		return location{}, badURL("is none that writ speaks")
	}
	if u.RawQuery != "" || u.Fragment != "" || strings.ContainsAny(raw, "?#") {
		return location{}, badURL("holds a query or a fragment")
	}
	loc := location{scheme: u.Scheme, host: u.Host, path: u.Path}
	if u.Scheme == "file" {
		if u.Host != "" && u.Host != "localhost" || u.User != nil || !strings.HasPrefix(u.Path, "/") {
			return location{}, badURL("is a file URL of another host, or a relative one")
		}
		return localLocation(u.Path)
	}
	return checkRemote(loc, u.User)
}

func checkRemote(loc location, user *url.Userinfo) (location, error) {
	switch loc.scheme {
	case "http", "https":
		if user != nil {
			return location{}, badURL("holds a credential")
		}
	case "ssh":
		if user != nil {
			if _, has := user.Password(); has || !userForm().MatchString(user.Username()) {
				return location{}, badURL("holds a password, or a user name with odd characters")
			}
			loc.user = user.Username()
		}
	default:
		return location{}, badURL("has a scheme that is not allowed")
	}
	if !hostForm().MatchString(loc.host) {
		return location{}, badURL("has no host, or an odd one")
	}
	return remotePath(loc)
}

func remotePath(loc location) (location, error) {
	p := strings.TrimSuffix(loc.path, "/")
	if p == "" || strings.HasPrefix(p, "-") || hasDotDot(p) || hasControl(p) || !utf8.ValidString(p) {
		return location{}, badURL("has no path, or one that begins with a dash or holds a .. segment")
	}
	loc.path = p
	return loc, nil
}

// ValidateRef says whether name is a full ref name as git check-ref-format has
// it, below refs/, with no component that begins with a dash (case G1).
func ValidateRef(name string) error {
	if why := refFault(name); why != "" {
		return fail(CodeRefInvalid, "the ref name "+why, refRemedy, nil)
	}
	return nil
}

func refFault(name string) string {
	switch {
	case !strings.HasPrefix(name, "refs/"):
		return "does not begin with refs/"
	case len(name) > maxRef:
		return "is too long"
	case hasControl(name) || !utf8.ValidString(name) || strings.ContainsAny(name, " ~^:?*[\\"):
		return "holds a character that git forbids"
	case strings.Contains(name, "..") || strings.Contains(name, "@{"):
		return "holds .. or @{"
	case strings.HasSuffix(name, "."):
		return "ends in a dot"
	}
	for _, c := range strings.Split(name, "/") {
		if c == "" || c[0] == '.' || c[0] == '-' || strings.HasSuffix(c, ".lock") {
			return "has a component that is empty, begins with a dot or dash, or ends in .lock"
		}
	}
	if strings.Count(name, "/") < 2 {
		return "has fewer than three components"
	}
	return ""
}

// ValidatePath says whether path is a plain relative path inside a tree: no
// empty, dot or dot-dot segment, no .git, no control character or backslash, no
// leading dash (case G1). It is stricter than what a tree may hold; package
// compliance judges the paths of a change.
func ValidatePath(path string) error {
	bad := func(why string) error {
		return fail(CodePathInvalid, "the path "+why, "use a plain path relative to the repository's root", nil)
	}
	switch {
	case len(path) > maxPath:
		return bad("is too long")
	case hasControl(path) || !utf8.ValidString(path) || strings.Contains(path, `\`):
		return bad("holds a control character or a backslash")
	case strings.HasPrefix(path, "-"):
		return bad("begins with a dash")
	case !treePath(path):
		return bad("is empty or absolute, or holds an empty, dot, dot-dot or .git segment")
	}
	return nil
}

// treePath says whether a tree may hold path at all.
func treePath(path string) bool {
	for seg := range strings.SplitSeq(path, "/") {
		if seg == "" || seg == "." || seg == ".." || strings.EqualFold(seg, ".git") {
			return false
		}
	}
	return !strings.Contains(path, "\x00")
}

func hasControl(s string) bool { return strings.ContainsFunc(s, unicode.IsControl) }

func hasDotDot(path string) bool {
	for seg := range strings.SplitSeq(path, "/") {
		if seg == ".." {
			return true
		}
	}
	return false
}
