package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strings"
	"time"

	"github.com/writbot/writ/compliance/ledger"
	"github.com/writbot/writ/kernel"
)

// The sample's size, and what its builder and check do: as little as counts as
// work.
const (
	loopFiles   = 1000
	loopBuilder = "touch done.txt"
	loopCheck   = "version: 1\nchecks:\n  - {name: nothing, run: [\"true\"], timeout: 1m}\n"
)

// loopTarget is the loop's own cost at the median, over file.
const loopTarget = 100 * time.Millisecond

// memory is where a run is measured without the disk's part in it.
const memory = "/dev/shm"

// loops measures the loop in memory, where there is such a place, and on disk.
func loops(b *bytes.Buffer, bin, parent string, runs int) error {
	b.WriteString("\n## The loop's own cost\n")
	if info, err := os.Stat(memory); err == nil && info.IsDir() {
		b.WriteString("\n### In memory (a tmpfs), so that the disk has no part in it\n")
		if err := loop(b, bin, memory, runs); err != nil {
			return err
		}
	}
	b.WriteString("\n### On this machine's disk\n")
	return loop(b, bin, parent, runs)
}

// loop measures `writ task run` from start to completed, less what its
// processes take by themselves, and where the time goes.
func loop(b *bytes.Buffer, bin, parent string, runs int) error {
	bin, err := filepath.Abs(bin)
	if err != nil {
		return err
	}
	// Not in the system's temporary directory: those differ too much.
	dir, err := os.MkdirTemp(parent, "bench-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }() // below the temporary directory
	if dir, err = filepath.Abs(dir); err != nil {
		return err
	}
	repo, issue, err := loopSample(dir)
	if err != nil {
		return err
	}
	floor := median(repeat(runs, func() time.Duration {
		began := time.Now()
		_ = exec.Command("touch", filepath.Join(dir, "x")).Run()
		_ = exec.Command("true").Run()
		return time.Since(began)
	}))
	var total []time.Duration
	phases := map[string][]time.Duration{}
	for i := range runs + 1 {
		state := filepath.Join(dir, fmt.Sprintf("state-%d", i))
		cmd := exec.Command(bin, "task", "run", "--once", "--json", "--repo", repo, "--issue", issue,
			"--number", fmt.Sprint(i+1), "--state-dir", state, "--builder", loopBuilder)
		began := time.Now()
		out, err := cmd.CombinedOutput()
		took := time.Since(began)
		if err != nil {
			return fmt.Errorf("writ task run: %w\n%s", err, out)
		}
		if i == 0 {
			continue // warm-up
		}
		total = append(total, took)
		if err := addPhases(phases, state, began, began.Add(took)); err != nil {
			return err
		}
	}
	checkout, err := checkouts(dir, repo, runs)
	if err != nil {
		return err
	}
	writeLoop(b, median(total), floor, checkout, phases)
	return nil
}

// checkouts is the peer of laying out a tree: git's own checkout of the same
// files, of which a run needs two, one for the builder and one for the checks.
func checkouts(dir, repo string, runs int) (time.Duration, error) {
	var list []time.Duration
	for i := range runs {
		tree := filepath.Join(dir, fmt.Sprintf("tree-%d", i))
		if err := os.Mkdir(tree, 0o755); err != nil {
			return 0, err
		}
		cmd := exec.Command("git", "--git-dir", repo, "--work-tree", tree, "checkout", "-q", "main", "--", ".")
		cmd.Env = append(os.Environ(), "GIT_INDEX_FILE="+tree+".index")
		began := time.Now()
		if out, err := cmd.CombinedOutput(); err != nil {
			return 0, fmt.Errorf("git checkout: %w\n%s", err, out)
		}
		list = append(list, time.Since(began))
	}
	return median(list), nil
}

func loopSample(dir string) (repo, issue string, err error) {
	work := filepath.Join(dir, "work")
	files := map[string]string{".writ/contract.yaml": loopCheck}
	for i := range loopFiles {
		files[fmt.Sprintf("pkg%02d/file%04d.go", i%25, i)] = fmt.Sprintf("package pkg\n\n// F%d is one of many.\nfunc F%d() int { return %d }\n%s", i, i, i, strings.Repeat("// filler\n", 20))
	}
	for name, text := range files {
		path := filepath.Join(work, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return "", "", err
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			return "", "", err
		}
	}
	repo, issue = filepath.Join(dir, "repo.git"), filepath.Join(dir, "issue.md")
	for _, args := range [][]string{
		{"init", "-q", "-b", "main", work},
		{"-C", work, "add", "-A"},
		{"-C", work, "-c", "user.name=bench", "-c", "user.email=bench@localhost", "commit", "-q", "-m", "base"},
		{"clone", "-q", "--bare", work, repo},
	} {
		if out, err := exec.Command("git", args...).CombinedOutput(); err != nil {
			return "", "", fmt.Errorf("git %s: %w\n%s", args[0], err, out)
		}
	}
	text := "# Do nothing\n\n```writ\nallowed_files: [done.txt]\nexpected_outcome: done.txt exists\n```\n"
	return repo, issue, os.WriteFile(issue, []byte(text), 0o600)
}

// addPhases reads from the ledger when each request was decided: the time
// between two is what the first one's effect, and the waiting for it, took.
func addPhases(phases map[string][]time.Duration, state string, began, ended time.Time) error {
	store, err := ledger.OpenReadOnly(context.Background(), filepath.Join(state, ledger.FileName), ledger.Options{})
	if err != nil {
		return err
	}
	defer store.Close()
	worlds, err := store.Worlds(context.Background())
	if err != nil || len(worlds) != 1 {
		return fmt.Errorf("worlds %v: %w", worlds, err)
	}
	l, err := store.World(context.Background(), worlds[0])
	if err != nil {
		return err
	}
	last, name := began, "start of the process, opening of the store"
	var at time.Time
	for r, err := range l.RecordsOfTask(context.Background(), taskOf(state)) {
		if err != nil {
			return err
		}
		switch r.Kind {
		case kernel.KindObservation:
			var f struct {
				Now int64 `json:"now"`
			}
			if err := json.Unmarshal(r.Body, &f); err != nil {
				return err
			}
			at = time.UnixMilli(f.Now)
		case kernel.KindDecision:
			var d struct {
				Action   string `json:"action"`
				Standing string `json:"standing"`
			}
			if err := json.Unmarshal(r.Body, &d); err != nil {
				return err
			}
			if d.Standing == string(kernel.StandRunning) {
				continue // waiting for what was started belongs to it
			}
			phases[name] = append(phases[name], at.Sub(last))
			last, name = at, phaseNames[d.Action]
		}
	}
	phases[name] = append(phases[name], ended.Sub(last))
	return nil
}

func taskOf(state string) int64 {
	var i int64
	_, _ = fmt.Sscanf(filepath.Base(state), "state-%d", &i)
	return i + 1
}

var phaseNames = map[string]string{
	"claim":    "claim: event and lease pushed",
	"dispatch": "dispatch: workspace laid out, sandbox, builder, changed files found",
	"checks":   "checks: fresh tree, sandbox, check",
	"judge":    "judge: verdict and report recorded",
	"result":   "result: evidence and change pushed as one",
	"none":     "end: HEAD read once more, report printed, store closed",
}

func writeLoop(b *bytes.Buffer, total, floor, checkout time.Duration, phases map[string][]time.Duration) {
	own := total - floor
	fmt.Fprintf(b, "\n`writ task run` on a bare repository of %d files over file, builder `%s`, one check `true`: "+
		"%s at the median from start to completed; these programs alone take %s; the loop's own cost is **%s** (target %s). It lays the tree out twice; git's checkout of it takes %s each time, so the loop costs %.1f times two checkouts.\n\n",
		loopFiles, loopBuilder, ms(total), ms(floor), ms(own), ms(loopTarget), ms(checkout), float64(own)/float64(2*checkout))
	b.WriteString("| phase | median |\n|---|---|\n")
	for _, key := range []string{"", "claim", "dispatch", "checks", "judge", "result", "none"} {
		name := phaseNames[key]
		if key == "" {
			name = "start of the process, opening of the store"
		}
		if list := phases[name]; len(list) > 0 {
			fmt.Fprintf(b, "| %s | %s |\n", name, ms(median(list)))
		}
	}
}

func ms(d time.Duration) string { return fmt.Sprintf("%.1f ms", float64(d.Microseconds())/1000) }

func repeat(n int, f func() time.Duration) []time.Duration {
	out := make([]time.Duration, n)
	for i := range out {
		out[i] = f()
	}
	return out
}

func median(list []time.Duration) time.Duration {
	s := append([]time.Duration{}, list...)
	sort.Slice(s, func(i, j int) bool { return s[i] < s[j] })
	return s[len(s)/2]
}
