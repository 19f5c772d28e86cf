package builder

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/writbot/writ/kernel"
)

// agent is what writ knows of one kind of builder. Everything else is the operator's: its
// program, and which of its versions.
type agent struct {
	// pack is how its makers publish it, in the version that it is tested with.
	pack Package
	// api is the interface of the provider that it speaks; "" for any.
	api string
	// launch says how it is started; at is where the provider is asked for, by the interface
	// api.
	launch func(api, model, at string) launch
	// read takes in one line of its standard output.
	read func(s *claims, line []byte)
	// talks says that it is talked to by the Agent Client Protocol instead.
	talks bool
	// obeys are files of a repository that it would obey. They come from the base, and no
	// task may change one: a test holds them against what is forbidden.
	obeys []string
	// instruct has it obey those of them that are plain text, and no settings, hooks, servers,
	// plugins, skills or commands; nil for a kind of which that isn't known.
	instruct func(l *launch)
}

// launch is what a kind adds to the operator's program.
type launch struct {
	args []string // behind the program, before the operator's own arguments
	env  map[string]string
}

// Package is how an agent is published in npm's registry.
type Package struct {
	Name    string
	Version string   // that it is tested with
	Program string   // below node_modules; * is for the processor
	Above   int      // how many directories above its own the program needs as well
	Args    []string // that it needs to be a builder
}

// Install is what installs it into a directory. The directory is named to npm, which otherwise
// takes the next one above that looks like a project.
func (p Package) Install(dir string) string {
	return "npm --prefix " + dir + " install --ignore-scripts " + p.Name + "@" + p.Version
}

// In finds the program in a directory in which it was installed, and what must be mounted
// for it.
func (p Package) In(dir string) (program, mount string, err error) {
	found, err := filepath.Glob(filepath.Join(dir, "node_modules", p.Program))
	if err != nil || len(found) != 1 {
		return "", "", fmt.Errorf("%s is there %d times below %s", p.Name, len(found), filepath.Join(dir, "node_modules"))
	}
	mount = filepath.Dir(found[0])
	for range p.Above {
		mount = filepath.Dir(mount)
	}
	return found[0], mount, nil
}

// agents are the kinds that writ knows. A builder without a kind is any command.
var agents = map[string]agent{"claude-code": claudeCode, "codex": codex, "acp": acp}

// Placeholder is what a builder's environment has in place of a key, for a program that
// doesn't start without one.
const Placeholder = "placeholder"

// Kinds are their names.
func Kinds() []string { return slices.Sorted(maps.Keys(agents)) }

// KindAPI is the interface of the provider that a kind speaks; "" for any.
func KindAPI(kind string) string { return agents[kind].api }

// KindPackage is how the agent of a kind is published; nothing for one that isn't known.
func KindPackage(kind string) Package { return agents[kind].pack }

// isAgent reports whether the builder is of a kind of which anything is known.
func (b Builder) isAgent() bool {
	_, known := agents[b.Kind]
	return known
}

// prepared is the builder with what its kind adds. A builder without one is as it was.
func (b Builder) prepared() Builder {
	a, ok := agents[b.Kind]
	if !ok || len(b.Argv) == 0 {
		return b
	}
	api, at := b.provider()
	l := a.launch(api, b.Model, at)
	if b.instructed() {
		a.instruct(&l)
	}
	b.Argv = slices.Concat(b.Argv[:1], l.args, b.Argv[1:])
	env := map[string]string{}
	maps.Copy(env, l.env)
	maps.Copy(env, b.Env)
	b.Env = env
	return b
}

// Instructs reports whether a kind's agent can be told to obey the plain instructions of a
// repository, or not to.
func Instructs(kind string, argv []string) bool {
	return agents[kind].instruct != nil && tested(kind, argv).Name != ""
}

// tested is the package of the agent that a builder's program is. Of those that are talked to by
// a protocol only the tested one is known, by its name; nothing of another.
func tested(kind string, argv []string) Package {
	a := agents[kind]
	if len(argv) == 0 || a.talks && path.Base(argv[0]) != path.Base(a.pack.Program) {
		return Package{}
	}
	return a.pack
}

// instructed reports whether the builder obeys them.
func (b Builder) instructed() bool { return b.Instructions && Instructs(b.Kind, b.Argv) }

// provider is where the builder asks for its provider, inside, and by which interface.
func (b Builder) provider() (api, at string) {
	speaks := agents[b.Kind].api
	for _, r := range b.Egress {
		if r.Credential != nil && r.Credential.API != nil && (speaks == "" || r.Credential.API.Name == speaks) {
			return r.Credential.API.Name, r.Inside()
		}
	}
	return "", ""
}

// claims are what an agent says of its own run. What counts of it is only that
// it failed.
type claims struct {
	read func(s *claims, line []byte)
	line []byte
	long bool // the line is too long, and left out

	ended   bool
	failed  string // why, in its words; "" where it says that it didn't
	message string // its last one
	version string // its own, with a name where it says one
	usage   string // what it says that it used
}

// maxSaidLine bounds a line that is read, in bytes: the last message of an agent is
// shorter, and what a tool gave needn't be read.
const maxSaidLine = 1 << 20

// Write takes in output, and never fails.
func (s *claims) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		line, after, whole := bytes.Cut(rest, []byte{'\n'})
		if s.long = s.long || len(s.line)+len(line) > maxSaidLine; !s.long {
			s.line = append(s.line, line...)
		}
		if whole {
			s.flush()
		}
		rest = after
	}
	return len(p), nil
}

func (s *claims) flush() {
	if !s.long && len(s.line) > 0 {
		s.read(s, s.line)
	}
	s.line, s.long = s.line[:0], false
}

// saidFaults are what an agent that ended by itself says went wrong. One that ends well
// without having told of its end did nothing that it was asked for.
func (b *build) saidFaults(end ending) []kernel.Violation {
	if b.said == nil || end.exit.Cause != kernel.CauseExited {
		return nil
	}
	b.said.flush()
	why := b.said.failed
	if why == "" && end.succeeded() && !b.said.ended {
		why = "it never told of its end"
	}
	if why == "" {
		return nil
	}
	// Its words are one line, and so short that what says whose they are stays before them.
	why = clip(strings.Join(strings.Fields(b.l.clean(why, maxMessage)), " "), maxSaidWhy)
	return []kernel.Violation{{Code: kernel.CodeExecutionReported, Subject: "builder", Detail: "The agent says that it failed: " + why + "."}}
}

// maxSaidWhy bounds an agent's words in a violation, in bytes. What it said last stands in the
// report, too.
const maxSaidWhy = 500

// maxKeptMessage bounds what is kept of an agent's last message, in bytes: it is told in the
// report, where a reader wants a summary. All of it is in the transcript.
const maxKeptMessage = 2<<10 - len("…")

// maxVersion bounds a version, in characters: those of the tested agents have 21 at most.
const maxVersion = 64

// agent is the record of which agent the builder is; nil of one of no kind. The version that
// it says in its own stream wins over that of the preflight: its program may have been
// replaced since.
func (b *build) agent() *kernel.Agent {
	if !b.cfg.isAgent() {
		return nil
	}
	out := &kernel.Agent{Kind: b.cfg.Kind, Version: b.version, Model: b.l.clean(b.cfg.Model, maxDetailBytes), Instructions: b.cfg.instructed()}
	if b.said != nil {
		out.Version = cmp.Or(b.l.keptVersion(b.said.version), out.Version)
		// All of it is redacted before it is cut, so that no part of a secret is left.
		out.Message = clip(strings.TrimSpace(b.l.clean(b.said.message, maxMessage)), maxKeptMessage)
	}
	return out
}

// keptVersion is a version as it is kept. It ends before the first character that isn't printable
// ASCII. All of the text is redacted before it is cut, so that no part of a secret is left.
func (l *Local) keptVersion(says string) string {
	says = strings.TrimSpace(l.cfg.Redact(says))
	if end := strings.IndexFunc(says, func(r rune) bool { return r < ' ' || r > '~' }); end >= 0 {
		says = says[:end]
	}
	return strings.TrimSpace(says[:min(len(says), maxVersion)])
}
