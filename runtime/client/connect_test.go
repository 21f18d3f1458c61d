package client_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime/client"
)

func (n *socketNode) connect(c *client.Client, r host.ConnectRequest) host.LiveConnection {
	n.t.Helper()
	cn, err := c.Connect(n.t.Context(), room, r)
	if err != nil {
		n.t.Fatal(err)
	}
	return cn
}

// expect reads the events with these sequences and returns how many were told to be missing before them.
func (n *socketNode) expect(cn host.LiveConnection, sequences ...uint64) (missed uint64) {
	n.t.Helper()
	for len(sequences) > 0 {
		d, err := cn.Next(n.t.Context())
		if err != nil {
			n.t.Fatal(err)
		}
		missed += d.Missed
		for _, e := range d.Events {
			if len(sequences) == 0 || e.Sequence != sequences[0] || e.Version != e.Sequence+100 ||
				string(e.Data) != fmt.Sprintf(`{"n":%d}`, e.Sequence) || e.Time.IsZero() {
				n.t.Fatalf("got %+v %s, want %v", e, e.Data, sequences)
			}
			sequences = sequences[1:]
		}
	}
	return missed
}

func upTo(from, to uint64) (all []uint64) {
	for s := from; s <= to; s++ {
		all = append(all, s)
	}
	return all
}

func call(cn host.LiveConnection, ctx context.Context, method, input, key string) (host.Reply, error) {
	return cn.Call(ctx, &host.Request{Method: method, Codec: host.JSON, Input: []byte(input), IdempotencyKey: key})
}

func hangUp(t *testing.T, cn host.LiveConnection) {
	t.Helper()
	if err := cn.Close(context.Background(), true); err != nil {
		t.Error(err)
	}
}

func TestAConnectionBringsItsEventsAndCalls(t *testing.T) {
	withSocketNode(t, client.Options{Token: "secret"}, func(t *testing.T, n *socketNode, c *client.Client) {
		n.emit("said", "said")
		cn := n.connect(c, host.ConnectRequest{Params: []byte(`{"name":"<Ada>"}`), Events: []string{"said"}, Existing: true})
		if w := cn.Welcome(); w.Connection != "1" || w.Token != "token-1" || w.Cursor != 2 || w.Resumed || !slices.Equal(w.Events, []string{"said"}) {
			t.Errorf("%+v", w)
		}
		if h := n.headers[0]; h.Get("Authorization") != "Bearer secret" || h.Get("If-Match") != "*" {
			t.Errorf("%v", h)
		}
		if h := n.hellos[0]; string(h.Params) != `{"name":"<Ada>"}` || h.Token != "" || h.After != nil {
			t.Errorf("%+v", h)
		}
		n.emit("other", "said")
		n.expect(cn, 4)
		reply, err := call(cn, t.Context(), "say", `{"text":"<&>"}`, "")
		if want := `{"method":"say","input":{"text":"\u003c\u0026\u003e"}}`; err != nil || string(reply.Output) != want || reply.Version != 7 || reply.Replayed {
			t.Errorf("%s %+v %v", reply.Output, reply, err)
		}
		if err := cn.Subscribe(t.Context(), "other"); err != nil {
			t.Error(err)
		}
		n.emit("other")
		n.expect(cn, 5)
		if err := cn.Unsubscribe(t.Context(), "said"); err != nil {
			t.Error(err)
		}
		n.emit("said", "other")
		n.expect(cn, 7)

		// Calls in CBOR go over HTTP, on behalf of the connection.
		reply, err = cn.Call(t.Context(), &host.Request{Method: "say", Codec: host.CBOR})
		if err != nil || string(reply.Output) != `"token-1"` {
			t.Errorf("%s %v", reply.Output, err)
		}
		if err := cn.Close(t.Context(), false); err != nil || !slices.Equal(n.ended, []string{"token-1"}) {
			t.Error(err, n.ended)
		}
		if _, err := cn.Next(t.Context()); host.CodeOf(err) != host.Canceled {
			t.Error(err)
		}
		if _, err := call(cn, t.Context(), "say", "1", ""); host.CodeOf(err) != host.Canceled {
			t.Error(err)
		}
		if err := cn.Close(t.Context(), false); err != nil || len(n.ended) != 1 {
			t.Error(err, n.ended)
		}
	})
}

func TestManyCallsAreInFlightAtOnce(t *testing.T) {
	withSocketNode(t, client.Options{}, func(t *testing.T, n *socketNode, c *client.Client) {
		cn := n.connect(c, host.ConnectRequest{})
		defer hangUp(t, cn)
		var wg sync.WaitGroup
		for i := range 200 {
			wg.Go(func() {
				reply, err := call(cn, t.Context(), "say", fmt.Sprint(i), "")
				if want := fmt.Sprintf(`{"method":"say","input":%d}`, i); err != nil || string(reply.Output) != want {
					t.Errorf("%s %v, want %s", reply.Output, err, want)
				}
			})
		}
		wg.Wait()
	})
}

func TestAConnectionSurvivesItsSockets(t *testing.T) {
	withSocketNode(t, client.Options{}, func(t *testing.T, n *socketNode, c *client.Client) {
		cn := n.connect(c, host.ConnectRequest{Events: []string{"said"}})
		defer hangUp(t, cn)
		var next uint64 = 1
		for range 20 {
			n.emit("said", "said")
			n.cut()
			n.emit("said")
			n.expect(cn, upTo(next, next+2)...)
			next += 3
		}
		for i, h := range n.hellos[1:] {
			if h.Token != "token-1" || h.After == nil {
				t.Errorf("attempt %d to resume: %+v", i+1, h)
			}
		}
		if w := cn.Welcome(); !w.Resumed || w.Connection != "1" {
			t.Errorf("%+v", w)
		}
	})
}

func TestAConnectionSurvivesTheRestartOfItsNode(t *testing.T) {
	withSocketNode(t, client.Options{}, func(t *testing.T, n *socketNode, c *client.Client) {
		cn := n.connect(c, host.ConnectRequest{Events: []string{"said"}})
		defer hangUp(t, cn)
		n.emit("said")
		n.expect(cn, 1)
		n.stop()
		n.emit("said")
		time.Sleep(time.Hour)
		n.start()
		back := time.Now()
		n.expect(cn, 2)
		if d := time.Since(back); d > 10*time.Second {
			t.Errorf("it took %v to notice that the node is back", d)
		}
	})
}

func TestAConnectionThatIsGoneIsMadeAnew(t *testing.T) {
	withSocketNode(t, client.Options{}, func(t *testing.T, n *socketNode, c *client.Client) {
		cn := n.connect(c, host.ConnectRequest{Params: []byte(`{"a":1}`), Events: []string{"said"}})
		defer hangUp(t, cn)
		if err := cn.Subscribe(t.Context(), "other"); err != nil {
			t.Fatal(err)
		}
		n.emit("said")
		n.expect(cn, 1)
		n.change(func() { clear(n.known) })
		n.cut()
		n.emit("other")
		n.expect(cn, 2)
		if w := cn.Welcome(); w.Resumed || w.Connection != "2" {
			t.Errorf("%+v", w)
		}
		if h := n.hellos[1]; string(h.Params) != `{"a":1}` || !slices.Equal(h.Events, []string{"said", "other"}) || *h.After != 1 {
			t.Errorf("%+v", h)
		}
		n.cut()
		n.emit("other")
		n.expect(cn, 3)
		if h := n.hellos[2]; h.Token != "token-2" {
			t.Errorf("%+v", h)
		}
	})
}

func TestASuccessorsEventsBeginAnew(t *testing.T) {
	withSocketNode(t, client.Options{}, func(t *testing.T, n *socketNode, c *client.Client) {
		cn := n.connect(c, host.ConnectRequest{Events: []string{"said"}})
		defer hangUp(t, cn)
		n.emit("said", "said", "said")
		n.expect(cn, 1, 2, 3)
		// The actor is destroyed and made again while the client is away.
		n.change(func() { clear(n.known); n.events = []string{"said"}; n.cutLocked() })
		n.expect(cn, 1)
	})
}

func (n *socketNode) cutLocked() {
	for _, c := range n.conns {
		c.Close()
	}
	n.conns = nil
}

func TestAConnectionTellsWhatItMissed(t *testing.T) {
	withSocketNode(t, client.Options{}, func(t *testing.T, n *socketNode, c *client.Client) {
		cn := n.connect(c, host.ConnectRequest{Events: []string{"said"}})
		defer hangUp(t, cn)
		n.emit("said")
		n.expect(cn, 1)
		n.change(func() {
			n.events = append(n.events, "said", "said", "said", "said")
			n.kept = 4
			n.cutLocked()
		})
		if missed := n.expect(cn, 5); missed != 3 {
			t.Errorf("%d missed", missed)
		}
	})
}

func TestAConnectionTakesUpOneOfAnotherProgram(t *testing.T) {
	withSocketNode(t, client.Options{}, func(t *testing.T, n *socketNode, c *client.Client) {
		n.emit("said", "said", "said")
		n.known["kept"] = &acquaintant{id: "old", events: []string{"said"}}
		cn := n.connect(c, host.ConnectRequest{Token: "kept", After: 1, HasAfter: true})
		defer hangUp(t, cn)
		if w := cn.Welcome(); !w.Resumed || w.Connection != "old" {
			t.Errorf("%+v", w)
		}
		n.expect(cn, 2, 3)
	})
}

func TestAReaderThatStandsStillBlocksNoCallAndMissesNothing(t *testing.T) {
	withSocketNode(t, client.Options{}, func(t *testing.T, n *socketNode, c *client.Client) {
		cn := n.connect(c, host.ConnectRequest{Events: []string{"said"}})
		defer hangUp(t, cn)
		const events = 100_000 // more than 4 MiB with what they cost
		n.emit(slices.Repeat([]string{"said"}, events)...)
		if _, err := call(cn, t.Context(), "say", "1", ""); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		time.Sleep(time.Minute)
		n.expect(cn, upTo(1, events)...)
		if len(n.hellos) < 2 {
			t.Error("everything was held")
		}
	})
}

func TestAReaderThatIsBehindDoesNotCostCallsThatCannotBeRepeated(t *testing.T) {
	withSocketNode(t, client.Options{Attempts: 1}, func(t *testing.T, n *socketNode, c *client.Client) {
		cn := n.connect(c, host.ConnectRequest{Events: []string{"said"}})
		defer hangUp(t, cn)
		var pending uint64
		n.onCall(func(m *frame) (string, bool) {
			if m.Call == "long" {
				pending = m.ID
				return "", true
			}
			return fmt.Sprintf(`{"id":%d,"output":"done"}`, pending), m.Call == "finish"
		})
		answered := make(chan error)
		go func() {
			_, err := call(cn, t.Context(), "long", "1", "")
			answered <- err
		}()
		synctest.Wait()
		n.emit(slices.Repeat([]string{"said"}, 50_000)...)
		synctest.Wait()
		got := uint64(0)
		for range 1000 { // all that was held
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			d, err := cn.Next(ctx)
			cancel()
			if err != nil {
				break
			}
			got += uint64(len(d.Events))
		}
		finish, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := call(cn, finish, "finish", "1", ""); host.CodeOf(err) != host.DeadlineExceeded {
			t.Error(err)
		}
		if err := <-answered; err != nil || got == 50_000 {
			t.Errorf("%v, %d events held", err, got)
		}
		n.expect(cn, upTo(got+1, 50_000)...)
	})
}

func TestNextAndClose(t *testing.T) {
	withSocketNode(t, client.Options{}, func(t *testing.T, n *socketNode, c *client.Client) {
		cn := n.connect(c, host.ConnectRequest{Events: []string{"said"}})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := cn.Next(ctx); host.CodeOf(err) != host.DeadlineExceeded {
			t.Error(err)
		}
		n.emit("said")
		n.expect(cn, 1)
		waiting := make(chan error)
		go func() {
			_, err := cn.Next(t.Context())
			waiting <- err
		}()
		n.onCall(func(*frame) (string, bool) { return "", true })
		go func() {
			_, err := call(cn, t.Context(), "say", "1", "")
			waiting <- err
		}()
		synctest.Wait()
		hangUp(t, cn)
		for range 2 {
			if code := host.CodeOf(<-waiting); code != host.Canceled && code != host.Unavailable {
				t.Error(code)
			}
		}
		if len(n.ended) != 0 || len(n.known) != 1 {
			t.Error("a lost connection was ended")
		}
		// A program that comes back may still end it.
		if err := c.Disconnect(t.Context(), room, "token-1"); err != nil {
			t.Error(err)
		}
		if err := c.Disconnect(t.Context(), room, "token-1"); host.CodeOf(err) != host.Unauthenticated {
			t.Error(err)
		}
		n.stop()
		if _, err := c.Connect(t.Context(), room, host.ConnectRequest{}); host.CodeOf(err) != host.Unavailable {
			t.Error(err)
		}
	})
}

func TestClosingWhileTheNodeIsAway(t *testing.T) {
	withSocketNode(t, client.Options{}, func(t *testing.T, n *socketNode, c *client.Client) {
		cn := n.connect(c, host.ConnectRequest{})
		n.stop()
		synctest.Wait()
		if err := cn.Close(t.Context(), false); host.CodeOf(err) != host.Unavailable {
			t.Error(err)
		}
		if _, err := cn.Next(t.Context()); host.CodeOf(err) != host.Canceled {
			t.Error(err)
		}
	})
}
