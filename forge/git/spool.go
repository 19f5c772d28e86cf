package git

import (
	"bytes"
	"io"
	"os"
)

// spool receives a pack: in memory while it is small, then in a file without a name.
type spool struct {
	mem  bytes.Buffer
	file *os.File
	size int64

	memory, disk hold
}

func (r *Repo) newSpool() *spool {
	return &spool{memory: hold{of: &r.pool.memory, what: "memory"}, disk: hold{of: &r.pool.disk, what: "room in temporary files"}}
}

func (s *spool) Write(b []byte) (int, error) {
	in := &s.memory
	if s.file != nil || s.mem.Len()+len(b) > spoolMemory {
		in = &s.disk
	}
	if err := in.set(s.size + int64(len(b))); err != nil {
		return 0, err
	}
	if s.file == nil && in == &s.disk {
		if err := s.toFile(); err != nil {
			return 0, err
		}
	}
	s.size += int64(len(b))
	if s.file != nil {
		return s.file.Write(b)
	}
	return s.mem.Write(b)
}

func (s *spool) toFile() error {
	f, err := os.CreateTemp("", "writ-pack-")
	if err != nil {
		return fail(CodeLocal, "there is no room for a received pack", "check the temporary directory", err)
	}
	_ = os.Remove(f.Name()) // open, but found by nobody
	s.file = f
	_, err = f.Write(s.mem.Bytes())
	s.mem = bytes.Buffer{}
	s.memory.close()
	return err
}

func (s *spool) readerAt() io.ReaderAt {
	if s.file != nil {
		return s.file
	}
	return bytes.NewReader(s.mem.Bytes())
}

func (s *spool) close() {
	s.memory.close()
	s.disk.close()
	if s.file != nil {
		_ = s.file.Close() // it has no name
	}
}
