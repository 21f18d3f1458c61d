package node

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/kv"
	"github.com/cairn-run/cairn/runtime/internal/kernel/wire"
)

// Commits that come without encoding take room in the mailbox as others do.
func TestCommitsWithoutEncodingCountAgainstTheBytesOfTheMailbox(t *testing.T) {
	t.Parallel()
	bubble(t, func(o *Options) { o.MaxMailboxBytes = 100_000 }, nil, func(t *testing.T, g *stage) {
		g.must("a", add(1))
		hold := make(chan struct{})
		go g.do("a", func(*puppet, host.Turn) error { <-hold; return nil })
		synctest.Wait()
		const calls = 10
		done := make(chan error, calls)
		for range calls {
			go func() {
				m := kv.Mutation{Op: "put", Key: kv.Key{"k"}, Value: kv.ByteString(make([]byte, 50_000)), Encoding: "bytes"}
				in := &kv.CommitInput{Mutations: []kv.Mutation{m}}
				_, err := g.Call(context.Background(), &host.Request{Address: pAddr("a"), Method: host.KVCommit, Codec: host.CBOR, Value: in})
				done <- err
			}()
		}
		synctest.Wait()
		close(hold)
		refused := 0
		for range calls {
			if err := <-done; host.CodeOf(err) == host.Overloaded {
				refused++
			} else if err != nil {
				t.Error(err)
			}
		}
		if refused == 0 {
			t.Error("10 commits of 50 kB wait in 100 kB")
		}
	})
}

// An input means the same with and without encoding. A value where none is taken is refused, and not ignored.
func TestInputsMeanTheSameWithoutEncoding(t *testing.T) {
	t.Parallel()
	bubble(t, nil, nil, func(t *testing.T, g *stage) {
		g.kv("k=1")
		call := func(method string, input []byte, value any) (host.Reply, error) {
			return g.Call(t.Context(), &host.Request{Address: pAddr("a"), Method: method, Codec: host.CBOR, Input: input, Value: value})
		}
		for _, key := range []kv.Key{{"k"}, {kv.Raw(mustPack(t, kv.Key{"k"}))}, {int8(1)}, {uint64(1)}, {float32(1)}, {"\xff"}, {nil}, {kv.Raw("x")}, {}, nil} {
			in := kv.GetInput{Key: key}
			var encoded, local string
			input, err := wire.Output.Marshal(in)
			if err == nil {
				var reply host.Reply
				if reply, err = call(host.KVGet, input, nil); err == nil {
					encoded = fmt.Sprint(wire.Read[kv.GetOutput](host.CBOR, reply.Output).Entry != nil)
				}
			}
			reply, lerr := call(host.KVGet, nil, in.Detach())
			if lerr == nil {
				local = fmt.Sprint(reply.Value.(*kv.GetOutput).Entry != nil)
			}
			if local != encoded || fmt.Sprint(lerr) != fmt.Sprint(err) {
				t.Errorf("%#v: without encoding %s, %v, with it %s, %v", key, local, lerr, encoded, err)
			}
		}
		in := kv.GroupsInput{Prefix: kv.Key{"k"}} // which are not found
		input, _ := wire.Output.Marshal(in)
		_, encoded := call(host.KVGroups, input, nil)
		if _, local := call(host.KVGroups, nil, &in); host.CodeOf(local) != host.CodeOf(encoded) {
			t.Errorf("%v, and encoded %v", local, encoded)
		}
		_, err := call(host.KVWatch, nil, &kv.WatchInput{Keys: []kv.WatchedKey{{Key: kv.Key{"k"}}}})
		if err == nil || !strings.Contains(err.Error(), "as a value") {
			t.Errorf("kv.watch: %v", err)
		}
		if _, err = call("look", nil, &kv.GetInput{Key: kv.Key{"k"}}); err == nil {
			t.Error("look takes a value")
		}
	})
}
