package engine

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/cairn-run/cairn/keyspace"
)

// After writtenSoon the next commit of a space makes the table, if there is none.
func writtenSoon(sp *Space) {
	if len(sp.written.table) == 0 {
		sp.written.missed = fewMisses
	}
}

// checkWritten compares the written keys of a space with the store, and the count of bytes with the
// memory held.
func checkWritten(t testing.TB, sp *Space) (keys int) {
	t.Helper()
	bytes := int64(len(sp.written.table)) * writtenKeyIn
	for _, k := range sp.written.table {
		bytes += int64(cap(k.key))
		if len(k.key) == 0 {
			continue
		}
		keys++
		m, there, err := readMetadata(databaseOf(sp.store), sp.id, k.key)
		must(t, err)
		fatalIf(t, !there || m != k.meta, "%x is %+v, %v; %+v was written", k.key, m, there, k.meta)
	}
	same(t, sp.written.bytes, bytes)
	return keys
}

func userKey(i int) []byte {
	return fmt.Appendf([]byte{byte(keyspace.UserKV.Kind)}, "key %d", i)
}

func TestAKeyThatIsWrittenAgainIsNotLookedUp(t *testing.T) {
	r := newRig(t, Options{})
	puts := func(rounds, keys int) {
		for range rounds {
			for i := range keys {
				must(t, r.w.Put(userKey(i), []byte("before"), PutOptions{}))
				if i%8 == 7 {
					commit(t, r.sp)
				}
			}
		}
	}
	puts(1, 2*fewMisses)
	same(t, len(r.sp.written.table), 0) // nothing was written again
	puts(3, 40)
	same(t, checkWritten(t, r.sp) > 30, true)
	same(t, len(r.sp.written.table), fewestKeys)
	of := 0
	for i := range 40 {
		if _, found := r.sp.written.find(userKey(i)); found {
			of = i
		}
	}
	// A row that was removed behind the space's back is not missed, so the row is not read.
	must(t, databaseOf(r.Store).Delete(keyspace.AppendMetadataRow(nil, r.sp.id, userKey(of)), nil))
	e, there, err := r.w.Stat(userKey(of))
	must(t, err)
	same(t, there && e.Size == len("before"), true)
	r.put(userKey(of), "after")
	same(t, r.sp.Head().Keys, 2*fewMisses)

	puts(6, 800)
	same(t, len(r.sp.written.table), 16*fewestKeys)
	same(t, checkWritten(t, r.sp) > 600, true)
	same(t, r.Store.written.Load(), r.sp.written.bytes)

	for _, end := range [][]byte{userKey(5), nil} {
		must(t, errOf(r.w.DeleteRange(userKey(1), end)))
		must(t, r.w.Put(userKey(1), []byte("in the range"), PutOptions{}))
		commit(t, r.sp)
		same(t, checkWritten(t, r.sp) > 1, end != nil) // one is before the range
	}

	must(t, r.w.Destroy(keyspace.UserKV.Kind))
	commit(t, r.sp)
	checkWritten(t, r.sp)
	same(t, r.Store.written.Load(), 0)
}

// Keys and numbers of actors that a remote caller chooses do not make it exceed its memory.
func TestWhatWasWrittenHasABoundAndIsGivenBack(t *testing.T) {
	r := newRig(t, Options{})
	busy := func(n int) *Space {
		sp := openSpace(t, r.Store, n)
		putCommit(t, sp, userKey(1), "")
		writtenSoon(sp)
		putCommit(t, sp, userKey(1), "")
		same(t, checkWritten(t, sp) == 1 || len(sp.written.table) == 0, true)
		return sp
	}
	one := busy(2)
	held := one.written.bytes
	same(t, held > 0 && r.Store.written.Load() == held, true)
	one.Close()
	same(t, r.Store.written.Load(), 0)
	one = busy(2)
	busy(2).Close() // which fences it
	same(t, r.Store.written.Load(), 0)
	one.Close()
	one = busy(2)
	one.Fence()
	one.Fence()
	one.Close()
	same(t, r.Store.written.Load(), 0)

	r.Store.written.Store(writtenBytes - held/2)
	full := busy(3)
	same(t, full.written.bytes, 0)
	full.Close()

	r.Store.written.Store(writtenBytes - held - 1000)
	full = busy(4)
	long := bytes.Repeat([]byte("k"), longestKey-1)
	for _, key := range [][]byte{append(userKey(2), long...), userKey(3)[:1:1]} {
		for i := range 50 {
			key := append(append(key[:1:1], byte(i)), long[:len(long)-1]...)
			for range 2 {
				putCommit(t, full, key, "")
			}
		}
	}
	same(t, r.Store.written.Load() <= writtenBytes && checkWritten(t, full) > 2, true)
}

// A space can be fenced at any time, by another goroutine.
func TestASpaceIsFencedWhileItsTurnLooksUpKeys(t *testing.T) {
	r := newRig(t, Options{})
	for range 3 {
		writtenSoon(r.sp)
		r.put(userKey(1), "")
	}
	fenced := make(chan struct{})
	go func() {
		defer close(fenced)
		r.sp.Fence()
	}()
	for range 100 {
		at := r.w.Savepoint()
		must(t, r.w.Put(userKey(1), nil, PutOptions{}))
		r.w.Rollback(at)
	}
	<-fenced
	must(t, r.w.Put(userKey(1), nil, PutOptions{}))
	_, err := r.sp.Commit(nil)
	wantErr(t, err, ErrFenced)
}
