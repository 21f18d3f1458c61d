package node

import (
	"testing"
	"unsafe"
)

// TestTurnsAndQueriesFitTheirSizeClasses bounds what each call allocates besides its result, by size classes of the allocator.
func TestTurnsAndQueriesFitTheirSizeClasses(t *testing.T) {
	t.Parallel()
	if n := unsafe.Sizeof(handlerTurn{}); n > 704 {
		t.Errorf("a turn takes %d bytes", n)
	}
	if n := unsafe.Sizeof(handlerQuery{}); n > 176 {
		t.Errorf("a query takes %d bytes", n)
	}
}
