package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// demo is one show: a bare repository and a state directory.
type demo struct {
	bin, dir, repo, state string

	gofmt string   // path of the formatter
	ro    []string // flags that make it visible in the sandbox
}

// findGofmt finds the formatter of the Go installation that built this.
func (d *demo) findGofmt() error {
	out, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return fmt.Errorf("go env GOROOT: %w", err)
	}
	root := strings.TrimSpace(string(out))
	d.gofmt = filepath.Join(root, "bin", "gofmt")
	if !strings.HasPrefix(root, "/usr/") {
		d.ro = []string{"--ro", root}
	}
	return nil
}

// sample makes a small repository with code that wants formatting, and a
// contract with a check.
func (d *demo) sample() error {
	files := map[string]string{
		"go.mod":     "module example.test/shop\n\ngo 1.26\n",
		"cart.go":    "package shop\n\n// Cart adds prices up, in cents.\ntype Cart struct{ cents   int64 }\n\nfunc (c *Cart)  Add(cents int64)   {\nc.cents+=cents\n}\n",
		"till.go":    "package shop\n\n// Total is what is to be paid, in cents.\nfunc (c *Cart) Total() int64 {\n      return c.cents }\n",
		"NOTES.md":   "Nothing yet.\n",
		".gitignore": "*.log\n",
		".writ/contract.yaml": "version: 1\nchecks:\n  - {name: formatted, run: [sh, -c, 'test -z \"$(" + d.gofmt + " -l .)\"'], timeout: 1m}\n" +
			"budgets: {attempts: 2, retry_backoff: 1s}\n",
	}
	work := filepath.Join(d.dir, "work")
	for name, text := range files {
		path := filepath.Join(work, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			return err
		}
	}
	for _, args := range [][]string{
		{"init", "-q", "-b", "main", work},
		{"-C", work, "add", "-A"},
		{"-C", work, "-c", "user.name=demo", "-c", "user.email=demo@localhost", "commit", "-q", "-m", "A small shop"},
		{"clone", "-q", "--bare", work, d.repo},
	} {
		if out, err := exec.Command("git", args...).CombinedOutput(); err != nil {
			return fmt.Errorf("git %s: %w: %s", args[0], err, out)
		}
	}
	return nil
}

// issue writes an issue file.
func (d *demo) issue(name, text string) (string, error) {
	path := filepath.Join(d.dir, name)
	return path, os.WriteFile(path, []byte(text), 0o600)
}

func headline(text string) {
	fmt.Printf("\n\033[1m== %s\033[0m\n", text)
}

// task runs `writ task run` and expects an exit code.
func (d *demo) task(want int, issue, builder string) error {
	cmd := d.command(issue, builder)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	return expect(cmd, want)
}

func (d *demo) command(issue, builder string) *exec.Cmd {
	args := append([]string{"task", "run", "--repo", d.repo, "--state-dir", d.state, "--issue", issue, "--builder", builder}, d.ro...)
	short := strings.ReplaceAll(strings.Join(args, " "), d.dir+"/", "")
	fmt.Printf("$ writ %s\n", short)
	return exec.Command(d.bin, args...)
}

func expect(cmd *exec.Cmd, want int) error {
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return err
	}
	if got := cmd.ProcessState.ExitCode(); got != want {
		return fmt.Errorf("%s ended with %d, %d was expected", filepath.Base(cmd.Path), got, want)
	}
	fmt.Printf("(exit %d, as expected)\n", want)
	return nil
}

const formatTask = "```writ\nallowed_files: ['%s']\nexpected_outcome: '`gofmt -l .` names no file'\nchecks: [%s]\n```\n"

func (d *demo) completed() error {
	headline("1. A formatter as builder: the task completes")
	issue, err := d.issue("1-format.md", "# Format the shop\n\nRun the formatter over the code.\n\n"+fmt.Sprintf(formatTask, "*.go", "formatted"))
	if err != nil {
		return err
	}
	if err := d.task(0, issue, d.gofmt+" -w ."); err != nil {
		return err
	}
	fmt.Println("$ git log -p writ/change/1")
	cmd := exec.Command("git", "--git-dir", d.repo, "log", "-p", "--stat", "-1", "refs/heads/writ/change/1")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	return cmd.Run()
}

func (d *demo) refused() error {
	headline("2. An issue that doesn't say what may change: refused before anything is claimed")
	issue, err := d.issue("2-vague.md", "# Tidy up\n\nPlease clean the code where it makes sense.\n")
	if err != nil {
		return err
	}
	return d.task(12, issue, d.gofmt+" -w .")
}

func (d *demo) strayed() error {
	headline("3. A builder that strays out of its scope: not accepted, tried once more, blocked")
	issue, err := d.issue("3-stray.md", "# Write the notes\n\nSay what the shop does.\n\n"+
		"```writ\nallowed_files: [NOTES.md]\nexpected_outcome: NOTES.md says what the shop does\n```\n")
	if err != nil {
		return err
	}
	return d.task(11, issue, `sh -c "echo It sells things. > NOTES.md; echo all: > Makefile"`)
}

func (d *demo) recovered() error {
	headline("4. kill -9 in the middle of a build: the next start takes the task up again")
	issue, err := d.issue("4-survive.md", "# Format the shop again\n\nThis time slowly.\n\n"+fmt.Sprintf(formatTask, "*.go", ""))
	if err != nil {
		return err
	}
	builder := `sh -c "echo working; sleep 1; ` + d.gofmt + ` -w .; echo done"`
	cmd := d.command(issue, builder)
	var progress bytes.Buffer
	pipe, err := cmd.StderrPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	if err := waitFor(io.TeeReader(pipe, &progress), "builder default started"); err != nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		return fmt.Errorf("%w:\n%s", err, progress.String())
	}
	fmt.Print(progress.String())
	if err := cmd.Process.Signal(syscall.SIGKILL); err != nil {
		return err
	}
	_ = cmd.Wait() // killed, as intended
	fmt.Println("(killed with -9)")
	return d.task(0, issue, builder)
}

// waitFor reads lines until one has the words.
func waitFor(r io.Reader, words string) error {
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		if strings.Contains(lines.Text(), words) {
			return nil
		}
	}
	return fmt.Errorf("writ ended before it said %q", words)
}

func (d *demo) verified() error {
	headline("5. The ledger, and the evidence in the repository, verified")
	for _, args := range [][]string{
		{"verify", "--state-dir", d.state},
		{"verify", d.repo, "--task", "1"},
		{"verify", d.repo, "--task", "3"},
		{"verify", d.repo, "--task", "4"},
	} {
		fmt.Printf("$ writ %s\n", strings.ReplaceAll(strings.Join(args, " "), d.dir+"/", ""))
		cmd := exec.Command(d.bin, args...)
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		if err := expect(cmd, 0); err != nil {
			return err
		}
	}
	return nil
}
