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

// cgo says that Pebble keeps its cache and its memtables in C memory, which Go's limit does not
// count.
const cgo = true

// limitC configures C's allocator to return the memory that Pebble frees: one heap for all threads,
// and none of it for memtables. It leaves the allocator alone if the environment configures it.
// Otherwise glibc takes about 200 MiB for a cache and memtables of 96 MiB: it gives threads heaps
// of their own, and a heap keeps freed memory between two live blocks.
func limitC() {
	if os.Getenv("MALLOC_ARENA_MAX") == "" {
		C.tame_malloc()
	}
}
