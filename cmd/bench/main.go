// Command bench measures what Writ claims about speed and writes the figures to
// docs/benchmarks.md: ratios against a peer or a floor of the same run, never
// absolute promises. It needs the built program (bin/writ), git and bubblewrap, and
// for the section agents WRIT_TEST_AGENTS, where `.ci/setup agents` put these.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
)

func main() {
	bin := flag.String("writ", "bin/writ", "path of the writ program")
	out := flag.String("out", "docs/benchmarks.md", "file to write")
	runs := flag.Int("n", 21, "runs of the whole loop")
	dir := flag.String("dir", "bin", "where the loop's repository and state directories are made")
	only := flag.String("only", "", "measure one section, print it and write nothing: claims, packed, loop, layers, prepared, decision, ledger, start, deliveries, issue, served, stop, soak, gateway, agents, try or branches")
	flag.Parse()
	err := run(*out, *only, []section{
		{"claims", claims},
		{"packed", packed},
		{"loop", func(b *bytes.Buffer) error { return loops(b, *bin, *dir, *runs) }},
		{"layers", layers},
		{"prepared", prepared},
		{"decision", decisions},
		{"ledger", ledgers},
		{"start", starts},
		{"deliveries", deliveries},
		{"issue", counts},
		{"served", served},
		{"stop", stops},
		{"soak", soaked},
		{"gateway", gateways},
		{"agents", agents},
		{"try", tries},
		{"branches", func(b *bytes.Buffer) error { return branches(b, *bin, *dir) }},
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// section is a part of the page.
type section struct {
	name  string
	write func(*bytes.Buffer) error
}

func run(out, only string, all []section) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "# Benchmarks\n\nWritten by `make bench`, section by section; every ratio is of one run on one machine.\n\n")
	fmt.Fprintf(&b, "Machine: %d cores, %s/%s, %s, git %s.\n", runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, runtime.Version(), gitVersion())
	if only != "" {
		b.Reset()
	}
	for _, s := range all {
		if only != "" && only != s.name {
			continue
		}
		load := loadAverage()
		if err := s.write(&b); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		if !bytes.HasSuffix(b.Bytes(), []byte("\n\n")) {
			b.WriteString("\n")
		}
		fmt.Fprintf(&b, "Load average as this began: %s.\n", load)
	}
	fmt.Print(b.String())
	if only != "" {
		return nil
	}
	return os.WriteFile(out, b.Bytes(), 0o644)
}

// loadAverage is how many programs wanted to run, over the last minute: with
// more than there are cores, times say little and ratios not much more.
func loadAverage() string {
	data, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "?"
	}
	load, _, _ := strings.Cut(string(data), " ")
	return load
}

func gitVersion() string {
	out, err := exec.Command("git", "--version").Output()
	if err != nil {
		return "?"
	}
	return strings.TrimPrefix(strings.TrimSpace(string(out)), "git version ")
}

// gobench is one line of `go test -bench`: its name and its figures by unit.
type gobench struct {
	name    string
	figures map[string]string
}

// benchmarks runs Go benchmarks, with further flags of go test, and reads their lines.
func benchmarks(pkg, pattern, times string, flags ...string) ([]gobench, error) {
	args := append([]string{"test", "-run", "^$", "-bench", pattern, "-benchtime", times, "-timeout", "60m"}, flags...)
	cmd := exec.Command("go", append(args, pkg)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go test -bench %s %s: %w\n%s", pattern, pkg, err, out)
	}
	var list []gobench
	for line := range strings.Lines(string(out)) {
		f := strings.Fields(line)
		if len(f) < 4 || !strings.HasPrefix(f[0], "Benchmark") {
			continue
		}
		g := gobench{name: strings.TrimPrefix(f[0], "Benchmark"), figures: map[string]string{}}
		for i := 2; i+1 < len(f); i += 2 {
			g.figures[f[i+1]] = f[i]
		}
		list = append(list, g)
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("no benchmark of %s matches %s", pkg, pattern)
	}
	return list, nil
}

// table writes the figures of some units.
func table(b *bytes.Buffer, list []gobench, units ...string) {
	fmt.Fprintf(b, "| benchmark | %s |\n|---|%s\n", strings.Join(units, " | "), strings.Repeat("---|", len(units)))
	for _, g := range list {
		fmt.Fprintf(b, "| %s |", g.name)
		for _, u := range units {
			v, ok := g.figures[u]
			if !ok {
				v = "–"
			}
			fmt.Fprintf(b, " %s |", v)
		}
		b.WriteString("\n")
	}
	b.WriteString("\n")
}

// claims measures the two pushes that every lease costs.
func claims(b *bytes.Buffer) error {
	list, err := benchmarks("./forge/git", "Claim|Heartbeat", "30x")
	if err != nil {
		return err
	}
	fmt.Fprintf(b, "\n## Claim and heartbeat\n\nOne compare-and-swap push with its real objects, against `git commit-tree` and `git push` of the git binary to the same bare repository. "+
		"Targets: a ratio of 0.5 over HTTP and 0.75 over file, independent of history.\n\n")
	table(b, list, "ms/ours", "ms/git", "ratio")
	return nil
}

// layers measures a workspace above a layer.
func layers(b *bytes.Buffer) error {
	list, err := benchmarks("./executor/builder", "SecondWorkspace", "5x")
	if err != nil {
		return err
	}
	fmt.Fprintf(b, "\n## Workspaces above a layer\n\nA repository of 50,000 files that a run has used before: from the wish for a workspace of it to a program that runs there, sandbox and a look at each file of the layer included, "+
		"and its way out (what was written is judged, and the workspace removed), against `git worktree add` and `git worktree remove` of the same files on the same disk. "+
		"Before its first use it is laid out. Target: a ratio of 0.1.\n\n")
	table(b, list, "ms/first", "ms/second", "ms/out", "ms/git-add", "ms/git-remove", "ratio")
	if list, err = benchmarks("./executor/sandbox", "^BenchmarkLayers$", "31x"); err != nil {
		return err
	}
	fmt.Fprintf(b, "The sandbox's start to the end of a program that does nothing: with a workspace that is an overlay, with a plain one, and the same program in bubblewrap alone, which isolates less. "+
		"Target: at most 10 ms more than bubblewrap.\n\n")
	table(b, list, "ms/layers", "ms/plain", "ms/bwrap", "ms/more-than-plain", "ms/more-than-bwrap")
	return nil
}

// prepared measures a check whose caches the contract prepared.
func prepared(b *bytes.Buffer) error {
	list, err := benchmarks("./executor/builder", "WarmCheck", "7x")
	if err != nil {
		return err
	}
	fmt.Fprintf(b, "\n## A check with prepared caches\n\nThe tests of a Go module of ten packages with a change in one of them, from the wish for the check to its outcome: the first time, when the base is laid out and its preparation runs, and again; "+
		"against the same command outside the sandbox with a cache that is as warm. Target: a ratio of 1.2.\n\n")
	table(b, list, "ms/first", "ms/second", "ms/outside", "ratio")
	if list, err = benchmarks("./executor/builder", "PreparedMany", "1x"); err != nil {
		return err
	}
	fmt.Fprintf(b, "A check whose preparation leaves 100,000 small files: the first time, with the preparation, and again, against the command that makes them outside the sandbox.\n\n")
	table(b, list, "ms/first", "ms/again", "ms/outside", "ratio")
	return nil
}

// packed measures what maintenance of the embedded forge is for.
func packed(b *bytes.Buffer) error {
	list, err := benchmarks("./forge/git/smarthttp", "Pushes", "20x")
	if err != nil {
		return err
	}
	fmt.Fprintf(b, "\n## Pushes to a forge with a history\n\nOne push to a state ref over HTTP, beside what so many tasks that are done left: six commits and two refs each, "+
		"loose as they came, and after the maintenance that the embedded forge does behind pushes.\n\n")
	table(b, list, "ms/push")
	return nil
}

// decisions measures what a decision costs beside the disk and git.
func decisions(b *bytes.Buffer) error {
	list, err := benchmarks("./kernel/machine", "Submit", "1s")
	if err != nil {
		return err
	}
	rounds, err := benchmarks("./kernel/world", "Round", "1s")
	if err != nil {
		return err
	}
	fmt.Fprintf(b, "\n## A decision\n\nA request through the machine's states, with its audit entries sealed and nothing written anywhere, beside SHA-256 alone over the same entries:\n\n")
	table(b, list, "ns/op", "x-sha256", "entries")
	fmt.Fprintf(b, "\nA round of the facade in a world with so many tasks: two records are made, sealed and folded. Target of both together: 5,000 ns.\n\n")
	table(b, rounds, "ns/op")
	return nil
}

// starts measures what a server takes from the ledger when it starts.
func starts(b *bytes.Buffer) error {
	fold, err := benchmarks("./kernel/world", "Fold10000", "1s")
	if err != nil {
		return err
	}
	list, err := benchmarks("./executor/supervisor", "Resume10000", "5x")
	if err != nil {
		return err
	}
	fmt.Fprintf(b, "\n## Start\n\nA start without anything saved folds every record:\n\n")
	table(b, fold, "records/s")
	fmt.Fprintf(b, "One that goes on from what was saved of 10,000 tasks reads that, whatever the number of their records, and folds what came after, "+
		"a sixteenth of them at most. ms-saving is what one saving costs, of which the tasks wait ms-locked:\n\n")
	table(b, list, "ms-resume", "ms-saving", "ms-locked", "MiB")
	if list, err = benchmarks("./cmd/e2e", "Start10000", "1x"); err != nil {
		return err
	}
	fmt.Fprintf(b, "A whole `writ serve` on the embedded forge, from the start of its process until /healthz and /readyz say yes: with a ledger of 10,000 tasks of 160 records each, "+
		"after an orderly end and after SIGKILL, and the same server with one task. Targets: alive within 1,000 ms, ready within 2,000.\n\n")
	table(b, list, "ms-live", "ms-ready", "ms-live-killed", "ms-ready-killed", "ms-live-one", "ms-ready-one", "MiB-store")
	return nil
}

// ledgers measures appending and verifying.
func ledgers(b *bytes.Buffer) error {
	fmt.Fprintf(b, "\n## Ledger\n\nDurable appends (`synchronous=FULL`), alone and 64 together:\n\n")
	list, err := benchmarks("./compliance/ledger", "Append", "1s")
	if err != nil {
		return err
	}
	table(b, list, "ns/op", "records/s")
	if list, err = benchmarks("./compliance/ledger", "Verify", "1s"); err != nil {
		return err
	}
	fmt.Fprintf(b, "Verification on one core, beside SHA-256 over the same bytes: of rows, of closed segments, of rows with the database's own check, and of records in memory. "+
		"Only the newest records of a ledger are rows, 1,023 at most. Targets: 1,000,000 records a second, and three times SHA-256's time.\n\n")
	table(b, list, "records/cpu-s", "x-sha256", "bytes/record")
	return nil
}

// counts counts what one issue costs the engine.
func counts(b *bytes.Buffer) error {
	list, err := benchmarks("./cmd/e2e", "^BenchmarkIssue$", "1x")
	if err != nil {
		return err
	}
	fmt.Fprintf(b, "\n## One issue, counted\n\nWhat one issue more costs a `writ serve` on the embedded forge from its approval to its closing: canonical encodings, decodings, and checks of bytes that build nothing; "+
		"forks, in which a round copies what it has changed so far, requests, and durable appends. The program counts its own statements. Goal: one encoding for each value that is hashed.\n\n")
	table(b, list, "encodings", "decodings", "checks", "forks", "requests", "appends")
	return nil
}

// deliveries measures the receiver.
func deliveries(b *bytes.Buffer) error {
	list, err := benchmarks("./webhook", "Deliveries", "30000x")
	if err != nil {
		return err
	}
	fmt.Fprintf(b, "\n## Deliveries\n\n64 connections that each send a signed delivery of 4 KiB and wait for its answer, senders and receiver on the same cores. "+
		"The ceiling is a bare handler that checks the signature and stores nothing, the naive way a synchronous transaction for each; "+
		"+3ms is a disk that takes 3 ms longer for each commit, and senders is what sending costs, to a socket that only answers. "+
		"cpu-us/op is what the processors did for one delivery, senders included. "+
		"An edited issue leaves its digest, a labeled one its whole body. Targets: half of the ceiling, four times the naive way, ten times on the slower disk.\n\n")
	table(b, list, "deliveries/s", "cpu-us/op", "p50-ms", "p99-ms", "x-ceiling", "x-naive")
	for _, action := range []string{"edited", "labeled"} {
		whereItGoes(b, list, action)
	}
	b.WriteString("Half of the ceiling isn't reached. All of it runs on the same cores, so it would leave the receiver no more than the ceiling's own time once again. " +
		"A quarter to a third of what the receiver does is the database: a row, its index and a due time, as bytecode of SQLite run by its translation into Go, pages written to the log and carried over into the file. " +
		"The rest is spread thin: the JSON is read twice, once for its form and once for its meaning, the body is digested, the delivery changes hands twice, the log has a line of it, and what all this allocates is collected. " +
		"While a group waits for the disk, most of the 64 senders wait with it, and the cores with them. " +
		"Larger groups or no wait would only be had by answering before a delivery would survive a crash.\n")
	return nil
}

// whereItGoes says what the processors' time for one delivery was for.
func whereItGoes(b *bytes.Buffer, list []gobench, action string) {
	cost := map[string]float64{}
	for _, g := range list {
		name, _, _ := strings.Cut(strings.TrimPrefix(g.name, "Deliveries/"), "-")
		cost[name], _ = strconv.ParseFloat(g.figures["cpu-us/op"], 64) // 0 if it isn't there
	}
	senders, ceiling, all := cost[action+"/senders"], cost[action+"/ceiling"], cost[action+"/receiver"]
	fmt.Fprintf(b, "Of the %.0f µs for one that was %s, %.0f are the senders and the way through the kernel, %.0f HTTP and the signature, and %.0f what the receiver does with it.\n\n",
		all, action, senders, ceiling-senders, all-ceiling)
}

// gateways measures the way out of a sandbox.
func gateways(b *bytes.Buffer) error {
	list, err := benchmarks("./executor/gateway", "Gateway", "20x")
	if err != nil {
		return err
	}
	fmt.Fprintf(b, "\n## Gateway\n\n64 MiB over TLS from a server on loopback, through the gateway's tunnel and directly, and what the tunnel adds to the quickest small answer over a new connection; "+
		"client, gateway and server on the same cores. Targets: 0.8 of the direct throughput, less than 2 ms added.\n\n")
	table(b, list, "MiB/s", "x-direct", "added-ms")
	return nil
}

// agents measures what the sandbox and the gateway add to an agent's run.
func agents(b *bytes.Buffer) error {
	list, err := benchmarks("./executor/builder", "^BenchmarkAgent$", "7x", "-tags", "agents")
	if err != nil {
		return err
	}
	fmt.Fprintf(b, "\n## An agent's run\n\nA published agent that reads, edits, runs the check and finishes, three requests in all: in the sandbox and through the gateway, from the wish for the run to its outcome, "+
		"and the same program with the same arguments bare, in a directory that is there already, in turns against the same stub of its provider. Bare it asks by plain HTTP, which spares it TLS. "+
		"instant is a stub that answers at once, which no provider does. paced answers after 3 s: 1.8 s until a provider begins, and 80 tokens at 63 a second, "+
		"as Artificial Analysis published for Claude Sonnet 4.5 in November 2025; of a slower model writ adds less. Target: a ratio under 1.03, paced.\n\n")
	table(b, list, "ms/writ", "ms/bare", "ms/added", "ratio")
	return nil
}

// served measures a whole server.
func served(b *bytes.Buffer) error {
	list, err := benchmarks("./cmd/e2e", "Served", "1x")
	if err != nil {
		return err
	}
	fmt.Fprintf(b, "\n## Two hundred tasks\n\nOne `writ serve` with four build slots, the embedded forge, and a builder that writes one line: "+
		"from the first of 200 approvals to the last issue closed with its report, and the same for one issue alone.\n\n")
	table(b, list, "s/all", "ms/task", "ms/alone", "builders", "MiB-peak")
	fmt.Fprintf(b, "What a task takes of the store, in a file without room to spare: records (the newest 1,023 at most as they are, the others in closed segments), "+
		"what was pushed and is kept for 14 days, deliveries and schedule. Target: 60 kB.\n\n")
	table(b, list, "kB-store/task", "kB-ledger/task", "kB-pushed/task", "records/task")
	return nil
}

// stops measures how long a builder lives after somebody's stop.
func stops(b *bytes.Buffer) error {
	list, err := benchmarks("./cmd/e2e", "Stop", "5x")
	if err != nil {
		return err
	}
	fmt.Fprintf(b, "\n## A stop\n\nFrom a maintainer's comment `/writ stop` on the embedded forge, whose webhook tells of it, until no process of the builder is left, "+
		"beside a SIGKILL to its sandbox by hand; looked at every 50 ms. Target: 2,000 ms. Without webhooks the interval of `server.poll` is added.\n\n")
	table(b, list, "ms/stop", "ms/kill", "ratio")
	return nil
}

// soaked has one server do everything at once. It fails if anything was done
// twice or left over.
func soaked(b *bytes.Buffer) error {
	list, err := benchmarks("./cmd/e2e", "Soak", "1x")
	if err != nil {
		return err
	}
	fmt.Fprintf(b, "\n## Soak\n\nOne `writ serve` with four build slots for 50 worlds, 2,000 issues, and people who approve most of them, edit, talk and change their minds; "+
		"builders that do their work, stray or fail; deliveries of which some are lost, some come several times and none in its order; and five `kill -9` while it builds. "+
		"It is a failure if a run was handed to a builder twice, if a completed issue has not exactly one result, one closing and one report, if a task neither ended nor waits, "+
		"or if the server needs a quarter more memory in the last quarter of its life than in the second (posted: deliveries taken; doubled: of those, taken before; "+
		"lost: never sent; cut-off: runs that a kill ended, which nothing counts as an attempt).\n\n")
	table(b, list, "s/all", "ms/task", "builders", "cut-off", "completed", "blocked", "waiting", "unapproved")
	table(b, list, "posted", "doubled", "lost", "MiB-2nd", "MiB-4th")
	return nil
}

// tries measures `writ contract try`.
func tries(b *bytes.Buffer) error {
	list, err := benchmarks("./cmd/internal/trial", "Try", "3x")
	if err != nil {
		return err
	}
	fmt.Fprintf(b, "\n## Trying a contract\n\n`writ contract try` over a thousand commits of a repository with 50,000 files, "+
		"beside `git log --raw`, which lists what they changed and judges nothing. Target: ten seconds.\n\n")
	table(b, list, "ms/try", "ms/git-log", "ratio")
	return nil
}
