package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
)

// closing is the last line of a package in go test's plain output.
var closing = regexp.MustCompile(`^(ok|FAIL|\?|---|panic:)\s`)

// follow prints the stream of `go test -json` as plain go test would have: what
// failed with its output, and a closing line for each package. So one run gives
// both, the words for people and the events for the table.
func follow(r io.Reader, w io.Writer) error {
	f := follower{w: w, said: map[string]*strings.Builder{}}
	dec := json.NewDecoder(r)
	for {
		var e event
		err := dec.Decode(&e)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("the test run is not JSON: %w", err)
		}
		f.take(e)
	}
}

// follower keeps what tests say until it is known whether they fail.
type follower struct {
	w     io.Writer
	said  map[string]*strings.Builder // by package and test
	order []string                    // of said
}

func (f *follower) take(e event) {
	key := e.Package + " " + e.Test
	switch {
	case e.Action == "build-output":
		fmt.Fprint(f.w, e.Output)
	case e.Action == "output":
		if f.said[key] == nil {
			f.said[key] = &strings.Builder{}
			f.order = append(f.order, key)
		}
		if !strings.HasPrefix(e.Output, "=== ") {
			f.said[key].WriteString(e.Output)
		}
	case e.Test == "" && (e.Action == "pass" || e.Action == "skip" || e.Action == "fail"):
		f.end(e)
	case e.Action == "pass" || e.Action == "skip":
		delete(f.said, key)
	}
}

// end prints a package: if it failed, all that its failed and its unfinished
// tests said.
func (f *follower) end(e event) {
	var rest []string
	for _, key := range f.order {
		said := f.said[key]
		switch pkg, test, _ := strings.Cut(key, " "); {
		case pkg != e.Package:
			rest = append(rest, key)
			continue
		case said == nil:
		case e.Action == "fail" && test != "":
			fmt.Fprint(f.w, said)
		case test == "":
			defer f.close(said.String(), e.Action == "fail")
		}
		delete(f.said, key)
	}
	f.order = rest
}

// close prints what the package itself said: all, or its closing line.
func (f *follower) close(said string, all bool) {
	for line := range strings.Lines(said) {
		if all && line != "PASS\n" || closing.MatchString(line) {
			fmt.Fprint(f.w, line)
		}
	}
}
