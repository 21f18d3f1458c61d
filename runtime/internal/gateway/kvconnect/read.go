package kvconnect

import (
	"bytes"
	"context"
	"fmt"
	"math/big"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/kv"
	"github.com/cairn-run/cairn/actor/host/token"
	"github.com/cairn-run/cairn/runtime/internal/part/kv/v8"
	"github.com/cairn-run/cairn/runtime/internal/part/kv/value"
)

// The limits of a SnapshotRead, which clients rely on.
const (
	maxRanges  = 10
	maxEntries = 1_000 // of all ranges
	maxBound   = maxKey + 1
)

// snapshotRead answers a SnapshotRead.
func (s *store) snapshotRead(ctx context.Context, body []byte) ([]byte, error) {
	ranges, err := parseSnapshotRead(body)
	if err != nil {
		return nil, refused("%s", err)
	}
	var in kv.ListManyInput
	var asked []int // the range of each list
	entries := 0
	for i := range ranges {
		r := &ranges[i]
		if err := r.check(); err != nil {
			return nil, refused("ranges[%d]: %s", i, err)
		}
		if entries += int(r.limit); entries > maxEntries {
			return nil, refused("the limits of the ranges are together more than %d", maxEntries)
		}
		r.clip(token.Of(ctx))
		if bytes.Compare(r.start, r.end) < 0 {
			in.Lists, asked = append(in.Lists, r.list()), append(asked, i)
		}
	}
	out := make([][]entry, len(ranges))
	if len(asked) > 0 || len(ranges) > 0 && token.Of(ctx) != nil { // the node checks the right read of a token
		var listed struct{ Pages []page }
		if err := s.call(ctx, host.KVListMany, &in, &listed); err != nil {
			return nil, err
		}
		for i := range listed.Pages {
			p, r := &listed.Pages[i], asked[i]
			// For a client, a short page is the last one.
			if p.Cursor != "" && len(p.Entries) < int(ranges[r].limit) {
				return nil, refused("ranges[%d]: its entries are too large to be read together; ask for fewer", r)
			}
			if out[r], err = p.translate(); err != nil {
				return nil, err
			}
		}
	}
	return appendSnapshotReadOutput(nil, out), nil
}

func (r *readRange) check() error {
	switch n := max(len(r.start), len(r.end)); {
	case n > maxBound:
		return fmt.Errorf("a bound has %d bytes; the limit is %d", n, maxBound)
	case r.limit < 1:
		return fmt.Errorf("the limit is %d; it is at least 1", r.limit)
	}
	return nil
}

// clip limits the range to the prefix of the client's token. A client reads one entry with a range
// whose end is too far, so refusing the range would refuse the entry.
func (r *readRange) clip(g *token.Grant) {
	if g == nil {
		return
	}
	start, end := g.Bounds()
	if bytes.Compare(r.start, start) < 0 {
		r.start = start
	}
	if end != nil && bytes.Compare(r.end, end) > 0 {
		r.end = end
	}
}

// list returns the input of kv.list for a range that is not empty.
func (r *readRange) list() kv.ListInput {
	l := kv.ListInput{Limit: int(r.limit), Reverse: r.reverse}
	if len(r.start) > 0 {
		l.Start = kv.Key{kv.Raw(r.start)}
	}
	l.End = kv.Key{kv.Raw(r.end)}
	return l
}

// A page has the needed members of a kv.ListOutput in CBOR.
type page struct {
	Entries []struct {
		Key      kv.Key
		Value    []byte
		Encoding string
		Version  uint64
	}
	Cursor string
}

func (p *page) translate() ([]entry, error) {
	entries := make([]entry, len(p.Entries))
	for i := range p.Entries {
		e := &p.Entries[i]
		key, err := e.Key.Pack()
		if err != nil {
			return nil, err
		}
		encoding, _ := host.ParseEncoding(e.Encoding) // an unknown one counts as none
		entries[i] = entry{key, translate(value.Value{Encoding: encoding, Data: e.Value}), kv.Stamp(e.Version)}
	}
	return entries, nil
}

// translate converts a value for clients of Deno KV. A value that V8 cannot hold, which is rare,
// becomes its stored bytes.
func translate(v value.Value) kvValue {
	switch v.Encoding {
	case host.EncodedV8:
		return kvValue{v.Data, encodingV8}
	case host.EncodedU64:
		return kvValue{v.Data, encodingLE64}
	case host.EncodedBytes:
		return kvValue{v.Data, encodingBytes}
	case host.EncodedText:
		return kvValue{v8.FromText(string(v.Data)), encodingV8}
	case host.EncodedInteger:
		if len(v.Data) > 0 {
			n := new(big.Int).SetBytes(v.Data[1:])
			if v.Data[0] == 1 {
				n.Neg(n)
			}
			return kvValue{v8.FromInteger(n), encodingV8}
		}
	}
	if text, err := v.AppendJSON(nil); err == nil {
		if data, err := v8.FromJSON(text); err == nil {
			return kvValue{data, encodingV8}
		}
	}
	return kvValue{v.Data, encodingBytes}
}
