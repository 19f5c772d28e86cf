package sandbox

import (
	"io"
	"reflect"
	"sync"
)

// firstWordsBytes bounds what is kept of standard error until the program runs:
// enough for bwrap's own complaint.
const firstWordsBytes = 4 << 10

// output counts both streams against one limit.
type output struct {
	limit    int64 // negative: none
	exceeded func()

	mu    sync.Mutex
	total int64
	over  bool
	early []byte // standard error before the program ran
	ran   bool
}

// stream counts and passes on to w, which may be nil. A writer that fails is
// not used again, and the stream is drained, so that the program never sees it.
func (o *output) stream(w io.Writer, stderr bool) io.Writer {
	return &stream{o: o, w: w, stderr: stderr}
}

type stream struct {
	o      *output
	w      io.Writer
	stderr bool
}

// Write implements io.Writer and never fails.
func (s *stream) Write(p []byte) (int, error) {
	s.o.count(p, s.stderr)
	if s.w != nil {
		if _, err := s.w.Write(p); err != nil {
			s.w = nil
		}
	}
	return len(p), nil
}

func (o *output) count(p []byte, stderr bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.total += int64(len(p))
	if stderr && !o.ran {
		room := max(0, firstWordsBytes-len(o.early))
		o.early = append(o.early, p[:min(room, len(p))]...)
	}
	if o.limit >= 0 && o.total > o.limit && !o.over {
		o.over = true
		o.exceeded()
	}
}

// begun says that the program runs: standard error is its own from here.
func (o *output) begun() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ran, o.early = true, nil
}

func (o *output) firstWords() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return string(o.early)
}

// sameWriter reports whether both streams go to one writer, which then sees one
// Write at a time.
func sameWriter(a, b io.Writer) bool {
	if a == nil || b == nil || !reflect.TypeOf(a).Comparable() {
		return false
	}
	return a == b
}
