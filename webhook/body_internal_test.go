package webhook

import (
	"bytes"
	"io"
	"math/rand/v2"
	"net/http"
	"testing"
)

// stingy gives a few bytes at a time, and tells before each.
type stingy struct {
	data   *bytes.Reader
	before func()
}

func (s stingy) Read(p []byte) (int, error) {
	s.before()
	return s.data.Read(p[:min(len(p), 1+rand.IntN(40_000))])
}

// TestW5_ReadBody: bodies of any length come through whole, and at each moment
// the slot accounts for no less than what is held, and for little more than has
// come.
func TestW5_ReadBody(t *testing.T) {
	const limit = 1 << 20
	for _, size := range []int{0, 1, firstRead - 1, firstRead, firstRead + 1, 3*firstRead + 7, limit} {
		for _, announced := range []int64{int64(size), -1} {
			b := &budget{deliveries: 1, bytes: 2 * limit}
			s := &slot{}
			if err := b.admit(s); err != nil {
				t.Fatal(err)
			}
			data := bytes.Repeat([]byte("x"), size)
			in := bytes.NewReader(data)
			r := &http.Request{ContentLength: announced, Body: io.NopCloser(stingy{in, func() {
				come := int64(size - in.Len())
				if s.bytes < come || s.bytes > max(firstRead, 2*come) {
					t.Errorf("size %d, announced %d: %d bytes have come, %d are accounted for", size, announced, come, s.bytes)
				}
			}})}
			body, err := readBody(r, limit, s)
			if err != nil || !bytes.Equal(body, data) {
				t.Errorf("size %d, announced %d: %d bytes, %v", size, announced, len(body), err)
			}
			if s.bytes != int64(cap(body)) {
				t.Errorf("size %d, announced %d: %d bytes accounted for, %d held", size, announced, s.bytes, cap(body))
			}
			s.release()
			s.release()
			if b.used != (usage{}) || b.peak.bytes > b.bytes {
				t.Errorf("size %d, announced %d: left %+v, peak %+v", size, announced, b.used, b.peak)
			}
		}
	}
}
