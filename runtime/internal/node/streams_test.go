package node

import (
	"fmt"
	"sync"
	"testing"

	"github.com/fxamacker/cbor/v2"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
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
		var out host.StreamReadOutput
		if err := g.cbor("a", host.StreamRead, host.StreamReadInput{Stream: "log", WaitMS: 1000}, &out); err != nil || len(out.Items) != 1 {
			t.Fatal(out, err)
		}
		if v, err := convertAny(0, 0, host.CBOR, out.Items[0].Value, host.JSON, nil); err != nil || string(v) != `{"a":1}` {
			t.Fatal(string(v), err)
		}
	})
}

// TestReaderSeesEachItemOnceWhateverTheCrash lets the power fail after every write and sync while an actor appends, and
// lets each reader go on, from where it was at that moment, on what is left.
func TestReaderSeesEachItemOnceWhateverTheCrash(t *testing.T) {
	const items = 20
	type clone struct {
		disk *engine.Disk
		seen int
	}
	puppets := &puppetType{name: "p", outside: true}
	appends := func(g *stage, from int) {
		for v := from; v <= items; v++ {
			g.mustVerb("a", host.StreamAppend, host.StreamAppendInput{Stream: "log", Items: []host.Raw{host.Raw(fmt.Sprint(v))}, Close: v == items}, nil)
		}
	}
	read := func(g *stage, seen *[]int) {
		for {
			var out host.StreamReadOutput
			g.mustVerb("a", host.StreamRead, host.StreamReadInput{Stream: "log", After: uint64(len(*seen)), WaitMS: 1000}, &out)
			for _, it := range out.Items {
				if string(it.Value) != fmt.Sprint(len(*seen)) || int(it.Sequence) != len(*seen)+1 {
					t.Errorf("item %d is %s, after %d", it.Sequence, it.Value, len(*seen))
				}
				*seen = append(*seen, len(*seen))
			}
			if out.Closed || out.Missed > 0 || t.Failed() {
				return
			}
		}
	}
	bubble(t, nil, []*puppetType{puppets}, func(t *testing.T, g *stage) {
		var clones []clone
		seen := []int{}
		g.mustVerb("a", host.StreamAppend, host.StreamAppendInput{Stream: "log", Items: []host.Raw{host.Raw("0")}}, nil)
		g.cuts(func(left *engine.Disk) { clones = append(clones, clone{left, len(seen)}) }, func() {
			var reader sync.WaitGroup
			reader.Go(func() { read(g, &seen) })
			appends(g, 1)
			reader.Wait()
		})
		for i, c := range clones {
			m := stageOn(t, c.disk, nil, puppets)
			again := seen[:c.seen:c.seen]
			// The actor goes on from what it finds, as an author's code would.
			var list host.StreamListOutput
			m.mustVerb("a", host.StreamList, nil, &list)
			last := int(list.Streams[0].Last)
			if last < c.seen {
				t.Fatalf("crash %d: a reader has seen %d items, %d are left", i, c.seen, last)
			}
			appends(m, last)
			if read(m, &again); len(again) != items+1 {
				t.Fatalf("crash %d: the reader saw %v", i, again)
			}
			m.stop()
		}
	})
}
