package handle

// values are n values of a caller, for code that is not generic. at returns a pointer to one.
type values struct {
	n  int
	at func(i int) any
}

func valuesOf[T any](v []T) values { return values{len(v), func(i int) any { return &v[i] }} }
