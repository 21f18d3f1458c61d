package main

import (
	"context"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/cairn-run/cairn/runtime"
)

// TestTwinWritesWhatADurableActionWrites compares the bytes of the twin's batch with those that a
// call adds to the store's commits, so that the ratios compare like with like.
// markBytes is what a commit of the engine may have beyond its rows: how far the log is synced. A
// twin need not say that.
const markBytes = 18

func TestTwinWritesWhatADurableActionWrites(t *testing.T) {
	b := &bench{dir: t.TempDir(), time: time.Millisecond, untraced: true}
	var ours float64
	b.node(runtime.Options{}, func(rt *runtime.Runtime) {
		ref := meters.Ref(rt, "one")
		for range 100 {
			call(context.Background(), ref)
		}
		before := gauge(rt, "cairn_store_commit_bytes_total")
		for range 100 {
			call(context.Background(), ref)
		}
		ours = (gauge(rt, "cairn_store_commit_bytes_total") - before) / 100
	})
	b.pebbleDB(func(db *pebble.DB) {
		r := rowsFor(1)
		batch := put(db, &r)
		defer batch.Close()
		if twin := float64(batch.Len()); twin < ours-4-markBytes || twin > ours+4 {
			t.Errorf("the twin writes %v bytes, a durable action %v", twin, ours)
		}
	})
}
