package kvrows

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
)

// Stamps makes the strings of placeholders of one commit.
//
// UUIDs of version 7 begin with their time: 48 bits of milliseconds, and 12 bits of their parts.
// Those of an actor grow, even if its clock is set back: each is later than the last, whose time is
// kept.
type Stamps struct {
	last uint64 // time of the last UUID; 0 is not known yet
	made bool
}

// UUID returns another UUID, greater than those before.
func (s *Stamps) UUID(r engine.Reader, now time.Time) (string, error) {
	if s.last == 0 {
		e, _, err := r.Get(keyspace.UUID.Append(nil))
		if err != nil {
			return "", err
		}
		if len(e.Value) == 8 {
			s.last = binary.BigEndian.Uint64(e.Value)
		}
	}
	id, err := uuid.NewRandom()
	if err != nil {
		return "", err
	}
	part := uint64(now.Nanosecond()) % 1e6 * 4096 / 1e6
	s.last, s.made = max(uint64(now.UnixMilli())<<12|part, s.last+1), true
	binary.BigEndian.PutUint64(id[:], s.last>>12<<16|7<<12|s.last&0xFFF)
	return id.String(), nil
}

// Keep keeps the time of the last UUID, if there is one.
func (s *Stamps) Keep(w engine.Writer) error {
	if !s.made {
		return nil
	}
	return w.Put(keyspace.UUID.Append(nil), binary.BigEndian.AppendUint64(nil, s.last), engine.PutOptions{Exempt: true})
}

// Versionstamp returns a version as a string that is ordered as versions are.
func Versionstamp(v engine.Version) string { return fmt.Sprintf("%016x0000", uint64(v)) }
