// Package sealed is the form of work that a builder left and that nobody has judged
// to its end yet: what is pushed after its scope was judged and before the checks
// begin, so that an interruption there costs no second build.
//
// In the tree of a state commit the work is a manifest, sealed.json, and beside it a
// blob sealed/<sha256> for each distinct content that the work brings. No blob has its
// own path or mode there: nothing that reads repositories can take it for code, a
// workflow or configuration. The manifest says which change has which content.
//
// Nothing in it is trusted because it lies there. [Read] hashes every byte again and
// holds the parts against each other; whose commit it is, and whether its paths may be
// changed, is for the caller to judge.
//
// While the server takes no push, the work waits in the instance's store, which is the
// business of compliance/shelf.
package sealed

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/writbot/writ/forge/git"
	"github.com/writbot/writ/kernel"
	"github.com/writbot/writ/kernel/canon"
)

// Where the work lies in a state commit's tree.
const (
	File = "sealed.json" // the manifest
	Dir  = "sealed/"     // of the blobs, each named by its SHA-256
)

// Limits of what is read. The budgets of the task bound the work far below them.
const (
	maxManifest = 4 << 20  // bytes: a diff and the tails of two streams
	maxBlobs    = 64 << 20 // bytes of all blobs
)

const (
	kind    = "sealed"
	version = 1
)

// Manifest says what the work is and whose.
type Manifest struct {
	Kind     string               `json:"kind"` // "sealed"
	V        int64                `json:"v"`
	Dispatch kernel.Dispatch      `json:"dispatch"` // that the builder was given
	Result   kernel.BuilderResult `json:"result"`
	Diff     kernel.Diff          `json:"diff"`
	// Checked is what the checks said of it, where it waits for a person and they passed.
	Checked *kernel.RunResult `json:"checked,omitempty"`
}

// Work is sealed work with its contents, by git blob id.
type Work struct {
	Manifest
	Contents map[string][]byte
}

// New is the work of a run.
func New(d kernel.Dispatch, result kernel.BuilderResult, diff kernel.Diff, contents map[string][]byte) Work {
	return Work{Manifest{Kind: kind, V: version, Dispatch: d, Result: result, Diff: diff}, contents}
}

// Encode is the manifest's canonical form.
func (m Manifest) Encode() ([]byte, error) { return canon.Marshal(m) }

// Decode reads a manifest strictly.
func Decode(data []byte) (Manifest, error) {
	var m Manifest
	if len(data) > maxManifest {
		return m, fmt.Errorf("sealed: a manifest of %d bytes", len(data))
	}
	if err := canon.UnmarshalCanonical(data, &m); err != nil {
		return m, fmt.Errorf("sealed: %w", err)
	}
	if m.Kind != kind || m.V != version {
		return m, fmt.Errorf("sealed: kind %q, version %d", m.Kind, m.V)
	}
	return m, nil
}

// name is where a content lies.
func name(hash canon.Digest) string {
	_, hex, _ := strings.Cut(string(hash), ":")
	return Dir + hex
}

// brings are the changes that bring a content.
func (m Manifest) brings() []kernel.Change {
	return slices.DeleteFunc(slices.Clone(m.Diff.Changes), func(c kernel.Change) bool {
		return c.Op == kernel.OpDelete || c.Op == kernel.OpMode
	})
}

// Entries are those of the work in a state commit's tree, the manifest with the id
// given. They follow from the manifest alone.
func (m Manifest) Entries(manifest git.OID) []git.Entry {
	byName := map[string]git.Entry{File: {Path: File, Mode: git.ModeFile, OID: manifest}}
	for _, c := range m.brings() {
		n := name(c.AfterHash)
		byName[n] = git.Entry{Path: n, Mode: git.ModeFile, OID: git.OID(c.AfterID)}
	}
	out := make([]git.Entry, 0, len(byName))
	for _, n := range slices.Sorted(maps.Keys(byName)) {
		out = append(out, byName[n])
	}
	return out
}

// Files are the work's files in a state commit's tree, by name.
func (w Work) Files() (map[string][]byte, error) {
	data, err := w.Encode()
	if err != nil {
		return nil, err
	}
	out := map[string][]byte{File: data}
	for _, c := range w.brings() {
		content, ok := w.Contents[c.AfterID]
		if !ok {
			return nil, fmt.Errorf("sealed: the bytes of %q are missing", c.Path)
		}
		out[name(c.AfterHash)] = content
	}
	return out, nil
}

// Is reports whether a path of a state commit's tree belongs to sealed work.
func Is(path string) bool { return path == File || strings.HasPrefix(path, Dir) }

// Read reads the work back from its files, and hashes all of it again.
func Read(files map[string][]byte) (Work, error) {
	w := Work{Contents: map[string][]byte{}}
	var err error
	if w.Manifest, err = Decode(files[File]); err != nil {
		return w, err
	}
	if err := w.coherent(); err != nil {
		return w, err
	}
	wanted, total := map[string]bool{File: true}, int64(0)
	for _, c := range w.brings() {
		n := name(c.AfterHash)
		data, ok := files[n]
		switch {
		case !ok:
			return w, fmt.Errorf("sealed: the bytes of %q are missing", c.Path)
		case canon.Sum(data) != c.AfterHash || string(git.HashBlob(data)) != c.AfterID || int64(len(data)) != c.Size:
			return w, fmt.Errorf("sealed: the bytes of %q are not those that were hashed", c.Path)
		}
		if total += int64(len(data)); total > maxBlobs {
			return w, fmt.Errorf("sealed: the blobs are over %d bytes", maxBlobs)
		}
		wanted[n], w.Contents[c.AfterID] = true, data
	}
	for n := range files {
		if Is(n) && !wanted[n] {
			return w, fmt.Errorf("sealed: %q belongs to no change", n)
		}
	}
	return w, nil
}

// coherent holds the parts of a manifest against each other. Only work that nothing
// speaks against is sealed.
func (m Manifest) coherent() error {
	d, r := m.Dispatch, m.Result
	switch {
	case len(kernel.ValidateDispatch(d)) > 0:
		return fmt.Errorf("sealed: the dispatch is not whole")
	case r.Run != d.RunID || m.Diff.Run != d.RunID || m.Diff.Base != d.BaseCommit:
		return fmt.Errorf("sealed: result and diff are not of the dispatched run %s", d.RunID)
	case r.Result == nil || r.Result.Status != kernel.ResultSuccess || len(r.Faults) > 0 ||
		r.Exit.Cause != kernel.CauseExited || r.Exit.Code != 0 || r.Exit.Signal != "":
		return fmt.Errorf("sealed: the builder of run %s did not succeed", d.RunID)
	case len(m.Diff.Violations) > 0 || len(m.Diff.Changes) == 0:
		return fmt.Errorf("sealed: the diff of run %s is none that could be accepted", d.RunID)
	case m.Checked != nil && slices.ContainsFunc(m.Checked.Checks, func(c kernel.CheckResult) bool { return !c.Passed || !c.Stable }):
		return fmt.Errorf("sealed: a check of run %s did not pass", d.RunID)
	}
	return nil
}
