package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	ok, err := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "cases:", err)
		os.Exit(2)
	}
	if !ok {
		os.Exit(1)
	}
}

// run prints the table of one test run and tells whether all that is owed is held.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) (bool, error) {
	flags := flag.NewFlagSet("cases", flag.ContinueOnError)
	flags.SetOutput(stderr)
	in := flags.String("in", "", "read the output of `go test -json` from this file (- for standard input) instead of running the tests")
	plain := flags.Bool("follow", false, "print the `go test -json` on standard input as plain go test would, and no table")
	if err := flags.Parse(args); err != nil {
		return false, err
	}
	if *plain {
		return true, follow(stdin, stdout)
	}
	list, err := parseList(listText)
	if err != nil {
		return false, fmt.Errorf("cases.txt: %w", err)
	}
	res, err := obtain(ctx, *in, flags.Args(), stdin, stderr)
	if err != nil {
		return false, err
	}
	return printTable(stdout, list, res), nil
}

// obtain reads a recorded run, or makes one.
func obtain(ctx context.Context, in string, args []string, stdin io.Reader, stderr io.Writer) (results, error) {
	switch in {
	case "-":
		return readRun(stdin)
	case "":
		return runTests(ctx, args, stderr)
	}
	f, err := os.Open(in)
	if err != nil {
		return results{}, err
	}
	defer f.Close()
	return readRun(f)
}

// runTests runs `go test -json`. Its exit status isn't an error here: the
// events say what failed, and the table shows it.
func runTests(ctx context.Context, args []string, stderr io.Writer) (results, error) {
	if len(args) == 0 {
		args = []string{"./..."}
	}
	cmd := exec.CommandContext(ctx, "go", append([]string{"test", "-json"}, args...)...)
	cmd.Stderr = stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return results{}, err
	}
	if err := cmd.Start(); err != nil {
		return results{}, err
	}
	res, err := readRun(out)
	if err != nil {
		_, _ = io.Copy(io.Discard, out) // let go test end: its exit says nothing more
	}
	waitErr := cmd.Wait()
	if err == nil && waitErr != nil && len(res.broken) == 0 {
		err = fmt.Errorf("go test: %w, but no event says what failed", waitErr)
	}
	return res, err
}
