package sqlitevfs

import "context"

// rawKey is the key of Raw in a context.
type rawKey struct{}

// Raw returns a context for queries that return rows as they are stored: a BOOLEAN column gives an
// integer and not a bool, and a DATETIME column gives the text or number and not a time.Time.
func Raw(ctx context.Context) context.Context { return context.WithValue(ctx, rawKey{}, true) }

// isRaw reports whether a context is from Raw.
func isRaw(ctx context.Context) bool { return ctx != nil && ctx.Value(rawKey{}) != nil }
