package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// maxShown is how many tests of one case the table names: a simulation with
// hundreds of seeds as subtests must not bury the rest.
const maxShown = 4

// printTable writes the table and returns whether all that is owed is held.
func printTable(w io.Writer, list []listed, res results) bool {
	var owed, held, missing, unfinished int
	for _, c := range list {
		o := res.cases[c.id]
		state := stateOf(c, o)
		fmt.Fprintf(w, "%-8s %-4s %s\n", state, c.id, c.phrase)
		if o != nil {
			printTests(w, o)
		}
		switch {
		case c.owed && state == "ok":
			owed, held = owed+1, held+1
		case c.owed:
			owed, missing = owed+1, missing+1
		case state == "FAILED":
			missing++
		case state == "later":
			unfinished++
		}
	}
	unknown := unlisted(list, res)
	for _, id := range unknown {
		fmt.Fprintf(w, "UNKNOWN  %-4s not in cases.txt; named by %s\n", id, strings.Join(res.cases[id].tests(), ", "))
	}
	for _, b := range res.broken {
		fmt.Fprintf(w, "FAILED   %s\n", b)
	}
	fmt.Fprintf(w, "\n%d of %d owed cases held, %d later\n", held, owed, unfinished)
	return missing == 0 && len(unknown) == 0 && len(res.broken) == 0
}

// stateOf judges one case: any failing test that bears its id fails it.
func stateOf(c listed, o *outcome) string {
	switch {
	case o != nil && len(o.failed) > 0:
		return "FAILED"
	case o != nil && len(o.passed) > 0:
		return "ok"
	case c.owed:
		return "MISSING"
	}
	return "later"
}

// printTests names the tests of a case, as many as a reader wants to see.
func printTests(w io.Writer, o *outcome) {
	tests := o.tests()
	for _, name := range tests[:min(len(tests), maxShown)] {
		fmt.Fprintf(w, "%13s %s\n", "", name)
	}
	if len(tests) > maxShown {
		fmt.Fprintf(w, "%13s and %d more\n", "", len(tests)-maxShown)
	}
}

// tests lists the tests of a case, failed ones first, each group sorted, without
// the subtests of one that is listed already. One that ran twice, under the race
// detector and without it, is listed once.
func (o *outcome) tests() []string {
	var list []string
	for _, name := range append(slices.Sorted(slices.Values(o.failed)), slices.Sorted(slices.Values(o.passed))...) {
		if !slices.ContainsFunc(list, func(up string) bool { return name == up || strings.HasPrefix(name, up+"/") }) {
			list = append(list, name)
		}
	}
	return list
}

// unlisted are ids in test names that the list doesn't have, sorted.
func unlisted(list []listed, res results) []string {
	var ids []string
	for id := range res.cases {
		if !slices.ContainsFunc(list, func(c listed) bool { return c.id == id }) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}
