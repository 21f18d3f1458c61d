package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime/internal/part/event"
)

// noting makes a disconnect hook that notes why connections end.
func noting(p *puppet, _ host.Turn) error {
	why := "left"
	if p.cause != nil {
		why = p.cause.Message
	}
	p.s.Log = append(p.s.Log, why)
	return nil
}

func TestLongHistoryIsReadInPages(t *testing.T) {
	in(t, puppetType{}, host.Limits{EventHistory: 2000, ConnectionBytes: 4096}, func(t *testing.T, h *hotel) {
		emitted, heard := 0, 0
		emit := func(n int) {
			var texts []string
			for range n {
				texts = append(texts, fmt.Sprint(emitted))
				emitted++
			}
			h.say(texts...)
		}
		l := h.connect(listening)
		l.Close(t.Context(), true)
		emit(1000)
		for l = h.back(l.Welcome(), 0); heard < emitted; {
			d, err := l.Next(t.Context())
			fatalIf(t, err != nil || d.Missed > 0, "after %d: missed %d, %v", heard, d.Missed, err)
			for _, e := range d.Events {
				fatalIf(t, string(e.Data) != fmt.Sprintf("%q", fmt.Sprint(heard)), "event %d is %s", heard, e.Data)
				heard++
			}
			if emitted < 1500 { // what is emitted meanwhile does not cut the client off
				emit(100)
			}
		}
	})
}

func TestCallsOverATokenNameTheirConnection(t *testing.T) {
	in(t, puppetType{disconnect: noting}, host.Limits{}, func(t *testing.T, h *hotel) {
		ctx := t.Context()
		l := h.connect(host.ConnectRequest{})
		w := l.Welcome()
		named := ""
		turn := request(func(_ *puppet, t host.Turn) error { named = t.Caller(); return nil })
		look := remember(glance(func(_ *puppetState, r host.Reader) error { named = r.Caller(); return nil }))
		over := func(token string) error { _, err := h.CallOver(ctx, token, turn); return err }
		for name, call := range map[string]func() error{
			"a turn": func() error { _, err := l.Call(ctx, turn); return err },
			"a query": func() error {
				_, err := l.Call(ctx, &host.Request{Method: "look", Codec: host.JSON, Input: look})
				return err
			},
			"a turn over the token":   func() error { return over(w.Token) },
			"a turn of a lost client": func() error { return errors.Join(l.Close(ctx, true), over(w.Token)) },
		} {
			named = ""
			if err := call(); err != nil || named != w.Connection {
				t.Errorf("the caller of %s is %q, %v", name, named, err)
			}
			l = h.back(w, 0)
		}
		for _, token := range []string{"", "x", w.Connection, w.Connection + ".x", "x" + w.Token, strings.Repeat("x", 1000) + ".x"} {
			wantCode(t, over(token), host.Unauthenticated)
			wantCode(t, h.Disconnect(ctx, pAddr("a"), token), host.Unauthenticated)
		}
		h.ok(h.Disconnect(ctx, pAddr("a"), w.Token))
		_, _, _, err := heard(l)
		wantCode(t, err, host.FailedPrecondition)
		log := h.log()
		errorIf(t, !slices.Equal(log, []string{"left"}), "%q", log)
		wantCode(t, over(w.Token), host.Unauthenticated)
		wantCode(t, h.Disconnect(ctx, pAddr("none"), w.Token), host.Unauthenticated)
	})
}

func TestClientThatGivesUpWhileConnectingLeavesNothing(t *testing.T) {
	for _, gone := range []bool{false, true} {
		var hold chan struct{}
		d := puppetType{disconnect: noting, connect: func(*puppet, host.Turn) error { <-hold; return nil }}
		in(t, d, host.Limits{}, func(t *testing.T, h *hotel) {
			hold = make(chan struct{}) // of the bubble
			h.say("x")
			ctx, cancel := context.WithCancel(t.Context())
			failed := make(chan error)
			go func() {
				_, err := h.Connect(ctx, pAddr("a"), listening)
				failed <- err
			}()
			if gone { // before the turn begins
				cancel()
			}
			synctest.Wait()
			cancel()
			synctest.Wait()
			wantCode(t, <-failed, host.Canceled)
			close(hold)
			h.say("y")
			synctest.Wait()
			if n := len(event.HubOf(h.Kernel).Audiences); n != 0 || len(h.records()) != 0 || h.wakes() != 0 || h.held() != 0 {
				t.Errorf("%d audiences, %d connections, %d wake rows, %d bytes of events are left", n, len(h.records()), h.wakes(), h.held())
			}
			log := h.log()
			errorIf(t, len(log) > 1 || len(log) == 1 && log[0] != "the client gave up", "%q", log)
		})
	}
}
