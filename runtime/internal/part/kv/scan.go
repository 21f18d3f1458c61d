package kv

import (
	"bytes"
	"cmp"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/kv"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace/tuple"
	kvrows "github.com/cairn-run/cairn/runtime/internal/part/kv/rows"
)

// countEntries bounds the entries that one call of kv.count or kv.sample reads, as scanTime bounds
// its time.
const countEntries = 1_000_000

// listingOf identifies a listing by its bounds and all other parts of its own, for cursors.
func listingOf(parts ...[]byte) uint64 {
	h := fnv.New64a()
	for _, part := range parts {
		h.Write(strconv.AppendInt(nil, int64(len(part)), 10))
		h.Write(append([]byte{':'}, part...))
	}
	return h.Sum64()
}

// scan visits the rows of a selection after a cursor, up to most of them, and returns the cursor
// after the last; "" is the end. A row is valid during the visit.
func (r *reader) scan(s *kv.Selection, cursor string, most int, visit func(*engine.Entry)) (string, error) {
	start, end, err := bounds(s)
	if err != nil {
		return "", err
	}
	listing := listingOf(start, end)
	if cursor != "" {
		last, err := after(cursor, listing, start, end)
		if err != nil {
			return "", err
		}
		start = append(last, 0)
	}
	q := engine.ListQuery{KeysOnly: true}
	q.Start, q.End = kvrows.Bounds(start, end)
	var last []byte // the key with which this call ends
	began, n, next := time.Now(), 0, ""
	err = r.rows.Each(q, func(e *engine.Entry) bool {
		if last != nil {
			next = cursorOf(listing, last)
			return false
		}
		visit(e)
		if n++; n >= most || n%1000 == 0 && time.Since(began) > scanTime {
			last = bytes.Clone(e.Key[1:])
		}
		return true
	})
	if err != nil {
		return "", err
	}
	return next, nil
}

// count counts up to most entries by their keys, or all of a scope by its count.
func (r *reader) count(in *kv.CountInput, most int) (out kv.CountOutput, err error) {
	if r, err = r.moment(&in.Moment); err != nil {
		return out, err
	}
	if in.Start == nil && in.End == nil && in.Cursor == "" {
		prefix, _, err := bounds(&in.Selection)
		if err != nil {
			return out, err
		}
		c, scoped, err := kvrows.Counted(r.rows, prefix, r.now.UnixMilli())
		if out.Count = c.Keys; scoped || err != nil {
			return out, err
		}
	}
	out.Cursor, err = r.scan(&in.Selection, in.Cursor, most, func(*engine.Entry) { out.Count++ })
	return out, err
}

// count implements kv.count.
func count(r *reader, in *kv.CountInput) (kv.CountOutput, error) { return r.count(in, countEntries) }

// sample implements kv.sample. It keeps N keys, and each later one replaces one of them with the
// right chance.
func (r *reader) sample(in *kv.SampleInput, most int) (out kv.SampleOutput, err error) {
	if r, err = r.moment(&in.Moment); err != nil {
		return out, err
	}
	n := cmp.Or(in.N, kv.DefaultSample)
	rnd := rand.New(rand.NewPCG(in.Seed, 0))
	type chosen struct {
		place int64
		row   engine.Entry
	}
	var rows []chosen
	out.Cursor, err = r.scan(&in.Selection, in.Cursor, most, func(e *engine.Entry) {
		i := rnd.Int64N(out.Count + 1)
		if len(rows) < n {
			i, rows = int64(len(rows)), append(rows, chosen{})
		}
		if i < int64(n) {
			rows[i] = chosen{out.Count, *e}
			rows[i].row.Key = bytes.Clone(e.Key) // Key is valid only during the visit
		}
		out.Count++
	})
	if err != nil {
		return kv.SampleOutput{}, err
	}
	slices.SortFunc(rows, func(a, b chosen) int { return cmp.Compare(a.place, b.place) })
	out.Entries = make([]kv.Entry, len(rows))
	size := 0
	for i := range rows {
		e := rows[i].row
		parts, err := tuple.Unpack(e.Key[1:])
		if err != nil {
			return kv.SampleOutput{}, err
		}
		if !in.KeysOnly {
			key := e.Key
			if e, _, err = r.rows.Get(key); err != nil {
				return kv.SampleOutput{}, err
			}
			if size += len(e.Value); size > kv.MaxValues {
				return kv.SampleOutput{},
					host.OverLimit("bytes of the values", kv.MaxValues, int64(size)).With("field", "n")
			}
		}
		if out.Entries[i], err = entryOf(r.codec, kv.Key(parts), &e, !in.KeysOnly); err != nil {
			return kv.SampleOutput{}, err
		}
	}
	return out, nil
}
