package installation

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"

	"github.com/writbot/writ/cmd/internal/problem"
	"github.com/writbot/writ/executor/supervisor"
	"github.com/writbot/writ/kernel"
)

// OlderFile is in the state directory from the moment that a state commit showed that its
// store is older than its key, until somebody adopts it, puts the newer store back, or
// gives the installation another key: a thief of the old one could make such a commit.
// One file holds the ledgers of all worlds, so what is true of one is true of all: to go
// on in the others would sign a second history of theirs. And a server that is started
// again by itself must not begin new work before it meets that commit once more.
const OlderFile = "older"

// olderMark is what that file says.
type olderMark struct {
	World string `json:"world"`
	Task  int64  `json:"task"`
	Ref   string `json:"ref"`
	Head  string `json:"head"`
	Text  string `json:"text"`
}

// NoteOlder keeps word of what shows that the store is older than its key, and reports
// whether err does.
func (in *Installation) NoteOlder(world string, task int64, err error) bool {
	var older *supervisor.RollbackError
	if !errors.As(err, &older) {
		return false
	}
	data, err := json.Marshal(olderMark{World: world, Task: task, Ref: older.Ref, Head: older.Head, Text: older.Error()})
	if err == nil {
		err = ReplaceFile(in.Dir.File(OlderFile), append(data, '\n'))
	}
	if err != nil {
		in.Log.Warn("that the store is older than its key could not be noted; a restart finds out anew", "error", err)
	}
	return true
}

// Current is an error where the store was found to be older than its key, and is still.
func (in *Installation) Current(ctx context.Context) error {
	mark, err := in.Older()
	if err != nil || mark == nil {
		return err
	}
	l, err := in.Store.World(ctx, mark.World)
	if err != nil {
		return err
	}
	for r, err := range l.RecordsOfTask(ctx, mark.Task) {
		if err != nil {
			return err
		}
		if r.Kind == kernel.KindIntent && bytes.Contains(r.Body, []byte(mark.Head)) {
			return in.ForgetOlder() // the newer store is there again
		}
	}
	p := problem.Coded(kernel.CodeLedgerRollback, "The state directory %s is older than what its key has signed: of %s, %s is at %s, which its ledger doesn't hold.", in.Dir.Path, mark.World, mark.Ref, mark.Head)
	p.Remedy = "Stop any other copy of it. Put the newer store back; or, if that is lost: writ ledger adopt --state-dir " + in.Dir.Path +
		" --world '" + mark.World + "' --head " + mark.Head + " --reason TEXT. If somebody else may have made that commit, with a stolen copy of the key, adopt nothing: writ key rotate"
	return p
}

// Older is the mark, nil where there is none.
func (in *Installation) Older() (*olderMark, error) {
	data, err := ReadLimited(in.Dir.File(OlderFile), MaxCheckpointBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var m olderMark
	if err == nil {
		err = json.Unmarshal(data, &m)
	}
	if err != nil {
		return nil, FailedState(in.Dir.Path, err, "has a file %q that can't be read", OlderFile)
	}
	return &m, nil
}

// ForgetOlder takes the mark away.
func (in *Installation) ForgetOlder() error {
	if err := os.Remove(in.Dir.File(OlderFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
