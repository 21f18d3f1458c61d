package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fxamacker/cbor/v2"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/runtime/internal/kernel/wire"
	"github.com/cairn-run/cairn/runtime/internal/survey"
)

// cborOf encodes values as items.
func cborOf(values ...any) [][]byte {
	out := make([][]byte, len(values))
	for i, v := range values {
		out[i], _ = cbor.Marshal(v)
	}
	return out
}

func (n *diaryNode) read(in host.StreamReadInput) (out host.StreamReadOutput) {
	n.t.Helper()
	n.must(host.StreamRead, in, &out)
	return out
}

func texts(out host.StreamReadOutput) []string {
	all := []string{}
	for _, it := range out.Items {
		all = append(all, string(it.Value))
	}
	return all
}

func TestItemsOfATurnAreReadOnceItIsCommittedAndNotOtherwise(t *testing.T) {
	withDiaries(t, func(t *testing.T, n *diaryNode) {
		n.mustDo(func(d *diary, ht host.Turn) error {
			if last, err := ht.StreamAppend("tokens", cborOf("a", 2)); last != 2 || err != nil {
				t.Error(last, err)
			}
			page, err := ht.StreamRead("tokens", 0, 0)
			if err != nil || len(page.Items) != 2 {
				t.Error("a turn does not see what it appended", page, err)
			}
			return err
		})
		err := n.do(func(d *diary, ht host.Turn) error {
			ht.StreamAppend("tokens", cborOf("never"))
			ht.StreamClose("tokens")
			return errors.New("boom")
		})
		if err == nil {
			t.Fatal("no error")
		}
		out := n.read(host.StreamReadInput{Stream: "tokens"})
		if !slices.Equal(texts(out), []string{`"a"`, "2"}) || out.Next != 2 || out.Closed {
			t.Fatalf("%+v", out)
		}
		n.crash(0, 0)
		if out := n.read(host.StreamReadInput{Stream: "tokens", After: 1}); !slices.Equal(texts(out), []string{"2"}) {
			t.Fatalf("%+v", out)
		}
		var counts []int
		n.must(host.StreamAppend, host.StreamAppendInput{Stream: "log", Items: []host.Raw{host.Raw("1"), host.Raw(`{"x":[]}`)}}, nil)
		if n.must("list", "", &counts); !slices.Equal(counts, []int{0, 2, 2}) {
			t.Fatal("a query reads", counts)
		}
	})
}

func TestReaderWaitsForTheNextItemAndLearnsTheEnd(t *testing.T) {
	withDiaries(t, func(t *testing.T, n *diaryNode) {
		n.mustDo(func(_ *diary, ht host.Turn) error { _, err := ht.StreamAppend("tokens", cborOf(1)); return err })
		begin := time.Now()
		if out := n.read(host.StreamReadInput{Stream: "tokens", After: 1, WaitMS: 30_000}); len(out.Items) != 0 || out.Next != 1 || time.Since(begin) != 30*time.Second {
			t.Fatalf("%+v after %v", out, time.Since(begin))
		}
		got := make(chan string, 10)
		go func() {
			after := uint64(1)
			for {
				out := n.read(host.StreamReadInput{Stream: "tokens", After: after, WaitMS: 60_000})
				for _, it := range out.Items {
					got <- fmt.Sprintf("%s at %v", it.Value, time.Since(begin))
				}
				if after = out.Next; out.Closed {
					close(got)
					return
				}
			}
		}()
		for i := range 2 {
			time.Sleep(10 * time.Second)
			n.mustDo(func(_ *diary, ht host.Turn) error { _, err := ht.StreamAppend("tokens", cborOf(i+2)); return err })
		}
		time.Sleep(10 * time.Second)
		n.mustDo(func(_ *diary, ht host.Turn) error { return ht.StreamClose("tokens") })
		var all []string
		for s := range got {
			all = append(all, s)
		}
		if !slices.Equal(all, []string{"2 at 40s", "3 at 50s"}) {
			t.Fatal(all)
		}
		if err := n.do(func(_ *diary, ht host.Turn) error { _, err := ht.StreamAppend("tokens", cborOf(1)); return err }); host.CodeOf(err) != host.FailedPrecondition {
			t.Fatal(err)
		}
		if n.Signals.Len() != 0 {
			t.Error("somebody still waits")
		}
	})
}

// TestReaderWhoWaitsWithAPositionOfAnEarlierActorMissesNothing: the new actor appends more in one turn than the position
// counts, so that the reader would find itself in the middle if it had not been told at once that it begins anew.
func TestReaderWhoWaitsWithAPositionOfAnEarlierActorMissesNothing(t *testing.T) {
	withDiaries(t, func(t *testing.T, n *diaryNode) {
		n.must(host.StreamAppend, `{"stream":"log","items":[1,2,3]}`, nil)
		if err := n.Destroy(context.Background(), diaryAddress); err != nil {
			t.Fatal(err)
		}
		n.mustDo(func(*diary, host.Turn) error { return nil })
		begin := time.Now()
		out := n.read(host.StreamReadInput{Stream: "log", After: 3, WaitMS: 60_000})
		if out.Next != 0 || len(out.Items) != 0 || time.Since(begin) != 0 {
			t.Fatalf("%+v after %v", out, time.Since(begin))
		}
		n.must(host.StreamAppend, `{"stream":"log","items":[4,5,6,7,8]}`, nil)
		if out := n.read(host.StreamReadInput{Stream: "log", After: out.Next}); len(out.Items) != 5 {
			t.Fatalf("%+v", out)
		}
	})
}

func TestOnlyExternalStreamsAreWrittenFromOutside(t *testing.T) {
	withDiaries(t, func(t *testing.T, n *diaryNode) {
		for _, method := range []string{host.StreamAppend, host.StreamClose} {
			n.must(host.StreamAppend, `{"stream":"log","items":[1]}`, nil)
			if err := n.call(method, `{"stream":"tokens"}`, nil); host.CodeOf(err) != host.PermissionDenied {
				t.Errorf("%s: %v", method, err)
			}
		}
		n.mustDo(func(_ *diary, ht host.Turn) error { _, err := ht.StreamAppend("tokens", cborOf(1, 2)); return err })
		var count host.CountOutput
		if n.must(host.StreamDelete, `{"stream":"tokens"}`, &count); count.Count != 2 {
			t.Error("an operator deleted", count)
		}
		var list host.StreamListOutput
		if n.must(host.StreamList, "", &list); len(list.Streams) != 1 || list.Streams[0].Stream != "log" || list.Streams[0].Last != 2 {
			t.Errorf("%+v", list)
		}
		if n.must(host.StreamList, `{"stream":"tokens"}`, &list); len(list.Streams) != 1 || list.Streams[0].Last != 2 || list.Streams[0].First != 3 {
			t.Errorf("%+v", list)
		}
		var info host.StreamInfo
		if n.must(host.StreamClose, `{"stream":"log"}`, &info); !info.Closed || info.Last != 2 || info.Updated.IsZero() {
			t.Errorf("%+v", info)
		}
	})
}

func TestAppendMayCloseTheStreamInTheSameTurn(t *testing.T) {
	withDiaries(t, func(t *testing.T, n *diaryNode) {
		var out host.StreamAppendOutput
		if n.must(host.StreamAppend, `{"stream":"log","items":[1,2],"close":true}`, &out); out.Last != 2 {
			t.Fatal(out)
		}
		if page := n.read(host.StreamReadInput{Stream: "log"}); !page.Closed || len(page.Items) != 2 {
			t.Fatalf("%+v", page)
		}
		n.must(host.StreamAppend, `{"stream":"log","close":true}`, nil) // it is
	})
}

func TestStreamCallsThatAreWrongSayWhy(t *testing.T) {
	withDiaries(t, func(t *testing.T, n *diaryNode) {
		n.must(host.StreamAppend, `{"stream":"log","items":[1]}`, nil)
		for _, c := range []struct {
			method, in, text string
			code             host.Code
		}{
			{host.StreamAppend, `{"stream":"log"}`, "items", host.InvalidArgument},
			{host.StreamAppend, `{"stream":"log","items":["bad"]}`, "it is bad", host.InvalidArgument},
			{host.StreamAppend, `{"stream":"*","items":[1]}`, "cannot name a stream", host.InvalidArgument},
			{host.StreamAppend, `{"stream":"log","items":[` + strings.Repeat("1,", host.MaxStreamBatch) + `1]}`, "limit of 1000", host.TooLarge},
			{host.StreamAppend, `{"stream":"log","items":["` + strings.Repeat("x", host.DefaultStreamItemBytes) + `"]}`, "item bytes", host.TooLarge},
			{host.StreamRead, `{"stream":""}`, "stream is missing", host.InvalidArgument},
			{host.StreamRead, `{"stream":"log","limit":1001}`, "limit", host.InvalidArgument},
			{host.StreamRead, `{"stream":"log","limit":-1}`, "limit", host.InvalidArgument},
			{host.StreamRead, `{"stream":"log","wait_ms":60001}`, "wait_ms", host.InvalidArgument},
			{host.StreamRead, `{"stream":"log","after":-1}`, "after", host.InvalidArgument},
		} {
			if err := n.call(c.method, c.in, nil); host.CodeOf(err) != c.code || !strings.Contains(err.Error(), c.text) {
				t.Errorf("%s of %.60s: %v", c.method, c.in, err)
			}
		}
		for _, method := range []string{host.StreamRead, host.StreamList, host.StreamDelete, host.StreamClose} {
			_, err := n.Call(context.Background(), &host.Request{
				Address: host.Address{Type: "diary", Key: []string{"none"}}, Method: method, Codec: host.JSON, Input: []byte(`{"stream":"log"}`),
			})
			if host.CodeOf(err) != host.NotFound {
				t.Errorf("%s of an actor that is not there: %v", method, err)
			}
		}
	})
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

func TestItemsThatAreTooOldAreRemovedWithoutAnotherAppend(t *testing.T) {
	withDiaries(t, func(t *testing.T, n *diaryNode) {
		n.mustDo(func(_ *diary, ht host.Turn) error { _, err := ht.StreamAppend("short", cborOf(1, 2)); return err })
		count := func() int {
			id, _, err := n.Store.Lookup(n.Identity(diaryAddress))
			if err != nil {
				t.Fatal(err)
			}
			snap := n.Store.Snapshot(id)
			defer snap.Close()
			k, err := survey.CountKeys(snap, keyspace.StreamItem.Kind)
			if err != nil {
				t.Fatal(err)
			}
			return k
		}
		time.Sleep(59 * time.Second)
		if out := n.read(host.StreamReadInput{Stream: "short"}); len(out.Items) != 2 {
			t.Fatalf("%+v", out)
		}
		time.Sleep(time.Second)
		if out := n.read(host.StreamReadInput{Stream: "short"}); len(out.Items) != 0 || out.Missed != 2 || count() != 2 {
			t.Fatalf("%+v, %d rows", out, count())
		}
		n.crash(0, 0)
		time.Sleep(2 * time.Hour)
		if count() != 0 || len(n.wakes()) != 0 {
			t.Fatal(count(), "rows are left, and", n.wakes())
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
