package engine

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"

	"github.com/cairn-run/cairn/keyspace"
)

// outbox gives out the sequence numbers of the outbox and tracks which rows may be read. Its
// claims:
//
//  1. A row can be read when its commit and every commit with a lower sequence number is durable.
//     So a reader that continues after the last sequence it saw misses nothing, and nothing leaves
//     the node that a power cut could take back.
//  2. rows and bytes are exact for the rows that can be read, now or later.
//  3. Sequence numbers grow while the store is open, and begin above every row present when it was
//     opened.
type outbox struct {
	sequence
	rows, bytes atomic.Int64
}

// A sequence gives out numbers to commits and tracks which of them can be read: those before the
// first that is not durable yet.
type sequence struct {
	mu   sync.Mutex
	next uint64
	// pending numbers are not durable yet, or follow one that is not, in order.
	pending []numbers
}

// numbers are the numbers of one commit.
type numbers struct {
	first, n uint64
	settled  bool
}

// take gives out n numbers, the first at least from. REQUIRES: q.mu
func (q *sequence) take(n int, from uint64) numbers {
	taken := numbers{first: max(q.next, from), n: uint64(n)}
	q.next = taken.first + taken.n
	q.pending = append(q.pending, taken)
	return taken
}

// settle marks numbers as durable.
func (q *sequence) settle(durable numbers) {
	if durable.n == 0 {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	done := 0
	for i := range q.pending {
		if q.pending[i].first == durable.first {
			q.pending[i].settled = true
			break
		}
	}
	for done < len(q.pending) && q.pending[done].settled {
		done++
	}
	q.pending = q.pending[done:]
}

// readable returns the first number that cannot be read yet.
func (q *sequence) readable() uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.pending) > 0 {
		return q.pending[0].first
	}
	return q.next
}

// load counts the rows of a store that is being opened.
func (o *outbox) load(s *Store) error {
	db := databaseOf(s)
	o.next = 1
	it, err := outboxIter(db, 0)
	if err != nil {
		return err
	}
	for ok := it.First(); ok; ok = it.Next() {
		seq, err := keyspace.ParseOutboxRow(it.Key())
		if err != nil {
			return errors.Join(&CorruptError{Row: clone(it.Key()), Reason: err.Error()}, it.Close())
		}
		value, err := it.ValueAndErr()
		if err != nil {
			return errors.Join(err, it.Close())
		}
		o.rows.Add(1)
		o.bytes.Add(int64(len(value)))
		o.next = seq + 1
	}
	return errors.Join(it.Error(), it.Close())
}

// outboxIter iterates over the rows with sequence numbers greater than after.
func outboxIter(r reader, after uint64) (iterator, error) {
	start, end := keyspace.OutboxRange()
	if after > 0 {
		start = append(keyspace.AppendOutboxRow(nil, after), 0)
	}
	return newIter(r, &pebble.IterOptions{LowerBound: start, UpperBound: end})
}

// begin gives sequence numbers to the records of a write set that is about to be applied.
func (o *outbox) begin(w *WriteSet) numbers {
	n := w.records(false)
	if n == 0 {
		return numbers{}
	}
	o.mu.Lock()
	taken := o.take(n, 0)
	o.mu.Unlock()
	seq := taken.first
	for _, record := range w.overlay.records {
		if record.audit {
			continue
		}
		o.rows.Add(1)
		o.bytes.Add(int64(len(record.data)))
		if record.seq != nil {
			*record.seq = seq
		}
		seq++
	}
	return taken
}

// OutboxRow is one record that waits to be published.
type OutboxRow struct {
	Seq    uint64
	Record []byte
}

// Outbox returns up to limit rows with sequence numbers greater than after, in order. It returns a
// row only if it and every row before it are durable: a reader that continues after the last
// sequence it got misses none. Sequence numbers are unique while the store is open and greater than
// those of all rows that were present when it was opened; after a restart begin with 0.
func (s *Store) Outbox(after uint64, limit int) ([]OutboxRow, error) {
	if err := s.enter(); err != nil {
		return nil, err
	}
	defer s.leave()
	before := s.outbox.readable()
	it, err := outboxIter(databaseOf(s).DB, after)
	if err != nil {
		return nil, err
	}
	var rows []OutboxRow
	for ok := it.First(); ok && len(rows) < limit; ok = it.Next() {
		seq, err := keyspace.ParseOutboxRow(it.Key())
		if err != nil {
			return nil, errors.Join(&CorruptError{Row: clone(it.Key()), Reason: err.Error()}, it.Close())
		}
		if seq >= before {
			break
		}
		value, err := it.ValueAndErr()
		if err != nil {
			return nil, errors.Join(err, it.Close())
		}
		rows = append(rows, OutboxRow{Seq: seq, Record: clone(value)})
	}
	if err := errors.Join(it.Error(), it.Close()); err != nil {
		return nil, err
	}
	return rows, nil
}

// AckOutbox deletes rows that were published; sequence numbers without a row are ignored. It is
// fastest if seqs is sorted. The deletion is not synced: a power cut may bring rows back, which are
// then published again and must be recognised by their message id. Only one goroutine may
// acknowledge a row.
func (s *Store) AckOutbox(seqs []uint64) error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	if err := s.readOnly(); err != nil {
		return err
	}
	if !slices.IsSorted(seqs) {
		seqs = slices.Sorted(slices.Values(seqs))
	}
	batch := databaseOf(s).NewBatch()
	defer batch.Close()
	rows, bytes, err := deleteOutbox(s, batch, seqs)
	if err != nil {
		return err
	}
	if rows == 0 {
		return nil
	}
	if err := applyUnsynced(s, batch); err != nil {
		return err
	}
	s.outbox.rows.Add(-rows)
	s.outbox.bytes.Add(-bytes)
	return s.readOnly()
}

// outboxStride is the longest distance to the next row that is walked row by row. A longer one may
// have any number of deleted rows.
const outboxStride = 16

// deleteOutbox adds the deletion of the existing ones of the rows to a batch, and counts them and
// the bytes of their records. Rows are mostly acknowledged in their order, so one iterator moves
// from row to row, which costs far less than a lookup of each. seqs is sorted.
func deleteOutbox(s *Store, batch *pebble.Batch, seqs []uint64) (rows, bytes int64, err error) {
	if len(seqs) == 0 {
		return 0, 0, nil
	}
	row := rowBuffer()
	defer row.free()
	row.b = append(keyspace.AppendOutboxRow(row.b[:0], seqs[len(seqs)-1]), 0)
	it, err := newIter(databaseOf(s).DB, &pebble.IterOptions{UpperBound: row.b})
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	var at, last uint64 // the iterator's row, and the previous one in seqs; rows begin with 1
	for _, seq := range seqs {
		if seq == last {
			continue
		}
		last = seq
		for at < seq {
			var ok bool
			if at > 0 && seq-at <= outboxStride {
				ok = it.Next()
			} else {
				row.value = keyspace.AppendOutboxRow(row.value[:0], seq)
				ok = it.SeekGE(row.value)
			}
			if !ok {
				return rows, bytes, it.Error()
			}
			if at, err = keyspace.ParseOutboxRow(it.Key()); err != nil {
				return 0, 0, &CorruptError{Row: clone(it.Key()), Reason: err.Error()}
			}
		}
		if at != seq {
			continue
		}
		value, err := it.ValueAndErr()
		if err != nil {
			return 0, 0, err
		}
		rows++
		bytes += int64(len(value))
		if err := batch.Delete(it.Key(), nil); err != nil {
			return 0, 0, err
		}
	}
	return rows, bytes, nil
}

// OutboxSize returns how many rows wait in the outbox and the bytes of their
// records. Both are exact and kept in memory.
func (s *Store) OutboxSize() (rows, bytes int64) {
	return s.outbox.rows.Load(), s.outbox.bytes.Load()
}

func clone(b []byte) []byte { return append([]byte(nil), b...) }
