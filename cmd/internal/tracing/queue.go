package tracing

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// queue is a span processor: OnEnd never waits, and one goroutine sends. The
// SDK's own drops as silently as this one counts.
type queue struct {
	exporter sdktrace.SpanExporter
	log      *slog.Logger
	spans    chan sdktrace.ReadOnlySpan
	stop     chan struct{}
	done     chan struct{}
	ctx      context.Context // of the requests; ends when time is up at the end
	cancel   context.CancelFunc
	once     sync.Once
	failing  bool // the last request failed; of the sending goroutine

	sent, dropped atomic.Int64
}

func newQueue(e sdktrace.SpanExporter, log *slog.Logger) *queue {
	q := &queue{
		exporter: e, log: log, spans: make(chan sdktrace.ReadOnlySpan, queueSize),
		stop: make(chan struct{}), done: make(chan struct{}),
	}
	q.ctx, q.cancel = context.WithCancel(context.Background())
	go q.run()
	return q
}

// OnStart implements sdktrace.SpanProcessor: ids come from the parent.
func (q *queue) OnStart(parent context.Context, s sdktrace.ReadWriteSpan) {
	p, ok := trace.SpanFromContext(parent).(sdktrace.ReadOnlySpan)
	if !ok {
		return
	}
	own := map[string]bool{}
	for _, a := range s.Attributes() {
		own[string(a.Key)] = true
	}
	for _, a := range p.Attributes() {
		if ids[a.Key] && !own[string(a.Key)] {
			s.SetAttributes(a)
		}
	}
}

// OnEnd implements sdktrace.SpanProcessor. It never waits.
func (q *queue) OnEnd(s sdktrace.ReadOnlySpan) {
	select {
	case <-q.stop:
		q.dropped.Add(1)
		return
	default:
	}
	select {
	case q.spans <- s:
	default:
		q.dropped.Add(1)
	}
}

// ForceFlush implements sdktrace.SpanProcessor. Nobody here waits for a
// collector.
func (q *queue) ForceFlush(context.Context) error { return nil }

// Shutdown implements sdktrace.SpanProcessor: it sends what waits until ctx ends.
func (q *queue) Shutdown(ctx context.Context) error {
	q.once.Do(func() { close(q.stop) })
	over := context.AfterFunc(ctx, q.cancel)
	defer over()
	<-q.done // sending ends with ctx
	q.cancel()
	return ctx.Err()
}

// run sends batches until the queue is stopped, and then what is left.
func (q *queue) run() {
	defer close(q.done)
	tick := time.NewTicker(batchEvery)
	defer tick.Stop()
	var batch []sdktrace.ReadOnlySpan
	for {
		select {
		case s := <-q.spans:
			if batch = append(batch, s); len(batch) < batchSize {
				continue
			}
		case <-tick.C:
		case <-q.stop:
			q.send(q.drain(batch))
			return
		}
		q.send(batch)
		batch = nil
	}
}

// drain adds what still waits. A span that comes in at this very moment may stay
// behind; the process ends.
func (q *queue) drain(batch []sdktrace.ReadOnlySpan) []sdktrace.ReadOnlySpan {
	for {
		select {
		case s := <-q.spans:
			batch = append(batch, s)
		default:
			return batch
		}
	}
}

// send sends spans, in as many requests as it takes. A batch that can't be sent
// is gone: nothing is tried twice, for traces that come late help nobody.
func (q *queue) send(spans []sdktrace.ReadOnlySpan) {
	for len(spans) > 0 {
		n := min(len(spans), batchSize)
		ctx, cancel := context.WithTimeout(q.ctx, exportTime)
		err := q.exporter.ExportSpans(ctx, spans[:n])
		cancel()
		if err != nil {
			q.dropped.Add(int64(n))
		} else {
			q.sent.Add(int64(n))
		}
		q.tell(err)
		spans = spans[n:]
	}
}

// tell logs when the collector goes and when it comes back, not each request.
func (q *queue) tell(err error) {
	if failing := err != nil; failing != q.failing {
		q.failing = failing
		if failing {
			q.log.Warn("the collector takes no traces; they are dropped until it does", "error", err)
		} else {
			q.log.Info("the collector takes traces again", "dropped", q.dropped.Load())
		}
	}
}
