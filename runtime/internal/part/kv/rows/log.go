package kvrows

import (
	"bytes"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/runtime/internal/record"
)

// LogName is the stream of an actor that has the changes of its store. Names of other streams begin
// with a letter.
const LogName = "$kv"

// A Log writes the changes of entries to the stream.
type Log interface {
	// Append appends events in a turn, up to host.MaxStreamBatch, and returns the position of the
	// last. exempt: they may make a full actor larger.
	Append(rows engine.Writer, now int64, keep *host.Stream, events [][]byte, exempt bool) (last uint64, err error)
	// Retain makes the log keep less than before, or more.
	Retain(rows engine.Writer, now int64, keep *host.Stream) error
	// Delete removes all events. Their positions are not used again.
	Delete(rows engine.Writer, now int64) error
}

// A Cause is the cause of an event. The numbers are on disk.
type Cause uint8

// The causes: a value was stored, one entry was deleted, entries of a range were, or one has
// expired.
const (
	CauseSet Cause = iota + 1
	CauseDelete
	CauseDeleteRange
	CauseExpired
)

// An Event is the change of an entry in the log.
type Event struct {
	_       struct{} `cbor:",toarray"`
	Version engine.Version
	Cause   Cause
	// Key is packed.
	Key []byte
	// Value, with its encoding, is the result of CauseSet, and Expire when it expires, in Unix
	// milliseconds; 0 is never.
	Value    []byte
	Encoding host.Encoding
	Expire   int64
	// Prefix is, for CauseDeleteRange, the length in bytes of the prefix that selected the key; -1
	// if a range did, from Start up to and without End; nil bounds are those of the store.
	Prefix     int
	Start, End []byte
}

// ParseEvent reads an event of the log.
func ParseEvent(data []byte) (*Event, error) {
	e := new(Event)
	if err := record.Decode(data, e); err != nil {
		return nil, err
	}
	if e.Cause < CauseSet || e.Cause > CauseExpired || e.Prefix < -1 || e.Prefix > len(e.Key) {
		return nil, &engine.CorruptError{Reason: "an event of the key-value store of another form"}
	}
	return e, nil
}

// logs reports whether changes of entries of the scope are logged.
func (sc *Scope) logs() bool { return sc != nil && sc.logged }

// logKept returns what the log keeps, by the most generous scope.
func (s *Scopes) logKept() *host.Stream {
	if s.kept != nil {
		return s.kept
	}
	keep, ages := host.Stream{ItemBytes: engine.MaxValueCap}, true
	for _, sc := range s.list {
		if !sc.Log {
			continue
		}
		p := host.Stream{Items: int(sc.LogEvents), Bytes: sc.LogBytes}
		p.EnsureDefaults()
		keep.Items, keep.Bytes = max(keep.Items, p.Items), max(keep.Bytes, p.Bytes)
		keep.Age = max(keep.Age, time.Duration(sc.LogFor)*time.Millisecond)
		ages = ages && sc.LogFor != 0
	}
	if !ages {
		keep.Age = 0
	}
	keep.EnsureDefaults()
	s.kept = &keep
	return s.kept
}

// LogKept returns what the log keeps.
func (s *Store) LogKept() (*host.Stream, error) {
	if err := s.load(); err != nil {
		return nil, err
	}
	return s.scopes.logKept(), nil
}

// event encodes an event of this turn.
func (s *Store) event(e Event) ([]byte, error) {
	e.Version, e.Key = s.Version(), e.Key[1:]
	return record.Encode(&e)
}

// log appends an event of an entry in a scope.
func (s *Store) log(sc *Scope, e Event) error {
	data, err := s.event(e)
	if err != nil {
		return err
	}
	last, err := s.appendLog([][]byte{data}, e.Cause != CauseSet)
	if err != nil {
		return err
	}
	return s.ring(sc, last)
}

func (s *Store) appendLog(events [][]byte, exempt bool) (last uint64, err error) {
	keep := *s.scopes.logKept()
	for _, e := range events {
		keep.Bytes = max(keep.Bytes, int64(len(e))) // the last event is kept at any size
	}
	s.logged = true
	return s.scopes.Log.Append(s.WriteSet, s.Now(), &keep, events, exempt)
}

// TakeLogged reports whether the log was written since the last call.
func (s *Store) TakeLogged() bool {
	logged := s.logged
	s.logged = false
	return logged
}

// A rangeLog collects the events of a range that is deleted.
type rangeLog struct {
	store  *Store
	of     Event
	events [][]byte
	scopes []*Scope // of the events
}

// logRange begins to log that the rows from start up to end are deleted.
func (s *Store) logRange(start, end []byte) *rangeLog {
	l := &rangeLog{store: s, of: Event{Cause: CauseDeleteRange, Prefix: -1}}
	whole := keyspace.Kind(end[0]) != keyspace.UserKV.Kind
	switch start := start[1:]; {
	case whole && len(start) == 0, !whole && len(start) > 0 && bytes.Equal(end[1:], keyspace.TupleEnd(start)):
		l.of.Prefix = len(start)
	default:
		if l.of.Start = start; !whole {
			l.of.End = end[1:]
		}
	}
	return l
}

// add adds the event of an entry.
func (l *rangeLog) add(sc *Scope, key []byte, kind Kind) error {
	e := l.of
	if e.Key = key; kind == Expired || len(key)-1 < e.Prefix { // the second cannot be
		e = Event{Cause: CauseExpired, Key: key}
	}
	data, err := l.store.event(e)
	if err != nil {
		return err
	}
	l.events, l.scopes = append(l.events, data), append(l.scopes, sc)
	if len(l.events) < host.MaxStreamBatch {
		return nil
	}
	return l.write()
}

// write appends the added events.
func (l *rangeLog) write() error {
	if len(l.events) == 0 {
		return nil
	}
	last, err := l.store.appendLog(l.events, true)
	if err != nil {
		return err
	}
	first := last + 1 - uint64(len(l.events))
	for i, sc := range l.scopes {
		if i > 0 && sc == l.scopes[i-1] {
			continue
		}
		if err := l.store.ring(sc, first+uint64(i)); err != nil {
			return err
		}
	}
	l.events, l.scopes = nil, nil
	return nil
}

// relog removes the log if no scope wants it any longer; else it makes it keep what scopes want.
func (s *Store) relog() error {
	if s.scopes.Log == nil {
		return nil
	}
	list, err := briefScopes(s.WriteSet)
	if err != nil {
		return err
	}
	for _, sc := range list {
		if sc.Log {
			keep, err := s.LogKept()
			if err != nil {
				return err
			}
			return s.scopes.Log.Retain(s.WriteSet, s.Now(), keep)
		}
	}
	return s.scopes.Log.Delete(s.WriteSet, s.Now())
}

// Logs reports whether a scope of the store logs changes.
func Logs(rows engine.Reader) (bool, error) {
	list, err := briefScopes(rows)
	for _, sc := range list {
		if sc.Log {
			return true, err
		}
	}
	return false, err
}
