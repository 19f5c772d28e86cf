package main

import (
	"bytes"
	"fmt"
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
