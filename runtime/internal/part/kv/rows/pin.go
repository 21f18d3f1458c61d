package kvrows

import (
	"time"

	"github.com/cairn-run/cairn/actor/host"
	hostkv "github.com/cairn-run/cairn/actor/host/kv"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/runtime/internal/record"
)

// A pin is a version that readers may read until a time, in Unix milliseconds.
type pin struct {
	version engine.Version
	pinRecord
	// branch is the one whose versions are kept; 0 is all. forever: until it is no longer needed,
	// for branches and their merges.
	branch  uint64
	forever bool
}

// of reports whether the pin keeps versions of a branch at a time.
func (p *pin) of(branch uint64, now int64) bool {
	return (p.branch == 0 || p.branch == branch) && (p.forever || p.Until > now)
}

type pinRecord struct {
	_ struct{} `cbor:",toarray"`
	// Time is when the version was pinned.
	Time, Until int64
}

// timedPins lists the pins that expire, and have not, in the order of their versions.
func timedPins(rows engine.Reader) (pins []pin, err error) {
	var q engine.ListQuery
	q.Start, q.End = keyspace.KVPin.Range()
	each(rows, q, func(e *engine.Entry, eerr error) bool {
		var n uint64
		if err = eerr; err == nil {
			n, err = keyspace.KVPin.Parse(e.Key)
		}
		p := pin{version: engine.Version(n)}
		if err == nil {
			err = record.Decode(e.Value, &p.pinRecord)
		}
		pins = append(pins, p)
		return err == nil
	})
	return pins, err
}

// Pin keeps the version of this turn for readers, for a time from now on.
func (s *Store) Pin(d time.Duration) (engine.Version, error) {
	if err := s.load(); err != nil {
		return 0, err
	}
	n, until := 1, s.Now()+d.Milliseconds()
	for i := range s.scopes.pins {
		if p := &s.scopes.pins[i]; !p.forever {
			n++
			if p.version == s.Version() { // pinned twice in one turn
				until = max(until, p.Until)
			}
		}
	}
	if n > hostkv.MaxPins {
		return 0, host.OverLimit("pins", hostkv.MaxPins, int64(n))
	}
	s.Mark()
	p := pin{version: s.Version(), pinRecord: pinRecord{Time: s.Now(), Until: until}}
	text, err := record.Encode(&p.pinRecord)
	if err != nil {
		return 0, err
	}
	if err := s.WriteSet.Put(keyspace.KVPin.Append(nil, uint64(p.version)), text,
		engine.PutOptions{ExpireAt: p.Until}); err != nil {
		return 0, err
	}
	if err := s.arm(p.Until, hourly); err != nil {
		return 0, err
	}
	s.scopes.forget(s.Version())
	return p.version, nil
}

// Unpin ends a pin. It reports whether there was one.
func (s *Store) Unpin(version engine.Version) (bool, error) {
	s.scopes.forget(s.Version())
	return s.WriteSet.Delete(keyspace.KVPin.Append(nil, uint64(version)))
}
