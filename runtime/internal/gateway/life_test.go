package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/cairn-run/cairn/actor/host"
)

// The ids of two lives of an actor.
const (
	lifeOne = "0a3f6931-52b4-8a01-9c3e-5d0f2b7c8e14"
	lifeTwo = "0a3f6931-7777-8a01-9c3e-5d0f2b7c8e14"
)

// reborn gives the tape a new life with items.
func (p *tape) reborn(life string, items ...string) {
	p.feed.change(func() { p.life, p.feed.events = life, nil })
	for _, item := range items {
		p.feed.emit("x", item)
	}
}

func TestAFollowedStreamEndsWithTheLifeOfItsActor(t *testing.T) {
	press(t, func(t *testing.T, p *tape, g *Gateway, l *pipeListener) {
		p.reborn(lifeOne, "1", "2")
		s := open(t, l, "GET", tokensPath, "")
		s.expect("retry: 2000\n")
		item := func(n int, life, data string) string {
			return fmt.Sprintf("id: %d@%s\ntime: 2001-09-09T01:46:40Z\nevent: item\ndata: %s\n", n, life, data)
		}
		s.expect(item(1, lifeOne, "1"))
		s.expect(item(2, lifeOne, "2"))
		synctest.Wait()
		p.reborn(lifeTwo, "10", "20", "30")
		s.expect("event: cairn.bye\ndata: {\"code\":\"destroyed\",\"message\":\"the actor was destroyed\"}\n")
		s.conn.Close()

		s = open(t, l, "GET", tokensPath, "", "Last-Event-ID: 2@"+lifeOne)
		s.expect("retry: 2000\n")
		s.expect("id: 0@" + lifeTwo + "\nevent: cairn.gap\ndata: {\"missed\":0,\"reset\":true}\n")
		s.expect(item(1, lifeTwo, "10"))
		s.conn.Close()
		s = open(t, l, "GET", tokensPath+"?after=2@"+lifeTwo, "")
		s.expect("retry: 2000\n")
		s.expect(item(3, lifeTwo, "30"))
		s.conn.Close()
	})
}

func TestAPositionThatIsNoneIsRefusedByItsField(t *testing.T) {
	node := &fakeNode{subscribe: func(context.Context, host.Address, host.Subscription) (host.EventStream, error) {
		t.Error("the node was asked")
		return nil, host.Errorf(host.Internal, "")
	}}
	g := newGateway(t, setup{Node: node})
	for _, path := range []string{"/actors/room/a/-/events", tokensPath} {
		for _, bad := range []struct{ query, header, field string }{
			{"?after=x", "", "after"}, {"?after=1@2", "", "after"}, {"?after=-1", "", "after"}, {"?after=", "", "after"},
			{"?after=1", "Last-Event-ID: 1@", "Last-Event-ID"}, {"", "Last-Event-ID: event", "Last-Event-ID"},
		} {
			var headers []string
			if bad.header != "" {
				headers = append(headers, bad.header)
			}
			w := ask(g, "GET", path+bad.query, "", headers...)
			var answer struct {
				Code     host.Code
				Metadata map[string]string
			}
			if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil || w.Code != 400 ||
				answer.Code != host.InvalidArgument || answer.Metadata["field"] != bad.field {
				t.Errorf("%s%s %s: %d %s", path, bad.query, bad.header, w.Code, w.Body)
			}
		}
	}
}
