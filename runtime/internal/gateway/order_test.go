package gateway

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime/internal/gateway/serve"
)

// An orderedNode records the order in which requests begin. The method see reads, and queue.receive waits.
type orderedNode struct {
	mu      sync.Mutex
	began   []string
	release chan struct{}
}

func (n *orderedNode) call(ctx context.Context, r *host.Request) (host.Reply, error) {
	name := r.Method + string(r.Input)
	if r.Method == "see" {
		if !r.Order.Reads(ctx) {
			return host.Reply{}, host.Errorf(host.CodeOf(ctx.Err()), "gave up")
		}
	}
	n.mu.Lock()
	n.began = append(n.began, name)
	n.mu.Unlock()
	if r.Method == host.QueueReceive {
		r.Order.Waits()
	}
	r.Order.Placed()
	switch r.Method {
	case "see":
		return host.Reply{}, nil
	case host.QueueReceive:
		<-ctx.Done()
	}
	select {
	case <-n.release:
		return host.Reply{}, nil
	case <-ctx.Done():
		return host.Reply{}, host.Errorf(host.CodeOf(ctx.Err()), "gave up")
	}
}

// calls are the requests that have begun, once nothing moves.
func (n *orderedNode) calls() string {
	synctest.Wait()
	n.mu.Lock()
	defer n.mu.Unlock()
	return strings.Join(n.began, " ")
}

// ordered is a lobby whose clients' requests an orderedNode gets as they are, without the order that a fakeConn gives.
func ordered(t *testing.T, o setup, run func(n *orderedNode, c *wsClient)) {
	synctest.Test(t, func(t *testing.T) {
		n := &orderedNode{release: make(chan struct{}, 100)}
		conn := newFakeConn()
		conn.call, conn.ordered = n.call, true
		o.Node = &fakeNode{connect: conn.connect}
		c := join(t, launch(t, newGateway(t, o)))
		run(n, c)
		c.leave(websocket.StatusNormalClosure)
	})
}

func TestTurnsBeginInOrderAndDoNotWaitForEachOther(t *testing.T) {
	ordered(t, setup{}, func(n *orderedNode, c *wsClient) {
		var want []string
		for i := range 60 {
			c.say(fmt.Sprintf(`{"id":%d,"call":"add","input":%d}`, i+1, i))
			want = append(want, fmt.Sprint("add", i))
		}
		if got := n.calls(); got != strings.Join(want, " ") {
			t.Error(got)
		}
		for range 60 {
			n.release <- struct{}{}
			if _, err := c.hear(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func TestAQueryBeginsBetweenTheTurnsBeforeAndAfterIt(t *testing.T) {
	ordered(t, setup{}, func(n *orderedNode, c *wsClient) {
		for i, text := range []string{`"queue.receive"`, `"add","input":1`, `"add","input":2`, `"see"`, `"add","input":3`} {
			c.say(fmt.Sprintf(`{"id":%d,"call":%s}`, i+1, text))
		}
		if got := n.calls(); got != "queue.receive add1 add2" {
			t.Errorf("before an answer: %s", got)
		}
		n.release <- struct{}{}
		c.hear()
		if got := n.calls(); got != "queue.receive add1 add2" {
			t.Errorf("after one of two answers: %s", got)
		}
		n.release <- struct{}{}
		for range 2 { // the action's answer and the query's, in any order
			if text, err := c.hear(); err != nil || strings.Contains(text, "error") {
				t.Error(text, err)
			}
		}
		if got := n.calls(); got != "queue.receive add1 add2 see add3" {
			t.Error(got)
		}
	})
}

// A call that is refused, or whose time is over, does not wait for its turn and lets no other call begin early.
func TestACallThatGivesUpLeavesTheLine(t *testing.T) {
	ordered(t, setup{Limits: serve.Limits{CallTimeout: 5 * time.Second}, Authorize: func(_ context.Context, r serve.AuthRequest) error {
		if r.Method == "secret" {
			return host.Errorf(host.PermissionDenied, "not for you")
		}
		return nil
	}}, func(n *orderedNode, c *wsClient) {
		c.say(`{"id":1,"call":"add","input":1}`)
		synctest.Wait()
		c.say(`{"id":2,"call":"see"}`)
		c.say(`{"id":3,"call":"secret"}`)
		c.expect(`{"id":3,"error":{"code":"permission_denied","message":"not for you"}}`)
		time.Sleep(time.Second)
		c.say(`{"id":4,"call":"add","input":4}`)
		if got := n.calls(); got != "add1" {
			t.Error(got)
		}
		time.Sleep(4 * time.Second) // the first two give up at once, and the last may begin
		if got := n.calls(); got != "add1 add4" && got != "add1 see add4" {
			t.Error(got)
		}
		n.release <- struct{}{}
		for range 3 {
			c.hear()
		}
	})
}
