package kv

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/kv"
	"github.com/cairn-run/cairn/keyspace/tuple"
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
		if _, err := after(cursorOf(7, c.last), 7, start, end); (err == nil) != c.ok {
			t.Errorf("%x: %v", c.last, err)
		}
	}
	if _, err := after(cursorOf(7, pack("z")), 7, nil, nil); err != nil {
		t.Error(err)
	}
	if _, err := after(cursorOf(7, pack("b")), 8, start, end); host.CodeOf(err) != host.InvalidArgument {
		t.Error(err)
	}
}

// Nothing is below the empty key; a range that ends there must not reach the end of the store.
func TestRangesWithAnEmptyEndAreRefused(t *testing.T) {
	for _, text := range []string{`{"end":[]}`, `{"start":["a"],"end":[]}`} {
		var s kv.Selection
		if err := json.Unmarshal([]byte(text), &s); err != nil {
			t.Fatal(err)
		}
		_, _, err := bounds(&s)
		if e, ok := err.(*host.Error); !ok || e.Code != host.InvalidArgument || e.Metadata["field"] != "end" {
			t.Errorf("%s: %v", text, err)
		}
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
			if err := json.Unmarshal([]byte(c.text), &in); err != nil {
				t.Fatal(err)
			}
			_, err := parseMutation(host.JSON, &in, &resolver{now: time.Now()})
			if host.CodeOf(err) != c.code {
				t.Fatalf("%s: %v", c.text, err)
			}
			if e, ok := err.(*host.Error); ok && e.Metadata["field"] != c.field {
				t.Fatalf("%s: field %q, want %q", c.text, e.Metadata["field"], c.field)
			}
		}
	}
}
