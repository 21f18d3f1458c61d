package traces

import (
	"context"
	"errors"
	"math"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cairn-run/cairn/keyspace"
)

// read returns the result of a query.
func read(t testing.TB, r Reader, q Query) Result {
	t.Helper()
	got, err := Read(context.Background(), r, q)
	must(t, err)
	return got
}

// numbers returns the numbers of spans.
func numbers(spans []Span) []int {
	list := []int{}
	for _, s := range spans {
		list = append(list, int(s.SpanID[4])<<24|int(s.SpanID[5])<<16|int(s.SpanID[6])<<8|int(s.SpanID[7]))
	}
	return list
}

func wantNumbers(t testing.TB, what string, spans []Span, want ...int) {
	t.Helper()
	got := numbers(spans)
	errorIf(t, !slices.Equal(got, want), "%s: spans %v, want %v", what, got, want)
}

// exact checks that the totals match the rows.
func exact(t testing.TB, b *Buffer, r *rows) {
	t.Helper()
	s, err := Size(r)
	if err != nil || s.Bytes != r.size() || b.Bytes() != r.size() {
		t.Errorf("the totals are %d bytes (%v), those of the buffer %d, the rows %d: %v", s.Bytes, err, b.Bytes(), r.size(), r.keys())
	}
}

// TestLostTotalsAreCountedAgain: chunks without their totals are neither replaced nor left out.
func TestLostTotalsAreCountedAgain(t *testing.T) {
	row := string(keyspace.TraceBucket.Append(nil, hour0/second))
	for name, damage := range map[string]func(r *rows, old []byte){
		"old totals":     func(r *rows, old []byte) { r.m[row] = old },
		"no totals":      func(r *rows, _ []byte) { delete(r.m, row) },
		"damaged totals": func(r *rows, _ []byte) { r.m[row] = []byte("?") },
	} {
		r := filled(t, made(1, hour0, hour0+1))
		old := r.m[row]
		b := NewBuffer(Options{Incarnation: 2})
		b.Add(made(2, hour0+2, hour0+3))
		flush(t, b, r, hour0+minute)
		damage(r, old)
		b = NewBuffer(Options{Incarnation: 3})
		b.Add(made(3, hour0+4, hour0+5))
		flush(t, b, r, hour0+minute)
		wantNumbers(t, name, read(t, r, Query{}).Spans, 1, 2, 3)
		exact(t, b, r)
	}
}

// TestOldHoursGo is defect 5 of the reference: nothing ever deletes chunks.
func TestOldHoursGo(t *testing.T) {
	r, b := newRows(), NewBuffer(Options{Incarnation: 1, MaxAge: 3 * time.Hour})
	for i := range 10 {
		at := hour0 + int64(i)*hour1
		b.Add(made(i+1, at, at+1))
		flush(t, b, r, at+minute)
		exact(t, b, r)
	}
	wantNumbers(t, "3 hours", read(t, r, Query{}).Spans, 7, 8, 9, 10)
	b.Add(made(11, hour0, hour0+1)) // it is too old by itself
	flush(t, b, r, hour0+9*hour1+minute)
	d := b.Drops()
	errorIf(t, d[DropOld] != 1, "drops are %v", d)
}

func TestAFailedDeleteIsTriedAgain(t *testing.T) {
	for name, o := range map[string]Options{"age": {Incarnation: 1, MaxAge: time.Hour},
		"bytes": {Incarnation: 1, MaxBytes: 400}, "bytes of an hour": {Incarnation: 1, MaxBytes: 300}} {
		t.Run(name, func(t *testing.T) {
			r, b := newRows(), NewBuffer(o)
			step := hour1
			if name == "bytes of an hour" {
				step = minute
			}
			r.keep = errors.New("full")
			failed := false
			for i := range int64(5) {
				b.Add(made(int(i)+1, hour0+i*step, hour0+i*step+1))
				failed = b.Flush(r, r, hour0+i*step+1) != nil || failed
				b.Committed(nil)
				exact(t, b, r)
			}
			before := len(r.m)
			r.keep = nil
			b.Add(made(6, hour0+5*step, hour0+5*step+1))
			flush(t, b, r, hour0+5*step+1)
			exact(t, b, r)
			errorIf(t, !failed || len(r.m) >= before, "failed %v; the rows are %v", failed, r.keys())
		})
	}
}

// TestOldestSpansGoWhenBytesAreTooMany removes hours, and chunks of the last hour.
func TestOldestSpansGoWhenBytesAreTooMany(t *testing.T) {
	for name, step := range map[string]int64{"hours": hour1, "chunks of an hour": 1} {
		r, b := newRows(), NewBuffer(Options{Incarnation: 1, MaxBytes: 50_000})
		for i := range 100 {
			at := hour0 + int64(i)*step
			s := made(i+1, at, at+1)
			s.Attributes = []Attribute{String("text", strings.Repeat("x", 2000))}
			b.Add(s)
			flush(t, b, r, at+minute)
			exact(t, b, r)
			n := b.Bytes()
			fatalIf(t, n > 50_000, "%s: %d bytes after %d", name, n, i)
		}
		got := numbers(read(t, r, Query{}).Spans)
		errorIf(t, len(got) < 15 || got[0] != 101-len(got) || got[len(got)-1] != 100, "%s: spans %v are left", name, got)
	}
}

// TestAFailedFlushLosesItsChunkOnly: the second of three chunks is not written, or the rows cannot
// be read.
func TestAFailedFlushLosesItsChunkOnly(t *testing.T) {
	fault := errors.New("no disk")
	puts := 0
	for name, c := range map[string]struct {
		r    *rows
		lost uint64
		left []int
	}{
		"write": {&rows{refuse: func([]byte) error {
			if puts++; puts == 2 {
				return fault
			}
			return nil
		}}, 1, []int{1, 3, 4}},
		"read": {&rows{reading: func() error { return fault }}, 3, []int{4}},
	} {
		r, b := c.r, NewBuffer(Options{Incarnation: 1})
		r.m = map[string][]byte{}
		for i := range int64(3) { // a chunk for each hour
			b.Add(made(int(i)+1, hour0+i*hour1, hour0+i*hour1+1))
		}
		err := b.Flush(r, r, hour0+3*hour1)
		b.Committed(nil)
		if !errors.Is(err, fault) || b.Drops()[DropWrite] != c.lost || b.bytes != 0 {
			t.Errorf("%s: Flush returned %v, drops %v, %d bytes are left", name, err, b.Drops(), b.bytes)
		}
		r.refuse, r.reading = nil, nil
		b.Add(made(4, hour0+3*hour1, hour0+3*hour1+1))
		flush(t, b, r, hour0+3*hour1+minute)
		got := read(t, r, Query{})
		wantNumbers(t, name, got.Spans, c.left...)
		errorIf(t, got.Dropped != c.lost, "%s: %d spans are reported as dropped", name, got.Dropped)
		exact(t, b, r)
	}
}

func TestAFailedCommitLosesItsChunksOnly(t *testing.T) {
	r, b := newRows(), NewBuffer(Options{Incarnation: 1})
	b.Add(made(1, hour0, hour0+1))
	flush(t, b, r, hour0+minute)
	b.Add(made(2, hour0+2, hour0+3))
	batch := r.clone()
	must(t, b.Flush(r, batch, hour0+minute))
	wantNumbers(t, "while the batch is open", read(t, r, Query{Live: b.Pending()}).Spans, 1, 2)
	b.Committed(errors.New("the disk is gone"))
	b.Add(made(3, hour0+4, hour0+5))
	flush(t, b, r, hour0+minute)
	wantNumbers(t, "later", read(t, r, Query{}).Spans, 1, 3)
	exact(t, b, r)
	errorIf(t, b.Drops()[DropWrite] != 1, "drops are %v", b.Drops())
}

func TestAFailedRowOfTotalsIsWrittenAgain(t *testing.T) {
	for _, next := range []int64{hour0 + 1, hour0 + 60*minute} { // of the same hour, and of another
		r, b := newRows(), NewBuffer(Options{Incarnation: 1})
		fail := true
		r.refuse = func(key []byte) error {
			if fail && keyspace.TraceBucket.Has(key) {
				return errors.New("full")
			}
			return nil
		}
		b.Add(made(1, hour0, hour0+1))
		err := b.Flush(r, r, hour0+minute)
		errorIf(t, err == nil, "Flush returned no error")
		b.Committed(nil)
		fail = false
		b.Add(made(2, next, next+1))
		flush(t, b, r, next+minute)
		wantNumbers(t, "later", read(t, r, Query{}).Spans, 1, 2)
		exact(t, b, r)
	}
}

func TestBuffersAreBounded(t *testing.T) {
	b := NewBuffer(Options{Incarnation: 1})
	child, root := made(1, hour0, hour0+1), made(2, hour0, hour0+1)
	child.Attributes = []Attribute{String("text", strings.Repeat("x", 4000))}
	root.Attributes = child.Attributes
	child.Parent = number(9)
	for range 1000 {
		b.Add(child)
	}
	full := b.held()
	d := b.Drops()
	errorIf(t, d[DropFull] == 0 || full > MaxBuffered*7/8+MaxChunk, "%d bytes of children, drops %v", full, d)
	for range 1000 {
		b.Add(root)
	}
	n := b.held()
	errorIf(t, n <= full || n > MaxBuffered+2*MaxString, "%d bytes with roots, %d without", n, full)
	r := newRows()
	flush(t, b, r, hour0+minute)
	errorIf(t, b.held() > MaxChunk, "%d bytes after a flush", b.held())
	got := read(t, r, Query{})
	errorIf(t, got.Dropped != b.Drops()[DropFull], "the reader sees %d dropped spans, the buffer %v", got.Dropped, b.Drops())
}

func TestManyHoursNeedFewChunks(t *testing.T) {
	b, r := NewBuffer(Options{Incarnation: 1}), newRows()
	for i := range 2000 { // times of users, in the past and in the future
		at := hour0 + int64(i-1000)*hour1
		b.Add(made(i+1, at, at+1))
	}
	b.Add(made(3000, math.MinInt64, math.MaxInt64), made(3001, math.MaxInt64, math.MinInt64))
	n := len(b.current)
	errorIf(t, n > maxPending, "%d chunks", n)
	flush(t, b, r, hour0)
	exact(t, b, r)
	s, _ := Size(r)
	errorIf(t, s.Chunks > 2*maxPending, "%d chunks are stored", s.Chunks)
}

// TestPartialRecordsAreWrittenOnce: an open span is written when it is new or changed, and once in
// each hour.
func TestPartialRecordsAreWrittenOnce(t *testing.T) {
	r, b := newRows(), NewBuffer(Options{Incarnation: 1})
	live := new(made(1, hour0, 0))
	b.Open(number(1), live.TraceID, live)
	records := func() int {
		n := 0
		for k, v := range r.m {
			if keyspace.TraceChunk.Has([]byte(k)) {
				h, _ := parseHeader(v)
				n += int(h.partials)
			}
		}
		return n
	}
	step := func(what string, at int64, want int) {
		t.Helper()
		flush(t, b, r, at)
		n := records()
		errorIf(t, n != want, "%s: %d records, want %d", what, n, want)
	}
	step("new", hour0+1*second, 1)
	step("unchanged", hour0+2*second, 1)
	live.Events = append(live.Events, Event{Name: "one", Time: hour0 + 3})
	step("event", hour0+3*second, 2)
	live.Attributes = append(live.Attributes, Int("n", 1))
	live.Events = append(live.Events, Event{Name: "two", Time: hour0 + 4})
	step("attribute and event", hour0+4*second, 3)
	live.Status = Error
	step("status", hour0+5*second, 4)
	live.Name = "renamed"
	step("name", hour0+6*second, 5)
	live.Events, live.DroppedEvents = append(live.Events[1:], Event{Name: "three", Time: hour0 + 5}), 1
	step("dropped event", hour0+7*second, 6)
	step("next hour", hour0+hour1, 7)
	step("unchanged in the next hour", hour0+hour1+second, 7)

	got := read(t, r, Query{}).Spans
	want := *live
	want.Partial, want.End, want.Status, want.Message = true, hour0+hour1, Error, "actor stopped"
	errorIf(t, len(got) != 1 || !reflect.DeepEqual(got[0], want), "the merged span is\n%+v, want\n%+v", got, want)

	end := *live
	end.End = hour0 + hour1 + minute
	b.End(end)
	flush(t, b, r, hour0+hour1+minute)
	if got := read(t, r, Query{}).Spans; len(got) != 1 || !reflect.DeepEqual(got[0], end) {
		t.Errorf("the ended span is %+v", got)
	}
}

// TestASpanThatEndsDuringAFlushIsNotPartial: its snapshot was taken before.
func TestASpanThatEndsDuringAFlushIsNotPartial(t *testing.T) {
	r, b := newRows(), NewBuffer(Options{Incarnation: 1})
	first, last := made(1, hour0, 0), made(3, hour0, 0)
	ending := &snapshotFunc{}
	ending.f = func() Span {
		s := made(2, hour0, hour0+1)
		b.End(s)
		s.End = 0
		return s
	}
	b.Open(number(1), first.TraceID, &first)
	b.Open(number(2), first.TraceID, ending)
	b.Open(number(3), first.TraceID, &last)
	flush(t, b, r, hour0+second)
	got := read(t, r, Query{}).Spans
	wantNumbers(t, "all", got, 1, 2, 3)
	if len(got) == 3 && (!got[0].Partial || got[1].Partial || !got[2].Partial) {
		t.Errorf("partial: %v %v %v", got[0].Partial, got[1].Partial, got[2].Partial)
	}
}

type snapshotFunc struct{ f func() Span }

func (s *snapshotFunc) Snapshot() Span { return s.f() }

// TestBuffersAreSafeForConcurrentUse adds, opens and ends spans during flushes and reads.
func TestBuffersAreSafeForConcurrentUse(t *testing.T) {
	b, r := NewBuffer(Options{Incarnation: 1}), newRows()
	var mu sync.Mutex // of r
	var work, beside sync.WaitGroup
	const each = 500
	for w := range 4 {
		work.Go(func() {
			for i := range each {
				n := w*each + i + 1
				s := made(n, hour0+int64(n), 0)
				b.Open(s.SpanID, s.TraceID, new(s))
				s.End = s.Start + 10
				b.End(s)
				if i%2 == 1 {
					b.Add(made(n+100_000, s.Start, s.End))
				}
			}
		})
	}
	stop := make(chan struct{})
	for _, f := range []func(Pending){
		func(Pending) { flush(t, b, r, hour0+minute) },
		func(p Pending) { read(t, r, Query{Live: p, Limit: MaxLimit}) },
	} {
		beside.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				p := b.Pending()
				mu.Lock()
				f(p)
				mu.Unlock()
			}
		})
	}
	work.Wait()
	close(stop)
	beside.Wait()
	flush(t, b, r, hour0+2*minute)
	got := read(t, r, Query{Limit: MaxLimit})
	if want := 4*each + 4*each/2; len(got.Spans) != want || got.Damaged != nil || b.Drops() != (Drops{}) {
		t.Errorf("%d spans, want %d; damaged %v, drops %v", len(got.Spans), want, got.Damaged, b.Drops())
	}
	exact(t, b, r)
}

func TestBucketsOfTimes(t *testing.T) {
	for ns, want := range map[int64]int64{0: 0, 1: 0, hour1: 3600, hour1 - 1: 0, -1: -3600, -hour1: -3600, -hour1 - 1: -7200} {
		got := bucketOf(ns)
		errorIf(t, got != want, "%d is in %d, want %d", ns, got, want)
	}
}
