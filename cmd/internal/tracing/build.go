package tracing

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/trace"

	"github.com/writbot/writ/executor"
	"github.com/writbot/writ/kernel"
)

// runs makes a span of each run of a builder and of its checks, from its start
// to its outcome.
type runs struct {
	to     executor.Executor
	tracer trace.Tracer
}

// Executor wraps what starts builders.
func Executor(to executor.Executor, tracer trace.Tracer) executor.Executor {
	return &runs{to, tracer}
}

func (x *runs) Environment(ctx context.Context, builder string) []kernel.Violation {
	ctx, span := x.tracer.Start(ctx, "environment")
	vs := x.to.Environment(ctx, builder)
	End(span, firstCode(vs))
	return vs
}

// Prefetch implements executor.Prefetcher.
func (x *runs) Prefetch(builder string, base executor.Base) {
	if p, ok := x.to.(executor.Prefetcher); ok {
		p.Prefetch(builder, base)
	}
}

// Reach implements executor.Outward.
func (x *runs) Reach(world string, checks []kernel.Check, steps []kernel.Step) []kernel.Violation {
	if o, ok := x.to.(executor.Outward); ok {
		return o.Reach(world, checks, steps)
	}
	return nil
}

// Hosts implements executor.Outward.
func (x *runs) Hosts(world, builder string) []string {
	if o, ok := x.to.(executor.Outward); ok {
		return o.Hosts(world, builder)
	}
	return nil
}

// Unheld implements executor.Outward.
func (x *runs) Unheld(world, builder string, contracts kernel.Budgets) []kernel.Violation {
	if o, ok := x.to.(executor.Outward); ok {
		return o.Unheld(world, builder, contracts)
	}
	return nil
}

func (x *runs) Build(ctx context.Context, job executor.BuildJob) (executor.Build, error) {
	ctx, span := x.tracer.Start(ctx, "build", trace.WithAttributes(Run.String(job.Run), Task.Int64(job.Task)))
	b, err := x.to.Build(ctx, job)
	if err != nil {
		End(span, startCode(err))
		return nil, err
	}
	go func() {
		<-b.Done() // every build ends
		End(span, firstCode(b.Outcome().Violations))
	}()
	return b, nil
}

func (x *runs) Check(ctx context.Context, job executor.CheckJob) (executor.Checks, error) {
	ctx, span := x.tracer.Start(ctx, "checks", trace.WithAttributes(Run.String(job.Run), Task.Int64(job.Task)))
	c, err := x.to.Check(ctx, job)
	if err != nil {
		End(span, startCode(err))
		return nil, err
	}
	go func() {
		<-c.Done() // all checks end
		End(span, firstCode(c.Outcome().Violations))
	}()
	return c, nil
}

func firstCode(vs []kernel.Violation) string {
	if len(vs) == 0 {
		return ""
	}
	return string(vs[0].Code)
}

// startCode is the code of a start that failed.
func startCode(err error) string {
	var x *executor.Error
	if errors.As(err, &x) {
		return string(x.Code)
	}
	return CodeOf(err)
}
