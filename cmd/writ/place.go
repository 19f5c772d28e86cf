package main

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/kernel"
)

// place is a repository as the command line names it.
type place struct {
	url   string // as forge/git takes it: an absolute path or a URL
	world string // its identity in records; display, where that can't be learned
	name  string // of the repository, for people and directories
	key   string // 8 hex digits that tell it from others of the same name

	display string // <host>/<owner>/<name>: what people call it; it decides nothing
	onDisk  bool   // the url is a path
}

// identify learns which repository lies at a path. With mint one that has no
// identity yet gets one. What lies behind a URL says nothing of itself that can be
// believed: its name stands for it, and never has a # like an identity.
func (p *place) identify(mint bool) error {
	if !p.onDisk {
		return nil
	}
	read := git.Identity
	if mint {
		read = git.MintIdentity
	}
	world, err := read(p.url)
	if world != "" {
		p.world = world
	}
	return err
}

// keyDigits is enough to tell the repositories of one person apart.
const keyDigits = 8

var (
	scpURL   = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]*@[A-Za-z0-9][A-Za-z0-9.-]*:[^:]`)
	unsafeID = regexp.MustCompile(`[^A-Za-z0-9._-]+`)
)

// newPlace reads --repo: a path, or a URL. A path may be relative; a word that
// a program could read as an option or a transport may not (case G1).
func newPlace(repo string) (place, error) {
	switch {
	case repo == "":
		return place{}, usage("--repo is missing: give the repository's path or URL.")
	case strings.HasPrefix(repo, "-"):
		return place{}, &problem{code: kernel.CodeURLInvalid, exit: exitUsage, text: "The repository begins with a dash.", remedy: "For a path of that name write ./ before it."}
	case strings.Contains(repo, "://"), strings.Contains(repo, "::"), scpURL.MatchString(repo):
		if err := git.ValidateURL(repo); err != nil {
			return place{}, err
		}
		if path, ok := strings.CutPrefix(repo, "file://"); ok {
			return localPlace("/" + strings.TrimLeft(strings.TrimPrefix(path, "localhost"), "/"))
		}
		return remotePlace(repo), nil
	}
	return localPlace(repo)
}

func localPlace(path string) (place, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return place{}, err
	}
	if err := git.ValidateURL(abs); err != nil {
		return place{}, err
	}
	if resolved, err := filepath.EvalSymlinks(abs); err == nil {
		abs = resolved
	}
	top := abs
	if filepath.Base(top) == ".git" {
		top = filepath.Dir(top)
	}
	name := repoName(filepath.Base(top))
	display := "local/" + safeName(filepath.Base(filepath.Dir(top))) + "/" + name
	return place{url: abs, name: name, key: shortHash(top), world: display, display: display, onDisk: true}, nil
}

// remotePlace names <host>/<owner>/<name>. The URL is valid and holds no
// credential.
func remotePlace(url string) place {
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
		parts[i] = safeName(parts[i])
	}
	parts[last] = name
	display := strings.Join(parts, "/")
	return place{url: url, name: name, world: display, display: display, key: shortHash(display)}
}

func repoName(base string) string { return safeName(strings.TrimSuffix(base, ".git")) }

// safeName makes a word that can stand in a path and in a world's name.
func safeName(s string) string {
	s = strings.TrimLeft(unsafeID.ReplaceAllString(s, "-"), ".-")
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

// hostName is the machine's name, or "host" where it has none.
func hostName() string {
	if name, err := os.Hostname(); err == nil && safeName(name) != "x" {
		return safeName(name)
	}
	return "host"
}
