package traces

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/cairn-run/cairn/keyspace"
)

// filled returns rows with the spans, flushed after each span.
func filled(t testing.TB, spans ...Span) *rows {
	t.Helper()
	r, b := newRows(), NewBuffer(Options{Incarnation: 1})
	now := hour0
	for _, s := range spans {
		b.Add(s)
		now = max(now, s.End)
		flush(t, b, r, now)
	}
	return r
}

// TestReadingAnHourReadsNoOther is defect 2 of the reference: it lists all chunks with their values
// for each read.
func TestReadingAnHourReadsNoOther(t *testing.T) {
	r, b := newRows(), NewBuffer(Options{Incarnation: 1})
	for i := range 100 {
		at := hour0 + int64(i)*hour1
		for j := range 3 {
			b.Add(made(10*i+j+1, at+int64(j), at+int64(j)+1))
			flush(t, b, r, at+minute)
		}
	}
	r.scanned, r.got = 0, 0
	wantNumbers(t, "hour 50", read(t, r, Query{Start: hour0 + 50*hour1, End: hour0 + 51*hour1}).Spans, 501, 502, 503)
	errorIf(t, r.scanned != 100+3 || r.got != 3, "the read visited %d keys, and read %d chunks", r.scanned, r.got)
}

// TestOpenSpansNeedNoChunkEach is defect 3 of the reference: it loads a whole chunk for each open
// span.
func TestOpenSpansNeedNoChunkEach(t *testing.T) {
	r, b := newRows(), NewBuffer(Options{Incarnation: 1})
	for i := range 200 {
		s := made(i+1, hour0+int64(i), 0)
		b.Open(s.SpanID, s.TraceID, &s)
	}
	flush(t, b, r, hour0+minute)
	r.got = 0
	got := read(t, r, Query{})
	errorIf(t, len(got.Spans) != 200 || r.got > 2, "%d spans from %d reads", len(got.Spans), r.got)
}

// TestPagesAreBoundedInBytes is defect 4 of the reference: its limit of spans does not bound bytes.
func TestPagesAreBoundedInBytes(t *testing.T) {
	var spans []Span
	for i := range 100 {
		s := made(i+1, hour0+int64(i), hour0+int64(i)+1)
		s.Attributes = []Attribute{String("text", strings.Repeat("x", 4000))}
		spans = append(spans, s)
	}
	r := filled(t, spans...)
	q := Query{MaxBytes: 20_000}
	var all []Span
	for range 100 {
		got := read(t, r, q)
		fatalIf(t, len(got.Spans) == 0 || len(got.Spans) > 5, "a page has %d spans", len(got.Spans))
		all = append(all, got.Spans...)
		if q.Cursor = got.Cursor; q.Cursor == "" {
			break
		}
	}
	errorIf(t, len(all) != 100 || !slices.IsSorted(numbers(all)), "the pages have spans %v", numbers(all))
	if got := read(t, r, Query{MaxBytes: 1}); len(got.Spans) != 1 {
		t.Errorf("a page of 1 byte has %d spans", len(got.Spans))
	}
}

func TestFaultyQueriesNameTheirField(t *testing.T) {
	r := filled(t, made(1, hour0, hour0+1), made(2, hour0+1, hour0+2))
	cursor := read(t, r, Query{Limit: 1}).Cursor
	for name, c := range map[string]struct {
		q     Query
		field string
	}{
		"end before start":           {Query{Start: 2, End: 1}, "end"},
		"negative limit":             {Query{Limit: -1}, "limit"},
		"large limit":                {Query{Limit: MaxLimit + 1}, "limit"},
		"negative bytes":             {Query{MaxBytes: -1}, "max_bytes"},
		"many bytes":                 {Query{MaxBytes: MaxReply + 1}, "max_bytes"},
		"no cursor":                  {Query{Cursor: "?"}, "cursor"},
		"short cursor":               {Query{Cursor: cursor[:20]}, "cursor"},
		"cursor of another time":     {Query{Cursor: cursor, End: 5}, "cursor"},
		"cursor of another start":    {Query{Cursor: cursor, Start: 5}, "cursor"},
		"cursor of another name":     {Query{Cursor: cursor, Name: "x"}, "cursor"},
		"cursor of another trace":    {Query{Cursor: cursor, TraceID: TraceID{1}}, "cursor"},
		"cursor of another severity": {Query{Cursor: cursor, Errors: true}, "cursor"},
		"cursor of another actor":    {Query{Cursor: cursor, Of: "x"}, "cursor"},
	} {
		_, err := Read(context.Background(), r, c.q)
		fault, ok := errors.AsType[*QueryError](err)
		errorIf(t, !ok || fault.Field != c.field || !strings.Contains(err.Error(), c.field), "%s: %v", name, err)
	}
	wantNumbers(t, "next page", read(t, r, Query{Limit: 5, Cursor: cursor}).Spans, 2)
}

func TestDamagedChunksAreNamed(t *testing.T) {
	r := filled(t, made(1, hour0, hour0+1), made(2, hour0+1, hour0+2), made(3, hour0+2, hour0+3), made(4, hour0+3, hour0+4))
	key := func(n uint64) string { return string(keyspace.TraceChunk.Append(nil, hour0/second, n)) }
	r.m[key(0)] = []byte("no chunk")
	r.m[key(1)] = r.m[key(1)][:len(r.m[key(1)])-5] // cut
	r.m[key(2)] = append(slices.Clone(r.m[key(2)][:headerBytes]), 0xFF)
	got := read(t, r, Query{})
	wantNumbers(t, "the rest", got.Spans, 4)
	slices.Sort(got.Damaged)
	want := []string{"trace/1771891200/chunk 0", "trace/1771891200/chunk 1", "trace/1771891200/chunk 2"}
	errorIf(t, !slices.Equal(got.Damaged, want), "damaged are %q, want %q", got.Damaged, want)
	r.m[string(keyspace.TraceBucket.Append(nil, hour0/second))] = nil
	got = read(t, r, Query{})
	wantNumbers(t, "with damaged totals", got.Spans, 4)
	errorIf(t, !slices.Contains(got.Damaged, "trace/1771891200/totals"), "damaged are %q", got.Damaged)
}

func TestReadReturnsFaultsOfTheStore(t *testing.T) {
	r := filled(t, made(1, hour0, hour0+1))
	for n := range 4 {
		fault := errors.New("no disk")
		left := n
		r.reading = func() error {
			if left--; left < 0 {
				return fault
			}
			return nil
		}
		_, err := Read(context.Background(), r, Query{})
		errorIf(t, n < 3 && !errors.Is(err, fault) || n == 3 && err != nil, "after %d reads: %v", n, err)
	}
	r.reading = nil
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := Read(ctx, r, Query{})
	errorIf(t, !errors.Is(err, context.Canceled), "with an ended context: %v", err)
}

func TestParentsComeAlong(t *testing.T) {
	family := func(n int, parent int, start, end int64) Span {
		s := made(n, start, end)
		if parent > 0 {
			s.Parent = number(parent)
		}
		return s
	}
	r, b := newRows(), NewBuffer(Options{Incarnation: 1})
	root := family(1, 0, hour0, 0)
	b.Open(root.SpanID, root.TraceID, &root)
	remote := family(6, 77, hour0+50, hour0+60)
	remote.RemoteParent = true
	b.Add(family(4, 3, hour0+30, hour0+31), family(5, 4, hour0+40, hour0+45), // 4 ended before its child
		family(3, 2, hour0+20, hour0+50), remote)
	flush(t, b, r, hour0+100)
	b.Add(family(2, 1, hour0+10, hour0+200))
	live := b.Pending()
	got := read(t, r, Query{Start: hour0 + 40, End: hour0 + 41, Live: live, Limit: 10, Name: "turn"})
	wantNumbers(t, "in the window", got.Spans, 1, 2, 3, 5)
	wantNumbers(t, "its parents", got.Parents, 4)

	q := Query{Live: live, Limit: 4}
	got = read(t, r, q)
	wantNumbers(t, "first page", got.Spans, 1, 2, 3, 4)
	wantNumbers(t, "its parents", got.Parents)
	q.Cursor = got.Cursor
	got = read(t, r, q)
	wantNumbers(t, "second page", got.Spans, 5, 6)
	wantNumbers(t, "its parents", got.Parents, 1, 2, 3, 4)
	errorIf(t, got.Parents[0].End != 0, "the root is %+v", got.Parents[0])
}

// TestParentsShareTheBytesOfTheirPage: a page is bounded in bytes with its parents, and has some of
// them even if it is full.
func TestParentsShareTheBytesOfTheirPage(t *testing.T) {
	var spans []Span
	for i := range 20 {
		up, s := made(i+1, hour0+int64(i), hour0+100), made(i+101, hour0+int64(i)+50, hour0+100)
		up.Name, s.Parent = "up", up.SpanID
		up.Attributes = []Attribute{String("text", strings.Repeat("x", 4000))}
		s.Attributes = up.Attributes
		spans = append(spans, up, s)
	}
	r := filled(t, spans...)
	for _, most := range []int{10_000, 40_000, 100_000, 1_000_000} {
		got := read(t, r, Query{Name: "turn", MaxBytes: most})
		size := 0
		for _, s := range slices.Concat(got.Spans, got.Parents) {
			size += s.Size()
		}
		if size > most || len(got.Parents) == 0 || len(got.Spans) < len(got.Parents) || most == 1_000_000 && len(got.Parents) < 20 {
			t.Errorf("of %d bytes there are %d spans and %d parents of %d bytes", most, len(got.Spans), len(got.Parents), size)
		}
	}
}

// TestParentsThatAreEachOthersEnd: ids of users can form a ring.
func TestParentsThatAreEachOthersEnd(t *testing.T) {
	a, b, c := made(1, hour0, hour0+1), made(2, hour0, hour0+1), made(3, hour0+10, hour0+11)
	a.Parent, b.Parent, c.Parent = number(2), number(1), number(1)
	got := read(t, filled(t, a, b, c), Query{Start: hour0 + 10, End: hour0 + 11})
	wantNumbers(t, "window", got.Spans, 3)
	wantNumbers(t, "parents", got.Parents, 1, 2)
}

// TestReadEqualsAModel compares pages of random selections with a list of all spans.
func TestReadEqualsAModel(t *testing.T) {
	runs := 8
	if os.Getenv("CAIRN_LONG") != "" { // `make soak`
		runs = 40
	}
	names := []string{"name", "name 1", strings.Repeat("n", 200)}
	for seed := range runs {
		random := rand.New(rand.NewPCG(uint64(seed), 5))
		r := newRows()
		model := map[identity]Span{}
		now, n := hour0, 0
		times := []int64{hour0} // at which spans begin or end
		var b *Buffer
		var open map[int]*Span
		var lastFlush int64
		restart := func(incarnation uint64) {
			for _, l := range open { // as the reader must return them
				s := *l
				s.Partial, s.End, s.Status, s.Message = true, lastFlush, Error, stoppedStatus
				model[s.identity()] = s
			}
			b, open = NewBuffer(Options{Incarnation: incarnation, MaxAge: 1000 * 24 * 3600 * 1e9}), map[int]*Span{}
		}
		restart(1)
		store := func() {
			before := len(r.m)
			if flush(t, b, r, now); len(r.m) > before { // a flush without anything to store leaves no trace
				lastFlush = now
			}
		}
		for step := range 400 {
			now += random.Int64N(4 * minute)
			switch random.IntN(8) {
			case 0, 1, 2:
				n++
				s := made(n, now-random.Int64N(hour1), now)
				s.TraceID = TraceID{0: byte(random.IntN(3))}
				if random.IntN(4) == 0 {
					s.Status = Error
				}
				s.Name = names[random.IntN(len(names))]
				times = append(times, s.Start, s.End)
				b.Add(s)
				model[s.identity()] = s
			case 3:
				n++
				s := made(n, now, 0)
				s.Partial = true
				s.TraceID = TraceID{0: byte(random.IntN(3))}
				l := new(s)
				b.Open(s.SpanID, s.TraceID, l)
				open[n] = l
				model[s.identity()] = s
			case 4:
				for k, l := range open {
					l.Events = append(l.Events, Event{Name: "event", Time: now})
					model[l.identity()] = l.Clone()
					if random.IntN(2) == 0 {
						s := *l
						s.Partial, s.End = false, now
						b.End(s)
						model[s.identity()] = s
						delete(open, k)
					}
					break
				}
			case 5, 6:
				store()
			case 7:
				if random.IntN(6) > 0 {
					continue
				}
				// A crash after a flush, so nothing is lost.
				store()
				restart(uint64(step + 2))
			}
		}
		live := b.Pending()
		if s, err := Size(r); err != nil || s.Bytes != r.size() {
			t.Errorf("the totals are %d bytes (%v), the rows %d", s.Bytes, err, r.size())
		}
		for range 30 {
			q := Query{Limit: 1 + random.IntN(40), Live: live}
			if random.IntN(3) > 0 {
				// Often a span begins or ends at that time, or one nanosecond apart.
				q.Start = times[random.IntN(len(times))] + random.Int64N(3) - 1
				q.End = max(q.Start, times[random.IntN(len(times))]+random.Int64N(3)-1)
			}
			if random.IntN(3) == 0 {
				q.Name = names[1+random.IntN(2)]
			}
			if random.IntN(3) == 0 {
				q.TraceID = TraceID{0: 1}
			}
			q.Errors = random.IntN(4) == 0
			var want []Span
			for _, s := range model {
				end := s.End
				if end == 0 {
					end = 1 << 62
				}
				limit := q.End
				if limit == 0 {
					limit = 1 << 62
				}
				if s.Start < limit && (end > q.Start || s.Start >= q.Start) && (q.Name == "" || q.Name == s.Name) &&
					(q.TraceID == TraceID{} || q.TraceID == s.TraceID) && (!q.Errors || s.Status == Error) {
					want = append(want, s)
				}
			}
			slices.SortFunc(want, func(a, b Span) int { return position{a.Start, a.identity()}.compare(position{b.Start, b.identity()}) })
			var got []Span
			for page := 0; ; page++ {
				p := read(t, r, q)
				got = append(got, p.Spans...)
				if len(p.Spans) > q.Limit || len(p.Damaged) > 0 || page > 1000 {
					t.Fatalf("seed %d: a page of %d spans, damaged %v", seed, len(p.Spans), p.Damaged)
				}
				if q.Cursor = p.Cursor; q.Cursor == "" {
					break
				}
			}
			if len(got) != len(want) {
				t.Fatalf("seed %d, %+v: spans %v, want %v", seed,
					Query{Start: q.Start, End: q.End, Name: q.Name, TraceID: q.TraceID, Errors: q.Errors}, numbers(got), numbers(want))
			}
			for i := range want {
				fatalIf(t, !reflect.DeepEqual(got[i], want[i]), "seed %d: span %d is\n%+v, want\n%+v", seed, i, got[i], want[i])
			}
		}
	}
}
