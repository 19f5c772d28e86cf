package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

const (
	// testTimeout ends a mutant that hangs. Taking out a deadline or a kill is
	// such a mutant, so a test that runs into it counts as failed. The slowest
	// single case takes some twenty seconds on two busy cores.
	testTimeout = 3 * time.Minute
	// waitDelay is how long a killed go command may keep its pipes open.
	waitDelay = 5 * time.Second
)

// scratch is a copy of the tree in which one mutant at a time is tried. It is
// used again, so that the build cache serves whatever the next one doesn't touch.
type scratch struct{ dir string }

// newScratch copies what git knows or would add: the tree as it is now, without
// what was built in it. Files are copied, not linked, because a patch must never
// reach the originals.
func newScratch(ctx context.Context, top string) (scratch, error) {
	dir, err := os.MkdirTemp("", "writ-mutants-")
	if err != nil {
		return scratch{}, err
	}
	s := scratch{dir}
	list, err := output(ctx, top, "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	if err != nil {
		return s, fmt.Errorf("list the tree: %w", err)
	}
	for name := range strings.SplitSeq(strings.TrimSuffix(list, "\x00"), "\x00") {
		if err := copyFile(filepath.Join(top, name), filepath.Join(dir, name)); err != nil {
			return s, err
		}
	}
	return s, nil
}

func (s scratch) remove() error { return os.RemoveAll(s.dir) }

// copyFile copies a regular file with its permissions, or a symbolic link. A
// file that git knows and that is gone from the tree is left out.
func copyFile(from, to string) error {
	info, err := os.Lstat(from)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return err
	}
	if info.Mode()&fs.ModeSymlink != 0 {
		target, err := os.Readlink(from)
		if err != nil {
			return err
		}
		return os.Symlink(target, to)
	}
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, text, info.Mode().Perm())
}

// apply puts a patch in, or takes it out again.
func (s scratch) apply(ctx context.Context, patch string, reverse bool) error {
	args := []string{"apply", "--whitespace=nowarn"}
	if reverse {
		args = append(args, "--reverse")
	}
	_, err := output(ctx, s.dir, "git", append(args, patch)...)
	return err
}

// goTest runs go test in the copy. Its output comes back whether it passed or not.
func (s scratch) goTest(ctx context.Context, t testRun, buildOnly bool) (string, error) {
	return output(ctx, s.dir, "go", t.args(buildOnly)...)
}

// output runs a program in dir and returns what it printed; an error carries
// the same, for a reader who sees only the error.
func output(ctx context.Context, dir, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.WaitDelay = waitDelay
	// The copy may lie below some other repository, whose git it must not find.
	if name == "git" && args[0] == "apply" {
		cmd.Env = append(os.Environ(), "GIT_CEILING_DIRECTORIES="+filepath.Dir(dir))
	}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("%s %s: %w\n%s", name, args[0], err, strings.TrimSpace(out.String()))
	}
	return out.String(), nil
}
