package main

import (
	_ "embed" // the list travels with the command
	"fmt"
	"regexp"
	"strings"
)

//go:embed cases.txt
var listText string

// caseID is how a case is called: group letter and number.
var caseID = regexp.MustCompile(`^[WILKSGXFJRM][0-9]+$`)

// listed is one case of the list.
type listed struct {
	id     string
	owed   bool
	phrase string
}

// parseList reads the list. Its errors name the line.
func parseList(text string) ([]listed, error) {
	var all []listed
	seen := map[string]bool{}
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		f := strings.Fields(line)
		switch {
		case len(f) < 3 || !caseID.MatchString(f[0]):
			return nil, fmt.Errorf("line %d: want an id, owed or later, and a phrase", i+1)
		case f[1] != "owed" && f[1] != "later":
			return nil, fmt.Errorf("line %d: %s is %q, want owed or later", i+1, f[0], f[1])
		case seen[f[0]]:
			return nil, fmt.Errorf("line %d: %s is there twice", i+1, f[0])
		}
		seen[f[0]] = true
		all = append(all, listed{f[0], f[1] == "owed", strings.Join(f[2:], " ")})
	}
	return all, nil
}
