package main

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/runtime"
)

// TestTwinWritesWhatAMessageWrites compares the twin's batches with what a message adds to the
// store's commits in a run of its own.
func TestTwinWritesWhatAMessageWrites(t *testing.T) {
	const n = 30
	b := &bench{dir: t.TempDir(), untraced: true} // spans are written with a commit, as it happens
	var commits, bytes float64
	var handled atomic.Int64
	b.node(runtime.Options{Actors: depotDefinition(func(int64) { handled.Add(1) })}, func(rt *runtime.Runtime) {
		ref := depots.Ref(rt, "one")
		one := func(i int) {
			send(ref, i)
			awaitHandled(ref, &handled, int64(i+1))
		}
		one(0)
		commits, bytes = gauge(rt, "cairn_store_commits_total"), gauge(rt, "cairn_store_commit_bytes_total")
		for i := range n {
			one(i + 1)
		}
		commits, bytes = gauge(rt, "cairn_store_commits_total")-commits, gauge(rt, "cairn_store_commit_bytes_total")-bytes
	})
	messages := b.messagesLogged(n)
	twin := 0
	b.pebbleDB(func(db *pebble.DB) {
		for _, m := range messages {
			for _, c := range []commit{m.enqueue, m.handle} {
				batch := c.batch(db)
				twin += batch.Len()
				batch.Close()
			}
		}
	})
	if commits != 2*n || float64(twin) < bytes-(4+2*markBytes)*n || float64(twin) > bytes+4*n {
		t.Errorf("%d messages made %v commits of %v bytes; the twin makes %d of %d", n, commits, bytes, 2*n, twin)
	}
	for i, m := range messages {
		for kind, is := range map[keyspace.Kind]bool{
			keyspace.QueueReady.Kind: m.enqueue.has(keyspace.QueueReady.Kind, false) && m.handle.has(keyspace.QueueReady.Kind, true),
			keyspace.QueueStats.Kind: m.enqueue.has(keyspace.QueueStats.Kind, false) && m.handle.has(keyspace.QueueStats.Kind, false),
			keyspace.Persisted.Kind:  m.handle.has(keyspace.Persisted.Kind, false),
		} {
			if !is {
				t.Fatalf("the rows of kind %v are missing from the commits of message %d", kind, i)
			}
		}
	}
}

// TestEveryMessageIsCounted runs the measurements for a moment; they end the program if messages
// are missing.
func TestEveryMessageIsCounted(t *testing.T) {
	b := &bench{dir: t.TempDir(), time: 5 * time.Millisecond}
	for name, measure := range map[string]func() float64{
		"1 producer":   func() float64 { return b.queued(1) },
		"16 producers": func() float64 { return b.queued(16) },
		"twin":         b.rawQueue,
		"pipelined":    func() float64 { return b.rawQueuePipelined(16) },
	} {
		if v := measure(); v <= 0 {
			t.Errorf("%s: %v messages a second", name, v)
		}
	}
}

func TestQueueKeepsItsLengthWhileWorkersReceive(t *testing.T) {
	b := &bench{dir: t.TempDir(), time: 5 * time.Millisecond}
	for range 2 { // the second time with the store of the first
		b.round++
		if v := b.received(1001); v.one <= 0 || v.batch <= 0 {
			t.Errorf("%+v", v)
		}
	}
}
