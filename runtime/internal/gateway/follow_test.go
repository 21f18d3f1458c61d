package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime/internal/gateway/serve"
)

// A tape is a stream of an actor that is read with stream.read.
type tape struct {
	feed   *feed
	closed bool
	life   string
}

func (p *tape) call(ctx context.Context, r *host.Request) (host.Reply, error) {
	var in host.StreamReadInput
	if err := json.Unmarshal(r.Input, &in); err != nil || r.Method != host.StreamRead {
		return host.Reply{}, host.Errorf(host.UnknownMethod, "%s %v", r.Method, err)
	}
	if in.Stream != "tokens" {
		return host.Reply{}, host.Errorf(host.NotFound, "there is no stream %s", in.Stream)
	}
	wait, cancel := context.WithTimeout(ctx, max(time.Duration(in.WaitMS)*time.Millisecond, 1))
	defer cancel()
	out := host.StreamReadOutput{Next: in.After, Items: []host.ReadStreamItem{}}
	if in.Life != "" && in.Life != p.life {
		in.After, out.Next, out.Reset = 0, 0, true
	}
	d, err := (&feedStream{f: p.feed, next: in.After + 1}).Next(wait)
	switch {
	case ctx.Err() != nil:
		return host.Reply{}, host.Errorf(host.Canceled, "the caller gave up")
	case err == nil:
		out.Missed = d.Missed
		for _, e := range d.Events {
			out.Items = append(out.Items, host.ReadStreamItem{Sequence: e.Sequence, Time: e.Time, Value: e.Data})
			out.Next = e.Sequence
		}
	}
	out.Closed, out.Life = p.closed, p.life
	text, err := json.Marshal(out)
	return host.Reply{Output: text}, err
}

// press is a gateway in front of a stream, in a bubble.
func press(t *testing.T, run func(t *testing.T, p *tape, g *Gateway, l *pipeListener)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p := &tape{feed: newFeed()}
		g := newGateway(t, setup{Node: &fakeNode{call: p.call}})
		run(t, p, g, launch(t, g))
	})
}

const tokensPath = "/actors/room/a/-/streams/tokens"

func itemEvent(n int, data string) string {
	return fmt.Sprintf("id: %d\ntime: 2001-09-09T01:46:40Z\nevent: item\ndata: %s\n", n, data)
}

func (p *tape) close() {
	p.feed.change(func() { p.closed, p.feed.fault = true, host.Errorf(host.Destroyed, "closed") })
}

func TestAStreamIsFollowedToItsEnd(t *testing.T) {
	press(t, func(t *testing.T, p *tape, g *Gateway, l *pipeListener) {
		p.feed.emit("x", `"a"`)
		s := open(t, l, "GET", tokensPath, "")
		s.expect("retry: 2000\n")
		s.expect(itemEvent(1, `"a"`))
		s.expect(":\n")
		s.expect(":\n")
		p.feed.emit("x", `"b"`)
		s.expect(itemEvent(2, `"b"`))
		p.close()
		s.expect("event: cairn.end\ndata: {}\n")
		if _, err := s.block(); err != io.EOF {
			t.Error(err)
		}
		// A page that comes back after the end must not come back forever.
		if w := ask(g, "GET", tokensPath, "", "Last-Event-ID: 2"); w.Code != 204 {
			t.Error(w.Code, w.Body)
		}
		s = open(t, l, "GET", tokensPath, "", "Last-Event-ID: 1")
		s.expect("retry: 2000\n")
		s.expect(itemEvent(2, `"b"`))
		s.expect("event: cairn.end\ndata: {}\n")
	})
}

func TestFollowingResumesAndTellsGaps(t *testing.T) {
	press(t, func(t *testing.T, p *tape, g *Gateway, l *pipeListener) {
		for n := range 5 {
			p.feed.emit("x", fmt.Sprint(n+1))
		}
		p.feed.forget(4)
		s := open(t, l, "GET", tokensPath+"?after=1", "")
		s.expect("retry: 2000\n")
		s.expect("id: 3\nevent: cairn.gap\ndata: {\"missed\":2}\n")
		s.expect(itemEvent(4, `4`))
		s.expect(itemEvent(5, `5`))
		s.conn.Close()
		s = open(t, l, "GET", tokensPath+"?after=1", "", "Last-Event-ID: 4")
		s.expect("retry: 2000\n")
		s.expect(itemEvent(5, `5`))
		go g.front.Close()
		s.expect("event: cairn.bye\ndata: {\"code\":\"unavailable\",\"message\":\"the node is shutting down\",\"retryable\":true}\n")
	})
}

func TestAStreamThatIsNotThereIsAnsweredWithItsStatus(t *testing.T) {
	p := &tape{feed: newFeed()}
	g := newGateway(t, setup{Node: &fakeNode{call: p.call}})
	if w := ask(g, "GET", "/actors/room/a/-/streams/other", ""); w.Code != 404 || !strings.Contains(w.Body.String(), "other") {
		t.Error(w.Code, w.Body)
	}
	if n := g.front.Open(); n != 0 {
		t.Error(n)
	}
}

func TestStreamsAreFollowedUntilTheyCloseOrTheClientHasEnough(t *testing.T) {
	lobby(t, setup{Limits: serve.Limits{ConnectionCalls: 2}}, func(t *testing.T, conn *fakeConn, g *Gateway, l *pipeListener) {
		p := &tape{feed: newFeed()}
		conn.call = p.call
		for n := range 4 {
			p.feed.emit("x", fmt.Sprint(n+1))
		}
		p.feed.forget(3)
		item := func(id, n int) string {
			return fmt.Sprintf(`{"stream":%d,"sequence":%d,"time":"2001-09-09T01:46:40Z","value":%d}`, id, n, n)
		}
		c := join(t, l)
		c.say(`{"id":1,"follow":"tokens"}`)
		c.expect(`{"id":1}`)
		c.expect(`{"stream":1,"missed":2}`)
		c.expect(item(1, 3))
		c.expect(item(1, 4))
		c.say(`{"id":1,"follow":"tokens"}`)
		c.expect(`{"id":1,"error":{"code":"invalid_argument","message":"a stream is followed under the id 1 already"}}`)
		c.say(`{"id":2,"follow":"tokens","after":4}`)
		c.expect(`{"id":2}`)
		c.say(`{"id":3,"follow":"tokens"}`)
		c.expect(`{"id":3,"error":{"code":"overloaded","message":"the connection follows too many streams","metadata":{"limit":"2"},"retryable":true}}`)
		heard := make(chan string)
		go func() {
			text, err := c.hear()
			heard <- fmt.Sprint(text, err)
		}()
		time.Sleep(10 * time.Minute) // nothing comes, and nothing is said
		c.say(`{"id":4,"unfollow":1}`)
		if got := <-heard; got != `{"id":4}<nil>` {
			t.Fatal(got)
		}
		p.feed.emit("x", "5")
		c.expect(item(2, 5))
		c.say(`{"id":5,"unfollow":77}`)
		c.expect(`{"id":5}`)
		c.say(`{"id":6,"follow":"other"}`)
		c.expect(`{"id":6}`)
		c.expect(`{"stream":6,"error":{"code":"not_found","message":"there is no stream other"}}`)
		p.feed.change(func() { p.closed = true; p.feed.fault = host.Errorf(host.Destroyed, "closed") })
		c.expect(`{"stream":2,"end":true}`)
		c.leave(websocket.StatusNormalClosure)
		if lost := <-conn.closed; lost {
			t.Error("lost")
		}
	})
}
