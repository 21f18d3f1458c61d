package cell_test

import (
	"encoding/binary"
	"errors"
	goruntime "runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime"
	"github.com/cairn-run/cairn/runtime/cell"
)

// bounded calls a method of the cell "c", and demands that all allocations together are so many times the size of the input.
func bounded(t *testing.T, node host.Node, method string, codec host.Codec, input string, times uint64) error {
	t.Helper()
	var before, after goruntime.MemStats
	goruntime.ReadMemStats(&before)
	_, err := node.Call(t.Context(), &host.Request{
		Address: host.Address{Type: "cell", Key: []string{"c"}}, Method: method, Codec: codec, Input: []byte(input),
	})
	goruntime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; got > times*uint64(len(input)) {
		t.Errorf("%.40q: %d bytes are allocated for %d", input, got, len(input))
	}
	return err
}

// A document in CBOR takes memory by what its JSON has, and one that is longer than any may be is not read.
func TestADocumentInCBORTakesFewTimesItsSize(t *testing.T) {
	node := open(t, runtime.Options{})
	array := func(n int, one string) string {
		return string(binary.BigEndian.AppendUint32([]byte{0x9a}, uint32(n))) + strings.Repeat(one, n)
	}
	for _, c := range []struct {
		item  string
		code  host.Code
		times uint64 // its size, that all allocations have: most of them are of a text that grows
	}{
		{array(350_000, "\xa1\x01\xf6"), host.InvalidArgument, 48},
		{array(2, array(530_000, "\xf6")), host.InvalidArgument, 48},
		{array(50_000, "\xf6"), "", 300},
		{array(20_000, "\xa1\x01\xf6"), "", 300},
	} {
		input := "\xa2\x66stream\x63log\x65items\x81" + c.item
		if err := bounded(t, node, host.StreamAppend, host.CBOR, input, c.times); host.CodeOf(err) != c.code {
			t.Errorf("%.20q of %d bytes: %v", c.item, len(c.item), err)
		}
	}
}

// TestLongListsOfACommitAreNotDecoded sends commits with many more elements than they may have, and
// one with a value that has as many.
func TestLongListsOfACommitAreNotDecoded(t *testing.T) {
	const n = 300_000
	node := open(t, runtime.Options{})
	list := func(one string) string { return "[" + strings.Repeat(one+",", n-1) + one + "]" }
	bytes := func(one string) string {
		return string(binary.BigEndian.AppendUint32([]byte{0x9a}, n)) + strings.Repeat(one, n)
	}
	for _, c := range []struct {
		codec       host.Codec
		input, path string
		limit       int
	}{
		{host.JSON, `{"mutations":` + list("{}") + `}`, "mutations", cell.MaxMutations},
		{host.JSON, `{"checks":` + list("null") + `}`, "checks", cell.MaxChecks},
		{host.JSON, `{"\u0065nqueues":` + list("{}") + `}`, "enqueues", cell.MaxEnqueues},
		{host.JSON, `{"enqueues":[{},{"backoff_ms":` + list("0") + `}]}`, "enqueues[1].backoff_ms", 100},
		{host.JSON, `{"enqueues":[{"keys_if_undelivered":` + list("[]") + `}]}`, "enqueues[0].keys_if_undelivered", 10},
		{host.JSON, `{"mutations":[{"op":"put","key":["a"],"value":` + list("[]") + `}]}`, "", 0},
		{host.CBOR, "\xa1\x69mutations" + bytes("\xa0"), "mutations", cell.MaxMutations},
		{host.CBOR, "\xa1\x69mutations\xc6" + bytes("\xf6"), "mutations", cell.MaxMutations},
	} {
		err := bounded(t, node, "atomic", c.codec, c.input, 16)
		var e *host.Error
		switch is := errors.As(err, &e); {
		case c.path == "" && err != nil, c.path != "" && !is:
			t.Errorf("%.40q: %v", c.input, err)
		case is && (e.Code != host.TooLarge || e.Metadata["field"] != c.path || e.Metadata["limit"] != strconv.Itoa(c.limit) || e.Metadata["actual"] != "300000"):
			t.Errorf("%.40q: %v, with %v", c.input, e, e.Metadata)
		}
	}
}
