package kvrows

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
)

// B15: UUIDs of an actor grow, whatever its clock does, across commits that keep them.
func TestUUIDsGrow(t *testing.T) {
	space, rows := openRows(t)
	last := ""
	now := time.Date(2026, 1, 2, 3, 4, 5, 678_999_999, time.UTC)
	for i, step := range []time.Duration{0, 0, time.Microsecond, time.Second, -time.Hour, 0, time.Millisecond, 2 * time.Hour} {
		now = now.Add(step)
		var s Stamps
		for range 5 {
			text, err := s.UUID(rows, now)
			must(t, err)
			id, err := uuid.Parse(text)
			errorIf(t, err != nil || id.Version() != 7 || id.Variant() != uuid.RFC4122,
				"%s: version %d, variant %s, %v", text, id.Version(), id.Variant(), err)
			errorIf(t, text <= last, "step %d: %s is not after %s", i, text, last)
			if sec, nsec := id.Time().UnixTime(); step > 0 && time.Unix(sec, nsec).Sub(now).Abs() > time.Millisecond && i != 6 {
				t.Errorf("step %d: the time of %s is %s and not %s", i, text, time.Unix(sec, nsec).UTC(), now)
			}
			last = text
		}
		must(t, s.Keep(rows))
		if i%2 == 0 {
			_, err := space.Commit(nil)
			must(t, err)
		}
	}
	must(t, rows.Put(keyspace.UUID.Append(nil), []byte("damaged"), engine.PutOptions{}))
	_, err := new(Stamps).UUID(rows, now)
	errorIf(t, err != nil, "%v", err)
}

func TestVersionstampsAreOrderedAsVersions(t *testing.T) {
	if a, b := Versionstamp(255), Versionstamp(256); a != "00000000000000ff0000" || a >= b {
		t.Error(a, b)
	}
}
