package engine

import (
	"encoding/binary"
	"errors"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/cairn-run/cairn/keyspace"
)

// auditLog hands out the numbers of the audit log. Its claims:
//
//  1. Numbers grow, regardless of the clock and of records that are removed.
//  2. A number is the time of its commit in Unix microseconds, or one more than the number before
//     it, if that is greater. So a time is a place in the log.
//  3. A record can be read when its commit and those of all lower numbers are durable. So a reader
//     that continues after the last number it saw misses nothing.
//
// If the clock was ahead and is set back, the numbers continue from there, and the log notes how
// far they are ahead of the time. If it was behind instead, it passes the numbers again, and the
// note is dropped. Records dated ahead of the time are old when the records after them are.
type auditLog struct {
	sequence
	slip auditSlip
}

// An auditSlip notes that the clock was set back: the records up to number upTo were made before
// the time at, regardless of the clock, and later numbers count the microseconds since at. The zero
// value notes nothing.
type auditSlip struct{ upTo, at uint64 }

const (
	// auditRow is the name of a row with the uvarints of the last number given, and of the slip. It
	// is written when records are removed, and with each record while there is a slip.
	auditRow = "audit"
	// auditSlack is how many microseconds the numbers may be ahead of the clock without a note.
	auditSlack = 60_000_000
)

// load finds the last number of a store that is being opened.
func (l *auditLog) load(s *Store) error {
	db := databaseOf(s)
	_, err := get(db, keyspace.AppendMetaRow(nil, auditRow), func(b []byte) error {
		d := decoder{b: b}
		l.next, l.slip.upTo, l.slip.at = d.uvarint(), d.uvarint(), d.uvarint()
		return d.end()
	})
	if err != nil {
		return err
	}
	it, err := newIter(db, auditBounds(0, 0))
	if err != nil {
		return err
	}
	if it.Last() {
		seq, err := keyspace.ParseAuditRow(it.Key())
		if err != nil {
			return errors.Join(&CorruptError{Row: clone(it.Key()), Reason: err.Error()}, it.Close())
		}
		l.next = max(l.next, seq)
	}
	l.next++
	return errors.Join(it.Error(), it.Close())
}

// state returns the value of auditRow. REQUIRES: l.mu
func (l *auditLog) state() []byte {
	b := binary.AppendUvarint(nil, l.next-1)
	return binary.AppendUvarint(binary.AppendUvarint(b, l.slip.upTo), l.slip.at)
}

// look compares the numbers with the clock, and returns the number of the present. REQUIRES: l.mu
func (l *auditLog) look() uint64 {
	now := uint64(max(0, time.Now().UnixMicro()))
	switch {
	case now >= l.next:
		l.slip = auditSlip{}
	case l.slip.of(now)+auditSlack < l.next:
		l.slip = auditSlip{l.next - 1, max(now, l.slip.at)}
	}
	return l.slip.of(now)
}

// of returns the number of a time.
func (s auditSlip) of(at uint64) uint64 {
	if s.upTo == 0 || at < s.at {
		return at
	}
	return s.upTo + 1 + at - s.at
}

// begin gives numbers to n records that are about to be applied.
func (l *auditLog) begin(n int) numbers {
	if n == 0 {
		return numbers{}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.take(n, l.look())
}

// AuditPlace returns the first number whose records in the audit log are of a time or later. Future
// records have this number or a later one, regardless of the time.
func (s *Store) AuditPlace(at time.Time) uint64 {
	s.audit.mu.Lock()
	defer s.audit.mu.Unlock()
	s.audit.look()
	return min(s.audit.slip.of(uint64(max(1, at.UnixMicro()))), s.audit.next)
}

// auditBounds are the bounds of the records after one number and before another; a before of 0 sets
// no bound.
func auditBounds(after, before uint64) *pebble.IterOptions {
	o := &pebble.IterOptions{LowerBound: keyspace.AppendAuditRow(nil, after)}
	if after > 0 {
		o.LowerBound = append(o.LowerBound, 0)
	}
	if before == 0 {
		o.UpperBound = keyspace.Successor(keyspace.AppendAuditRow(nil, 1<<64-1))
	} else {
		o.UpperBound = keyspace.AppendAuditRow(nil, before)
	}
	return o
}

// Audit appends a record to the audit log of the node, about the actor of an identity. The record
// is copied. It is there if and only if the rest of the commit is.
func (w *WriteSet) Audit(i Identity, record []byte) error {
	data := append(i.append(make([]byte, 0, 64+len(record))), record...)
	if err := w.checkRoom(len(data)); err != nil {
		return err
	}
	w.turn()
	o := w.own()
	o.records = append(o.records, outboxRecord{data: o.arena.copy(data), audit: true})
	return nil
}

// encode puts the rows of a record into a batch. data begins with the identity of its actor.
func (l *auditLog) encode(seq uint64, data []byte, set func(row, value []byte)) {
	d := decoder{b: data}
	i := d.identity()
	set(keyspace.AppendAuditRow(nil, seq), data)
	set(keyspace.AppendAuditActorRow(nil, i.Namespace, i.Type, i.Key, seq), nil)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.slip.upTo != 0 {
		set(keyspace.AppendMetaRow(nil, auditRow), l.state())
	}
}

// AppendAudit is [WriteSet.Audit] without a commit. It returns when the record is durable. Like
// Commit, it must not be called by a callback of the gate.
func (s *Store) AppendAudit(i Identity, record []byte) error {
	durable := make(chan error, 1)
	if err := s.appendAudit(i, record, func(err error) { durable <- err }); err != nil {
		return err
	}
	if err := <-durable; err != nil { // a wait at the gate does not hold up Close
		return errors.Join(ErrUncertain, err)
	}
	return nil
}

// appendAudit applies a record. If it returns nil, notify is called once, as by Commit.
func (s *Store) appendAudit(i Identity, record []byte, notify func(error)) error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	if err := errors.Join(s.readOnly(), s.free.check()); err != nil {
		return err
	}
	b := databaseOf(s).NewBatch()
	span := s.audit.begin(1)
	var err error
	s.audit.encode(span.first, append(i.append(nil), record...),
		func(row, value []byte) { err = errors.Join(err, b.Set(row, value, nil)) })
	if err == nil {
		err = apply(s, b)
	}
	if err != nil {
		s.fail(err)
		return errors.Join(ErrUncertain, s.readOnly())
	}
	s.gate.add(ticket{batch: b, notify: notify, audit: span})
	return nil
}

// An AuditRecord is a record of the audit log.
type AuditRecord struct {
	Seq uint64 // grows from record to record
	Of  Identity
	// Record is the appended record.
	Record []byte
	// Damaged: Record is nil, because the row cannot be read. Of is known only if the query has it.
	Damaged bool
}

// An AuditQuery selects records of the audit log.
type AuditQuery struct {
	// Of selects the records of one actor in all its lives; nil selects those of all actors.
	Of *Identity
	// After and Before are exclusive bounds. A Before of 0 sets none.
	After, Before uint64
	// Newest: records come in descending order.
	Newest bool
}

// Audit visits records until visit returns false. It shows a record only if it and all before it
// are durable. A record is valid during the visit, which must not use the store.
func (s *Store) Audit(q AuditQuery, visit func(*AuditRecord) bool) (err error) {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	if end := s.audit.readable(); q.Before == 0 || q.Before > end {
		q.Before = end
	}
	if q.After >= q.Before-1 { // q.Before is at least 1
		return nil
	}
	bounds, parse := auditBounds(q.After, q.Before), keyspace.ParseAuditRow
	if i := q.Of; i != nil {
		row := func(seq uint64) []byte {
			return keyspace.AppendAuditActorRow(nil, i.Namespace, i.Type, i.Key, seq)
		}
		bounds, parse = &pebble.IterOptions{LowerBound: row(q.After + 1),
			UpperBound: row(q.Before)}, keyspace.ParseAuditActorRow
	}
	it, err := newIter(databaseOf(s).DB, bounds)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	first, next := it.First, it.Next
	if q.Newest {
		first, next = it.Last, it.Prev
	}
	for ok := first(); ok; ok = next() {
		seq, err := parse(it.Key())
		if err != nil {
			return &CorruptError{Row: clone(it.Key()), Reason: err.Error()}
		}
		going := true
		show := func(data []byte) error {
			d := decoder{b: data}
			r := AuditRecord{Seq: seq, Of: d.identity()}
			if r.Damaged = d.reason != ""; !r.Damaged {
				r.Record = d.rest()
			} else if r.Of = (Identity{}); q.Of != nil {
				r.Of = *q.Of
			}
			going = visit(&r)
			return nil
		}
		if q.Of != nil {
			_, err = get(databaseOf(s).DB, keyspace.AppendAuditRow(nil, seq), show)
		} else if data, ferr := it.ValueAndErr(); ferr != nil {
			err = ferr
		} else {
			err = show(data)
		}
		if err != nil || !going {
			return err
		}
	}
	return it.Error()
}

// auditPurge is how many records are removed at a time.
const auditPurge = 1024

// PurgeAudit removes the records before a time, and returns how many. The removal is not synced: a
// power cut may bring records back.
func (s *Store) PurgeAudit(at time.Time) (removed int, err error) {
	before := s.AuditPlace(at)
	for {
		var last uint64
		var rows [][]byte
		if err := s.Audit(AuditQuery{Before: before}, func(r *AuditRecord) bool {
			last = r.Seq
			rows = append(rows, keyspace.AppendAuditActorRow(nil, r.Of.Namespace, r.Of.Type, r.Of.Key, r.Seq))
			return len(rows) < auditPurge
		}); err != nil {
			return removed, err
		}
		if err := s.purgeAudit(last, rows); err != nil || len(rows) == 0 {
			return removed, err
		}
		removed += len(rows)
	}
}

// purgeAudit removes the records up to a number and their index rows, and keeps the state of the
// numbers.
func (s *Store) purgeAudit(last uint64, rows [][]byte) error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	if err := s.readOnly(); err != nil {
		return err
	}
	s.audit.mu.Lock()
	state, slip := s.audit.state(), s.audit.slip
	s.audit.mu.Unlock()
	if len(rows) == 0 && slip.upTo == 0 {
		return nil
	}
	batch := databaseOf(s).NewBatch()
	defer batch.Close()
	if err := batch.Set(keyspace.AppendMetaRow(nil, auditRow), state, nil); err != nil {
		return err
	}
	for _, row := range rows {
		if err := batch.Delete(row, nil); err != nil {
			return err
		}
	}
	bounds := auditBounds(0, last+1)
	if err := batch.DeleteRange(bounds.LowerBound, bounds.UpperBound, nil); err != nil {
		return err
	}
	return applyUnsynced(s, batch)
}
