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
	for _, local := range []bool{false, true} {
		bubble(t, func(o *Options) { o.MaxMailboxBytes = 100_000 }, nil, func(t *testing.T, g *stage) {
			g.must("a", add(1))
			hold := make(chan struct{})
			go g.do("a", func(*puppet, host.Turn) error { <-hold; return nil })
			synctest.Wait()
			refused := 0
			done := make(chan error, 100)
			for range 10 {
				go func() {
					in := &kv.CommitInput{Mutations: []kv.Mutation{{Op: "put", Key: kv.Key{"k"}, Value: kv.ByteString(make([]byte, 50_000)), Encoding: "bytes"}}}
					q := &host.Request{Address: pAddr("a"), Method: host.KVCommit, Codec: host.CBOR}
					if local {
						q.Value = in
					} else {
						q.Input, _ = wire.Output.Marshal(in)
					}
					_, err := g.Call(context.Background(), q)
					done <- err
				}()
			}
			synctest.Wait()
			close(hold)
			for range 10 {
				if err := <-done; host.CodeOf(err) == host.Overloaded {
					refused++
				} else if err != nil {
					t.Error(err)
				}
			}
			if refused == 0 {
				t.Errorf("local %v: 10 commits of 50 kB wait in 100 kB", local)
			}
		})
	}
}

// A value where none is taken is refused, and not ignored.
func TestValuesThatAreNotTakenAreRefused(t *testing.T) {
	t.Parallel()
	bubble(t, nil, nil, func(t *testing.T, g *stage) {
		g.kv("k=1")
		reply, err := g.Call(t.Context(), &host.Request{Address: pAddr("a"), Method: host.KVWatch, Codec: host.CBOR, Value: &kv.WatchInput{Keys: []kv.WatchedKey{{Key: kv.Key{"k"}}}}})
		t.Logf("%v %v %v", reply.Value, string(reply.Output), err)
		if err == nil || !strings.Contains(err.Error(), "as a value") {
			t.Errorf("kv.watch: %v", err)
		}
		_, err = g.Call(t.Context(), &host.Request{Address: pAddr("a"), Method: "look", Codec: host.CBOR, Value: &kv.GetInput{Key: kv.Key{"k"}}})
		if err == nil {
			t.Errorf("look: %v", err)
		}
	})
}

// What a query does not find is not found, also without encoding.
func TestWhatIsNotFoundIsSaidWithoutEncoding(t *testing.T) {
	t.Parallel()
	bubble(t, nil, nil, func(t *testing.T, g *stage) {
		g.kv("k=1")
		in := kv.GroupsInput{Prefix: kv.Key{"k"}}
		input, _ := wire.Output.Marshal(in)
		_, encoded := g.Call(t.Context(), &host.Request{Address: pAddr("a"), Method: host.KVGroups, Codec: host.CBOR, Input: input})
		_, local := g.Call(t.Context(), &host.Request{Address: pAddr("a"), Method: host.KVGroups, Codec: host.CBOR, Value: &in})
		if host.CodeOf(local) != host.CodeOf(encoded) {
			t.Errorf("%v, and encoded %v", local, encoded)
		}
	})
}

// An input means the same with and without encoding.
func TestKeysMeanTheSameWithoutEncoding(t *testing.T) {
	t.Parallel()
	bubble(t, nil, nil, func(t *testing.T, g *stage) {
		g.kv("k=1")
		for _, key := range []kv.Key{{"k"}, {kv.Raw(mustPack(t, kv.Key{"k"}))}, {int8(1)}, {uint64(1)}, {float32(1)}, {"\xff"}, {nil}, {kv.Raw("x")}, {}, nil} {
			in := kv.GetInput{Key: key}
			text := func(out *kv.GetOutput, err error) string {
				if err != nil {
					return err.Error()
				}
				return fmt.Sprintf("%+v", out.Entry != nil)
			}
			input, err := wire.Output.Marshal(in)
			encoded := text(nil, fmt.Errorf("%v", err))
			if err == nil {
				reply, err := g.Call(t.Context(), &host.Request{Address: pAddr("a"), Method: host.KVGet, Codec: host.CBOR, Input: input})
				if encoded = text(nil, orNone(err)); err == nil {
					out := wire.Read[kv.GetOutput](host.CBOR, reply.Output)
					encoded = text(&out, nil)
				}
			}
			reply, err := g.Call(t.Context(), &host.Request{Address: pAddr("a"), Method: host.KVGet, Codec: host.CBOR, Value: in.Detach()})
			local := text(nil, orNone(err))
			if err == nil {
				local = text(reply.Value.(*kv.GetOutput), nil)
			}
			if local != encoded {
				t.Errorf("%#v: without encoding %s, with it %s", key, local, encoded)
			}
		}
	})
}

func orNone(err error) error {
	if err == nil {
		return fmt.Errorf("none")
	}
	return err
}
