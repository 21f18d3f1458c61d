package kvconnect

import (
	"bytes"
	"runtime"
	"testing"
)

// TestLongMessagesTakeBoundedMemory parses messages whose repeated fields have millions of empty elements.
func TestLongMessagesTakeBoundedMemory(t *testing.T) {
	const size = 16 << 20
	read := func(b []byte) error { _, err := parseSnapshotRead(b); return err }
	write := func(b []byte) error { _, err := parseAtomicWrite(b); return err }
	for _, c := range []struct {
		parse func([]byte) error
		field byte
	}{{read, 1}, {write, 1}, {write, 2}, {write, 3}} {
		body := bytes.Repeat([]byte{c.field<<3 | 2, 0}, size/2)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err := c.parse(body)
		runtime.ReadMemStats(&after)
		if n := after.TotalAlloc - before.TotalAlloc; err == nil || n > 4<<20 {
			t.Errorf("field %d: %d bytes are allocated; %v", c.field, n, err)
		}
	}
}
