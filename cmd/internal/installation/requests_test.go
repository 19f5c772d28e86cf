package installation

import (
	"context"
	"testing"
	"time"
)

// TestX5_NoRequestWaitsForAnother: a stop is answered while a halt before it is still
// waited for.
func TestX5_NoRequestWaitsForAnother(t *testing.T) {
	dir, err := OpenDir(t.TempDir()+"/state", true)
	must(t, err)
	halting, stopped := make(chan struct{}), make(chan struct{})
	d, err := OpenDesk(dir, func(ctx context.Context, r Request) Answer {
		if r.Act == "stop" {
			close(stopped)
			return Answer{OK: true}
		}
		close(halting)
		select {
		case <-stopped:
			return Answer{OK: true}
		case <-ctx.Done():
			return Answer{Detail: "The stop never came."}
		}
	})
	must(t, err)
	ctx, end := context.WithCancel(t.Context())
	served := make(chan struct{})
	go func() { defer close(served); d.Serve(ctx) }()
	answers := make(chan error, 1)
	ask := func(act string) error {
		got, err := dir.Ask(ctx, Request{Act: act, Time: time.Now().UnixMilli()}, func() bool { return false })
		if err == nil && !got.OK {
			err = got.Problem("")
		}
		return err
	}
	go func() { answers <- ask("halt") }()
	<-halting
	if err := ask("stop"); err != nil {
		t.Errorf("stop: %v", err)
	}
	if err := <-answers; err != nil {
		t.Errorf("halt: %v", err)
	}
	end()
	<-served
}
