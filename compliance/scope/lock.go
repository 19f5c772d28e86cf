package scope

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/writbot/writ/compliance/lazyregexp"
	"github.com/writbot/writ/kernel"
)

// maxLockBytes is the longest lock file that is read: what a repository with tens of
// thousands of dependencies has.
const maxLockBytes = 32 << 20

// lockFormat is a lock file whose sources can be read.
type lockFormat struct {
	manifest string // lock files of the same manifest are of one kind
	sources  func(data []byte) (map[string]bool, error)
	more     string // a pattern of further manifests' names
	beside   bool   // its manifest stands beside it, and none below counts
}

// lockFormats are those of which writ can say where what they name is from. Any other
// lock file is guarded.
var lockFormats = map[string]lockFormat{
	"go.sum":              {manifest: "go.mod", sources: goSources, beside: true},
	"go.work.sum":         {manifest: "go.work", sources: goSources, more: "go.mod"},
	"package-lock.json":   {manifest: "package.json", sources: jsonSources},
	"npm-shrinkwrap.json": {manifest: "package.json", sources: jsonSources},
	"composer.lock":       {manifest: "composer.json", sources: jsonSources},
	"yarn.lock":           {manifest: "package.json", sources: yamlSources},
	"pnpm-lock.yaml":      {manifest: "package.json", sources: pnpmSources},
	"Cargo.lock":          {manifest: "Cargo.toml", sources: textSources},
	"poetry.lock":         {manifest: "pyproject.toml", sources: poetrySources},
	"uv.lock":             {manifest: "pyproject.toml", sources: tomlSources},
	"Gemfile.lock":        {manifest: "Gemfile", sources: gemSources, more: "*.gemspec"},
}

// isLock reports whether a path is a lock file whose sources can be read.
func isLock(p string) bool {
	_, ok := lockFormats[path.Base(p)]
	return ok
}

// Locks are what the lock files among some changes are judged by.
type Locks struct {
	follow map[string][]string // by a lock file: the changed manifests that it comes with
	known  []string
}

// NewLocks finds which lock files come with the manifests among all of the changes. Has
// reports whether what they make of the base has a file at a path. Known are the sources
// that are the operator's, whatever the base names.
func NewLocks(changes []kernel.Change, has func(path string) bool, known []string) Locks {
	l := Locks{follow: map[string][]string{}, known: known}
	for _, c := range changes {
		if c.Op != kernel.OpAdd && c.Op != kernel.OpModify {
			continue
		}
		for name, format := range lockFormats {
			if !format.reads(c.Path) {
				continue
			}
			if lock := path.Join(format.nearest(c.Path, has), name); has(lock) {
				l.follow[lock] = append(l.follow[lock], c.Path)
			}
		}
	}
	return l
}

// reads reports whether a path is that of a manifest.
func (f lockFormat) reads(p string) bool {
	more, err := path.Match(f.more, path.Base(p))
	return path.Base(p) == f.manifest || more && err == nil
}

// nearest is the directory of the lock files of this kind that a manifest is for: its own,
// or in a workspace the first above it that has one.
func (f lockFormat) nearest(manifest string, has func(path string) bool) string {
	dir := path.Dir(manifest)
	for ; dir != "." && !f.beside; dir = path.Dir(dir) {
		for name, other := range lockFormats {
			if other.manifest == f.manifest && has(path.Join(dir, name)) {
				return dir
			}
		}
	}
	return dir
}

// NeedsSources reports whether [Locks.WithManifest] turns on what a lock file held and
// holds.
func (l Locks) NeedsSources(c kernel.Change) bool {
	return isLock(c.Path) && plainly(c) && len(l.follow[c.Path]) > 0
}

// Allowed reports whether a lock file is allowed with a manifest: with the one beside it,
// changed or not, or with a changed one below that it comes with.
func (l Locks) Allowed(lock string, allowed func(path string) bool) bool {
	format, ok := lockFormats[path.Base(lock)]
	return ok && (allowed(path.Join(path.Dir(lock), format.manifest)) || slices.ContainsFunc(l.follow[lock], allowed))
}

// plainly reports whether a file stays, or becomes, a plain one.
func plainly(c kernel.Change) bool {
	return (c.Op == kernel.OpAdd || c.Op == kernel.OpModify) && c.AfterMode == ModeFile && (c.BeforeMode == "" || c.BeforeMode == ModeFile)
}

// WithManifest says why a changed lock file doesn't come with its manifest, or "". It
// does if its manifest is added or changed by the same changes, and if every source that
// it names was in the base's lock file, or is known, which is the operator's word. The
// manifest stands beside it; or, but for a go.sum, below it where no lock file of the same
// kind is nearer to the manifest. A source is a host that is asked over https without a
// name or password; on hosts that serve everybody's repositories, and of git anywhere, it
// is the repository. A path, a link and an archive that is no registry's are sources of
// their own, so that a new one is never free. Before and after are what the file held and
// holds.
//
// Whether the manifest may change is judged as of any path. What it says isn't judged.
func (l Locks) WithManifest(c kernel.Change, before, after []byte) string {
	format, ok := lockFormats[path.Base(c.Path)]
	switch {
	case !ok:
		return "It is a lock file of a kind that writ can't read."
	case !plainly(c):
		return "A lock file must stay, or become, a plain file."
	case len(l.follow[c.Path]) == 0:
		return "Its manifest " + Display(path.Join(path.Dir(c.Path), format.manifest)) + " did not change with it."
	}
	was, err := sourcesOf(format, before)
	if err != nil {
		return "The base's lock file can't be read: " + err.Error() + "."
	}
	is, err := sourcesOf(format, after)
	if err != nil {
		return "It can't be read: " + err.Error() + "."
	}
	var more []string
	for source := range is {
		if !was[source] && !slices.Contains(l.known, source) {
			more = append(more, source)
		}
	}
	if len(more) == 0 {
		return ""
	}
	slices.Sort(more)
	return "It names a source that the base's lock file does not: " + Display(more[0]) + "."
}

func sourcesOf(f lockFormat, data []byte) (map[string]bool, error) {
	if len(data) > maxLockBytes {
		return nil, fmt.Errorf("it has more than %d bytes", maxLockBytes)
	}
	return f.sources(data)
}

// goSources are the hosts of the modules that a go.sum names. That a module's bytes are
// the published ones is the checksum database's to say, so the repository doesn't count.
func goSources(data []byte) (map[string]bool, error) {
	out := map[string]bool{}
	for line := range strings.Lines(string(data)) {
		f := strings.Fields(line)
		switch {
		case len(f) == 0:
		case len(f) != 3 || !strings.HasPrefix(f[2], "h1:"):
			return nil, fmt.Errorf("the line %q is none of a go.sum", Display(strings.TrimSpace(line)))
		default:
			host, _, _ := strings.Cut(f[0], "/")
			out[host] = true
		}
	}
	return out, nil
}

// unfetched are the keys below which package-lock.json and composer.lock say what is
// read by people, and nothing that is fetched.
var unfetched = map[string]bool{"funding": true, "homepage": true, "support": true, "authors": true, "description": true, "license": true, "keywords": true, "deprecated": true}

// jsonSources are the sources in all strings of a JSON document but those for people.
func jsonSources(data []byte) (map[string]bool, error) {
	out := map[string]bool{}
	if len(bytes.TrimSpace(data)) == 0 {
		return out, nil // the base has none
	}
	var doc any
	if err := json.Unmarshal(data, &doc); err != nil {
		return nil, fmt.Errorf("it is no JSON: %w", err)
	}
	addAll(out, doc, "")
	return out, nil
}

// addAll adds the sources of a part of a document, which stands under a key. The keys of
// a map of dependencies are the names of packages, whatever they are.
func addAll(to map[string]bool, part any, under string) {
	switch part := part.(type) {
	case string:
		addSources(to, asURL.Replace(part), npmArchives)
	case []any:
		for _, x := range part {
			if entry, ok := x.(map[string]any); ok {
				addEntry(to, entry, false)
			}
			addAll(to, x, "")
		}
	case map[string]any:
		for key, x := range part {
			if entry, ok := x.(map[string]any); ok {
				addEntry(to, entry, under == "dependencies" || under == "packages" && strings.Contains(key, "node_modules/"))
			}
			addSources(to, asURL.Replace(key), npmArchives)
			if outside(key) {
				to["path:"+key] = true
			}
			if !unfetched[key] || under == "dependencies" || under == "packages" {
				addAll(to, x, key)
			}
		}
	}
}

// addEntry adds what an entry of package-lock.json or composer.lock says without a URL: a
// link, a path, or nothing at all of where it is from, which leaves that to whatever
// registry the machine has.
func addEntry(to map[string]bool, entry map[string]any, installed bool) {
	at := func(key string) string { s, _ := entry[key].(string); return asURL.Replace(s) }
	if link, _ := entry["link"].(bool); link {
		to["link:"+at("resolved")] = true
	}
	if at("type") == "path" {
		to["path:"+at("url")] = true
	}
	for _, key := range []string{"resolved", "url", "version", "from"} {
		if s := at(key); outside(s) || path.IsAbs(s) {
			to["path:"+s] = true
		}
	}
	version := at("version")
	if installed && version != "" && at("resolved") == "" && (!strings.Contains(version, ":") || strings.HasPrefix(version, "npm:")) && entry["inBundle"] != true && entry["bundled"] != true {
		to["the registry that the machine has"] = true
	}
}

// outside reports whether a text is a path that leads out of where it stands.
func outside(s string) bool {
	return s == ".." || strings.HasPrefix(s, "../") || strings.Contains(s, "/../") || strings.HasSuffix(s, "/..")
}

// asURL reads a string as browsers and node read a URL.
var asURL = strings.NewReplacer(`\`, "/", "\t", "", "\r", "", "\n", "")

// What could hide a source from whoever reads the text as it stands: any escape but of a
// quote, and tabs and the like, which readers of URLs drop. In YAML also a tag, such as
// for base64.
var (
	hiding     = lazyregexp.New(`\\[^"']|\\$|[\x00-\x08\t\x0b-\x1f]`)
	hidingYAML = lazyregexp.New(`(?m)(^|[\s\[{,:-])!`)
)

func yamlSources(data []byte) (map[string]bool, error) {
	if err := plain(data, hidingYAML); err != nil {
		return nil, err
	}
	return sourcesIn(data, npmArchives)
}

func plain(data []byte, against lazyregexp.Regexp) error {
	if at := against().FindIndex(data); at != nil {
		return fmt.Errorf("line %d has an escape or a tag that could hide a source", 1+bytes.Count(data[:at[0]], []byte("\n")))
	}
	return nil
}

// textSources are the sources in a lock file's text as it stands.
func textSources(data []byte) (map[string]bool, error) { return sourcesIn(data, nil) }

func sourcesIn(data []byte, archives []string) (map[string]bool, error) {
	data = bytes.ReplaceAll(data, []byte("\r\n"), []byte("\n"))
	if err := plain(data, hiding); err != nil {
		return nil, err
	}
	out := map[string]bool{}
	addSources(out, string(data), archives)
	return out, nil
}

// tomlSources are those of a text in which a key names what needs no URL: a path, or a
// repository of git at a plain address.
func tomlSources(data []byte) (map[string]bool, error) {
	out, err := textSources(data)
	for _, m := range inTOML().FindAllSubmatch(data, -1) {
		if kind, at := string(m[1]), string(m[2]); at != "." && (kind != "registry" || !strings.Contains(at, "://")) {
			out[kind+":"+at] = true
		}
	}
	for _, m := range poetrySource().FindAllSubmatch(data, -1) {
		if kind := string(m[1]); kind != "legacy" {
			out[kind+":"+string(m[2])] = true
		}
	}
	unread(out, data, anySource(), inTOML(), poetrySource())
	return out, err
}

// unread takes what stands where a source does, in another form than the tools write it,
// for a source of its own.
func unread(to map[string]bool, data []byte, loose *regexp.Regexp, strict ...*regexp.Regexp) {
	for _, text := range loose.FindAll(data, -1) {
		text = bytes.TrimLeft(text, "{, \t\r\n")
		if !slices.ContainsFunc(strict, func(s *regexp.Regexp) bool { at := s.FindIndex(text); return at != nil && at[0] == 0 }) {
			to["a source that can't be read: "+string(text)] = true
		}
	}
}

// gemSources are those of a Gemfile.lock, whose sections say what a remote is.
func gemSources(data []byte) (map[string]bool, error) {
	out, err := textSources(data)
	for _, m := range gemSection().FindAllSubmatch(data, -1) {
		if kind, at := string(m[1]), string(m[2]); at != "." {
			out[kind+":"+at] = true
		}
	}
	unread(out, data, anyGemSection(), gemSection())
	return out, err
}

var (
	anySource     = lazyregexp.New(`(?m)(?:^|[{,])[ \t]*["']?source["']?\s*(?:=\s*\{|\.)[^\n]*|^[ \t]*\[[ \t]*["']?package["']?[ \t]*\.[ \t]*["']?source["']?[ \t]*\][^\[]*`)
	anyGemSection = lazyregexp.New(`(?m)^(GIT|PATH|PLUGIN SOURCE)[ \t]*\r?\n[^\n]*`)

	inTOML       = lazyregexp.New(`\bsource\s*=\s*\{\s*(git|url|path|directory|editable|virtual|registry)\s*=\s*["']([^"'\n]*)["']`)
	poetrySource = lazyregexp.New(`(?m)^\[package\.source\]\r?\ntype = "([a-z]+)"\r?\nurl = "([^"\n]*)"`)
	gemSection   = lazyregexp.New(`(?m)^(GIT|PATH|PLUGIN SOURCE)\r?\n  remote: ([^\r\n]*)`)
)

var (
	// url is whatever stands behind two slashes, or behind a scheme that needs none;
	// remote what ssh takes, user@host:path; shorthand how npm names a repository; local
	// what a package manager reads, or runs, on the machine itself.
	url = lazyregexp.New(`(?i)(?:\b(https?):|(?:\b([a-z][a-z0-9+.-]*):)?//)([^\s"'<>,;)\]}]+)`)
	// oddUser is a URL whose host would seem to end, where others read on to an @ and take
	// what is before it for a user's name.
	oddUser   = lazyregexp.New(`//[^/?#\n@\s"'<>,;)\]}]*[ \t"'<>,;)\]}][^/?#\n@]*@[^\s"']*`)
	local     = lazyregexp.New(`\b(file|link|portal|exec):([^\s"'<>,;)\]}#]+)|\bdirectory:[ \t]*["']?([^\s"',}]+)|[\s"'@:]((?:\.\./)[^\s"',;)\]}]*)`)
	remote    = lazyregexp.New(`[\w.+-]@([\w.-]+):[^\s"']`)
	checksum  = lazyregexp.New(`\b(sha1-[A-Za-z0-9+/]{27}=|sha256-[A-Za-z0-9+/]{43}=|sha384-[A-Za-z0-9+/]{64}|sha512-[A-Za-z0-9+/]{86}==)`)
	shorthand = lazyregexp.New(`\b(github|gitlab|bitbucket|gist|git):([\w.-]+(/[\w.-]+)?)`)
)

// protocols stand in locators such as lodash@npm:4.17.21, which name no host.
var protocols = []string{"npm", "workspace", "patch", "link", "portal", "file", "virtual", "exec", "jsr", "http", "https", "git", "ssh"}

// shared are hosts where everybody has repositories, with all their subdomains.
var shared = []string{"github.com", "githubusercontent.com", "github.io", "gitlab.com", "gitlab.io", "bitbucket.org", "codeberg.org", "sr.ht", "sourceforge.net", "amazonaws.com", "googleapis.com"}

// sharedDepth is how many segments of a path name a repository there, as in
// api.github.com/repos/owner/name.
const sharedDepth = 3

// npmArchives end what npm and its like fetch from a registry, as PATH/-/FILE, and from
// anywhere else.
var npmArchives = []string{".tgz", ".tar.gz", ".tar"}

// addSources adds what a text names. archives are the ends of those that only a registry
// may have without being a source of their own.
func addSources(to map[string]bool, text string, archives []string) {
	text = checksum().ReplaceAllString(text, "") // two slashes in base64 are no URL
	for _, m := range url().FindAllStringSubmatch(text, -1) {
		if s := sourceOf(strings.ToLower(m[1]+m[2]), strings.TrimLeft(m[3], "/"), archives); s != "" {
			to[s] = true
		}
	}
	for _, odd := range oddUser().FindAllString(text, -1) {
		to["a source that can't be read: "+odd] = true
	}
	for _, m := range local().FindAllStringSubmatch(text, -1) {
		switch {
		case m[1] != "":
			to[m[1]+":"+m[2]] = true
		case m[3] != "":
			to["directory:"+m[3]] = true
		default:
			to["path:"+m[4]] = true
		}
	}
	for _, m := range remote().FindAllStringSubmatch(text, -1) {
		if !slices.Contains(protocols, m[1]) {
			to[strings.ToLower(m[1])] = true
		}
	}
	for _, m := range shorthand().FindAllStringSubmatch(text, -1) {
		to[m[1]+":"+m[2]] = true
	}
}

// plainSchemes are those of what is asked over https, as lock files write them.
var plainSchemes = []string{"", "https", "registry+https", "sparse+https"}

// sourceOf is the host of what stands behind the slashes of a URL, with its scheme where
// that isn't https, with what names the repository on a shared host and of git, and with the
// whole path of an archive that no registry has.
func sourceOf(scheme, rest string, archives []string) string {
	if i := strings.IndexAny(rest, "?#"); i >= 0 {
		rest = rest[:i]
	}
	authority, below, _ := strings.Cut(strings.ReplaceAll(rest, `\`, "/"), "/")
	user, who := "", strings.LastIndexByte(authority, '@')
	if who >= 0 && authority[:who] != "git" {
		user = "somebody@" // the lock file's own credentials, which may be secret
	}
	authority = authority[who+1:]
	authority = strings.TrimSuffix(strings.ToLower(authority), ".")
	if authority == "" {
		return ""
	}
	if !slices.Contains(plainSchemes, scheme) {
		user = scheme + "://" + user
	}
	host, _, _ := strings.Cut(authority, ":")
	names := strings.Split(strings.TrimSuffix(below, "/"), "/")
	last := names[len(names)-1]
	repository := strings.Contains(scheme, "git") || strings.Contains(scheme, "ssh") || strings.HasSuffix(last, ".git")
	ends := func(end string) bool { return strings.HasSuffix(last, end) }
	archive := slices.ContainsFunc(archives, ends) && !(len(names) > 2 && names[len(names)-2] == "-")
	for _, s := range shared {
		if host == s || strings.HasSuffix(host, "."+s) {
			repository, archive, names = true, false, names[:min(len(names), sharedDepth)]
		}
	}
	if repository || archive {
		return user + authority + "/" + strings.TrimSuffix(strings.Join(names, "/"), ".git")
	}
	return user + authority
}

// pnpmSources are those of a pnpm-lock.yaml without what it says to people of packages
// that are deprecated.
func pnpmSources(data []byte) (map[string]bool, error) { return yamlSources(withoutDeprecated(data)) }

// poetrySources are those of a poetry.lock without the descriptions of its packages.
func poetrySources(data []byte) (map[string]bool, error) {
	return tomlSources(withoutDescriptions(data))
}

// The lines of YAML that pnpm writes: whatever stands in them, no text in quotes and no
// list begins in one and goes on in the next. deprecated is such a line whose value is left
// out, and deprecatedBlock one whose value is on the lines below. No reader takes what a
// value that is left out holds for the end of a line.
var (
	yamlLine = lazyregexp.New(`^ *(?:[-?:] )*(?:` + yamlKey + `:|(?:` + yamlKey + `: )?(?:` + yamlKey +
		`|\{` + yamlItem + `(?:, ` + yamlItem + `)*\}|\[` + yamlItem + `(?:, ` + yamlItem + `)*\]))$`)
	deprecated      = lazyregexp.New(`^ *deprecated: (?:'(?:''|[^'` + breaks + `])*'|"(?:\\[ -~]|[^"\\` + breaks + `])*"|` + yamlFirst + `[^` + breaks + `]*)$`)
	deprecatedBlock = lazyregexp.New(`^ *deprecated: [|>][+-]?$`)
	unbroken        = lazyregexp.New(`^[^` + breaks + `]*$`)
	yamlIndicator   = lazyregexp.New(`^ *[-?:] `)
)

const (
	breaks     = `\x00-\x1f\x7f-\x{9f}\x{2028}\x{2029}`
	yamlFirst  = `[^ "'!#%&*,\-:>?@\[\]` + "`" + `{|}` + breaks + `]`
	yamlQuoted = `(?:'(?:''|[^'` + breaks + `])*'|"[^"\\` + breaks + `]*")`
	yamlKey    = `(?:` + yamlQuoted + `|` + yamlFirst + `[^"'{}\[\]` + breaks + `]*)`
	yamlWord   = `(?:` + yamlQuoted + `|` + yamlFirst + `[^"'{}\[\],` + breaks + `]*)`
	yamlItem   = yamlWord + `(?:: ` + yamlWord + `)?`
)

// yamlParent is a line with a key whose value is on the lines below it, the first of which
// is indented by below.
type yamlParent struct {
	text          string
	indent, below int
}

// withoutDeprecated leaves out the values of the key deprecated of the entries below
// packages. As soon as a line isn't of the form that pnpm writes, nothing more is left out:
// what looks like such a key could be within a text.
func withoutDeprecated(data []byte) []byte {
	var out bytes.Buffer
	var above []yamlParent
	for rest := strings.ReplaceAll(string(data), "\r\n", "\n"); rest != ""; {
		line, next, _ := strings.Cut(rest, "\n")
		text := strings.TrimLeft(line, " ")
		indent := len(line) - len(text)
		if text != "" {
			above = placed(above, indent)
		}
		entry := len(above) == 2 && above[0].text == "packages:" && above[0].indent == 0 && above[1].below == indent
		switch {
		case text == "":
		case entry && deprecated().MatchString(line):
			line = ""
		case entry && deprecatedBlock().MatchString(line):
			line, next = "", afterBlock(next, indent)
		case line == "---":
			above = nil
		case !yamlLine().MatchString(line), yamlIndicator().MatchString(line) && strings.HasSuffix(line, ":"):
			out.WriteString(rest)
			return out.Bytes()
		case strings.HasSuffix(line, ":"):
			above = append(above, yamlParent{text: text, indent: indent})
		}
		out.WriteString(line + "\n")
		rest = next
	}
	return out.Bytes()
}

// placed are the parents that a line has by its indentation. The last of them then knows
// how the first line below it is indented.
func placed(above []yamlParent, indent int) []yamlParent {
	for len(above) > 0 && above[len(above)-1].indent >= indent {
		above = above[:len(above)-1]
	}
	if last := len(above) - 1; last >= 0 && above[last].below == 0 {
		above[last].below = indent
	}
	return above
}

// afterBlock is what follows the lines of a block of text: those that are blank, or
// indented as its first one is or more.
func afterBlock(rest string, parent int) string {
	least := parent + 1
	for first := true; rest != ""; {
		line, next, _ := strings.Cut(rest, "\n")
		if words := strings.TrimLeft(line, " "); words != "" {
			indent := len(line) - len(words)
			if indent < least || !unbroken().MatchString(words) {
				break
			}
			if first {
				least, first = indent, false
			}
		}
		rest = next
	}
	return rest
}

// description is a line of a package's description, as poetry writes it.
var description = lazyregexp.New(`^description = "(?:[^"\\\x00-\x1f\x7f]|\\["\\bfnrt]|\\u[0-9a-fA-F]{4})*"$`)

// withoutDescriptions leaves out the descriptions of packages, which hold what their
// authors like: escapes and addresses. What looks like one could be within a text of
// several lines, so that nothing is left out where there are such.
func withoutDescriptions(data []byte) []byte {
	if bytes.Contains(data, []byte(`"""`)) || bytes.Contains(data, []byte(`'''`)) {
		return data
	}
	var out bytes.Buffer
	within := false // the table of a package
	for line := range strings.Lines(strings.ReplaceAll(string(data), "\r\n", "\n")) {
		text := strings.TrimSuffix(line, "\n")
		if strings.HasPrefix(strings.TrimLeft(text, " \t"), "[") {
			within = text == "[[package]]"
		}
		if !within || !description().MatchString(text) {
			out.WriteString(line)
		}
	}
	return out.Bytes()
}
