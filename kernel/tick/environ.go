package tick

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/writbot/writ/kernel/lease"
)

// Limits of what a command is given, in bytes. Linux takes 128 KiB for one
// variable with its name, and a quarter of the stack, mostly 2 MiB, for all.
const (
	MaxVariable = 128<<10 - 1
	MaxGiven    = 1 << 20
)

// Given is what a command is told, beside its event (seed 000, §3).
type Given struct {
	RunID        string
	RunnerID     string
	Branch       string // its full ref name
	Remote       string // "" in local mode
	Role         string // "" for none
	LogLevel     string
	LeaseSeconds int64
	GraceSeconds int64
	// DeadlineSeconds is when the lease ends unless it is renewed, in Unix seconds.
	DeadlineSeconds int64
}

// Prefix begins every variable that a command is given. Whatever a trailer is
// called, it can't set another one.
const Prefix = "AYNIG_"

const trailerPrefix = Prefix + "TRAILER_"

// Environ is the environment of a command: base, the caller's own, without what
// would tell git or a command of another repository or run; the event; and what
// is given. Every variable of given is always set, empty where there is nothing.
// Of a trailer that is there several times the values are joined with commas.
//
// An event whose text no environment holds is an error, before any lease is taken.
func Environ(base []string, ev lease.Event, g Given) ([]string, error) {
	env := slices.DeleteFunc(slices.Clone(base), foreign)
	given := []string{
		Prefix + "BODY=" + ev.Body,
		Prefix + "BRANCH=" + g.Branch,
		Prefix + "COMMIT_HASH=" + ev.OID,
		Prefix + "DEADLINE=" + strconv.FormatInt(g.DeadlineSeconds, 10),
		Prefix + "GRACE_SECONDS=" + strconv.FormatInt(g.GraceSeconds, 10),
		Prefix + "LEASE_SECONDS=" + strconv.FormatInt(g.LeaseSeconds, 10),
		Prefix + "LOG_LEVEL=" + g.LogLevel,
		Prefix + "REMOTE=" + g.Remote,
		Prefix + "ROLE=" + g.Role,
		Prefix + "RUNNER_ID=" + g.RunnerID,
		Prefix + "RUN_ID=" + g.RunID,
	}
	given = append(given, trailerVariables(ev.Trailers)...)
	total := 0
	for _, kv := range given {
		total += len(kv) + 1
		if len(kv) > MaxVariable || total > MaxGiven {
			key, _, _ := strings.Cut(kv, "=")
			return nil, fmt.Errorf("the event is too large to be handed to a command: %s has %d bytes", key, len(kv)-len(key)-1)
		}
	}
	return append(env, given...), nil
}

func trailerVariables(trailers []lease.Trailer) []string {
	values := map[string][]string{}
	var names []string
	for _, t := range trailers {
		name := trailerPrefix + strings.ReplaceAll(strings.ToUpper(t.Key), "-", "_")
		if _, seen := values[name]; !seen {
			names = append(names, name)
		}
		values[name] = append(values[name], t.Value)
	}
	slices.Sort(names)
	for i, name := range names {
		names[i] = name + "=" + strings.Join(values[name], ",")
	}
	return names
}

// foreign are variables that would bind git, or a command, to something else than
// this run: those of `git rev-parse --local-env-vars`, which a hook finds set, and
// those of the run that this tick was started in.
func foreign(kv string) bool {
	key, _, _ := strings.Cut(kv, "=")
	switch key {
	case "GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_OBJECT_DIRECTORY",
		"GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_QUARANTINE_PATH", "GIT_PREFIX", "GIT_SHALLOW_FILE", "GIT_NAMESPACE",
		"GIT_GRAFT_FILE", "GIT_REPLACE_REF_BASE", "GIT_NO_REPLACE_OBJECTS", "GIT_INTERNAL_SUPER_PREFIX",
		"GIT_IMPLICIT_WORK_TREE", "GIT_CONFIG", "GIT_CONFIG_PARAMETERS", "GIT_CONFIG_COUNT":
		return true
	}
	return strings.HasPrefix(key, Prefix)
}
