//go:build !cgo

package runtime

// cgo says that Pebble keeps its cache and its memtables in Go's memory, which Go's limit counts.
const cgo = false

func limitC() {}
