package forge

import "context"

type urgentKey struct{}

// Urgent returns a context for what can't wait behind others that ask the same
// forge: somebody holds a lease meanwhile. An adapter that paces its requests keeps
// room for them.
func Urgent(ctx context.Context) context.Context {
	return context.WithValue(ctx, urgentKey{}, true)
}

// IsUrgent reports whether ctx is of [Urgent].
func IsUrgent(ctx context.Context) bool {
	urgent, _ := ctx.Value(urgentKey{}).(bool)
	return urgent
}
