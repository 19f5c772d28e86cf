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
	"strings"
)

func main() {
	bin := flag.String("writ", "bin/writ", "path of the writ program")
	out := flag.String("out", "docs/benchmarks.md", "file to write")
	runs := flag.Int("n", 21, "runs of the whole loop")
	dir := flag.String("dir", "bin", "where the loop's repository and state directories are made")
	only := flag.String("only", "", "measure one section, print it and write nothing: claims, packed, loop, layers, prepared, decision, ledger, start, deliveries, issue, served, soak, gateway, agents, try or branches")
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
