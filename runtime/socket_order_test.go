package runtime_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/runtime"
)

// A scroll keeps the numbers that it was called with, in the order of the turns.
type scroll struct{ Numbers []int }

var (
	scrolls  = actor.NewType[scroll]("scroll")
	inscribe = actor.NewAction[int, actor.None](scrolls, "inscribe")
	length   = actor.NewQuery[actor.None, int](scrolls, "length")
	numbers  = actor.NewQuery[actor.None, []int](scrolls, "numbers")
	_        = actor.NewQueue[string](scrolls, "orders", actor.QueueConfig{Workers: true})
)

func scrollDefinition() actor.Definition {
	return actor.Define(scrolls, actor.Spec[scroll]{},
		actor.On(inscribe, func(s *scroll, _ *actor.Context, n int) (actor.None, error) {
			s.Numbers = append(s.Numbers, n)
			return actor.None{}, nil
		}),
		actor.OnQuery(length, func(s scroll, _ *actor.ReadContext, _ actor.None) (int, error) { return len(s.Numbers), nil }),
		actor.OnQuery(numbers, func(s scroll, _ *actor.ReadContext, _ actor.None) ([]int, error) { return s.Numbers, nil }))
}

// A heard is a message from the node.
type heard struct {
	ID     int             `json:"id"`
	Output json.RawMessage `json:"output"`
	Error  json.RawMessage `json:"error"`
}

// chatter calls over one WebSocket.
type chatter struct {
	t  *testing.T
	ws *websocket.Conn
}

func newChatter(t *testing.T) *chatter {
	t.Helper()
	rt, err := runtime.Open(t.Context(), runtime.Options{
		Dir: t.TempDir(), Actors: []actor.Definition{scrollDefinition()}, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(rt.Handler())
	ws, _, err := websocket.Dial(t.Context(), s.URL+"/actors/scroll/a/-/connect", &websocket.DialOptions{Subprotocols: []string{"cairn.v1"}})
	if err != nil {
		t.Fatal(err)
	}
	ws.SetReadLimit(-1)
	t.Cleanup(func() {
		ws.CloseNow()
		if err := rt.Close(); err != nil {
			t.Error(err)
		}
		s.Close()
	})
	c := &chatter{t: t, ws: ws}
	c.say(`{"connect":{}}`)
	c.hear()
	return c
}

func (c *chatter) say(format string, args ...any) {
	if err := c.ws.Write(c.t.Context(), websocket.MessageText, fmt.Appendf(nil, format, args...)); err != nil {
		c.t.Error(err)
	}
}

func (c *chatter) hear() (m heard) {
	c.t.Helper()
	_, b, err := c.ws.Read(c.t.Context())
	if err == nil {
		err = json.Unmarshal(b, &m)
	}
	if err != nil || m.Error != nil {
		c.t.Fatalf("%s %v", b, err)
	}
	return m
}

func TestCallsOverOneWebSocketRunInTheOrderInWhichTheyWereSent(t *testing.T) {
	t.Parallel()
	for _, queries := range []int{0, 8, 500} {
		t.Run(fmt.Sprint(queries, " queries"), func(t *testing.T) {
			t.Parallel()
			const calls = 4000
			c := newChatter(t)
			places := make(chan struct{}, 64) // as many calls may be in flight
			var lock sync.Mutex
			expected := make(map[int]int) // the number of calls before each query, by its id
			go func() {
				id := 0
				for n := range calls {
					places <- struct{}{}
					id++
					c.say(`{"id":%d,"call":"inscribe","input":%d}`, id, n)
					if queries > 0 && n%(calls/queries) == 0 {
						places <- struct{}{}
						id++
						lock.Lock()
						expected[id] = n + 1
						lock.Unlock()
						c.say(`{"id":%d,"call":"length"}`, id)
					}
				}
			}()
			for range calls + queries {
				m := c.hear()
				<-places
				lock.Lock()
				want, ok := expected[m.ID]
				lock.Unlock()
				if got := string(m.Output); ok && got != fmt.Sprint(want) {
					t.Errorf("query %d sees %s calls; %d were sent before it", m.ID, got, want)
				}
			}
			c.say(`{"id":1,"call":"numbers"}`)
			var got []int
			if err := json.Unmarshal(c.hear().Output, &got); err != nil {
				t.Fatal(err)
			}
			if len(got) != calls || !slices.IsSorted(got) {
				for i := range got {
					if got[i] != i {
						t.Fatalf("of %d calls, call %d ran as number %d", len(got), got[i], i)
					}
				}
				t.Fatalf("%d calls ran", len(got))
			}
		})
	}
}

// What waits does not hold up what was sent after it.
func TestACallThatWaitsDoesNotHoldUpTheCallsAfterIt(t *testing.T) {
	t.Parallel()
	c := newChatter(t)
	start := time.Now()
	c.say(`{"id":1,"call":"queue.receive","input":{"queue":"orders","wait_ms":60000}}`)
	c.say(`{"id":2,"call":"inscribe","input":7}`)
	c.say(`{"id":3,"call":"length"}`)
	c.say(`{"id":4,"call":"queue.send","input":{"queue":"orders","messages":[{"body":"paint"}]}}`)
	c.say(`{"id":5,"call":"queue.stats","input":{"queue":"orders"}}`)
	answers := make(map[int]string)
	for range 5 {
		m := c.hear()
		answers[m.ID] = string(m.Output)
	}
	if answers[3] != "1" {
		t.Errorf("the query sees %s calls", answers[3])
	}
	var received struct{ Messages []json.RawMessage }
	if err := json.Unmarshal([]byte(answers[1]), &received); err != nil || len(received.Messages) != 1 {
		t.Errorf("received %s", answers[1])
	}
	if took := time.Since(start); took > 30*time.Second {
		t.Errorf("it took %v", took)
	}
}
