package node

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/fxamacker/cbor/v2"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/runtime/internal/kernel/wire"
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
	withDiaries(t, func(t *testing.T, n *diaryNode) {
		n.must(host.StreamAppend, `{"stream":"log","items":[{"a":1}]}`, nil)
		input, _ := wire.Output.Marshal(&host.StreamReadInput{Stream: "log", WaitMS: 1000})
		reply, err := n.Call(context.Background(), &host.Request{Address: diaryAddress, Method: host.StreamRead, Codec: host.CBOR, Input: input})
		if err != nil {
			t.Fatal(err)
		}
		var out host.StreamReadOutput
		if err := cbor.Unmarshal(reply.Output, &out); err != nil || len(out.Items) != 1 {
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
	withDiaries(t, func(t *testing.T, n *diaryNode) {
		type clone struct {
			disk *engine.Disk
			seen int
		}
		var clones []clone
		var seen []int
		n.must(host.StreamAppend, `{"stream":"log","items":[0]}`, nil)
		const items = 20
		reader := func(n *diaryNode, seen *[]int) error {
			for {
				input, _ := json.Marshal(host.StreamReadInput{Stream: "log", After: uint64(len(*seen)), WaitMS: 1000})
				reply, err := n.Call(context.Background(), &host.Request{Address: diaryAddress, Method: host.StreamRead, Codec: host.JSON, Input: input})
				if err != nil {
					return err
				}
				var out host.StreamReadOutput
				json.Unmarshal(reply.Output, &out)
				for _, it := range out.Items {
					var v int
					json.Unmarshal(it.Value, &v)
					if *seen = append(*seen, v); int(it.Sequence) != len(*seen) {
						return fmt.Errorf("item %d after %d", it.Sequence, len(*seen)-1)
					}
				}
				if out.Closed || out.Missed > 0 {
					return nil
				}
				if len(out.Items) == 0 && len(*seen) > 0 && n.Draining.Load() {
					return nil
				}
			}
		}
		moment := make(chan struct{})
		n.disk.Fail(func(op, _ string) error {
			if op == "sync" || op == "write" {
				moment <- struct{}{}
				<-moment
			}
			return nil
		})
		done := make(chan struct{}, 2)
		go func() {
			if err := reader(n, &seen); err != nil {
				t.Error(err)
			}
			done <- struct{}{}
		}()
		go func() {
			for i := range items {
				n.must(host.StreamAppend, host.StreamAppendInput{Stream: "log", Items: []host.Raw{host.Raw(fmt.Sprint(i + 1))}, Close: i == items-1}, nil)
			}
			done <- struct{}{}
		}()
		for left := 2; left > 0; {
			select {
			case <-moment:
				synctest.Wait()
				clones = append(clones, clone{n.disk.Crash(uint64(len(clones)), 35*(len(clones)%4)), len(seen)})
				moment <- struct{}{}
			case <-done:
				left--
			}
		}
		n.disk.Fail(nil)
		if len(seen) != items+1 || !slices.IsSorted(seen) {
			t.Fatal("the reader saw", seen)
		}
		t.Logf("%d crashes", len(clones))
		for i, c := range clones {
			m := &diaryNode{t: t, disk: c.disk}
			m.open()
			var again []int
			for v := range c.seen {
				again = append(again, v)
			}
			// The actor goes on from what it finds, as an author's code would.
			var list host.StreamListOutput
			m.must(host.StreamList, "", &list)
			if last := int(list.Streams[0].Last); last < c.seen {
				t.Fatalf("crash %d: a reader has seen %d items, %d are left", i, c.seen, last)
			} else if !list.Streams[0].Closed {
				for v := last; v <= items; v++ {
					m.must(host.StreamAppend, host.StreamAppendInput{Stream: "log", Items: []host.Raw{host.Raw(fmt.Sprint(v))}, Close: v == items}, nil)
				}
			}
			if err := reader(m, &again); err != nil || len(again) != items+1 || !slices.IsSorted(again) {
				t.Fatalf("crash %d: the reader saw %v, %v", i, again, err)
			}
			m.stop()
		}
	})
}

func BenchmarkStreamAppendCall(b *testing.B) {
	n := newBenchNode(b, &diaryHooks{})
	r := &host.Request{Address: diaryAddress, Method: host.StreamAppend, Codec: host.JSON, Input: []byte(`{"stream":"log","items":["a token"]}`)}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := n.Call(context.Background(), r); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkStreamReadCall(b *testing.B) {
	n := newBenchNode(b, &diaryHooks{})
	items := `{"stream":"log","items":["a token"` + strings.Repeat(`,"a token"`, 99) + `]}`
	if _, err := n.Call(context.Background(), &host.Request{Address: diaryAddress, Method: host.StreamAppend, Codec: host.JSON, Input: []byte(items)}); err != nil {
		b.Fatal(err)
	}
	r := &host.Request{Address: diaryAddress, Method: host.StreamRead, Codec: host.CBOR}
	r.Input, _ = wire.Output.Marshal(&host.StreamReadInput{Stream: "log"})
	b.ReportAllocs()
	for b.Loop() {
		if _, err := n.Call(context.Background(), r); err != nil {
			b.Fatal(err)
		}
	}
}
