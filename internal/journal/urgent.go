package journal

import "context"

type urgentKey struct{}

// Urgent marks the reads of an engine that runs wait for, such as those of runs that come due. A storage that bounds
// how many reads run at once keeps room for them, so that they do not wait for callers who list runs.
func Urgent(ctx context.Context) context.Context { return context.WithValue(ctx, urgentKey{}, true) }

// IsUrgent reports whether a read was marked.
func IsUrgent(ctx context.Context) bool { return ctx.Value(urgentKey{}) != nil }
