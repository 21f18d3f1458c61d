package main

import "github.com/cairn-run/cairn/runtime/bench/internal/usage"

// A side is an open store with actors: a Cairn node, or raw Pebble with the same payload. Its
// methods may be called by several goroutines, except close.
type side interface {
	// create stores the payload of actor i, durably, in one turn or commit.
	create(i int)
	// call changes the state of actor i, durably, and reports whether the actor was there. With
	// expiring it also stores an entry that expires.
	call(i int, expiring bool) bool
	// get reads the state of actor i and reports whether the actor was there.
	get(i int) bool
	// list reads the directory and returns the number of actors.
	list() int
	destroy(i int)
	// disk returns the bytes of all files, and logical the bytes of the commits since it was
	// opened.
	disk() float64
	logical() float64
	close()
}

// The sides.
const (
	cairnSide = "Cairn"
	rawSide   = "raw"
)

// open opens a store, or makes it.
func open(name, dir string) side {
	if name == cairnSide {
		return openCairn(dir)
	}
	return openRaw(dir)
}

// compact compacts a store that is closed, and returns the bytes of its tables.
func compact(name, dir string) float64 {
	if name == cairnSide {
		dir = compactCairn(dir)
	} else {
		compactRaw(dir)
	}
	size, err := usage.Tables(dir)
	check(err)
	return size
}
