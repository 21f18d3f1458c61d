package natspub

import (
	"slices"
	"sort"
	"sync"

	"github.com/cairn-run/cairn/engine"
)

// A record is a change set that waits to be published.
type record struct {
	// seq is the row of the outbox, 0 for a change set without one. That has rowless, a number of
	// this process, instead.
	seq     uint64
	rowless uint64
	set     *engine.ChangeSet
	size    int
}

// newRecord makes a record of a change set. The size is a rough estimate of its memory.
func newRecord(seq uint64, set *engine.ChangeSet) record {
	size := 256 + len(set.Traceparent)
	for i := range set.Changes {
		size += 64 + len(set.Changes[i].Data) + len(set.Changes[i].Name)
	}
	for _, part := range set.Identity.Key {
		size += 16 + len(part)
	}
	return record{seq: seq, set: set, size: size}
}

// durable reports whether a change of the set must not be dropped.
func durable(set *engine.ChangeSet) bool {
	return slices.ContainsFunc(set.Changes, func(c engine.Change) bool { return c.Durable })
}

// A run is n rows with consecutive sequence numbers that are in the outbox and not in memory.
type run struct {
	first, n uint64
	timeMS   int64 // of the first
}

// A queue holds the waiting records, in the order in which they became durable. Its claims:
//
//  1. A record with a row is never lost: if the memory is full, the number of its row keeps its
//     place.
//  2. The order is the order of push, across memory and rows: while rows wait, later records join
//     the rows, not the memory.
//  3. push waits only for the queue's own short lock.
//
// Rows of one process have nearly consecutive numbers, so a million of them are a few runs.
type queue struct {
	maxRows, maxBytes int

	mu    sync.Mutex
	mem   []record // mem[head:] waits
	head  int
	bytes int
	runs  []run
	// rowless counts the records without a row.
	rowless uint64
}

// push adds a record. It returns false if it dropped the record, which it does only to records
// without a row.
func (q *queue) push(r record) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if r.seq == 0 {
		q.rowless++
		r.rowless = q.rowless
	}
	if len(q.runs) == 0 && len(q.mem)-q.head < q.maxRows && q.bytes+r.size <= q.maxBytes {
		q.mem = append(q.mem, r)
		q.bytes += r.size
		return true
	}
	if r.seq == 0 {
		return false
	}
	if n := len(q.runs); n > 0 && q.runs[n-1].first+q.runs[n-1].n == r.seq {
		q.runs[n-1].n++
	} else {
		q.runs = append(q.runs, run{r.seq, 1, r.set.TimeMS})
	}
	return true
}

// take appends up to limit records from memory, of up to maxBytes but at least one.
func (q *queue) take(dst []record, limit, maxBytes int) []record {
	q.mu.Lock()
	defer q.mu.Unlock()
	for taken := 0; q.head < len(q.mem) && taken < limit; taken++ {
		r := q.mem[q.head]
		if taken > 0 && r.size > maxBytes {
			break
		}
		maxBytes -= r.size
		dst = append(dst, r)
		q.bytes -= r.size
		q.mem[q.head] = record{}
		q.head++
	}
	switch {
	case q.head == len(q.mem):
		if cap(q.mem) > 1024 && q.head < cap(q.mem)/8 {
			q.mem = nil
		}
		q.mem, q.head = q.mem[:0], 0
	case q.head > len(q.mem)/2:
		n := copy(q.mem, q.mem[q.head:])
		clear(q.mem[n:])
		q.mem, q.head = q.mem[:n], 0
	}
	return dst
}

// next returns the first run, if it is its turn.
func (q *queue) next() (run, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.head < len(q.mem) || len(q.runs) == 0 {
		return run{}, false
	}
	return q.runs[0], true
}

// advance takes n rows from the first run.
func (q *queue) advance(n uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.runs[0].first += n
	q.runs[0].n -= n
	if q.runs[0].n == 0 {
		q.runs = slices.Delete(q.runs, 0, 1)
	}
}

// remove removes rows from memory and runs. seqs is sorted.
func (q *queue) remove(seqs []uint64) {
	if len(seqs) == 0 {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	kept := q.mem[:q.head]
	for _, r := range q.mem[q.head:] {
		if r.seq != 0 && contains(seqs, r.seq) {
			q.bytes -= r.size
			continue
		}
		kept = append(kept, r)
	}
	clear(q.mem[len(kept):])
	q.mem = kept
	var runs []run
	for _, r := range q.runs {
		end := r.first + r.n
		for i := sort.Search(len(seqs),
			func(i int) bool { return seqs[i] >= r.first }); i < len(seqs) && seqs[i] < end; i++ {
			if seqs[i] > r.first {
				runs = append(runs, run{r.first, seqs[i] - r.first, r.timeMS})
			}
			r.first = seqs[i] + 1
		}
		if r.first < end {
			runs = append(runs, run{r.first, end - r.first, r.timeMS})
		}
	}
	q.runs = runs
}

// oldest returns the time of the oldest waiting record.
func (q *queue) oldest() (timeMS int64, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.head < len(q.mem) {
		return q.mem[q.head].set.TimeMS, true
	}
	if len(q.runs) > 0 {
		return q.runs[0].timeMS, true
	}
	return 0, false
}

// contains reports whether a sorted slice holds seq.
func contains(seqs []uint64, seq uint64) bool {
	_, found := slices.BinarySearch(seqs, seq)
	return found
}
