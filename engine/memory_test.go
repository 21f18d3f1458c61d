package engine

import (
	"errors"
	"testing"
)

func TestWriteSetsShareTheirMemory(t *testing.T) {
	t.Parallel()
	s, err := Open(t.Context(), Options{Disk: NewDisk(), WriteBytes: 1 << 20, Limits: Limits{MaxValue: 1 << 20}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	open := func(key string) *Space {
		sp, err := s.OpenSpace(s.NewActorID(Identity{Namespace: "n", Type: "t", Key: []string{key}}))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(sp.Close)
		return sp
	}
	first, second := open("1"), open("2")
	put := func(sp *Space, key byte, size int) error {
		return sp.Writes().Put([]byte{4, key}, make([]byte, size), PutOptions{})
	}
	// What cannot fit even alone is too large, and no reason to try again.
	if err := put(first, 1, 1<<20); !errors.Is(err, &LimitError{}) || errors.Is(err, ErrBusy) {
		t.Fatalf("more than there can be: %v", err)
	}
	before := first.Writes().Savepoint()
	if err := put(first, 1, 700_000); err != nil {
		t.Fatal(err)
	}
	if err := put(second, 1, 10_000); err != nil {
		t.Fatalf("a small set: %v", err)
	}
	size := second.Writes().Bytes()
	if err := put(second, 2, 500_000); !errors.Is(err, ErrBusy) {
		t.Fatalf("more than there is: %v", err)
	}
	if got := second.Writes().Bytes(); got != size {
		t.Fatalf("the refused write took %d bytes", got-size)
	}
	first.Writes().Rollback(before)
	if err := put(second, 2, 500_000); err != nil {
		t.Fatalf("after the other was rolled back: %v", err)
	}
	if _, err := second.Commit(nil); err != nil {
		t.Fatal(err)
	}
	if got := s.Metrics().WriteBytes; got != 0 {
		t.Fatalf("%d bytes are still reserved", got)
	}
}
