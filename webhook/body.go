package webhook

import (
	"errors"
	"io"
	"net"
	"net/http"

	"github.com/writbot/writ/forge"
	"github.com/writbot/writ/kernel"
)

// firstRead is how many bytes are set aside for a body before any of it has
// come: most bodies fit, and who only announces a large one holds no more.
const firstRead = 64 << 10

// readBody reads the whole body into memory that the slot accounts for, also
// while it is moved to a larger place. At most limit bytes are taken.
func readBody(r *http.Request, limit int64, s *slot) ([]byte, error) {
	size := limit
	if r.ContentLength >= 0 {
		size = r.ContentLength
	}
	var body []byte
	for {
		if int64(len(body)) == size {
			return body, atEnd(r.Body)
		}
		if len(body) == cap(body) {
			var err error
			if body, err = grow(body, size, s); err != nil {
				return nil, err
			}
		}
		n, err := r.Body.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		if errors.Is(err, io.EOF) && (r.ContentLength < 0 || int64(len(body)) == size) {
			return body, nil
		}
		if err != nil {
			return nil, unread(err)
		}
	}
}

// grow doubles a body's place, up to size. Both places are accounted for until
// the old one is empty.
func grow(body []byte, size int64, s *slot) ([]byte, error) {
	room := min(size, max(firstRead, 2*int64(cap(body))))
	if err := s.hold(room); err != nil {
		return nil, err
	}
	larger := make([]byte, len(body), room)
	copy(larger, body)
	return larger, s.hold(-int64(cap(body)))
}

// atEnd reports whether a body ends here.
func atEnd(body io.Reader) error {
	var extra [1]byte
	switch n, err := body.Read(extra[:]); {
	case n > 0:
		return refuse(kernel.CodeBodyTooLarge, "")
	case err == nil || errors.Is(err, io.EOF):
		return nil
	default:
		return unread(err)
	}
}

// unread says why a body could not be read.
func unread(err error) error {
	var slow net.Error
	if errors.As(err, &slow) && slow.Timeout() {
		return refuse(kernel.CodeBodyTimeout, "")
	}
	return refuse(kernel.CodeBodyMalformed, "It ended too early.")
}

// malformed gives a fault of JSON its code.
func malformed(err error) error {
	var e *forge.PayloadError
	if !errors.As(err, &e) {
		return refuse(kernel.CodeBodyMalformed, "")
	}
	switch e.Fault {
	case forge.PayloadDepth:
		return refuse(kernel.CodeBodyDepth, "")
	case forge.PayloadDuplicate:
		return refuse(kernel.CodeBodyDuplicate, "")
	case forge.PayloadSize:
		return refuse(kernel.CodeBodyTooLarge, "")
	}
	return refuse(kernel.CodeBodyMalformed, e.Error()+".")
}
