//go:build cgo

package runtime

/*
#include <stdlib.h> // says whether this is glibc

#ifdef __GLIBC__
#include <malloc.h>

static void tame_malloc(void) {
	mallopt(M_ARENA_MAX, 1);
	mallopt(M_MMAP_THRESHOLD, 128 << 10); // it grows to 32 MiB unless it is set
}
#else
static void tame_malloc(void) {}
#endif
*/
import "C"

import "os"

// cgo says that Pebble keeps its cache and its memtables in memory of C, which Go's limit does not
// count.
const cgo = true

// limitC makes C's allocator give back what Pebble frees, unless the environment configures it: one
// heap for all threads, and none of it for memtables. Otherwise glibc takes about 200 MiB for a
// cache and memtables of 96 MiB, because it gives threads heaps of their own, and what was freed
// between two blocks that live stays with the heap.
func limitC() {
	if os.Getenv("MALLOC_ARENA_MAX") == "" {
		C.tame_malloc()
	}
}
