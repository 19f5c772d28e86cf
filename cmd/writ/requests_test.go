package main

import (
	"context"
	"testing"
	"time"
)

// TestX5_NoRequestWaitsForAnother: a stop is answered while a halt before it is still
// waited for.
func TestX5_NoRequestWaitsForAnother(t *testing.T) {
	dir, err := openState(t.TempDir()+"/state", true)
	must(t, err)
	halting, stopped := make(chan struct{}), make(chan struct{})
	d, err := openDesk(dir, func(ctx context.Context, r request) answer {
		if r.Act == "stop" {
			close(stopped)
			return answer{OK: true}
		}
		close(halting)
		select {
		case <-stopped:
			return answer{OK: true}
		case <-ctx.Done():
			return answer{Detail: "The stop never came."}
		}
	})
	must(t, err)
	ctx, end := context.WithCancel(t.Context())
	served := make(chan struct{})
	go func() { defer close(served); d.serve(ctx) }()
	answers := make(chan error, 1)
	ask := func(act string) error {
		got, err := dir.ask(ctx, request{Act: act, Time: time.Now().UnixMilli()}, func() bool { return false })
		if err == nil && !got.OK {
			err = got.problem("")
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
