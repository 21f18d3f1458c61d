package kv

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"reflect"
	"testing"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/kv"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/keyspace/tuple"
	kvrows "github.com/cairn-run/cairn/runtime/internal/part/kv/rows"
)

func pack(parts ...any) []byte {
	b, err := tuple.Tuple(parts).Pack()
	if err != nil {
		panic(err)
	}
	return b
}

// A cursor is the client's: it must not lead out of the selection.
func TestCursorsStayInTheirSelection(t *testing.T) {
	start, end := pack("b"), append(pack("b"), 0xFF)
	for _, c := range []struct {
		last []byte
		ok   bool
	}{{pack("b"), true}, {pack("b", 1), true}, {pack("a"), false}, {pack("c"), false}, {nil, false}, {end, false}} {
		_, err := after(cursorOf(7, c.last), 7, start, end)
		errorIf(t, (err == nil) != c.ok, "%x: %v", c.last, err)
	}
	_, err := after(cursorOf(7, pack("z")), 7, nil, nil)
	errorIf(t, err != nil, "%v", err)
	_, err = after(cursorOf(7, pack("b")), 8, start, end)
	errorIf(t, host.CodeOf(err) != host.InvalidArgument, "%v", err)
}

// Nothing is below the empty key; a range that ends there must not reach the end of the store.
func TestRangesWithAnEmptyEndAreRefused(t *testing.T) {
	for _, text := range []string{`{"end":[]}`, `{"start":["a"],"end":[]}`} {
		var s kv.Selection
		must(t, json.Unmarshal([]byte(text), &s))
		_, _, err := bounds(&s)
		e, ok := err.(*host.Error)
		errorIf(t, !ok || e.Code != host.InvalidArgument || e.Metadata["field"] != "end", "%s: %v", text, err)
	}
}

func TestMutationsThatCannotBeDoneNameTheMember(t *testing.T) {
	for _, c := range []struct {
		text, field string
		code        host.Code
	}{
		{`{"op":"sum","key":["a"],"value":1,"min":"x","max":"y"}`, "min", host.InvalidArgument},
		{`{"op":"sum","key":["a"],"value":1,"min":1.5}`, "", ""}, // the stored value may be a double
		{`{"op":"sum","key":["a"],"value":1,"min":3,"max":2}`, "min", host.InvalidArgument},
		{`{"op":"sum","key":["a"],"value":1,"min":2,"max":2}`, "", ""},
		{`{"op":"sum","key":["a"],"value":"1"}`, "value", host.InvalidArgument},
		{`{"op":"min","key":["a"],"value":1,"min":1}`, "min", host.InvalidArgument},
		{`{"op":"put","key":[],"value":1}`, "key", host.InvalidArgument},
		{`{"op":"put","key":["a"]}`, "value", host.InvalidArgument},
		{`{"op":"put","key":["a"],"value":null}`, "", ""},
		{`{"op":"put","key":["a"],"value":1,"ttl_ms":-1}`, "ttl_ms", host.InvalidArgument},
		{`{"op":"touch","key":["a"]}`, "ttl_ms", host.InvalidArgument},
		{`{"op":"delete_range"}`, "prefix", host.InvalidArgument},
		{`{"op":"set","key":["a"],"value":1}`, "op", host.InvalidArgument},
	} {
		for range 20 {
			var in kv.Mutation
			must(t, json.Unmarshal([]byte(c.text), &in))
			err := parseMutation(new(kvrows.Mutation), host.JSON, &in, &resolver{now: time.Now()})
			fatalIf(t, host.CodeOf(err) != c.code, "%s: %v", c.text, err)
			e, ok := err.(*host.Error)
			fatalIf(t, ok && e.Metadata["field"] != c.field, "%s: %+v, want the field %q", c.text, e, c.field)
		}
	}
}

// rowsOf has the rows of some keys, and nothing else.
type rowsOf [][]byte

func (r rowsOf) Get(key []byte) (engine.Entry, bool, error) {
	return engine.Entry{Key: key, Value: key, Encoding: uint8(host.EncodedBytes)}, keyspace.UserKV.Has(key), nil
}

func (r rowsOf) List(q engine.ListQuery) (p engine.Page, err error) {
	for _, key := range r {
		if bytes.Compare(key, q.Start) < 0 || bytes.Compare(key, q.End) >= 0 || bytes.Compare(key, q.After) <= 0 {
			continue
		}
		if len(p.Entries) == q.Limit {
			p.Next = p.Entries[q.Limit-1].Key
			break
		}
		p.Entries = append(p.Entries, engine.Entry{Key: key})
	}
	return p, nil
}

func (r rowsOf) Each(q engine.ListQuery, visit func(*engine.Entry) bool) error {
	for _, key := range r {
		if bytes.Compare(key, q.Start) < 0 || bytes.Compare(key, q.End) >= 0 {
			continue
		}
		key := bytes.Clone(key)
		more := visit(&engine.Entry{Key: key})
		if clear(key); !more { // it is valid during the visit
			break
		}
	}
	return nil
}

// A count and a sample of more than a call reads go on at their cursor, until all has been seen once.
func TestCountsGoOnAtTheirCursor(t *testing.T) {
	var rows rowsOf
	for i := range 25 {
		rows = append(rows, keyspace.UserKV.Append(nil, pack("a", i)))
	}
	r := reader{rows: rows, codec: host.JSON}
	for most := 1; most < 30; most++ {
		in, sampled := kv.CountInput{Selection: kv.Selection{Prefix: kv.Key{"a"}}}, kv.SampleInput{Selection: kv.Selection{Prefix: kv.Key{"a"}}, N: 5}
		n, calls, chosen := int64(0), 0, map[string]bool{}
		for {
			out, err := r.count(&in, most)
			n, calls = n+out.Count, calls+1
			part, err2 := r.sample(&sampled, most)
			if err := errors.Join(err, err2); err != nil || part.Count != out.Count || part.Cursor != out.Cursor || len(part.Entries) != min(5, int(part.Count)) {
				t.Fatalf("%d: %+v, %+v, %v", most, out, part, err)
			}
			for _, e := range part.Entries {
				chosen[fmt.Sprint(e.Key)] = true
			}
			if in.Cursor = out.Cursor; in.Cursor == "" {
				break
			}
			sampled.Cursor = part.Cursor
		}
		errorIf(t, n != 25 || calls > 25/most+1 || most <= 5 && len(chosen) != 25,
			"%d at a time: counted %d in %d calls, %d were chosen", most, n, calls, len(chosen))
	}
	in := kv.CountInput{Selection: kv.Selection{Prefix: kv.Key{"b"}}, Cursor: cursorOf(listingOf(pack("a"), append(pack("a"), 0xFF)), pack("a", 1))}
	_, err := r.count(&in, 1)
	errorIf(t, host.CodeOf(err) != host.InvalidArgument, "%v", err)
}

// A sample keeps no memory of the rows that it visits.
func TestASampleHoldsNoRows(t *testing.T) {
	var rows rowsOf
	for i := range 20 {
		rows = append(rows, keyspace.UserKV.Append(nil, pack("a", i)))
	}
	r := reader{rows: rows, codec: host.JSON}
	out, err := r.sample(&kv.SampleInput{N: 5, KeysOnly: true}, 1000)
	errorIf(t, err != nil || len(out.Entries) != 5 || out.Count != 20, "%+v, %v", out, err)
	for _, e := range out.Entries {
		errorIf(t, e.Key[0] != "a", "the key is %v", e.Key)
	}
}

// Each entry is chosen as often as any other, and a seed chooses always the same ones.
func TestSamplesAreFairAndDecidedByTheSeed(t *testing.T) {
	var rows rowsOf
	for i := range 20 {
		rows = append(rows, keyspace.UserKV.Append(nil, pack("a", i)))
	}
	r := reader{rows: rows, codec: host.JSON}
	counts := make([]int, 20)
	for seed := range uint64(2000) {
		var twice [2]kv.SampleOutput
		for i := range twice {
			var err error
			twice[i], err = r.sample(&kv.SampleInput{N: 5, Seed: seed}, 1000)
			must(t, err)
		}
		fatalIf(t, !reflect.DeepEqual(twice[0], twice[1]) || len(twice[0].Entries) != 5 || twice[0].Count != 20, "%+v", twice)
		last := int64(-1)
		for _, e := range twice[0].Entries {
			n := e.Key[1].(int64)
			fatalIf(t, n <= last, "%+v is not in order", twice[0])
			last = n
			counts[n]++
		}
	}
	for i, n := range counts { // 500 are expected
		errorIf(t, n < 400 || n > 600, "entry %d was chosen %d times", i, n)
	}
}

// A client may make any cursor.
func TestForgedCursorsAreRefused(t *testing.T) {
	prefix := pack("p")
	mark := fnv.New64a()
	mark.Write([]byte("groups"))
	mark.Write(prefix)
	for _, last := range [][]byte{{4, 0xFE}, keyspace.UserKV.Append(nil, prefix), keyspace.UserKV.Append(nil, pack("q")), {0xFF}} {
		in := kv.GroupsInput{Prefix: kv.Key{"p"}, Cursor: cursorOf(mark.Sum64(), last)}
		_, err := groups(&reader{rows: nothing{}}, &in)
		errorIf(t, host.CodeOf(err) != host.InvalidArgument, "%x: %v", last, err)
	}
}
