package tracing

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/writbot/writ/executor/supervisor"
	"github.com/writbot/writ/forge/git"
)

// repo makes a span of each exchange with a repository.
type repo struct {
	to     supervisor.Repo
	tracer trace.Tracer
	world  attribute.KeyValue
}

// Repo wraps a world's repository.
func Repo(to supervisor.Repo, tracer trace.Tracer, world string) supervisor.Repo {
	return &repo{to, tracer, World.String(world)}
}

func (r *repo) start(ctx context.Context, what string, attrs ...attribute.KeyValue) (context.Context, trace.Span) {
	return r.tracer.Start(ctx, "git "+what, trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(append(attrs, r.world)...))
}

func (r *repo) Refs(ctx context.Context, names ...string) (git.Refs, error) {
	ctx, span := r.start(ctx, "refs")
	out, err := r.to.Refs(ctx, names...)
	End(span, CodeOf(err))
	return out, err
}

func (r *repo) Commit(ctx context.Context, oid git.OID) (git.Commit, error) {
	ctx, span := r.start(ctx, "commit", attribute.String("git.oid", string(oid)))
	out, err := r.to.Commit(ctx, oid)
	End(span, CodeOf(err))
	return out, err
}

func (r *repo) Commits(ctx context.Context, oids []git.OID, f func(git.Commit)) error {
	ctx, span := r.start(ctx, "commits", attribute.Int("git.objects", len(oids)))
	err := r.to.Commits(ctx, oids, f)
	End(span, CodeOf(err))
	return err
}

func (r *repo) Log(ctx context.Context, from, not []git.OID, most int) ([]git.Commit, []git.OID, error) {
	ctx, span := r.start(ctx, "log", attribute.Int("git.from", len(from)))
	commits, rest, err := r.to.Log(ctx, from, not, most)
	End(span, CodeOf(err))
	return commits, rest, err
}

func (r *repo) Tree(ctx context.Context, oid git.OID) (git.Tree, error) {
	ctx, span := r.start(ctx, "tree", attribute.String("git.oid", string(oid)))
	out, err := r.to.Tree(ctx, oid)
	End(span, CodeOf(err))
	return out, err
}

func (r *repo) Blobs(ctx context.Context, oids []git.OID, f func(git.OID, []byte) error) error {
	ctx, span := r.start(ctx, "blobs", attribute.Int("git.objects", len(oids)))
	err := r.to.Blobs(ctx, oids, f)
	End(span, CodeOf(err))
	return err
}

func (r *repo) CompareAndSwap(ctx context.Context, cmds []git.Command, pack git.Pack) git.Outcome {
	return r.swap(ctx, "compare-and-swap", cmds, pack, r.to.CompareAndSwap)
}

func (r *repo) Reassert(ctx context.Context, cmds []git.Command, pack git.Pack) git.Outcome {
	return r.swap(ctx, "reassert", cmds, pack, r.to.Reassert)
}

func (r *repo) swap(ctx context.Context, what string, cmds []git.Command, pack git.Pack,
	do func(context.Context, []git.Command, git.Pack) git.Outcome,
) git.Outcome {
	refs := make([]string, len(cmds))
	for i, c := range cmds {
		refs[i] = c.Ref
	}
	ctx, span := r.start(ctx, what, attribute.StringSlice("git.refs", refs), attribute.Int("git.pack_bytes", len(pack.Data)))
	out := do(ctx, cmds, pack)
	span.SetAttributes(Outcome.String(string(out.Status)))
	End(span, CodeOf(out.Err))
	return out
}
