package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// module is cut off package names in the table.
const module = "github.com/writbot/writ/"

// outcome is what the run says about one case.
type outcome struct {
	passed, failed []string // "room TestName", sorted
}

// results is a test run, read from the stream of `go test -json`.
type results struct {
	cases  map[string]*outcome
	broken []string // packages and tests that failed, in order of their end
}

// event is the part of a test2json event that matters here.
type event struct {
	Action     string
	Package    string
	ImportPath string // of a build that failed
	Test       string
	Output     string
}

// readRun folds the stream. Lines that aren't JSON are the compiler's words,
// and the package event that follows says what they mean.
func readRun(r io.Reader) (results, error) {
	res := results{cases: map[string]*outcome{}}
	dec := json.NewDecoder(r)
	events := 0
	for {
		var e event
		err := dec.Decode(&e)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return res, fmt.Errorf("event %d of the test run is not JSON: %w", events+1, err)
		}
		events++
		res.add(e)
	}
	if events == 0 {
		return res, errors.New("the test run said nothing: did `go test` start?")
	}
	return res, nil
}

func (r *results) add(e event) {
	room := strings.TrimPrefix(e.Package, module)
	name := strings.TrimSpace(room + " " + e.Test)
	switch {
	case e.Action == "fail":
		r.broken = append(r.broken, name)
	case e.Action == "build-fail":
		r.broken = append(r.broken, e.ImportPath+" (build)")
	case e.Action != "pass":
		return
	}
	for _, id := range slices.Compact(slices.Sorted(slices.Values(idsIn(e.Test)))) {
		r.note(id, name, e.Action == "pass")
	}
}

// idsIn returns the cases whose id stands in a test's name, as a part of its
// own: TestL2_X, TestSim_K7, TestScope/S1_link, FuzzL13_Trailers/seed#0.
func idsIn(test string) []string {
	for _, kind := range []string{"Test", "Fuzz", "Example", "Benchmark"} {
		if rest, ok := strings.CutPrefix(test, kind); ok {
			test = rest
			break
		}
	}
	var ids []string
	for _, part := range strings.FieldsFunc(test, func(r rune) bool { return r == '_' || r == '/' || r == '#' }) {
		if caseID.MatchString(part) {
			ids = append(ids, part)
		}
	}
	return ids
}

func (r *results) note(id, name string, passed bool) {
	o := r.cases[id]
	if o == nil {
		o = &outcome{}
		r.cases[id] = o
	}
	if passed {
		o.passed = append(o.passed, name)
	} else {
		o.failed = append(o.failed, name)
	}
}
