package smarthttp

import (
	"compress/gzip"
	"errors"
	"io"
	"net/http"
	"time"
)

const (
	// maxNegotiation is in bytes: what a client wants and has, some hundred
	// thousand commits.
	maxNegotiation = 32 << 20
	// maxLeftover is in bytes: what may follow a push that only deletes.
	maxLeftover = 64 << 10
	// idle is how long a client may neither send nor take anything. git itself
	// may be silent for longer while it compresses, but then keeps up its side.
	idle = 3 * time.Minute
)

var errTooLarge = &statusError{http.StatusRequestEntityTooLarge, "the request is larger than this server allows"}

// errBroken says that a request's body can't be read to its end.
type errBroken struct{ err error }

func (e *errBroken) Error() string { return "the request broke off: " + e.err.Error() }
func (e *errBroken) Unwrap() error { return e.err }

// openBody returns a request's body, inflated, that fails beyond limit, and when
// the client is silent for too long. The caller must close r.Body: with full
// duplex net/http must not be left to do it (golang/go#68560).
func openBody(w http.ResponseWriter, r *http.Request, service string, limit int64, until time.Time) (*body, error) {
	if r.Header.Get("Content-Type") != "application/x-git-"+service+"-request" {
		return nil, &statusError{http.StatusUnsupportedMediaType, "this is no request of git"}
	}
	raw := &patient{r: http.MaxBytesReader(w, r.Body, limit), control: http.NewResponseController(w), until: until}
	b := &body{r: raw, left: limit}
	switch r.Header.Get("Content-Encoding") {
	case "", "identity":
	case "gzip", "x-gzip":
		z, err := gzip.NewReader(raw)
		if err != nil {
			return nil, b.fault(err)
		}
		b.r = z
	default:
		return nil, &statusError{http.StatusUnsupportedMediaType, "only gzip is understood"}
	}
	_ = raw.control.EnableFullDuplex() // git may speak before it has read all; HTTP/2 can anyway
	return b, nil
}

// body is a request's body. Its errors, but for io.EOF, are *statusError and *errBroken.
type body struct {
	r    io.Reader
	left int64
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return 0, errTooLarge
	}
	if err != nil && !errors.Is(err, io.EOF) {
		err = b.fault(err)
	}
	return n, err
}

func (*body) fault(err error) error {
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return errTooLarge
	case errors.Is(err, gzip.ErrHeader) || errors.Is(err, gzip.ErrChecksum):
		return &statusError{http.StatusBadRequest, "the request's compression is broken"}
	}
	return &errBroken{err}
}

// patient gives the client some time for each read.
type patient struct {
	r       io.Reader
	control *http.ResponseController
	until   time.Time // the end of its time for all of them
}

func (p *patient) Read(b []byte) (int, error) {
	_ = p.control.SetReadDeadline(soon(p.until)) // a server without deadlines has its own
	n, err := p.r.Read(b)
	if errors.Is(err, io.EOF) {
		// The server now watches for the client's leaving; a deadline would look like it.
		_ = p.control.SetReadDeadline(time.Time{})
	}
	return n, err
}

func soon(until time.Time) time.Time {
	if t := time.Now().Add(idle); t.Before(until) {
		return t
	}
	return until
}

// answer writes what git says to the client, as it comes.
type answer struct {
	w       http.ResponseWriter
	control *http.ResponseController
	until   time.Time // the end of the client's time to take it
	kind    string    // of content
	begun   bool
}

func (a *answer) Write(b []byte) (int, error) {
	_ = a.control.SetWriteDeadline(soon(a.until)) // a server without deadlines has its own
	if !a.begun {
		a.begin()
	}
	n, err := a.w.Write(b)
	if err == nil {
		err = a.control.Flush()
	}
	if err != nil && !errors.Is(err, http.ErrNotSupported) {
		return n, &errBroken{err}
	}
	return n, nil
}

func (a *answer) begin() {
	a.begun = true
	a.w.Header().Set("Content-Type", a.kind)
	a.w.WriteHeader(http.StatusOK)
}
