package main

import (
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// defaultWorkers is how many mutants are tried at once: the go command uses more
// than one core by itself.
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

// options are what the command line says.
type options struct {
	only          *regexp.Regexp
	pkg           string
	changed, seed string
	budget        time.Duration
	workers       int
	check         bool
}

func parseOptions(args []string, stderr io.Writer) (o options, err error) {
	flags := flag.NewFlagSet("mutants", flag.ContinueOnError)
	flags.SetOutput(stderr)
	only := flags.String("only", "", "try only the mutants whose names match this pattern")
	flags.StringVar(&o.pkg, "pkg", "./...", "try only those of this package's table, or with /... of those below it too")
	flags.StringVar(&o.changed, "changed", "", "try those of the packages that differ from this commit; \"auto\" is the last change")
	flags.StringVar(&o.seed, "seed", "", "what the order of -changed is drawn by (default: another one each time)")
	flags.DurationVar(&o.budget, "budget", 0, "stop after this time; what isn't tried by then is no error (default: no limit)")
	flags.IntVar(&o.workers, "j", defaultWorkers, "how many to try at once")
	flags.BoolVar(&o.check, "check", false, "only see whether each still applies, compiles and names a test; no test is built")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if flags.NArg() > 0 {
		return o, fmt.Errorf("%q is no flag: packages are named with -pkg", flags.Arg(0))
	}
	if o.seed == "" {
		o.seed = rand.Text()[:8]
	}
	if o.only, err = regexp.Compile(*only); err != nil {
		return o, fmt.Errorf("-only: %w", err)
	}
	return o, nil
}

// mutate tries the mutants of the repository in the current directory and
// tells whether all that were tried were killed.
func mutate(ctx context.Context, args []string, stdout, stderr io.Writer) (bool, error) {
	o, err := parseOptions(args, stderr)
	if err != nil {
		return false, err
	}
	top, err := gitOutput(ctx, ".", "rev-parse", "--show-toplevel")
	if err != nil {
		return false, err
	}
	top = strings.TrimSpace(top)
	all, err := loadTables(ctx, top)
	if err != nil {
		return false, err
	}
	mutants := o.filter(all)
	if len(mutants) == 0 {
		return false, fmt.Errorf("no mutant of a %s matches -only and -pkg", tableName)
	}
	if o.check {
		return checkAll(ctx, top, mutants, o.workers, stdout)
	}
	if o.changed != "" {
		if mutants, err = pick(ctx, top, o.changed, o.seed, mutants); err != nil {
			return false, err
		}
		fmt.Fprintf(stdout, "%d mutants are touched by the change; -seed %s\n", len(mutants), o.seed)
		if len(mutants) == 0 {
			return true, nil
		}
	}
	dir, err := os.MkdirTemp("", "writ-mutants-")
	if err != nil {
		return false, err
	}
	b := &bench{top: top, dir: dir, once: map[any]func() (string, error){}, stderr: stderr}
	likely := mutants
	if o.budget > 0 { // nobody waits for what isn't tried
		likely = mutants[:min(len(mutants), o.workers*int(1+o.budget/time.Second))]
	}
	if b.together, err = putTogether(ctx, top, dir, likely, o.workers); err != nil {
		return false, errors.Join(err, os.RemoveAll(dir))
	}
	fmt.Fprintf(stdout, "%d of %d mutants are compiled together\n", len(b.together.has), len(likely))
	ok, err := tryAll(ctx, mutants, o, b.try, stdout)
	return ok, errors.Join(err, killFrom(dir), os.RemoveAll(dir))
}

// killFrom kills each process whose program is in a directory, or was. What a test without
// a mutant would have ended may be left, in a session of its own.
func killFrom(dir string) error {
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return err
	}
	links, _ := filepath.Glob("/proc/[0-9]*/exe") // the pattern is valid
	for _, link := range links {
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(link)))
		if err != nil {
			continue
		}
		p, err := os.FindProcess(pid) // that one, though its number be another's by the time of the kill
		if err != nil {
			continue
		}
		if program, err := os.Readlink(link); err == nil && strings.HasPrefix(program, dir+"/") {
			_ = p.Kill() // or it has ended
		}
		_ = p.Release()
	}
	return nil
}

func (o options) filter(all []mutant) []mutant {
	dir, below := strings.CutSuffix("/"+o.pkg, "/...")
	dir = path.Clean(strings.TrimPrefix(dir, "/"))
	return slices.DeleteFunc(all, func(m mutant) bool {
		inside := m.test.pkg == dir || below && (dir == "." || strings.HasPrefix(m.test.pkg, dir+"/"))
		return !inside || !o.only.MatchString(m.name)
	})
}

// tryFunc tries one mutant.
type tryFunc func(context.Context, mutant) verdict

// tryAll shares the mutants out and prints each verdict as it comes.
func tryAll(ctx context.Context, mutants []mutant, o options, try tryFunc, stdout io.Writer) (bool, error) {
	timed, stop := ctx, context.CancelFunc(func() {})
	if o.budget > 0 {
		timed, stop = context.WithTimeout(ctx, o.budget)
	}
	defer stop()
	tried, killed := 0, 0
	for v := range runAll(timed, mutants, o.workers, try) {
		tried++
		word := "ALIVE "
		if v.killed {
			killed++
			word = "killed"
		}
		fmt.Fprintf(stdout, "%s  %-36s %s: %s\n", word, v.mutant.name, v.mutant.test, v.detail)
	}
	fmt.Fprintf(stdout, "\n%d of %d mutants killed", killed, tried)
	if tried < len(mutants) {
		fmt.Fprintf(stdout, "; %d were not tried in the time that was given", len(mutants)-tried)
	}
	fmt.Fprintln(stdout)
	if tried == 0 {
		return false, errors.New("the time was too short for a single mutant")
	}
	return killed == tried, ctx.Err()
}

// runAll gives what becomes of the mutants as it comes. What the time cuts short isn't given.
func runAll[T any](ctx context.Context, mutants []mutant, workers int, try func(context.Context, mutant) T) <-chan T {
	queue := make(chan mutant, len(mutants))
	for _, m := range mutants {
		queue <- m
	}
	close(queue)
	verdicts := make(chan T)
	var wg sync.WaitGroup
	for range min(max(workers, 1), len(mutants)) {
		wg.Go(func() {
			for m := range queue {
				v := try(ctx, m)
				if ctx.Err() != nil {
					return
				}
				verdicts <- v
			}
		})
	}
	go func() { wg.Wait(); close(verdicts) }()
	return verdicts
}
