package ledgers

import (
	"bytes"
	"os"
	"path/filepath"
	"time"

	"github.com/writbot/writ/cmd/internal/installation"
	"github.com/writbot/writ/cmd/internal/problem"
	"github.com/writbot/writ/compliance/ledger"
	"github.com/writbot/writ/kernel"
)

// note is a checkpoint that was read from a file and not verified yet.
type note struct {
	world, source string
	signed        []byte
}

// Notes are checkpoints that were read from files and not verified yet.
type Notes []note

// of are the notes of one world.
func (s Notes) of(world string) (out [][]byte) {
	for _, n := range s {
		if n.world == world {
			out = append(out, n.signed)
		}
	}
	return out
}

// source is where a note was found.
func (s Notes) source(signed []byte) (from string) {
	for _, n := range s {
		if bytes.Equal(n.signed, signed) {
			from = n.source
		}
	}
	return from
}

// ReadCheckpoints reads files that must be checkpoints.
func ReadCheckpoints(paths []string) (out Notes, err error) {
	for _, path := range paths {
		if err := installation.PathFlag("checkpoint", path); err != nil {
			return nil, err
		}
		n := note{source: filepath.Base(path)}
		if n.signed, err = installation.ReadLimited(path, installation.MaxCheckpointBytes); err != nil {
			return nil, problem.Usage("The checkpoint %s can't be read: %s.", path, problem.Cause(err))
		}
		var ok bool
		if n.world, ok = ledger.CheckpointWorld(n.signed); !ok {
			return nil, problem.Coded(kernel.CodeLedgerCorrupt, "The file %s is no checkpoint.", path)
		}
		if info, err := os.Stat(path); err == nil {
			n.source += ", a file of " + info.ModTime().UTC().Format(time.RFC3339)
		}
		out = append(out, n)
	}
	return out, nil
}
