package traces

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"sync/atomic"

	"github.com/cairn-run/cairn/keyspace"
)

const (
	totalsFormat = 1
	totalsBytes  = 1 + 5*8
)

// totals is the row of an hour: format, bytes of its keys and values including this row, chunks,
// number of the next chunk, lowest start and highest end of its spans. Each flush counts as an end.
// The row has a fixed size, so it can count itself.
type totals struct {
	bucket      int64
	bytes       int64
	chunks      int64
	next        uint64
	first, last int64
}

func newTotals(bucket int64) totals {
	return totals{bucket: bucket,
		bytes: int64(len(keyspace.TraceBucket.Append(nil,
			bucket)) + totalsBytes), first: math.MaxInt64, last: math.MinInt64}
}

func (t *totals) append(dst []byte) []byte {
	dst = append(dst, totalsFormat)
	for _, n := range [...]uint64{uint64(t.bytes), uint64(t.chunks), t.next, uint64(t.first), uint64(t.last)} {
		dst = binary.BigEndian.AppendUint64(dst, n)
	}
	return dst
}

// parseTotals decodes a row.
func parseTotals(key, value []byte) (t totals, ok bool) {
	bucket, err := keyspace.TraceBucket.Parse(key)
	if err != nil {
		return totals{}, false
	}
	t = newTotals(bucket)
	if len(value) != totalsBytes || value[0] != totalsFormat {
		return t, false
	}
	at := func(i int) uint64 { return binary.BigEndian.Uint64(value[1+8*i:]) }
	return totals{bucket, int64(at(0)), int64(at(1)), at(2), int64(at(3)), int64(at(4))}, true
}

// add counts a chunk.
func (t *totals) add(key, value int, number uint64, h *header) {
	t.bytes += int64(key + value)
	t.chunks++
	t.next = max(t.next, number+1)
	t.first, t.last = min(t.first, h.first), max(t.last, h.last, h.written)
}

// Stored is the size of the stored spans of an actor.
type Stored struct {
	Bytes  int64 // of keys and values
	Chunks int64
}

// Size returns the size of the stored spans of an actor. It reads only the totals.
func Size(r Reader) (Stored, error) {
	var s Stored
	err := eachTotals(r, func(t totals, ok bool) {
		s.Bytes += t.bytes
		s.Chunks += t.chunks
	})
	return s, err
}

func eachTotals(r Reader, f func(t totals, ok bool)) error {
	start, end := keyspace.TraceBucket.Range()
	return r.Scan(start, end, func(key, value []byte) bool {
		t, ok := parseTotals(key, value)
		f(t, ok)
		return true
	})
}

// hour is the totals of an hour in the memory of a buffer.
type hour struct {
	totals
	checked bool // every stored chunk is counted
	changed bool // the row is not written
}

// store is a buffer's record of the stored chunks.
type store struct {
	loaded bool
	hours  []hour // in their order
	bytes  atomic.Int64
}

// load reads the totals of all hours, unless they are loaded.
func (s *store) load(r Reader) error {
	if s.loaded {
		return nil
	}
	s.hours = nil
	damaged := false
	if err := eachTotals(r, func(t totals, ok bool) {
		s.hours = append(s.hours, hour{totals: t, changed: !ok})
		damaged = damaged || !ok
	}); err != nil {
		return fmt.Errorf("traces: %w", err)
	}
	if damaged {
		for i := range s.hours {
			if h := &s.hours[i]; h.changed {
				if err := h.count(r); err != nil {
					return err
				}
			}
		}
	}
	s.loaded = true
	s.sum()
	return nil
}

// count adds the chunks after the last one in the totals. There are such chunks only after a fault.
func (t *hour) count(r Reader) error {
	end := keyspace.TupleEnd(keyspace.TraceChunk.Prefix(nil, t.bucket))
	err := r.Scan(keyspace.TraceChunk.Append(nil, t.bucket, t.next), end, func(key, value []byte) bool {
		if _, n, err := keyspace.TraceChunk.Parse(key); err == nil {
			h, err := parseHeader(value)
			if err != nil {
				h = header{first: math.MinInt64, last: math.MaxInt64} // readers must read it
			}
			t.add(len(key), len(value), n, &h)
			t.changed = true
		}
		return true
	})
	if err != nil {
		return fmt.Errorf("traces: %w", err)
	}
	t.checked = true
	return nil
}

func (s *store) sum() {
	var n int64
	for i := range s.hours {
		n += s.hours[i].bytes
	}
	s.bytes.Store(n)
}

// at returns the totals of an hour, and adds new ones if there are none.
func (s *store) at(bucket int64) *hour {
	i, found := slices.BinarySearchFunc(s.hours, bucket, func(h hour, b int64) int { return cmp.Compare(h.bucket, b) })
	if !found {
		s.hours = slices.Insert(s.hours, i, hour{totals: newTotals(bucket)})
	}
	return &s.hours[i]
}

// put writes a chunk and counts it.
func (s *store) put(r Reader, w Writer, c *sealed) error {
	h := s.at(c.bucket)
	if !h.checked {
		if err := h.count(r); err != nil {
			return err
		}
	}
	key := keyspace.TraceChunk.Append(nil, c.bucket, h.next)
	if err := w.Put(key, c.bytes); err != nil {
		h.next++ // the number may be in use
		return fmt.Errorf("traces: %s: %w", keyspace.Format(key), err)
	}
	h.add(len(key), len(c.bytes), h.next, &c.header)
	h.changed = true
	return nil
}

// retain removes the hours that ended before oldest, and the oldest ones while there are more than
// maxBytes. The last hour stays, but retain removes its oldest chunks.
func (s *store) retain(r Reader, w Writer, oldest, maxBytes int64) error {
	s.hours = slices.DeleteFunc(s.hours, func(h hour) bool { return h.chunks == 0 && h.checked })
	s.sum()
	total, n := s.bytes.Load(), 0
	for n < len(s.hours) && (bucketEnd(s.hours[n].bucket) <= oldest || total > maxBytes && n < len(s.hours)-1) {
		total -= s.hours[n].bytes
		n++
	}
	if n > 0 {
		chunks, chunksEnd := keyspace.TraceChunk.Range()
		rows, rowsEnd := keyspace.TraceBucket.Range()
		if n < len(s.hours) {
			chunksEnd = keyspace.TraceChunk.Prefix(nil, s.hours[n].bucket)
			rowsEnd = keyspace.TraceBucket.Append(nil, s.hours[n].bucket)
		}
		if err := cmp.Or(w.DeleteRange(chunks, chunksEnd), w.DeleteRange(rows, rowsEnd)); err != nil {
			return fmt.Errorf("traces: %w", err)
		}
		s.hours = slices.Delete(s.hours, 0, n)
		s.sum()
	}
	if total <= maxBytes || len(s.hours) == 0 {
		return nil
	}
	return s.trim(r, w, &s.hours[0], total-maxBytes/4*3)
}

// trim removes the oldest chunks of an hour until excess bytes are freed. Its last chunk stays.
func (s *store) trim(r Reader, w Writer, h *hour, excess int64) error {
	start := keyspace.TraceChunk.Prefix(nil, h.bucket)
	var freed, chunks int64
	var last uint64
	if err := r.Scan(start, keyspace.TupleEnd(start), func(key, value []byte) bool {
		_, n, err := keyspace.TraceChunk.Parse(key)
		if err == nil && n+1 < h.next {
			freed, chunks, last = freed+int64(len(key)+len(value)), chunks+1, n
		}
		return freed < excess
	}); err != nil {
		return fmt.Errorf("traces: %w", err)
	}
	if chunks == 0 {
		return nil
	}
	if err := w.DeleteRange(start, keyspace.TraceChunk.Append(nil, h.bucket, last+1)); err != nil {
		return fmt.Errorf("traces: %w", err)
	}
	h.bytes, h.chunks, h.changed = h.bytes-freed, h.chunks-chunks, true
	s.sum()
	return nil
}

// writeTotals writes the changed rows. The next flush writes rows that fail.
func (s *store) writeTotals(w Writer) error {
	for i := range s.hours {
		h := &s.hours[i]
		if !h.changed || h.chunks == 0 {
			continue
		}
		if err := w.Put(keyspace.TraceBucket.Append(nil, h.bucket), h.totals.append(nil)); err != nil {
			return fmt.Errorf("traces: %w", err)
		}
		h.changed = false
	}
	return nil
}
