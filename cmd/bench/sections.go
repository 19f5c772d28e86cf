package main

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
)

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
	fmt.Fprintf(b, "Verification on one core, beside SHA-256 over the same bytes (target: at most ten times its time) and the peers' 145,000 records a second (target: three times):\n\n")
	table(b, list, "records/cpu-s", "x-sha256", "bytes/record")
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

// served measures a whole server.
func served(b *bytes.Buffer) error {
	list, err := benchmarks("./cmd/e2e", "Served", "1x")
	if err != nil {
		return err
	}
	fmt.Fprintf(b, "\n## Two hundred tasks\n\nOne `writ serve` with four build slots, the embedded forge, and a builder that writes one line: "+
		"from the first of 200 approvals to the last issue closed with its report, and the same for one issue alone.\n\n")
	table(b, list, "s/all", "ms/task", "ms/alone", "builders", "MiB-peak")
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
