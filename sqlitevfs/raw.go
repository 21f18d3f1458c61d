package sqlitevfs

import "context"

// rawKey is what Raw sets in a context.
type rawKey struct{}

// Raw returns a context for queries whose rows are handed out as they are stored: a column that is
// declared BOOLEAN gives an integer and not a bool, one that is declared DATETIME the text or
// number and not a time.Time.
func Raw(ctx context.Context) context.Context { return context.WithValue(ctx, rawKey{}, true) }

// isRaw reports whether a context is of Raw.
func isRaw(ctx context.Context) bool { return ctx != nil && ctx.Value(rawKey{}) != nil }
