package node

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/kv"
	"github.com/cairn-run/cairn/runtime/internal/kernel/wire"
	"github.com/cairn-run/cairn/runtime/internal/timed"
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
				r := &host.Request{Address: pAddr("a"), Method: host.KVCommit, Codec: host.CBOR, Value: in}
				_, err := g.Call(context.Background(), r)
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
		errorIf(t, refused == 0, "10 commits of 50 kB wait in 100 kB")
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
		for _, key := range []kv.Key{
			{"k"}, {kv.Raw(mustPack(t, kv.Key{"k"}))}, {int8(1)}, {uint64(1)}, {float32(1)}, {"\xff"}, {nil}, {kv.Raw("x")}, {}, nil,
		} {
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
			errorIf(t, local != encoded || fmt.Sprint(lerr) != fmt.Sprint(err),
				"%#v: without encoding %s, %v, with it %s, %v", key, local, lerr, encoded, err)
		}
		in := kv.GroupsInput{Prefix: kv.Key{"k"}} // which are not found
		input, _ := wire.Output.Marshal(in)
		_, encoded := call(host.KVGroups, input, nil)
		if _, local := call(host.KVGroups, nil, &in); host.CodeOf(local) != host.CodeOf(encoded) {
			t.Errorf("%v, and encoded %v", local, encoded)
		}
		_, err := call(host.KVWatch, nil, &kv.WatchInput{Keys: []kv.WatchedKey{{Key: kv.Key{"k"}}}})
		errorIf(t, err == nil || !strings.Contains(err.Error(), "as a value"), "kv.watch: %v", err)
		if _, err = call("look", nil, &kv.GetInput{Key: kv.Key{"k"}}); err == nil {
			t.Error("look takes a value")
		}
	})
}

// A caller whose context has not made its Done waits with a timer of the kernel's, which many calls share one after the other.
func TestCallEndsAtTheDeadlineOfAContextThatHasNoChannel(t *testing.T) {
	bubble(t, nil, nil, func(t *testing.T, g *stage) {
		call := func(parent context.Context, limit, work time.Duration, asks bool) error {
			ctx := timed.Until(parent, time.Now().Add(limit))
			defer ctx.Cancel()
			start := time.Now()
			over := make(chan struct{})
			_, err := g.Call(ctx, &host.Request{Address: pAddr("a"), Method: "do", Codec: host.JSON, Input: remember(deed(func(_ *puppet, h host.Turn) error {
				defer close(over)
				if asks {
					h.Done() // which asks the caller's context
				}
				time.Sleep(work)
				return nil
			}))})
			took := time.Since(start)
			errorIf(t, took != min(limit, work) && parent.Err() == nil, "a call of %v with a limit of %v took %v", work, limit, took)
			<-over
			synctest.Wait()
			return err
		}
		for _, asks := range []bool{false, true} {
			for range 20 {
				wantCode(t, call(t.Context(), time.Second, 2*time.Second, asks), host.DeadlineExceeded)
				for range 3 {
					check(t, call(t.Context(), 2*time.Second, time.Second, asks))
				}
				parent, cancel := context.WithCancel(t.Context())
				time.AfterFunc(time.Second, cancel)
				wantCode(t, call(parent, 2*time.Second, 3*time.Second, asks), host.Canceled)
			}
		}
	})
}

// An orderNotes is the order of a request that reads. Its turn comes when the turns before it have run.
type orderNotes struct {
	before func()
	calls  string
}

// Reads implements host.Order.
func (o *orderNotes) Reads(context.Context) bool {
	o.before()
	o.calls += "reads "
	return true
}

// Placed implements host.Order.
func (o *orderNotes) Placed() { o.calls += "placed " }

// Waits implements host.Order.
func (o *orderNotes) Waits() { o.calls += "waits " }

// A later request begins while the handler of a query runs, and no earlier turn is missing in what the query sees.
func TestQueryHasItsPlaceWhenTheTurnsBeforeItHaveRunAndNotWhenItIsAnswered(t *testing.T) {
	for _, awake := range []bool{true, false} {
		bubble(t, nil, nil, func(t *testing.T, g *stage) {
			if awake {
				g.must("a", add(1))
			}
			o := &orderNotes{before: func() { g.must("a", add(1)) }}
			seen, at := 0, ""
			look := glance(func(s *puppetState, _ host.Reader) error { seen, at = s.N, o.calls; return nil })
			if _, err := g.Call(t.Context(), &host.Request{Address: pAddr("a"), Method: "look", Codec: host.JSON, Input: remember(look), Order: o}); err != nil {
				t.Fatal(err)
			}
			n := g.n("a")
			errorIf(t, seen != n || at != "reads placed ",
				"awake %t: the query saw %d of %d turns, and had %q when its handler ran", awake, seen, n, at)
		})
	}
}
