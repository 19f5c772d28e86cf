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
}

func (s *spool) Write(b []byte) (int, error) {
	if s.file == nil && s.mem.Len()+len(b) > spoolMemory {
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
	return err
}

func (s *spool) readerAt() io.ReaderAt {
	if s.file != nil {
		return s.file
	}
	return bytes.NewReader(s.mem.Bytes())
}

func (s *spool) close() {
	if s.file != nil {
		_ = s.file.Close() // it has no name
	}
}
