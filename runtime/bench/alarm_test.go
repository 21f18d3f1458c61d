package main

import (
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/cairn-run/cairn/runtime"
)

// TestTwinWritesWhatAnAlarmWrites compares the twin's batches with what arming an alarm adds to the store's commits.
func TestTwinWritesWhatAnAlarmWrites(t *testing.T) {
	const n = 200
	b := &bench{dir: t.TempDir()}
	var ours float64
	b.node(runtime.Options{Actors: clockDefinition(func(time.Duration) {})}, func(rt *runtime.Runtime) {
		refs := clockRefs(rt, n)
		later := time.Now().Add(time.Hour)
		before := gauge(rt, "cairn_store_commit_bytes_total")
		arm(refs, n, func(int) time.Time { return later })
		ours = gauge(rt, "cairn_store_commit_bytes_total") - before
	})
	twin := 0
	b.pebbleDB(func(db *pebble.DB) {
		for _, c := range b.armsLogged(n) {
			batch := c.batch(db)
			twin += batch.Len()
			batch.Close()
		}
	})
	if float64(twin) < ours-(4+markBytes)*n || float64(twin) > ours+4*n {
		t.Errorf("%d alarms take %v bytes, the twin's %d", n, ours, twin)
	}
}

func TestEveryAlarmThatIsDueRings(t *testing.T) {
	b := &bench{dir: t.TempDir()}
	v := b.alarms(400, 100)
	if v.armed <= 0 || v.p50 < 0 || v.p50 > v.p99 || v.p99 > v.max {
		t.Errorf("%+v", v)
	}
	if v := b.rawArms(400); v <= 0 {
		t.Errorf("the twin arms %v a second", v)
	}
}
