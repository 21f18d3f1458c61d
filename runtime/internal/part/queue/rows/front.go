package queuerows

import (
	"encoding/binary"
	"slices"
)

// A place is where an entry stands in an index: its time, or the negated priority, and then the id
// of the message.
type place struct {
	at int64
	id uint64
}

func (p place) before(q place) bool { return p.at < q.at || p.at == q.at && p.id < q.id }

// A front has the number of entries of an index and where they begin. Its claims:
//
//  1. Run i has n entries, all at from or after, and before the next run. Outside of the runs there
//     are no entries.
//  2. An exact run has its first entry at from.
//  3. A run is empty only if it is the last of several; in a ranked front, the last of several of
//     its priority.
//
// A consumed entry stays in the store for a while, as a mark of its deletion, and a search for the
// first entry walks over such marks. One bound, which moves on with each consumed entry, keeps them
// behind. But a message that is tried again goes back to its old place: one bound would move back
// there, and the next search would walk over everything consumed in between. Therefore such an
// entry makes a run of its own, which is forgotten when the entry has left. The last run stays even
// if it is empty, so that the next entry does not join a run that begins far before it.
type front struct {
	ranked bool // runs are of one priority each
	runs   []run
	n      int64 // sum over the runs
}

type run struct {
	from  place
	n     int64
	exact bool
}

// maxRuns bounds the runs of a front, or of one priority in a ranked one. If there are more, the
// first two become one.
const maxRuns = 8

// together reports whether two places may belong to one run.
func (f *front) together(p, q place) bool { return !f.ranked || p.at == q.at }

// find returns the run that covers p, or else where a run from p belongs.
func (f *front) find(p place) (i int, ok bool) {
	i = len(f.runs)
	for i > 0 && p.before(f.runs[i-1].from) {
		i--
	}
	if i > 0 && f.together(f.runs[i-1].from, p) {
		return i - 1, true
	}
	return i, false
}

// add counts an entry that was put at p.
func (f *front) add(p place) {
	f.n++
	i, ok := f.find(p)
	if ok {
		r := &f.runs[i]
		if r.n == 0 {
			r.from = p
		}
		r.n++
		r.exact = r.exact || r.from == p
		return
	}
	f.runs = slices.Insert(f.runs, i, run{from: p, n: 1, exact: true})
	first, end := i, i+1
	for first > 0 && f.together(f.runs[first-1].from, p) {
		first--
	}
	for end < len(f.runs) && f.together(f.runs[end].from, p) {
		end++
	}
	if end-first > maxRuns {
		f.runs[first].n += f.runs[first+1].n
		f.runs = slices.Delete(f.runs, first+1, first+2)
	}
}

// remove counts an entry that was removed from p. It returns false if there can be none.
func (f *front) remove(p place) bool {
	i, ok := f.find(p)
	if !ok || f.runs[i].n == 0 {
		return false
	}
	f.n--
	r := &f.runs[i]
	r.n--
	if r.from == p {
		r.from.id++
		r.exact = false
	}
	if r.n > 0 {
		return true
	}
	before := i > 0 && f.together(f.runs[i-1].from, p)
	after := i+1 < len(f.runs) && f.together(f.runs[i+1].from, p)
	if before && !after {
		return true
	}
	n := 1
	if after && !before && f.runs[i+1].n == 0 {
		n = 2 // the empty last one is alone now
	}
	f.runs = slices.Delete(f.runs, i, i+n)
	return true
}

// clear forgets all entries.
func (f *front) clear() { f.runs, f.n = f.runs[:0], 0 }

// end returns where run i ends: no entry of it is there or after.
func (f *front) end(i int) place {
	if i+1 < len(f.runs) && f.together(f.runs[i+1].from, f.runs[i].from) {
		return f.runs[i+1].from
	}
	if f.ranked {
		return place{at: f.runs[i].from.at + 1}
	}
	return last
}

// last is after every place.
var last = place{at: 1<<63 - 1, id: 1<<64 - 1}

// append encodes the front: the number of runs, and of each its place, its count doubled, plus one
// if it is exact.
func (f *front) append(b []byte) []byte {
	b = binary.AppendUvarint(b, uint64(len(f.runs)))
	for i := range f.runs {
		r := &f.runs[i]
		b = binary.AppendVarint(b, r.from.at)
		b = binary.AppendUvarint(b, r.from.id)
		n := uint64(r.n) << 1
		if r.exact {
			n |= 1
		}
		b = binary.AppendUvarint(b, n)
	}
	return b
}

// mostRuns bounds the runs that are decoded: all priorities with all their runs.
const mostRuns = maxRuns * (2*1_000 + 1)

// decode reads what append wrote and checks the claims, as far as it can without the index.
func (f *front) decode(s *scan) {
	count := s.uvarint()
	if count > mostRuns || count > uint64(len(s.b)) {
		s.fail("too many runs")
		return
	}
	f.n = 0
	for range count {
		r := run{from: place{at: s.varint(), id: s.uvarint()}}
		n := s.uvarint()
		r.n, r.exact = int64(n>>1), n&1 == 1
		if r.n > 1<<50 || r.exact && r.n == 0 {
			s.fail("a run cannot have that many entries")
		}
		if k := len(f.runs); k > 0 && !f.runs[k-1].from.before(r.from) {
			s.fail("runs are out of order")
		}
		if s.err != nil {
			return
		}
		f.runs = append(f.runs, r)
		f.n += r.n
	}
	for i := range f.runs {
		if f.runs[i].n > 0 {
			continue
		}
		p := f.runs[i].from
		before := i > 0 && f.together(f.runs[i-1].from, p)
		after := i+1 < len(f.runs) && f.together(f.runs[i+1].from, p)
		if !before || after {
			s.fail("an empty run")
		}
	}
}
