package git

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/writbot/writ/forge/git/gittest"
)

// TestG7_ProgressIsTold: what an exchange sends and gets is progress, over each transport,
// and so is each object that is made of a pack once all of it has come.
func TestG7_ProgressIsTold(t *testing.T) {
	everywhere(t, func(t *testing.T, s served) {
		var moved atomic.Int64
		ctx := WithProgress(t.Context(), func() { moved.Add(1) })
		more := func(what string) {
			t.Helper()
			if moved.Swap(0) == 0 {
				t.Errorf("%s is no progress", what)
			}
		}
		if s.http != nil {
			s.http.Set(gittest.OnPush(func(next http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					body, err := io.ReadAll(r.Body)
					if err != nil {
						t.Error(err)
					}
					more("what is sent")
					r.Body = io.NopCloser(bytes.NewReader(body))
					next.ServeHTTP(w, r)
				})
			}))
		}
		at := gittest.Commit(t, s.dir, "refs/heads/main", "", sample)
		r := s.open(t)
		oid, pack := lease(t, ZeroOID, "claim")
		wantStatus(t, r.CompareAndSwap(ctx, []Command{{stateRef, ZeroOID, oid}}, pack), Won)
		more("a push")
		tree, err := r.Tree(ctx, OID(at))
		if err != nil {
			t.Fatal(err)
		}
		var oids []OID
		for _, e := range tree.Entries {
			oids = append(oids, e.OID)
		}
		moved.Store(0)
		err = r.Blobs(ctx, oids, func(OID, []byte) error {
			if s.http != nil { // nothing comes any more
				more("an object")
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	})
}

// TestG7_ProgressHasItsEnd: an exchange whose server sends a byte whenever the last one came
// ends when its time is over.
func TestG7_ProgressHasItsEnd(t *testing.T) {
	s := onHTTP(t)
	came := make(chan struct{}, 1)
	s.http.Set(func(http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/x-git-upload-pack-result")
			for b := []byte("fff0"); r.Context().Err() == nil; b = []byte("x") {
				_, _ = w.Write(b) // nobody may read it any more
				w.(http.Flusher).Flush()
				select {
				case <-came:
				case <-r.Context().Done():
				}
			}
		})
	})
	r := openAt(t, Endpoint{URL: s.http.URL}, Options{Timeout: 100 * time.Millisecond})
	r.v2.Store(1) // what comes first is the list
	_, err := r.Refs(WithProgress(t.Context(), func() {
		select {
		case came <- struct{}{}:
		default:
		}
	}))
	wantCode(t, err, CodeUnreachable)
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("it ended with %v", err)
	}
}
