package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/writbot/writ/kernel/canon"
)

// Where the execution log lies under the state directory.
const (
	LogDir  = "logs"
	LogFile = "execution_cycle.log"
)

// Limits of the execution log. It is derived from the ledger, so that what
// rotation drops is not lost.
const (
	// MaxLogBytes is the size from which a file is put aside: some 10,000 lines.
	MaxLogBytes = 8 << 20
	// KeepLogs is how many files are kept beside the current one.
	KeepLogs = 4
)

// Log is the execution log, one JSON line for each cycle with sorted keys,
// readable by its owner only. One process writes it: the one that holds the
// state directory.
type Log struct {
	path     string
	redactor *Redactor
	maxBytes int64
}

// OpenLog opens the log under a state directory and makes its directory. Every
// line passes through the redactor, which may be nil: then it takes out the
// known shapes of tokens.
func OpenLog(stateDir string, redactor *Redactor) (*Log, error) {
	dir := filepath.Join(stateDir, LogDir)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	return &Log{path: filepath.Join(dir, LogFile), redactor: redactor, maxBytes: MaxLogBytes}, nil
}

// Path is the current file's path.
func (l *Log) Path() string { return l.path }

// Has reports whether a line of the same run with the same final state is there, in the
// current file or a kept one. One that was cut off counts for nothing.
func (l *Log) Has(line Line) (bool, error) {
	run, state := []byte(`"run_id":"`+line.RunID+`"`), []byte(`"final_task_state":"`+string(line.FinalTaskState)+`"`)
	there := func(data []byte) bool {
		for one := range bytes.Lines(data) {
			if bytes.Contains(one, run) && bytes.Contains(one, state) && json.Valid(one) {
				return true
			}
		}
		return false
	}
	for i := range KeepLogs + 1 {
		path := l.path
		if i > 0 {
			path = l.numbered(i)
		}
		data, err := os.ReadFile(path)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return false, err
		}
		if there(data) {
			return true, nil
		}
	}
	return false, nil
}

// Append writes one line, or nothing of it where there is no room. A line that a crash
// cut short is ended first, so that it spoils no other.
func (l *Log) Append(line Line) error {
	data, err := l.encode(line)
	if err != nil {
		return err
	}
	if err := l.rotate(int64(len(data))); err != nil {
		return err
	}
	f, err := os.OpenFile(l.path, os.O_RDWR|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	if torn(f) {
		data = append([]byte{'\n'}, data...)
	}
	if n, failed := f.Write(data); failed != nil {
		err = failed
		if info, statErr := f.Stat(); statErr == nil {
			err = errors.Join(err, f.Truncate(info.Size()-int64(n)))
		}
	}
	return errors.Join(err, f.Close())
}

// Rebuild replaces the log by these lines, the last of them if they are many.
func (l *Log) Rebuild(lines []Line) error {
	var buf bytes.Buffer
	for _, line := range lines {
		data, err := l.encode(line)
		if err != nil {
			return err
		}
		buf.Write(data)
	}
	data := buf.Bytes()
	if over := int64(len(data)) - l.maxBytes; over > 0 {
		data = data[over:]
		data = data[bytes.IndexByte(data, '\n')+1:]
	}
	tmp := l.path + ".new"
	if err := os.WriteFile(tmp, data, 0o600); err != nil {
		return err
	}
	return os.Rename(tmp, l.path)
}

// encode redacts each text before it is encoded, and the line afterwards.
func (l *Log) encode(line Line) ([]byte, error) {
	line.ExecutorCommand = l.redactor.Strings(line.ExecutorCommand)
	line.FilesCommitted = l.redactor.Strings(line.FilesCommitted)
	data, err := canon.Marshal(line)
	if err != nil {
		return nil, fmt.Errorf("execution log: %w", err)
	}
	return append(data, '\n'), nil
}

func torn(f *os.File) bool {
	info, err := f.Stat()
	if err != nil || info.Size() == 0 {
		return false
	}
	last := make([]byte, 1)
	_, err = f.ReadAt(last, info.Size()-1)
	return err == nil && last[0] != '\n'
}

// rotate puts the file aside when n more bytes would be too many.
func (l *Log) rotate(n int64) error {
	info, err := os.Stat(l.path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil || info.Size() == 0 || info.Size()+n <= l.maxBytes {
		return err
	}
	for i := KeepLogs - 1; i >= 1; i-- {
		if err := os.Rename(l.numbered(i), l.numbered(i+1)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return os.Rename(l.path, l.numbered(1))
}

func (l *Log) numbered(i int) string { return fmt.Sprintf("%s.%d", l.path, i) }
