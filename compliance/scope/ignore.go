package scope

import (
	"bytes"
	"sort"
	"strings"

	"github.com/go-git/go-git/v5/plumbing/format/gitignore"
)

const (
	ignoreName = ".gitignore"
	// maxIgnoreBytes is how much of one .gitignore is read. What lies beyond
	// ignores nothing, so a larger file makes the verdict stricter.
	maxIgnoreBytes = 1 << 20
)

// ignores answers what the base commit's own .gitignore files match.
type ignores struct {
	matcher gitignore.Matcher
	memo    map[string]bool // directories already asked about
}

// newIgnores compiles path → content. Nil when there is nothing to ignore.
func newIgnores(files map[string][]byte) *ignores {
	paths := make([]string, 0, len(files))
	for p := range files {
		paths = append(paths, p)
	}
	// Deeper files win over those above them; the matcher asks from the end.
	sort.Slice(paths, func(i, j int) bool {
		if a, b := strings.Count(paths[i], "/"), strings.Count(paths[j], "/"); a != b {
			return a < b
		}
		return paths[i] < paths[j]
	})
	var patterns []gitignore.Pattern
	for _, p := range paths {
		patterns = append(patterns, parseIgnore(files[p], parent(p))...)
	}
	if len(patterns) == 0 {
		return nil
	}
	return &ignores{matcher: gitignore.NewMatcher(patterns), memo: map[string]bool{}}
}

func parseIgnore(content []byte, dir string) []gitignore.Pattern {
	var domain []string
	if dir != "" {
		domain = strings.Split(dir, "/")
	}
	if len(content) > maxIgnoreBytes {
		content = content[:maxIgnoreBytes]
	}
	content = bytes.TrimPrefix(content, []byte("\xef\xbb\xbf"))
	var out []gitignore.Pattern
	for line := range strings.SplitSeq(string(content), "\n") {
		line = strings.TrimSuffix(line, "\r")
		if strings.TrimSpace(line) == "" || strings.HasPrefix(line, "#") {
			continue
		}
		out = append(out, gitignore.ParsePattern(line, domain))
	}
	return out
}

// match reports whether git would ignore an untracked path: because of its own
// name, or because a directory above it is ignored (which nothing below can
// take back).
func (i *ignores) match(path string, dir bool) bool {
	if i == nil {
		return false
	}
	if up := parent(path); up != "" && i.dir(up) {
		return true
	}
	if dir {
		return i.dir(path)
	}
	return i.matcher.Match(strings.Split(path, "/"), false)
}

func (i *ignores) dir(path string) bool {
	if known, ok := i.memo[path]; ok {
		return known
	}
	up := parent(path)
	answer := up != "" && i.dir(up) || i.matcher.Match(strings.Split(path, "/"), true)
	i.memo[path] = answer
	return answer
}

// IgnoredDirs compiles .gitignore files, path → content, and reports of an untracked
// directory whether git would ignore it.
func IgnoredDirs(files map[string][]byte) func(dir string) bool {
	i := newIgnores(files)
	return func(dir string) bool { return i.match(dir, true) }
}
