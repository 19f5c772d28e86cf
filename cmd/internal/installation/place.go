package installation

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"

	"github.com/writbot/writ/cmd/internal/problem"
	"github.com/writbot/writ/compliance/lazyregexp"
	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/kernel"
)

// Place is a repository as the command line names it.
type Place struct {
	URL   string // as forge/git takes it: an absolute path or a URL
	World string // its identity in records; display, where that can't be learned
	Name  string // of the repository, for people and directories
	Key   string // 8 hex digits that tell it from others of the same name

	Display string // <host>/<owner>/<name>: what people call it; it decides nothing
	OnDisk  bool   // the url is a path
}

// Identify learns which repository lies at a path. With mint one that has no
// identity yet gets one. What lies behind a URL says nothing of itself that can be
// believed: its name stands for it, and never has a # like an identity.
func (p *Place) Identify(mint bool) error {
	if !p.OnDisk {
		return nil
	}
	read := git.Identity
	if mint {
		read = git.MintIdentity
	}
	world, err := read(p.URL)
	if world != "" {
		p.World = world
	}
	return err
}

// keyDigits is enough to tell the repositories of one person apart.
const keyDigits = 8

var unsafeID = lazyregexp.New(`[^A-Za-z0-9._-]+`)

// NewPlace reads --repo: a path, or a URL. A path may be relative; a word that
// a program could read as an option or a transport may not (case G1).
func NewPlace(repo string) (Place, error) {
	switch {
	case repo == "":
		return Place{}, problem.Usage("--repo is missing: give the repository's path or URL.")
	case strings.HasPrefix(repo, "-"):
		return Place{}, &problem.Error{Code: kernel.CodeURLInvalid, Exit: problem.ExitUsage, Text: "The repository begins with a dash.", Remedy: "For a path of that name write ./ before it."}
	case git.IsURL(repo):
		if err := git.ValidateURL(repo); err != nil {
			return Place{}, err
		}
		if path, ok := strings.CutPrefix(repo, "file://"); ok {
			return localPlace("/" + strings.TrimLeft(strings.TrimPrefix(path, "localhost"), "/"))
		}
		return RemotePlace(repo), nil
	}
	return localPlace(repo)
}

func localPlace(path string) (Place, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return Place{}, err
	}
	if err := git.ValidateURL(abs); err != nil {
		return Place{}, err
	}
	if resolved, err := filepath.EvalSymlinks(abs); err == nil {
		abs = resolved
	}
	top := abs
	if filepath.Base(top) == ".git" {
		top = filepath.Dir(top)
	}
	name := repoName(filepath.Base(top))
	display := "local/" + SafeName(filepath.Base(filepath.Dir(top))) + "/" + name
	return Place{URL: abs, Name: name, Key: shortHash(top), World: display, Display: display, OnDisk: true}, nil
}

// RemotePlace names <host>/<owner>/<name>. The URL is valid and holds no
// credential.
func RemotePlace(url string) Place {
	rest := url
	if _, after, ok := strings.Cut(url, "://"); ok {
		rest = after
	} else {
		rest = strings.Replace(rest, ":", "/", 1)
	}
	parts := strings.Split(strings.Trim(rest, "/"), "/")
	if _, host, ok := strings.Cut(parts[0], "@"); ok {
		parts[0] = host
	}
	last := len(parts) - 1
	name := repoName(parts[last])
	for i := range parts {
		parts[i] = SafeName(parts[i])
	}
	parts[last] = name
	display := strings.Join(parts, "/")
	return Place{URL: url, Name: name, World: display, Display: display, Key: shortHash(display)}
}

func repoName(base string) string { return SafeName(strings.TrimSuffix(base, ".git")) }

// SafeName makes a word that can stand in a path and in a world's name.
func SafeName(s string) string {
	s = strings.TrimLeft(unsafeID().ReplaceAllString(s, "-"), ".-")
	const longest = 64
	if len(s) > longest {
		s = s[:longest]
	}
	if s == "" {
		return "x"
	}
	return s
}

func shortHash(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return hex.EncodeToString(sum[:])[:keyDigits]
}

// HostName is the machine's name, or "host" where it has none.
func HostName() string {
	if name, err := os.Hostname(); err == nil && SafeName(name) != "x" {
		return SafeName(name)
	}
	return "host"
}
