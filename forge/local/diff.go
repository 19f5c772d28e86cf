package local

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-git/go-git/v5/utils/diff"

	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/forge/git"
)

const (
	// contextLines stand around what has changed.
	contextLines = 3
	// maxDiffFile is in bytes: a larger file's lines are not compared.
	maxDiffFile = 512 << 10
	// maxDiffFiles is how many files a diff shows.
	maxDiffFiles = 300
	// maxDiffTime bounds the comparison of one file; what comes out then is right,
	// but not the shortest.
	maxDiffTime = time.Second
)

// FileDiff is what a change does to one file.
type FileDiff struct {
	Path string
	What string     // "added", "deleted", "changed"
	Note string     // why there are no lines: binary, too large, only the mode
	Text []DiffLine // with some lines around
}

// DiffLine is one line. Op is '+', '-', ' ', or '@' for the head of a part.
type DiffLine struct {
	Op   byte
	Text string
}

// Diff says what a change does to the files of its base.
func (c *Client) Diff(ctx context.Context, r forge.Repo, number int64) ([]FileDiff, error) {
	var change changeRow
	err := c.inItem(ctx, r, number, reads("compare the sides of"), func(x *session, in scope, it itemRow) (err error) {
		if change, err = x.change(in.repoRow, it); err != nil || change.State != forge.ChangeOpen {
			return err
		}
		oids, err := x.branches(in.repoRow, change.Base)
		change.start = string(slices.Concat(oids, []git.OID{""})[0])
		return err
	})
	if err != nil {
		return nil, err
	}
	m, err := c.s.merger(ctx, r.ID, c.user)
	if err != nil {
		return nil, asForge("compare", err)
	}
	files, err := m.diff(git.OID(change.start), git.OID(change.HeadOID))
	return files, asForge(fmt.Sprintf("compare the sides of %s#%d", r, number), err)
}

// diff compares a head with where it left its base.
func (m *merger) diff(base, head git.OID) ([]FileDiff, error) {
	common := git.OID("")
	if base.Valid() && !base.IsZero() {
		var err error
		if common, err = m.common(base, head); err != nil {
			return nil, err
		}
	}
	var old git.Tree
	if common != "" {
		var err error
		if old, err = m.repo.Tree(m.ctx, common); err != nil {
			return nil, err
		}
	}
	tree, err := m.repo.Tree(m.ctx, head)
	if err != nil {
		return nil, err
	}
	var out []FileDiff
	for _, p := range pathsOf(old, tree) {
		before, had := old.Find(p)
		after, has := tree.Find(p)
		if before == after {
			continue
		}
		if len(out) == maxDiffFiles {
			return append(out, FileDiff{Path: "…", Note: "and more files"}), nil
		}
		f := FileDiff{Path: p, What: "changed"}
		if !had {
			f.What = "added"
		} else if !has {
			f.What = "deleted"
		}
		if err := m.compare(&f, before, after); err != nil {
			return nil, err
		}
		out = append(out, f)
	}
	return out, nil
}

func pathsOf(trees ...git.Tree) []string {
	var out []string
	for _, t := range trees {
		for _, e := range t.Entries {
			out = append(out, e.Path)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func (m *merger) compare(f *FileDiff, before, after git.Entry) error {
	if before.OID == after.OID {
		f.Note = fmt.Sprintf("only its mode, from %s to %s", before.Mode, after.Mode)
		return nil
	}
	old, err := m.text(before)
	if err != nil {
		return err
	}
	now, err := m.text(after)
	if err != nil {
		return err
	}
	for _, data := range [][]byte{old, now} {
		switch {
		case len(data) > maxDiffFile:
			f.Note = "too large to compare"
			return nil
		case bytes.IndexByte(data, 0) >= 0 || !utf8.Valid(data):
			f.Note = "binary"
			return nil
		}
	}
	var parts []part
	for _, d := range diff.DoWithTimeout(string(old), string(now), maxDiffTime) {
		lines := strings.SplitAfter(d.Text, "\n")
		if lines[len(lines)-1] == "" {
			lines = lines[:len(lines)-1]
		}
		parts = append(parts, part{int(d.Type), lines})
	}
	f.Text = hunks(parts)
	return nil
}

func (m *merger) text(e git.Entry) ([]byte, error) {
	if e.OID == "" {
		return nil, nil
	}
	if e.Mode == git.ModeGitlink {
		return []byte("submodule " + string(e.OID) + "\n"), nil
	}
	return m.repo.Blob(m.ctx, e.OID)
}

// part is a run of lines: on both sides (0), only before (-1), only now (1).
type part struct {
	side  int
	lines []string
}

// hunks turns a comparison into lines, leaving out what is far from any change.
func hunks(parts []part) []DiffLine {
	var out []DiffLine
	old, now := 1, 1
	for n, p := range parts {
		size := len(p.lines)
		switch {
		case p.side > 0:
			out = appendLines(out, '+', p.lines)
			now += size
			continue
		case p.side < 0:
			out = appendLines(out, '-', p.lines)
			old += size
			continue
		}
		head, tail := contextLines, contextLines
		if n == 0 {
			head = 0
		}
		if n == len(parts)-1 {
			tail = 0
		}
		if head+tail >= size {
			head, tail = size, 0
		}
		out = appendLines(out, ' ', p.lines[:head])
		if tail > 0 {
			at := DiffLine{'@', fmt.Sprintf("from line %d, before %d", now+size-tail, old+size-tail)}
			out = appendLines(append(out, at), ' ', p.lines[size-tail:])
		}
		old, now = old+size, now+size
	}
	return out
}

func appendLines(out []DiffLine, op byte, lines []string) []DiffLine {
	for _, l := range lines {
		out = append(out, DiffLine{op, strings.TrimSuffix(l, "\n")})
	}
	return out
}
