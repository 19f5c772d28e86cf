package sandbox

import "fmt"

// Failure codes of this package, in the form of seed 001.
const (
	// CodeUnavailable says that this host can't isolate a program.
	CodeUnavailable = "sandbox.unavailable"
	// CodeSpec says that the caller asked for something impossible: a bug or a
	// configuration mistake, never a builder's act.
	CodeSpec = "sandbox.spec_invalid"
	// CodeNotFound says that the program to run does not exist inside.
	CodeNotFound = "sandbox.program_not_found"
	// CodeNotExecutable says that the program exists but can't be executed.
	CodeNotExecutable = "sandbox.program_not_executable"
	// CodeLayers says that this host can't show layers in a workspace. A program runs
	// all the same in a workspace that holds everything itself.
	CodeLayers = "sandbox.layers_unavailable"
)

// Error is a failure to start with what to do about it. Msg and Remedy are
// safe to show: they name paths of the host, no secrets.
type Error struct {
	// Code is one of the codes of this package.
	Code string
	// Msg is one sentence.
	Msg string
	// Remedy says what the reader can do. It may have several lines.
	Remedy string
	// Err is the cause, if there is one.
	Err error
}

// Error implements error.
func (e *Error) Error() string {
	s := e.Code + ": " + e.Msg
	if e.Err != nil {
		s += fmt.Sprintf(" (%v)", e.Err)
	}
	if e.Remedy != "" {
		s += "\n" + e.Remedy
	}
	return s
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// Remedy is what an operator does about sandbox.unavailable.
const Remedy = `Install it: apt-get install bubblewrap
Allow user namespaces: sysctl -w user.max_user_namespaces=15000 kernel.unprivileged_userns_clone=1 kernel.apparmor_restrict_unprivileged_userns=0 (leave out names this kernel doesn't know)
In a container: docs/containers.md has a seccomp profile and the options with which this works; or set sandbox: landlock, which needs less`

// unavailable is the failure of a host that can't isolate.
func unavailable(msg string, err error) error {
	return &Error{Code: CodeUnavailable, Msg: msg, Remedy: Remedy, Err: err}
}
