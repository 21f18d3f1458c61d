package main

import (
	"testing"

	"github.com/cockroachdb/pebble/v2"

	"github.com/cairn-run/cairn/runtime"
)

// TestTwinWritesWhatAnAlarmWrites compares the twin's batches with what arming an alarm adds to the
// store's commits. TestTwinWritesWhatAnAlarmWrites compares the twin's batches with the commits of
// the same run, since a commit moves its actor in the list of actors only in another minute.
func TestTwinWritesWhatAnAlarmWrites(t *testing.T) {
	const n = 200
	b := &bench{dir: t.TempDir(), untraced: true} // spans are written with a commit, as it happens
	var ours float64
	armed := b.armsLogged(n, func(rt *runtime.Runtime, arm func()) {
		before := gauge(rt, "cairn_store_commit_bytes_total")
		arm()
		ours = gauge(rt, "cairn_store_commit_bytes_total") - before
	})
	twin := 0
	b.pebbleDB(func(db *pebble.DB) {
		for _, c := range armed {
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
