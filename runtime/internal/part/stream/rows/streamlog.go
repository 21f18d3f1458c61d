// Package streamrows keeps an actor's streams: ordered logs that clients read from any position. It
// is rows and nothing else: no goroutine, no clock, no signal.
//
// A stream is a metadata row and one row per item. Each item carries the number of bytes appended
// before it, so the size of the stream from any item on is a difference of two numbers. Items carry
// times that never decrease. Hence count, bytes and age all cut off a prefix, a binary search finds
// the cut, and expiry needs no sums or corrections: the metadata says what was cut at the last
// append, and readers cut what has become too old since.
//
// Removing rows is apart from cutting. An append removes about as many as it adds, and a cut that
// is larger (a limit was lowered, the stream was deleted) is removed later, some thousands a turn,
// woken by a row of the wake index. Lists begin at the first item that is kept, so they never walk
// over what was removed.
package streamrows

import (
	"fmt"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/runtime/internal/record"
)

// metaRecord is the value of keyspace.Stream.Kind.
type metaRecord struct {
	_ struct{} `cbor:",toarray"`
	// First is the first item that is kept, Next the sequence of the next one. Stored <= First is
	// the first item whose row may still be there. An empty stream has First == Next; the sequence
	// begins at 1 and never goes back.
	Stored, First, Next uint64
	// Dropped counts the bytes of all items before First, Total of all items before Next.
	Dropped, Total uint64
	Closed         bool
	// Deleted: the stream was deleted and nothing was appended since; it is no longer listed.
	Deleted bool
	// Updated is when the stream was last appended to or closed, in Unix ms. Oldest is the time of
	// the item First, Last that of the last item; 0 if there is none.
	Updated, Oldest, Last int64
	// Wake is when the stream's row of the wake index is due, in Unix ms; 0 if there is none.
	Wake int64
}

// fresh is a stream that was never written.
func fresh() metaRecord { return metaRecord{Stored: 1, First: 1, Next: 1} }

// check refuses records that Append never writes, so that no later step can loop or run backwards
// on a damaged row.
func (m *metaRecord) check() error {
	if m.Stored < 1 || m.Stored > m.First || m.First > m.Next || m.Dropped > m.Total || m.Next == 0 {
		return &engine.CorruptError{Reason: "the bounds of a stream are out of order"}
	}
	return nil
}

func readMeta(rows engine.Reader, name string) (m metaRecord, found bool, err error) {
	e, found, err := rows.Get(keyspace.Stream.Append(nil, name))
	if err != nil || !found {
		return fresh(), false, err
	}
	if err := record.Decode(e.Value, &m); err != nil {
		return m, false, err
	}
	return m, true, m.check()
}

// A Log writes an actor's streams in one turn.
type Log struct {
	// Exempt: items may make a full actor larger.
	Exempt bool

	rows engine.Writer
	now  int64
}

// New returns a Log over a turn's rows; now is the turn's time.
func New(rows engine.Writer, now time.Time) *Log { return &Log{rows: rows, now: now.UnixMilli()} }

func (l *Log) write(name string, m *metaRecord) error {
	value, err := record.Encode(m)
	if err != nil {
		return err
	}
	// A full actor must be able to close and to empty its streams; only items fill it.
	return l.rows.Put(keyspace.Stream.Append(nil, name), value, engine.PutOptions{Exempt: true})
}

// Append appends items, each in CBOR, and returns the sequence of the last. It cuts off what the
// stream's limits no longer allow. cfg has its defaults filled in.
//
// The error code is FailedPrecondition if the stream is closed, InvalidArgument if there are no
// items, TooLarge if there are more than host.MaxStreamBatch or one is larger than the stream
// allows. An error leaves everything as it was.
func (l *Log) Append(cfg *host.Stream, name string, items [][]byte) (uint64, error) {
	if err := checkItems(cfg, items); err != nil {
		return 0, err
	}
	old, _, err := readMeta(l.rows, name)
	if err != nil {
		return 0, err
	}
	if old.Closed {
		return 0, host.Errorf(host.FailedPrecondition, "stream %q is closed", name).With("stream", name)
	}
	m := old
	m.Deleted = false
	// if the clock was set back, items share the time of the last one until it has caught up
	m.Last = max(l.now, old.Last)
	m.Updated = l.now
	m.Next += uint64(len(items))
	batch := make([]item, len(items)) // the search below reads it before it is written
	for i, data := range items {
		batch[i] = item{seq: old.Next + uint64(i), time: m.Last, before: m.Total, data: data}
		m.Total += uint64(len(data))
	}
	if old.First == old.Next {
		m.Oldest = m.Last
	}
	if err := l.cut(cfg, name, &m, batch); err != nil {
		return 0, err
	}
	written := 0
	undo := func() {
		for _, it := range batch[:written] {
			if it.seq >= m.First {
				l.rows.Delete(keyspace.StreamItem.Append(nil, name, it.seq)) // of a row of this turn: it cannot fail
			}
		}
	}
	var value []byte
	for _, it := range batch {
		if it.seq >= m.First { // more than the stream keeps may be appended at once
			value = appendItem(value[:0], &it)
			if err := l.rows.Put(keyspace.StreamItem.Append(nil, name, it.seq), value,
				engine.PutOptions{New: true, Exempt: l.Exempt}); err != nil {
				undo()
				return 0, err
			}
		}
		written++
	}
	if cfg.Age > 0 {
		if due := hourEnd(m.Oldest + cfg.Age.Milliseconds()); m.Wake == 0 || due < m.Wake {
			l.wakeAt(name, &m, due)
		}
	}
	if err := l.write(name, &m); err != nil {
		l.wakeAt(name, &m, old.Wake)
		undo()
		return 0, err
	}
	return m.Next - 1, l.remove(name, m, removeMost+len(items))
}

func checkItems(cfg *host.Stream, items [][]byte) error {
	switch n := len(items); {
	case n == 0:
		return host.Errorf(host.InvalidArgument, "items: there are none to append").With("field", "items")
	case n > host.MaxStreamBatch:
		return host.OverLimit("stream items of one call", host.MaxStreamBatch, int64(n)).With("field", "items")
	}
	limit := min(int64(cfg.ItemBytes), cfg.Bytes)
	for i, data := range items {
		if int64(len(data)) > limit {
			return host.OverLimit("stream item bytes", limit, int64(len(data))).
				With("field", fmt.Sprintf("items[%d]", i))
		}
	}
	return nil
}

// Close closes a stream, so that its readers end after its last item, and reports whether it was
// open. A stream without items can be closed as well.
func (l *Log) Close(name string) (bool, error) {
	m, _, err := readMeta(l.rows, name)
	if err != nil || m.Closed {
		return false, err
	}
	m.Closed, m.Deleted, m.Updated = true, false, l.now
	return true, l.write(name, &m)
}

// Delete removes a stream's items, opens it again if it was closed, and returns how many items it
// had. The sequence goes on, so that a position in the stream never names another item.
func (l *Log) Delete(name string) (int64, error) {
	m, found, err := readMeta(l.rows, name)
	if err != nil || !found || m.Deleted {
		return 0, err
	}
	n := int64(m.Next - m.First)
	m.First, m.Dropped, m.Oldest = m.Next, m.Total, 0
	m.Closed, m.Deleted, m.Updated = false, true, l.now
	if err := l.write(name, &m); err != nil {
		return 0, err
	}
	return n, l.remove(name, m, purgeMost)
}
