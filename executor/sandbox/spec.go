package sandbox

import (
	"fmt"
	"log/slog"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// check refuses what can only be a mistake of the caller or the operator.
func (s Spec) check() error {
	if len(s.Argv) == 0 || s.Argv[0] == "" {
		return specError("there is no program to run")
	}
	for _, word := range append(s.Env[:len(s.Env):len(s.Env)], s.Argv...) {
		if strings.ContainsRune(word, 0) {
			return specError("an argument or variable holds a zero byte")
		}
	}
	if err := checkDir("workspace", s.Workspace); err != nil {
		return err
	}
	if s.OutDir != "" {
		if err := checkDir("result directory", s.OutDir); err != nil {
			return err
		}
	}
	return s.checkInside()
}

// withoutNamespaces refuses a gateway at a level that couldn't hold a program to it, and
// directories of their own at one that can't show them.
func (s Spec) withoutNamespaces(level string) error {
	switch {
	case s.Gateway != nil:
		return &Error{Code: CodeSpec, Msg: "a gateway needs a network namespace around the program, which the level " + level + " doesn't have",
			Remedy: "Take egress out of the configuration, or set sandbox: bubblewrap."}
	case s.Dirs != nil:
		return &Error{Code: CodeSpec, Msg: "the level " + level + " has no mounts of its own, so that it can't show what was prepared",
			Remedy: "Take prepare out of the contract, or set sandbox: bubblewrap."}
	}
	return nil
}

// once has each variable in an environment once, with its last value: of two a shell takes
// the one and a program in C the other.
func once(env []string) []string {
	at := map[string]int{}
	out := make([]string, 0, len(env))
	for _, entry := range env {
		key, _, _ := strings.Cut(entry, "=")
		if i, is := at[key]; is {
			out[i] = entry
			continue
		}
		at[key] = len(out)
		out = append(out, entry)
	}
	return out
}

// checkInside looks at the paths inside.
func (s Spec) checkInside() error {
	for _, m := range s.ReadOnly {
		if !filepath.IsAbs(m.Source) {
			return specError(fmt.Sprintf("the mount %q is not an absolute path", m.Source))
		}
		if _, err := os.Stat(m.Source); err != nil {
			return &Error{Code: CodeSpec, Msg: fmt.Sprintf("the mount %q can't be read", m.Source), Err: err,
				Remedy: "Create it or take it out of the configuration."}
		}
		if err := checkTarget(m.target()); err != nil {
			return err
		}
	}
	for _, f := range s.Files {
		if len(f.Content) > MaxFileBytes {
			return specError(fmt.Sprintf("the file %q has more than %d bytes", f.Target, MaxFileBytes))
		}
		if err := checkTarget(f.Target); err != nil {
			return err
		}
	}
	return nil
}

// reserved are the targets that would take a defence away or hide a place.
var reserved = []string{"/", "/proc", "/dev", "/sys", "/usr", "/etc", "/run", RunDir, OutDir, initPath, layersDir, TmpDir, WorkspaceDir, "/home", HomeDir}

// checkTarget refuses targets that are not plain or that replace a place of the
// sandbox itself, /proc, /dev and the workspace with everything below.
func checkTarget(target string) error {
	if !path.IsAbs(target) || path.Clean(target) != target {
		return specError(fmt.Sprintf("the target %q is not a clean absolute path", target))
	}
	for _, r := range reserved {
		if target == r {
			return specError(fmt.Sprintf("the target %q belongs to the sandbox", target))
		}
	}
	for _, r := range []string{"/proc", "/dev", "/sys", WorkspaceDir, OutDir, initPath, layersDir} {
		if strings.HasPrefix(target, r+"/") {
			return specError(fmt.Sprintf("the target %q is inside %s", target, r))
		}
	}
	return nil
}

func checkDir(what, dir string) error {
	if !filepath.IsAbs(dir) {
		return specError(fmt.Sprintf("the %s %q is not an absolute path", what, dir))
	}
	if st, err := os.Lstat(dir); err != nil || !st.IsDir() {
		return &Error{Code: CodeSpec, Msg: fmt.Sprintf("the %s %q is not a directory", what, dir), Err: err}
	}
	return nil
}

func specError(msg string) error { return &Error{Code: CodeSpec, Msg: msg} }

func (s Spec) umask() int {
	if s.Umask == 0 {
		return DefaultUmask
	}
	return s.Umask
}

func (m Mount) target() string {
	if m.Target == "" {
		return filepath.Clean(m.Source)
	}
	return m.Target
}

func (c Config) logger() *slog.Logger {
	if c.Log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return c.Log
}
