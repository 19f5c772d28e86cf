package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
)

// defaultWorkers is how many mutants are tried at once: each has its own copy
// and the go command uses more than one core by itself.
const defaultWorkers = 2

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	ok, err := mutate(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(2)
	}
	if !ok {
		os.Exit(1)
	}
}

// mutate tries the mutants of the repository in the current directory and
// tells whether all were killed.
func mutate(ctx context.Context, args []string, stdout, stderr io.Writer) (bool, error) {
	flags := flag.NewFlagSet("mutants", flag.ContinueOnError)
	flags.SetOutput(stderr)
	only := flags.String("only", "", "try only the patches whose file name matches this pattern")
	check := flags.Bool("check", false, "only see whether each patch still applies; no test is run")
	workers := flags.Int("j", defaultWorkers, "how many to try at once")
	if err := flags.Parse(args); err != nil {
		return false, err
	}
	pattern, err := regexp.Compile(*only)
	if err != nil {
		return false, fmt.Errorf("-only: %w", err)
	}
	top, err := output(ctx, ".", "git", "rev-parse", "--show-toplevel")
	if err != nil {
		return false, err
	}
	top = strings.TrimSpace(top)
	mutants, err := findMutants(filepath.Join(top, "testdata", "mutants"), pattern)
	if err != nil {
		return false, err
	}
	if len(mutants) == 0 {
		return false, errors.New("no patches in testdata/mutants match")
	}
	if *check {
		return checkAll(ctx, top, mutants, stdout)
	}
	return tryAll(ctx, top, mutants, max(*workers, 1), stdout)
}

// checkAll tells whether each patch applies to the tree as it is. It changes nothing.
func checkAll(ctx context.Context, top string, mutants []mutant, stdout io.Writer) (bool, error) {
	stale := 0
	for _, m := range mutants {
		if _, err := output(ctx, top, "git", "apply", "--check", "--whitespace=nowarn", m.file); err != nil {
			stale++
			fmt.Fprintf(stdout, "STALE   %s: %v\n", m.name, err)
		}
	}
	fmt.Fprintf(stdout, "%d of %d patches apply\n", len(mutants)-stale, len(mutants))
	return stale == 0, ctx.Err()
}

// tryAll shares the mutants out and prints each verdict as it comes.
func tryAll(ctx context.Context, top string, mutants []mutant, workers int, stdout io.Writer) (bool, error) {
	queue := make(chan mutant, len(mutants))
	for _, m := range mutants {
		queue <- m
	}
	close(queue)
	verdicts := make(chan verdict)
	errs := make(chan error, workers)
	base := &baselines{once: map[testRun]func() error{}}
	var wg sync.WaitGroup
	for range min(workers, len(mutants)) {
		w := worker{top: top, mutants: queue, verdicts: verdicts, base: base}
		wg.Go(func() { errs <- w.work(ctx) })
	}
	go func() { wg.Wait(); close(verdicts); close(errs) }()

	tried, killed := 0, 0
	for v := range verdicts {
		tried++
		word := "ALIVE "
		if v.killed {
			killed++
			word = "killed"
		}
		fmt.Fprintf(stdout, "%s  %-36s %s %s: %s\n", word, v.mutant.name, v.mutant.test.pkg, v.mutant.test.pattern, v.detail)
	}
	var err error
	for e := range errs {
		err = errors.Join(err, e)
	}
	fmt.Fprintf(stdout, "\n%d of %d mutants killed\n", killed, len(mutants))
	return killed == len(mutants) && tried == len(mutants), err
}
