package scheduler

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"strings"
	"syscall"
)

// Paused says which worlds are paused: their tasks get no build slot.
type Paused struct {
	All    bool
	Worlds map[string]bool
}

// Has reports whether tasks of the world are paused.
func (p Paused) Has(world string) bool { return p.All || p.Worlds[world] }

func (p Paused) with(q Paused) Paused {
	out := Paused{All: p.All || q.All, Worlds: maps.Clone(p.Worlds)}
	if out.Worlds == nil {
		out.Worlds = map[string]bool{}
	}
	maps.Copy(out.Worlds, q.Worlds)
	return out
}

// PauseSource is a place where pauses are written down, such as the store or a
// file. It is read at each look at the schedule, and again between a take and its
// drive; an error counts as a pause of everything.
type PauseSource interface {
	Paused(ctx context.Context) (Paused, error)
}

// readPauses asks all sources and remembers the answer.
func (s *Scheduler) readPauses(ctx context.Context) Paused {
	var all Paused
	var blind error
	for _, source := range s.o.Pauses {
		var p Paused
		if err := within(ctx, func(ctx context.Context) (err error) {
			p, err = source.Paused(ctx)
			return err
		}); err != nil {
			p.All, blind = true, err
		}
		all = all.with(p)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if blind != nil && !s.blind && ctx.Err() == nil {
		s.log.Error("what is paused can't be read: everything is paused until it can", "error", blind)
	}
	s.blind = blind != nil
	if all.All != s.paused.All || !maps.Equal(all.Worlds, s.paused.Worlds) {
		s.log.Info("pauses changed", "all", all.All, "worlds", len(all.Worlds))
	}
	s.paused = all
	return all
}

// PauseFile is a file whose existence is a pause: an operator can make it when
// nothing else answers. Each line names a world, lines that begin with # are
// comments, and a file that names none pauses all of them.
type PauseFile string

// maxPauseFile is more than any list of worlds; a longer file is an error.
const maxPauseFile = 1 << 20

// Paused implements PauseSource.
func (f PauseFile) Paused(context.Context) (Paused, error) {
	file, err := os.OpenFile(string(f), os.O_RDONLY|syscall.O_NONBLOCK, 0) // a named pipe would wait for its writer, and is there, too
	if errors.Is(err, fs.ErrNotExist) {
		return Paused{}, nil
	}
	if err != nil {
		return Paused{}, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxPauseFile+1))
	if err != nil {
		return Paused{}, err
	}
	if len(text) > maxPauseFile {
		return Paused{}, fmt.Errorf("the pause file has more than %d bytes: shorten it, or empty it to pause everything", maxPauseFile)
	}
	p := Paused{Worlds: map[string]bool{}}
	lines := bufio.NewScanner(strings.NewReader(string(text)))
	lines.Buffer(nil, maxPauseFile+1)
	for lines.Scan() {
		if line := strings.TrimSpace(lines.Text()); line != "" && !strings.HasPrefix(line, "#") {
			p.Worlds[line] = true
		}
	}
	p.All = len(p.Worlds) == 0
	return p, lines.Err()
}
