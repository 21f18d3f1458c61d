package schedulerows

import (
	"testing"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/runtime/internal/record"
)

// oneRow is an actor with nothing but one schedule.
type oneRow struct{ value []byte }

func (r oneRow) Get(key []byte) (engine.Entry, bool, error) {
	return engine.Entry{Key: key, Value: r.value}, keyspace.Kind(key[0]) == keyspace.Schedule.Kind, nil
}

func (r oneRow) List(engine.ListQuery) (engine.Page, error) {
	return engine.Page{Entries: []engine.Entry{{Key: keyspace.Schedule.Append(nil, "s", ""), Value: r.value}}}, nil
}

// FuzzRecord reads and fires schedules that were never set.
func FuzzRecord(f *testing.F) {
	for _, r := range []scheduleRecord{
		{Every: 1000, Missed: host.MissedNone, KeepRuns: 100, Next: 5000, Wake: 5000, Runs: 3},
		{At: 5000, Missed: host.MissedOnce, Next: 5000, Retry: 7000, Wake: 7000, Attempts: 2, Failed: true, Error: "e"},
		{Cron: "*/5 * * * *", Zone: "UTC", Missed: host.MissedAll, CatchUp: 3, Next: 300_000, Wake: 300_000, Triggers: []int64{5, 6}},
	} {
		value, err := record.Encode(&r)
		must(f, err)
		f.Add(value, int64(400_000), int64(100))
	}
	f.Fuzz(func(t *testing.T, value []byte, now, able int64) {
		rows := oneRow{value}
		wakes, err := Wakes(rows)
		if err != nil {
			return
		}
		all, err := List(rows, "")
		fatalIf(t, err != nil || len(all) != 1, "%v %v", all, err)
		now %= 1e8 // days, so that missed ticks take no time to count
		for _, w := range wakes {
			Due(rows, "s", "", w.Due, time.UnixMilli(now), time.UnixMilli(able%1e8))
		}
	})
}

func (oneRow) Each(engine.ListQuery, func(*engine.Entry) bool) error { return nil }
