package gittest

import (
	"slices"
	"strings"
)

// What forges do to a base, with git's own tools and as they write it. Nothing here
// moves a ref: each returns the commit that the base is to be at.

// MergeCommit joins a head to its base by a commit of two parents.
func MergeCommit(dir, base, head, message string) (string, error) {
	tree, err := joined(dir, base, head)
	if err != nil {
		return "", err
	}
	return TryGit(dir, message, "commit-tree", "-F", "-", "-p", base, "-p", head, tree)
}

// Squash puts all that a head has and its base has not into one commit on it.
func Squash(dir, base, head, message string) (string, error) {
	tree, err := joined(dir, base, head)
	if err != nil {
		return "", err
	}
	return TryGit(dir, message, "commit-tree", "-F", "-", "-p", base, tree)
}

// Rebase makes the commits that a head has and its base has not again, on the base.
func Rebase(dir, base, head string) (string, error) {
	commits, err := Ahead(dir, base, head)
	if err != nil {
		return "", err
	}
	tip := base
	for _, c := range commits {
		message, err := TryGit(dir, "", "log", "-1", "--format=%B", c)
		if err != nil {
			return "", err
		}
		if tip, err = apply(dir, c+"^", c, tip, message); err != nil {
			return "", err
		}
	}
	return tip, nil
}

// Revert undoes on a tip what led from one commit to another.
func Revert(dir, tip, before, after, message string) (string, error) {
	return apply(dir, after, before, tip, message)
}

// Ahead are the commits that a head has and its base has not, the oldest first;
// merges are left out.
func Ahead(dir, base, head string) ([]string, error) {
	out, err := TryGit(dir, "", "rev-list", "--no-merges", "--reverse", base+".."+head)
	return strings.Fields(out), err
}

func joined(dir, base, head string) (string, error) {
	return TryGit(dir, "", "merge-tree", "--write-tree", base, head)
}

// apply makes the change between two commits on a third.
func apply(dir, from, to, tip, message string) (string, error) {
	// A merge finds the commit that both sides grew from; so give it one.
	sides := []string{tip, to}
	for i, side := range slices.Clone(sides) {
		var err error
		if sides[i], err = TryGit(dir, "side", "commit-tree", "-F", "-", "-p", from, side+"^{tree}"); err != nil {
			return "", err
		}
	}
	tree, err := joined(dir, sides[0], sides[1])
	if err != nil {
		return "", err
	}
	return TryGit(dir, message, "commit-tree", "-F", "-", "-p", tip, tree)
}
