package tracing

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/writbot/writ/forge"
)

// client makes a span of each request to a forge.
type client struct {
	to     forge.Client
	tracer trace.Tracer
}

// Client wraps a forge's client.
func Client(to forge.Client, tracer trace.Tracer) forge.Client { return &client{to, tracer} }

// call makes the span of one request. number is the issue or change that it
// concerns, 0 for none.
func call[T any](ctx context.Context, c *client, what string, number int64, do func(context.Context) (T, error)) (T, error) {
	var attrs []attribute.KeyValue
	if number > 0 {
		attrs = append(attrs, attribute.Int64("forge.number", number))
	}
	ctx, span := c.tracer.Start(ctx, "forge "+what, trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(attrs...))
	out, err := do(ctx)
	End(span, CodeOf(err))
	return out, err
}

// act is call for a request without an answer.
func act(ctx context.Context, c *client, what string, number int64, do func(context.Context) error) error {
	_, err := call(ctx, c, what, number, func(ctx context.Context) (struct{}, error) { return struct{}{}, do(ctx) })
	return err
}

// Repository implements forge.Client.
func (c *client) Repository(ctx context.Context, id int64) (forge.Repository, error) {
	return call(ctx, c, "repository", 0, func(ctx context.Context) (forge.Repository, error) { return c.to.Repository(ctx, id) })
}

// Issue implements forge.Client.
func (c *client) Issue(ctx context.Context, r forge.Repo, number int64) (forge.Issue, error) {
	return call(ctx, c, "issue", number, func(ctx context.Context) (forge.Issue, error) { return c.to.Issue(ctx, r, number) })
}

// ListIssues implements forge.Client.
func (c *client) ListIssues(ctx context.Context, r forge.Repo, since time.Time, f func(forge.Issue) error) error {
	return act(ctx, c, "list issues", 0, func(ctx context.Context) error { return c.to.ListIssues(ctx, r, since, f) })
}

// History implements forge.Client.
func (c *client) History(ctx context.Context, r forge.Repo, number int64) ([]forge.Event, error) {
	return call(ctx, c, "history", number, func(ctx context.Context) ([]forge.Event, error) { return c.to.History(ctx, r, number) })
}

// SetState implements forge.Client.
func (c *client) SetState(ctx context.Context, r forge.Repo, number int64, s forge.State) error {
	return act(ctx, c, "set state", number, func(ctx context.Context) error { return c.to.SetState(ctx, r, number, s) })
}

// Comments implements forge.Client.
func (c *client) Comments(ctx context.Context, r forge.Repo, number int64) ([]forge.Comment, error) {
	return call(ctx, c, "comments", number, func(ctx context.Context) ([]forge.Comment, error) { return c.to.Comments(ctx, r, number) })
}

// AddComment implements forge.Client.
func (c *client) AddComment(ctx context.Context, r forge.Repo, number int64, body string) (forge.Comment, error) {
	return call(ctx, c, "add comment", number, func(ctx context.Context) (forge.Comment, error) { return c.to.AddComment(ctx, r, number, body) })
}

// EditComment implements forge.Client.
func (c *client) EditComment(ctx context.Context, r forge.Repo, id int64, body string) error {
	return act(ctx, c, "edit comment", 0, func(ctx context.Context) error { return c.to.EditComment(ctx, r, id, body) })
}

// DeleteComment implements forge.Client.
func (c *client) DeleteComment(ctx context.Context, r forge.Repo, id int64) error {
	return act(ctx, c, "delete comment", 0, func(ctx context.Context) error { return c.to.DeleteComment(ctx, r, id) })
}

// React implements forge.Client.
func (c *client) React(ctx context.Context, r forge.Repo, comment int64, with forge.Reaction) error {
	return act(ctx, c, "react", 0, func(ctx context.Context) error { return c.to.React(ctx, r, comment, with) })
}

// ReactToIssue implements forge.Client.
func (c *client) ReactToIssue(ctx context.Context, r forge.Repo, number int64, with forge.Reaction) error {
	return act(ctx, c, "react", number, func(ctx context.Context) error { return c.to.ReactToIssue(ctx, r, number, with) })
}

// EnsureLabels implements forge.Client.
func (c *client) EnsureLabels(ctx context.Context, r forge.Repo, labels []forge.Label) error {
	return act(ctx, c, "ensure labels", 0, func(ctx context.Context) error { return c.to.EnsureLabels(ctx, r, labels) })
}

// AddLabel implements forge.Client.
func (c *client) AddLabel(ctx context.Context, r forge.Repo, number int64, label string) error {
	return act(ctx, c, "add label", number, func(ctx context.Context) error { return c.to.AddLabel(ctx, r, number, label) })
}

// RemoveLabel implements forge.Client.
func (c *client) RemoveLabel(ctx context.Context, r forge.Repo, number int64, label string) error {
	return act(ctx, c, "remove label", number, func(ctx context.Context) error { return c.to.RemoveLabel(ctx, r, number, label) })
}

// Self implements forge.Client.
func (c *client) Self(ctx context.Context) (forge.User, error) {
	return call(ctx, c, "self", 0, func(ctx context.Context) (forge.User, error) { return c.to.Self(ctx) })
}

// Permission implements forge.Client.
func (c *client) Permission(ctx context.Context, r forge.Repo, user int64) (forge.Permission, error) {
	return call(ctx, c, "permission", 0, func(ctx context.Context) (forge.Permission, error) { return c.to.Permission(ctx, r, user) })
}

// FindChange implements forge.Client.
func (c *client) FindChange(ctx context.Context, r forge.Repo, head, base string) (forge.Change, error) {
	return call(ctx, c, "find change", 0, func(ctx context.Context) (forge.Change, error) { return c.to.FindChange(ctx, r, head, base) })
}

// OpenChange implements forge.Client.
func (c *client) OpenChange(ctx context.Context, r forge.Repo, change forge.Change) (forge.Change, error) {
	return call(ctx, c, "open change", 0, func(ctx context.Context) (forge.Change, error) { return c.to.OpenChange(ctx, r, change) })
}

// EditChange implements forge.Client.
func (c *client) EditChange(ctx context.Context, r forge.Repo, number int64, title, body string) error {
	return act(ctx, c, "edit change", number, func(ctx context.Context) error { return c.to.EditChange(ctx, r, number, title, body) })
}

// SetCheck implements forge.Client.
func (c *client) SetCheck(ctx context.Context, r forge.Repo, oid string, change forge.Check) error {
	return act(ctx, c, "set check", 0, func(ctx context.Context) error { return c.to.SetCheck(ctx, r, oid, change) })
}

// ReviewComments implements forge.Client.
func (c *client) ReviewComments(ctx context.Context, r forge.Repo, change int64) ([]forge.ReviewComment, error) {
	return call(ctx, c, "review comments", change, func(ctx context.Context) ([]forge.ReviewComment, error) { return c.to.ReviewComments(ctx, r, change) })
}
