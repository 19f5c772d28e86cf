package builder

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/writbot/writ/executor/sandbox"
)

// Cached is a layer that is kept for further runs.
type Cached struct {
	Name  string    `json:"name"`
	Kind  string    `json:"kind"` // base, git or prepare
	Bytes int64     `json:"bytes"`
	Used  time.Time `json:"used"`
	InUse bool      `json:"in_use"` // a run shows it now
	// The rest is of what was prepared.
	World string     `json:"world,omitempty"`
	Steps []string   `json:"steps,omitempty"`
	Made  *time.Time `json:"made,omitempty"`
}

// ErrInUse is a layer that a run shows now.
var ErrInUse = errors.New("a run uses it")

// ListCached looks at the layers of a directory, the one that was used last first. A server
// may use them meanwhile.
func ListCached(dir string) ([]Cached, error) {
	list, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	s := cachedIn(dir)
	var out []Cached
	for _, e := range list {
		info, err := e.Info()
		if err != nil || strings.HasPrefix(e.Name(), ".") {
			continue // it went meanwhile, or isn't whole
		}
		path := filepath.Join(dir, e.Name())
		kind, _, _ := strings.Cut(e.Name(), "-")
		c := Cached{Name: e.Name(), Kind: kind, Bytes: s.bytesOf(e.Name(), path), Used: info.ModTime()}
		if alone, err := lock(path, unix.LOCK_EX|unix.LOCK_NB); err == nil {
			unlock(alone)
		} else {
			c.InUse = errors.Is(err, unix.EWOULDBLOCK)
		}
		if i, err := readInfo(path); err == nil {
			made := time.UnixMilli(i.Made)
			c.World, c.Steps, c.Made = i.World, i.Steps, &made
		}
		out = append(out, c)
	}
	slices.SortFunc(out, func(a, b Cached) int { return b.Used.Compare(a.Used) })
	return out, nil
}

// RemoveCached removes one. The next run that wants it makes it anew.
func RemoveCached(dir, name string) error {
	if name != filepath.Base(name) || strings.HasPrefix(name, ".") {
		return fs.ErrNotExist
	}
	path := filepath.Join(dir, name)
	alone, err := lock(path, unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return ErrInUse
	}
	if err != nil {
		return err
	}
	defer unlock(alone)
	old, err := cachedIn(dir).unname(path)
	if err == nil {
		err = sandbox.RemoveTree(old)
	}
	return err
}

func cachedIn(dir string) *layers {
	return &layers{dir: dir, log: slog.New(slog.DiscardHandler), now: time.Now, held: map[string]*layer{}, live: map[string]bool{},
		try: func(context.Context) error { return nil }}
}
