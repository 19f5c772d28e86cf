package tick

import (
	"path"
	"strings"

	"github.com/writbot/writ/kernel/lease"
)

// Dir is the directory that commands are kept in, from the repository's root.
const Dir = ".aynig"

// MaxLinks is how many symbolic links are followed on the way to a command.
const MaxLinks = 16

// FileKind is what a command's path may lead to.
type FileKind int

// The kinds.
const (
	FileOther      FileKind = iota // a submodule
	FileRegular                    // without the x bit
	FileExecutable                 // a regular file with the x bit
	FileLink                       // a symbolic link
)

// Files are the files below [Dir] at one commit, by their path from there.
type Files interface {
	// Kind is of the file at a path; ok is false where there is none. A directory
	// is none.
	Kind(path string) (kind FileKind, ok bool)
	// Target is where the link at a path leads.
	Target(path string) string
}

// Found says what [Resolve] came to.
type Found string

// The results.
const (
	FoundCommand       Found = "command"
	FoundNothing       Found = "missing"        // no file of that name
	FoundNotExecutable Found = "not_executable" // a file without the x bit, or no regular one
	FoundOutside       Found = "outside"        // its links lead out of the command directory
)

// Command is the file that a state selects.
type Command struct {
	Found Found
	Path  string // from [Dir], as it is named
	File  string // from [Dir], after links; of a found command
}

// ValidRole reports whether s can be a role: one word of a state's form.
func ValidRole(s string) bool { return lease.ValidState(s) && !strings.Contains(s, "/") }

// Resolve finds the command of a state: the role's, where there is a role and it
// has one, else the one for everybody (seed 000, §2). A role's file that can't be
// run is not passed over. Neither role nor state can lead anywhere else: both are
// valid names, and the file must lie in the command directory after all links.
func Resolve(files Files, role, state string) Command {
	for _, dir := range commandDirs(role) {
		if c := resolveIn(files, dir, state); c.Found != FoundNothing {
			return c
		}
	}
	return Command{Found: FoundNothing, Path: path.Join(commandDirs("")[0], state)}
}

func commandDirs(role string) []string {
	if role == "" {
		return []string{"command"}
	}
	return []string{path.Join("roles", role, "command"), "command"}
}

func resolveIn(files Files, dir, state string) Command {
	named := path.Join(dir, state)
	c := Command{Found: FoundNothing, Path: named}
	file, inside := follow(files, named)
	if !inside || file != "" && !strings.HasPrefix(file, dir+"/") {
		c.Found = FoundOutside
		return c
	}
	kind, ok := files.Kind(file)
	switch {
	case !ok:
		return c
	case kind != FileExecutable:
		c.Found = FoundNotExecutable
	default:
		c.Found, c.File = FoundCommand, file
	}
	return c
}

// follow walks a path and resolves links, component by component. inside is
// false where the way leaves [Dir], or has too many links.
func follow(files Files, name string) (file string, inside bool) {
	var at []string
	links := 0
	for todo := strings.Split(name, "/"); len(todo) > 0; {
		part := todo[0]
		todo = todo[1:]
		switch part {
		case "", ".":
			continue
		case "..":
			if len(at) == 0 {
				return "", false
			}
			at = at[:len(at)-1]
			continue
		}
		here := path.Join(append(at, part)...)
		if kind, ok := files.Kind(here); !ok || kind != FileLink {
			at = append(at, part)
			continue
		}
		target := files.Target(here)
		if links++; links > MaxLinks || path.IsAbs(target) {
			return "", false
		}
		todo = append(strings.Split(target, "/"), todo...)
	}
	return path.Join(at...), true
}

// IsEnd reports whether a state is one of the words by which workflows name an
// end, or a wait. It changes how a branch without a command is spoken of, never
// what is run (T52): without it every finished branch would be a complaint.
func IsEnd(state string) bool {
	switch state {
	case "done", "failed", "canceled", "blocked", "waiting", "noop", lease.StateStalled:
		return true
	}
	return false
}
