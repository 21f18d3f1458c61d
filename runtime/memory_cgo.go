//go:build cgo

package runtime

// cgo says that Pebble keeps its cache and its memtables in memory of C, which Go's limit does not count.
const cgo = true
