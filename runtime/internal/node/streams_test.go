package node

import (
	"fmt"
	"sync"
	"testing"

	"github.com/fxamacker/cbor/v2"

	"github.com/cairn-run/cairn/actor/host"
)

// cborOf encodes values as items.
func cborOf(values ...any) [][]byte {
	out := make([][]byte, len(values))
	for i, v := range values {
		out[i], _ = cbor.Marshal(v)
	}
	return out
}

func TestItemsAreReadInTheEncodingOfTheRequest(t *testing.T) {
	bubble(t, nil, []*puppetType{{name: "p", outside: true}}, func(t *testing.T, g *stage) {
		g.mustVerb("a", host.StreamAppend, host.StreamAppendInput{Stream: "log", Items: []host.Raw{host.Raw(`{"a":1}`)}}, nil)
		out := inCBOR[host.StreamReadOutput](g, host.StreamRead, host.StreamReadInput{Stream: "log", WaitMS: 1000})
		v, err := convertAny(0, 0, host.CBOR, out.Items[0].Value, host.JSON, nil)
		fatalIf(t, err != nil || string(v) != `{"a":1}`, "%v %v", string(v), err)
	})
}

// TestReaderSeesEachItemOnceWhateverTheCrash lets the power fail after every write and sync while an actor appends, and
// lets each reader go on, from where it was at that moment, on what is left.
func TestReaderSeesEachItemOnceWhateverTheCrash(t *testing.T) {
	const items = 20
	appends := func(g *stage, from int) {
		for v := from; v <= items; v++ {
			g.mustVerb("a", host.StreamAppend, host.StreamAppendInput{Stream: "log", Items: []host.Raw{host.Raw(fmt.Sprint(v))}, Close: v == items}, nil)
		}
	}
	read := func(g *stage, seen *int) {
		for {
			var out host.StreamReadOutput
			g.mustVerb("a", host.StreamRead, host.StreamReadInput{Stream: "log", After: uint64(*seen), WaitMS: 1000}, &out)
			for _, it := range out.Items {
				errorIf(g.t, string(it.Value) != fmt.Sprint(*seen) || int(it.Sequence) != *seen+1,
					"item %d is %s, after %d", it.Sequence, it.Value, *seen)
				*seen++
			}
			if out.Closed || out.Missed > 0 || g.t.Failed() {
				return
			}
		}
	}
	bubble(t, nil, []*puppetType{{name: "p", outside: true}}, func(t *testing.T, g *stage) {
		seen := 0
		g.mustVerb("a", host.StreamAppend, host.StreamAppendInput{Stream: "log", Items: []host.Raw{host.Raw("0")}}, nil)
		afterCuts(g, func() int { return seen }, func() {
			var reader sync.WaitGroup
			reader.Go(func() { read(g, &seen) })
			appends(g, 1)
			reader.Wait()
		}, func(m *stage, again int) {
			// The actor goes on from what it finds, as an author's code would.
			var list host.StreamListOutput
			m.mustVerb("a", host.StreamList, nil, &list)
			last := int(list.Streams[0].Last)
			errorIf(t, last < again, "a reader has seen %d items, %d are left", again, last)
			appends(m, last)
			if read(m, &again); again != items+1 {
				t.Errorf("the reader saw %d items", again)
			}
		})
	})
}
