package client_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime/client"
)

func (s *stage) connect(c *client.Client, r host.ConnectRequest) host.LiveConnection {
	s.t.Helper()
	cn, err := c.Connect(s.t.Context(), room, r)
	must(s.t, err)
	return cn
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

// holding keeps the calls with an input from the node until release is called or the caller has left.
func (s *stage) holding(input string) (release func()) {
	held := make(chan struct{})
	s.node.Before = func(ctx context.Context, op string, r *host.Request) error {
		if op == "call" && string(r.Input) == input {
			select {
			case <-held:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return nil
	}
	return func() { close(held) }
}

func TestAConnectionBringsItsEventsAndCalls(t *testing.T) {
	onStage(t, client.Options{Token: "secret"}, func(t *testing.T, s *stage, c *client.Client) {
		s.emit(2)
		cn := s.connect(c, host.ConnectRequest{Params: []byte(`{"name":"<Ada>"}`), Events: []string{"said"}, Existing: true})
		w := cn.Welcome()
		if w.Connection == "" || w.Cursor != 2 || w.Resumed || !slices.Equal(w.Events, []string{"said"}) {
			t.Errorf("%+v", w)
		}
		if want := `connect room/a websocket params={"name":"<Ada>"} events=["said"] token="" after=- existing=true trace=""`; s.asked("connect")[0] != want {
			t.Error(s.asked("connect"))
		}
		s.emit(1)
		s.expect(cn, 3, 3)
		reply, err := call(cn, t.Context(), "echo", `{"text":"<&>"}`, "")
		if err != nil || string(reply.Output) != `{"text":"<&>"}` || reply.Version == 0 || reply.Replayed {
			t.Errorf("%s %+v %v", reply.Output, reply, err)
		}
		if err := cn.Unsubscribe(t.Context(), "said"); err != nil {
			t.Error(err)
		}
		s.emit(1)
		if err := cn.Subscribe(t.Context(), "said", "left"); err != nil {
			t.Error(err)
		}
		s.emit(1)
		s.expect(cn, 5, 5)

		// Calls in CBOR go over HTTP, on behalf of the connection.
		reply, err = cn.Call(t.Context(), &host.Request{Method: "echo", Codec: host.CBOR, Input: []byte("\x01")})
		if q := s.node.Requests(); err != nil || string(reply.Output) != "\x01" || q[len(q)-1].Connection != w.Token {
			t.Errorf("%q %v", reply.Output, err)
		}
		for range 2 {
			if err := cn.Close(t.Context(), false); err != nil || !slices.Equal(s.asked("disconnect"), []string{"disconnect room/a " + w.Token}) {
				t.Error(err, s.asked("disconnect"))
			}
		}
		if _, err := cn.Next(t.Context()); host.CodeOf(err) != host.Canceled {
			t.Error(err)
		}
		if _, err := call(cn, t.Context(), "echo", "1", ""); host.CodeOf(err) != host.Canceled {
			t.Error(err)
		}
	})
}

func TestManyCallsAreInFlightAtOnce(t *testing.T) {
	onStage(t, client.Options{}, func(t *testing.T, s *stage, c *client.Client) {
		cn := s.connect(c, host.ConnectRequest{})
		defer hangUp(t, cn)
		var wg sync.WaitGroup
		for i := range 200 {
			wg.Go(func() {
				if reply, err := call(cn, t.Context(), "echo", fmt.Sprint(i), ""); err != nil || string(reply.Output) != fmt.Sprint(i) {
					t.Errorf("%s %v, want %d", reply.Output, err, i)
				}
			})
		}
		wg.Wait()
	})
}

func TestAConnectionSurvivesItsSockets(t *testing.T) {
	onStage(t, client.Options{}, func(t *testing.T, s *stage, c *client.Client) {
		cn := s.connect(c, host.ConnectRequest{Events: []string{"said"}})
		defer hangUp(t, cn)
		w := cn.Welcome()
		for range 20 {
			last := uint64(s.last)
			s.emit(2)
			s.cut()
			s.emit(1)
			s.expect(cn, last+1, last+3)
		}
		for _, line := range s.asked("connect")[1:] {
			if !strings.Contains(line, w.Token) || strings.Contains(line, "after=-") {
				t.Error(line)
			}
		}
		if again := cn.Welcome(); !again.Resumed || again.Connection != w.Connection {
			t.Errorf("%+v", again)
		}
	})
}

func TestAConnectionSurvivesTheRestartOfItsNode(t *testing.T) {
	onStage(t, client.Options{}, func(t *testing.T, s *stage, c *client.Client) {
		cn := s.connect(c, host.ConnectRequest{Events: []string{"said"}})
		defer hangUp(t, cn)
		s.emit(1)
		s.expect(cn, 1, 1)
		s.stop()
		s.emit(1)
		time.Sleep(time.Hour)
		s.start()
		back := time.Now()
		s.expect(cn, 2, 2)
		if d := time.Since(back); d > 10*time.Second {
			t.Errorf("it took %v to notice that the node is back", d)
		}
	})
}

func TestAConnectionThatIsGoneIsMadeAnew(t *testing.T) {
	onStage(t, client.Options{}, func(t *testing.T, s *stage, c *client.Client) {
		cn := s.connect(c, host.ConnectRequest{Params: []byte(`{"a":1}`)})
		defer hangUp(t, cn)
		was := cn.Welcome()
		must(t, errors.Join(cn.Subscribe(t.Context(), "said", "left"), cn.Unsubscribe(t.Context(), "left")))
		s.emit(1)
		s.expect(cn, 1, 1)
		s.away(func() {
			time.Sleep(time.Hour) // longer than the grace of a connection
			s.emit(1)
		})
		time.Sleep(time.Minute)
		lines := s.asked("connect")
		if line := lines[len(lines)-1]; !strings.Contains(line, `params={"a":1} events=["said"] token="`+was.Token+`" after=1@`) {
			t.Error(line)
			return
		}
		s.expect(cn, 2, 2)
		w := cn.Welcome()
		if w.Resumed || w.Connection == was.Connection {
			t.Errorf("%+v", w)
		}
		s.cut()
		s.emit(1)
		s.expect(cn, 3, 3)
		if lines = s.asked("connect"); !strings.Contains(lines[len(lines)-1], w.Token) {
			t.Error(lines)
		}
	})
}

func TestASuccessorsEventsBeginAnew(t *testing.T) {
	onStage(t, client.Options{}, func(t *testing.T, s *stage, c *client.Client) {
		cn := s.connect(c, host.ConnectRequest{Events: []string{"said"}})
		defer hangUp(t, cn)
		s.emit(3)
		s.expect(cn, 1, 3)
		s.away(func() {
			s.reborn()
			s.emit(1)
		})
		s.expect(cn, 1, 1)
	})
}

func TestAConnectionTellsWhatItMissed(t *testing.T) {
	onStage(t, client.Options{}, func(t *testing.T, s *stage, c *client.Client) {
		s.restart(4)
		cn := s.connect(c, host.ConnectRequest{Events: []string{"said"}})
		defer hangUp(t, cn)
		s.emit(1)
		s.expect(cn, 1, 1)
		s.away(func() { s.emit(8) })
		if missed := s.expect(cn, 6, 9); missed != 4 {
			t.Errorf("%d missed", missed)
		}
	})
}

func TestAConnectionTakesUpOneOfAnotherProgram(t *testing.T) {
	onStage(t, client.Options{}, func(t *testing.T, s *stage, c *client.Client) {
		first := s.connect(c, host.ConnectRequest{Events: []string{"said"}})
		hangUp(t, first)
		s.emit(3)
		cn := s.connect(c, host.ConnectRequest{Token: first.Welcome().Token, After: 1, HasAfter: true})
		defer hangUp(t, cn)
		if w := cn.Welcome(); !w.Resumed || w.Connection != first.Welcome().Connection {
			t.Errorf("%+v", w)
		}
		s.expect(cn, 2, 3)
	})
}

func TestAReaderThatStandsStillBlocksNoCallAndMissesNothing(t *testing.T) {
	onStage(t, client.Options{}, func(t *testing.T, s *stage, c *client.Client) {
		s.pad = `,"pad":"` + strings.Repeat("x", 60_000) + `"`
		cn := s.connect(c, host.ConnectRequest{Events: []string{"said"}})
		defer hangUp(t, cn)
		for range 100 { // more than 4 MiB
			s.emit(1)
			synctest.Wait()
		}
		must(t, errOf(call(cn, t.Context(), "echo", "1", "")))
		time.Sleep(time.Minute)
		s.expect(cn, 1, 100)
		if len(s.asked("connect")) < 2 {
			t.Error("everything was held")
		}
	})
}

func TestAReaderThatIsBehindDoesNotCostCallsThatCannotBeRepeated(t *testing.T) {
	onStage(t, client.Options{Attempts: 1}, func(t *testing.T, s *stage, c *client.Client) {
		s.pad = `,"pad":"` + strings.Repeat("x", 60_000) + `"`
		cn := s.connect(c, host.ConnectRequest{Events: []string{"said"}})
		defer hangUp(t, cn)
		release := s.holding(`"long"`)
		answered := make(chan error)
		go func() {
			_, err := call(cn, t.Context(), "echo", `"long"`, "")
			answered <- err
		}()
		for range 100 {
			s.emit(1)
			synctest.Wait()
		}
		got := uint64(0)
		for { // all that was held
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			d, err := cn.Next(ctx)
			cancel()
			if err != nil {
				break
			}
			got += uint64(len(d.Events))
		}
		release()
		if err := <-answered; err != nil || got == 100 {
			t.Errorf("%v, %d events held", err, got)
		}
		s.expect(cn, got+1, 100)
	})
}

func TestNextAndClose(t *testing.T) {
	onStage(t, client.Options{}, func(t *testing.T, s *stage, c *client.Client) {
		cn := s.connect(c, host.ConnectRequest{Events: []string{"said"}})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := cn.Next(ctx); host.CodeOf(err) != host.DeadlineExceeded {
			t.Error(err)
		}
		s.emit(1)
		s.expect(cn, 1, 1)
		waiting := make(chan error)
		go func() {
			_, err := cn.Next(t.Context())
			waiting <- err
		}()
		s.holding(`"held"`)
		go func() {
			_, err := call(cn, t.Context(), "echo", `"held"`, "")
			waiting <- err
		}()
		synctest.Wait()
		hangUp(t, cn)
		for range 2 {
			if code := host.CodeOf(<-waiting); code != host.Canceled && code != host.Unavailable {
				t.Error(code)
			}
		}
		if ended := s.asked("disconnect"); len(ended) != 0 {
			t.Error("a lost connection was ended")
		}
		// A program that comes back may still end it.
		token := cn.Welcome().Token
		if err := c.Disconnect(t.Context(), room, token); err != nil {
			t.Error(err)
		}
		if err := c.Disconnect(t.Context(), room, token); host.CodeOf(err) != host.Unauthenticated {
			t.Error(err)
		}
		s.stop()
		if _, err := c.Connect(t.Context(), room, host.ConnectRequest{}); host.CodeOf(err) != host.Unavailable {
			t.Error(err)
		}
		s.start()
	})
}

func TestClosingWhileTheNodeIsAway(t *testing.T) {
	onStage(t, client.Options{}, func(t *testing.T, s *stage, c *client.Client) {
		cn := s.connect(c, host.ConnectRequest{})
		s.away(func() {
			if err := cn.Close(t.Context(), false); host.CodeOf(err) != host.Unavailable {
				t.Error(err)
			}
			if _, err := cn.Next(t.Context()); host.CodeOf(err) != host.Canceled {
				t.Error(err)
			}
		})
	})
}
