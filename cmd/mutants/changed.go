package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"path"
	"reflect"
	"slices"
	"strings"
)

// pick gives the mutants that a change since base touches, those whose entries
// are new or different first, otherwise in the order that the seed's lot gives.
func pick(ctx context.Context, top, base, seed string, all []mutant) ([]mutant, error) {
	if base == "auto" {
		base = lastChange(ctx, top)
	}
	changed, err := changedFiles(ctx, top, base)
	if err != nil {
		return nil, err
	}
	dirs := map[string]bool{}
	old := map[string]mutant{}
	for _, file := range changed {
		dirs[packageOf(file)] = true
		if path.Base(file) == tableName {
			// A table that wasn't there, or that nobody could read, has no old entries.
			text, _ := gitOutput(ctx, top, "show", base+":"+file)
			before, _ := parseTable(file, text)
			for _, m := range before {
				old[m.name] = m
			}
		}
	}
	var entries, others []mutant
	for _, m := range all {
		tableChanged := slices.Contains(changed, path.Join(m.test.pkg, tableName))
		switch {
		case tableChanged && !m.same(old[m.name]):
			entries = append(entries, m)
		case m.touched(dirs):
			others = append(others, m)
		}
	}
	draw(entries, seed)
	draw(others, seed)
	return append(entries, others...), nil
}

// same compares what two entries say, wherever they stand.
func (m mutant) same(other mutant) bool {
	m.where, other.where = "", ""
	return reflect.DeepEqual(m, other)
}

// touched reports whether the mutant's test or its defence is in one of these packages.
func (m mutant) touched(dirs map[string]bool) bool {
	return dirs[m.test.pkg] || slices.ContainsFunc(m.edits, func(e edit) bool { return dirs[packageOf(e.file)] })
}

// packageOf is the directory of the package that a file belongs to: what lies
// in testdata belongs to the one above.
func packageOf(file string) string {
	if above, _, ok := strings.Cut("/"+file, "/testdata/"); ok {
		return strings.TrimPrefix(cmp.Or(above, "."), "/")
	}
	return path.Dir(file)
}

// draw sorts by a hash of seed and name, so that the same seed gives the same
// lot, and another entry more or less leaves the order of the others.
func draw(mutants []mutant, seed string) {
	lot := func(m mutant) string {
		sum := sha256.Sum256([]byte(seed + "\x00" + m.name))
		return hex.EncodeToString(sum[:])
	}
	slices.SortFunc(mutants, func(a, b mutant) int { return cmp.Compare(lot(a), lot(b)) })
}

// changedFiles lists the slash paths of the files in which the working tree
// differs from base.
func changedFiles(ctx context.Context, top, base string) ([]string, error) {
	known, err := gitOutput(ctx, top, "diff", "--name-only", "--no-renames", "-z", base, "--")
	if err != nil {
		return nil, err
	}
	added, err := gitOutput(ctx, top, "ls-files", "-z", "--others", "--exclude-standard")
	if err != nil {
		return nil, err
	}
	return strings.FieldsFunc(known+added, func(r rune) bool { return r == 0 }), nil
}

// lastChange is the commit before the last change. On a branch that is where it
// left the default branch of origin. Where origin has it all already, and where
// nothing is known of an origin, it is the last commit's first parent, so that a
// merge counts as one change. A clone without that parent can't tell what
// changed: then everything did.
func lastChange(ctx context.Context, top string) string {
	ask := func(args ...string) string {
		out, err := gitOutput(ctx, top, args...)
		if err != nil {
			return ""
		}
		return strings.TrimSpace(out)
	}
	head := ask("rev-parse", "HEAD")
	for _, branch := range []string{"refs/remotes/origin/HEAD", "refs/remotes/origin/main"} {
		if base := ask("merge-base", "HEAD", branch); base != "" && base != head {
			return base
		}
	}
	return cmp.Or(ask("rev-parse", "--verify", "--quiet", "HEAD~1"), ask("hash-object", "-t", "tree", "--stdin"))
}
