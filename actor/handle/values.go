package handle

// The values are n values of a caller, for what is not generic: at points to one of them.
type values struct {
	n  int
	at func(i int) any
}

func valuesOf[T any](v []T) values { return values{len(v), func(i int) any { return &v[i] }} }
