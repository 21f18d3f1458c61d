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

var said = host.ConnectRequest{Events: []string{"said"}}

func TestAConnectionBringsItsEventsAndCalls(t *testing.T) {
	onStage(t, client.Options{Token: "secret"}, func(t *testing.T, s *stage, c *client.Client) {
		ctx := t.Context()
		s.emit(2)
		cn := s.connect(c, host.ConnectRequest{Params: []byte(`{"name":"<Ada>"}`), Events: []string{"said"}, Existing: true})
		w := cn.Welcome()
		errorIf(t, w.Connection == "" || w.Cursor != 2 || w.Resumed || !slices.Equal(w.Events, []string{"said"}), "%+v", w)
		const want = `connect room/a websocket params={"name":"<Ada>"} events=["said"] token="" after=- existing=true trace=""`
		errorIf(t, s.asked("connect")[0] != want, "%q", s.asked("connect"))
		s.emit(1)
		s.expect(cn, 3, 3)
		reply, err := call(cn, ctx, "echo", `{"text":"<&>"}`, "")
		errorIf(t, err != nil || string(reply.Output) != `{"text":"<&>"}` || reply.Version == 0 || reply.Replayed,
			"%s %+v %v", reply.Output, reply, err)
		must(t, cn.Unsubscribe(ctx, "said"))
		s.emit(1)
		must(t, cn.Subscribe(ctx, "said", "left"))
		s.emit(1)
		s.expect(cn, 5, 5)

		// Calls in CBOR go over HTTP, on behalf of the connection.
		reply, err = cn.Call(ctx, &host.Request{Method: "echo", Codec: host.CBOR, Input: []byte("\x01")})
		q := s.node.Requests()
		errorIf(t, err != nil || string(reply.Output) != "\x01" || q[len(q)-1].Connection != w.Token, "%q %v", reply.Output, err)

		var wg sync.WaitGroup
		for i := range 200 {
			wg.Go(func() {
				reply, err := call(cn, ctx, "echo", fmt.Sprint(i), "")
				errorIf(t, err != nil || string(reply.Output) != fmt.Sprint(i), "%s %v, want %d", reply.Output, err, i)
			})
		}
		wg.Wait()
		for range 2 {
			must(t, cn.Close(ctx, false))
			ended := s.asked("disconnect")
			errorIf(t, !slices.Equal(ended, []string{"disconnect room/a " + w.Token}), "%q", ended)
		}
		wantCode(t, errOf(cn.Next(ctx)), host.Canceled)
		wantCode(t, errOf(call(cn, ctx, "echo", "1", "")), host.Canceled)
	})
}

func TestAConnectionSurvivesItsSockets(t *testing.T) {
	onStage(t, client.Options{}, func(t *testing.T, s *stage, c *client.Client) {
		cn := s.connect(c, said)
		w := cn.Welcome()
		for last := uint64(0); last < 60; last += 3 {
			s.emit(2)
			s.cut()
			s.emit(1)
			s.expect(cn, last+1, last+3)
		}
		for _, line := range s.asked("connect")[1:] {
			errorIf(t, !strings.Contains(line, w.Token) || strings.Contains(line, "after=-"), "%s", line)
		}
		again := cn.Welcome()
		errorIf(t, !again.Resumed || again.Connection != w.Connection, "%+v", again)
	})
}

func TestAConnectionThatIsGoneIsMadeAnew(t *testing.T) {
	onStage(t, client.Options{}, func(t *testing.T, s *stage, c *client.Client) {
		cn := s.connect(c, host.ConnectRequest{Params: []byte(`{"a":1}`)})
		was := cn.Welcome()
		must(t, errors.Join(cn.Subscribe(t.Context(), "said", "left"), cn.Unsubscribe(t.Context(), "left")))
		s.emit(1)
		s.expect(cn, 1, 1)
		s.stop()
		s.emit(1)
		time.Sleep(time.Hour) // longer than the grace of a connection
		s.start()
		time.Sleep(10 * time.Second) // is enough to notice that the node is back
		lines := s.asked("connect")
		want := `params={"a":1} events=["said"] token="` + was.Token + `" after=1@`
		fatalIf(t, !strings.Contains(lines[len(lines)-1], want), "%q", lines)
		s.expect(cn, 2, 2)
		w := cn.Welcome()
		errorIf(t, w.Resumed || w.Connection == was.Connection, "%+v", w)
		s.cut()
		s.emit(1)
		s.expect(cn, 3, 3)
		lines = s.asked("connect")
		errorIf(t, !strings.Contains(lines[len(lines)-1], w.Token), "%q", lines)
	})
}

func TestAConnectionTellsWhatItMissedAndBeginsAnewWithASuccessor(t *testing.T) {
	onStage(t, client.Options{}, func(t *testing.T, s *stage, c *client.Client) {
		s.restart(4)
		cn := s.connect(c, said)
		s.emit(1)
		s.expect(cn, 1, 1)
		s.away(func() { s.emit(8) })
		missed := s.expect(cn, 6, 9)
		errorIf(t, missed != 4, "%d missed", missed)
		s.away(func() {
			s.reborn()
			s.emit(1)
		})
		s.expect(cn, 1, 1)
	})
}

// emitLarge emits 100 events, which are more than 4 MiB.
func (s *stage) emitLarge() {
	for range 100 {
		s.emit(1)
		synctest.Wait()
	}
}

func TestAReaderThatStandsStillBlocksNoCallAndMissesNothing(t *testing.T) {
	onStage(t, client.Options{}, func(t *testing.T, s *stage, c *client.Client) {
		s.pad = `,"pad":"` + strings.Repeat("x", 60_000) + `"`
		cn := s.connect(c, said)
		s.emitLarge()
		must(t, errOf(call(cn, t.Context(), "echo", "1", "")))
		time.Sleep(time.Minute)
		s.expect(cn, 1, 100)
		errorIf(t, len(s.asked("connect")) < 2, "everything was held")
	})
}

func TestAReaderThatIsBehindDoesNotCostCallsThatCannotBeRepeated(t *testing.T) {
	onStage(t, client.Options{Attempts: 1}, func(t *testing.T, s *stage, c *client.Client) {
		s.pad = `,"pad":"` + strings.Repeat("x", 60_000) + `"`
		cn := s.connect(c, said)
		release := s.holding(`"long"`)
		answered := make(chan error)
		go func() { answered <- errOf(call(cn, t.Context(), "echo", `"long"`, "")) }()
		s.emitLarge()
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
		must(t, <-answered)
		errorIf(t, got == 100, "everything was held")
		s.expect(cn, got+1, 100)
	})
}

func TestAConnectionIsLeftTakenUpAndEnded(t *testing.T) {
	onStage(t, client.Options{}, func(t *testing.T, s *stage, c *client.Client) {
		cn := s.connect(c, said)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		wantCode(t, errOf(cn.Next(ctx)), host.DeadlineExceeded)
		s.emit(1)
		s.expect(cn, 1, 1)
		waiting := make(chan error)
		go func() { waiting <- errOf(cn.Next(t.Context())) }()
		s.holding(`"held"`)
		go func() { waiting <- errOf(call(cn, t.Context(), "echo", `"held"`, "")) }()
		synctest.Wait()
		must(t, hangUp(cn))
		for range 2 {
			code := host.CodeOf(<-waiting)
			errorIf(t, code != host.Canceled && code != host.Unavailable, "what waits ends with %s", code)
		}
		ended := s.asked("disconnect")
		errorIf(t, len(ended) != 0, "a lost connection was ended: %q", ended)

		token := cn.Welcome().Token // with which another program goes on
		s.emit(3)
		again := s.connect(c, host.ConnectRequest{Token: token, After: 2, HasAfter: true})
		w := again.Welcome()
		errorIf(t, !w.Resumed || w.Connection != cn.Welcome().Connection, "%+v", w)
		s.expect(again, 3, 4)
		s.away(func() {
			wantCode(t, again.Close(t.Context(), false), host.Unavailable)
			wantCode(t, errOf(again.Next(t.Context())), host.Canceled)
		})
		must(t, c.Disconnect(t.Context(), room, token))
		wantCode(t, c.Disconnect(t.Context(), room, token), host.Unauthenticated)
		s.stop()
		wantCode(t, errOf(c.Connect(t.Context(), room, host.ConnectRequest{})), host.Unavailable)
	})
}
