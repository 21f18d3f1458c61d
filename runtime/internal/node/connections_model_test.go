package node

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime/internal/part/conn"
	"github.com/cairn-run/cairn/runtime/internal/part/event"
)

// A listener is a client of the model: what it has, and what it must get.
type listener struct {
	l      host.LiveConnection // nil while it is not connected
	token  string
	id     string            // "" once the connection has ended
	cursor uint64            // the last event that it got, or the one before its first
	subs   map[string]uint64 // event -> the last before it was subscribed to
}

// world runs random operations on a room and its listeners. Its model is the list of all events that were ever durable.
type world struct {
	*hotel
	t         *testing.T
	r         *rand.Rand
	listeners []*listener
	events    map[uint64]host.EmittedEvent
	texts     map[string]uint64
	first     uint64 // the first event that is kept
	last      uint64
	emitted   int
}

// TestRandomConnectionsAgreeWithTheModel lets clients connect, be lost, come back, be slow and be taken over, while the node
// restarts and crashes: each gets every event that is for it once and in order, or is told of a gap; none that was not
// durable, and none that is for others.
func TestRandomConnectionsAgreeWithTheModel(t *testing.T) {
	seeds := uint64(2)
	if long() {
		seeds = 20
	}
	for _, history := range []int{10_000, 8} {
		for seed := range seeds {
			t.Run(fmt.Sprintf("history %d, seed %d", history, seed), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					h := newHotel(t, &rooms{}, host.Limits{EventHistory: history, ConnectionBytes: 1500, ConnectionGrace: time.Hour})
					w := &world{hotel: h, t: t, r: rand.New(rand.NewPCG(seed, uint64(history))),
						events: make(map[uint64]host.EmittedEvent), texts: make(map[string]uint64)}
					for range 4 {
						w.listeners = append(w.listeners, new(listener))
					}
					for range 120 {
						w.step()
						if t.Failed() {
							return
						}
					}
					for _, c := range w.listeners {
						w.read(c)
						w.come(c)
						w.read(c)
					}
				})
			})
		}
	}
}

func (w *world) step() {
	c := w.listeners[w.r.IntN(len(w.listeners))]
	switch n := w.r.IntN(100); {
	case n < 40:
		w.emit()
	case n < 60:
		w.read(c)
	case n < 75:
		w.come(c) // a client that is connected takes its own connection over
	case n < 80:
		w.leave(c, true)
	case n < 82:
		w.leave(c, false)
		c.id = ""
	case n < 90:
		w.resubscribe(c)
	case n < 93:
		time.Sleep(time.Minute) // the actor sleeps
	case n < 95:
		w.restart()
	case n < 97:
		time.Sleep(2 * time.Hour) // lost connections are given up
		for _, c := range w.listeners {
			if c.l != nil && c.l.(*conn.LiveConnection).Ended() != nil {
				w.read(c)
			}
			if c.l == nil {
				c.id = ""
			}
		}
	default:
		w.cut()
	}
	w.sync()
}

// turn makes a random turn that emits a few events, and the texts in them.
func (w *world) turn() (script, []string) {
	type emission struct {
		event  int
		text   string
		to     string
		except []string
	}
	var all []emission
	var texts []string
	for range 1 + w.r.IntN(3) {
		w.emitted++
		e := emission{event: []int{evSaid, evKept}[w.r.IntN(2)], text: fmt.Sprintf("event %d", w.emitted)}
		switch c := w.listeners[w.r.IntN(len(w.listeners))]; w.r.IntN(4) {
		case 0:
			e.to = c.id // may be for all
		case 1:
			e.except = []string{c.id}
		}
		all, texts = append(all, e), append(texts, e.text)
	}
	return func(h host.Turn, _ *room) error {
		for _, e := range all {
			data, err := json.Marshal(e.text)
			if err != nil {
				return err
			}
			if err := h.EmitTo(e.event, data, e.to, e.except); err != nil {
				return err
			}
		}
		return nil
	}, texts
}

func (w *world) emit() {
	f, texts := w.turn()
	w.run(f)
	w.sync()
	for _, text := range texts {
		if w.texts[text] == 0 {
			w.t.Errorf("%s was acknowledged and is not there", text)
		}
	}
}

// sync takes what became durable into the model, which no event ever leaves or changes in.
func (w *world) sync() {
	w.t.Helper()
	for after := w.last - min(w.last, 8); ; {
		page, err := event.History(w.s.Kernel, w.t.Context(), roomA, [16]byte{}, after)
		if err != nil {
			w.t.Fatal(err)
		}
		if len(page.Events) == 0 {
			break
		}
		for _, e := range page.Events {
			var text string
			if err := json.Unmarshal(e.Data, &text); err != nil {
				w.t.Fatal(err)
			}
			if old, ok := w.events[e.Sequence]; ok && string(old.Data) != string(e.Data) {
				w.t.Errorf("event %d was %s and is %s", e.Sequence, old.Data, e.Data)
			}
			if e.Sequence > w.last+1 {
				w.t.Fatalf("the model has not seen the events after %d", w.last)
			}
			w.events[e.Sequence], w.texts[text] = e, e.Sequence
			w.last, after = max(w.last, e.Sequence), e.Sequence
		}
	}
	w.first = 1
	if keep := uint64(w.limits.EventHistory); w.last > keep {
		w.first = w.last - keep + 1
	}
}

// due returns the events after the cursor that a listener must get.
func (w *world) due(c *listener) []uint64 {
	var due []uint64
	for seq := c.cursor + 1; seq <= w.last; seq++ {
		e := w.events[seq]
		since, subscribed := c.subs[e.Name]
		switch {
		case e.To != "" && e.To != c.id, e.To == "" && (!subscribed || seq <= since), slices.Contains(e.Except, c.id):
		default:
			due = append(due, seq)
		}
	}
	return due
}

// read takes what there is and compares it with the model.
func (w *world) read(c *listener) {
	w.t.Helper()
	if c.l == nil {
		return
	}
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Second)
	defer cancel()
	w.sync()
	for {
		d, err := c.l.Next(ctx)
		due := w.due(c)
		if err != nil {
			if ctx.Err() == nil {
				c.l = nil // too slow, or the node went away
			} else if len(due) > 0 {
				w.t.Errorf("%s waits for the events %d after %d", c.id, due, c.cursor)
			}
			return
		}
		if d.Missed > 0 {
			// It was told before anything else, and of no more than what was cut off.
			if c.cursor += d.Missed; c.cursor+1 != w.first {
				w.t.Errorf("%s was told that it missed the events up to %d, and %d is the first that is kept", c.id, c.cursor, w.first)
			}
			due = w.due(c)
		}
		for i, e := range d.Events {
			if i >= len(due) || due[i] != e.Sequence || string(w.events[e.Sequence].Data) != string(e.Data) {
				w.t.Fatalf("%s got event %d, %s, after %d; the model has %d", c.id, e.Sequence, e.Data, c.cursor, due)
			}
		}
		if n := len(d.Events); n > 0 {
			c.cursor = d.Events[n-1].Sequence
		}
	}
}

// come connects a listener, as the one that it was if it can be.
func (w *world) come(c *listener) {
	w.t.Helper()
	events := []string{"said", "kept"}[:w.r.IntN(3)]
	old := c.l
	fresh := c.token == "" || c.id == "" && w.r.IntN(2) == 0
	r := host.ConnectRequest{Events: events, Token: c.token, After: c.cursor, HasAfter: true}
	if fresh {
		r = host.ConnectRequest{Events: events}
	}
	w.sync()
	c.l = w.connect(r)
	welcome := c.l.Welcome()
	if welcome.Resumed != (c.id != "") {
		w.t.Fatalf("%q: %+v", c.id, welcome)
	}
	if !welcome.Resumed {
		c.subs = make(map[string]uint64)
		for _, name := range events {
			c.subs[name] = 0
		}
		if fresh {
			c.cursor = w.last
		}
	}
	if got := slices.Sorted(slices.Values(welcome.Events)); !slices.Equal(got, slices.Sorted(maps.Keys(c.subs))) {
		w.t.Errorf("%s is subscribed to %q, want %v", welcome.Connection, got, c.subs)
	}
	if welcome.Cursor != c.cursor {
		w.t.Errorf("%s begins after %d, want %d", welcome.Connection, welcome.Cursor, c.cursor)
	}
	c.id, c.token = welcome.Connection, welcome.Token
	if old != nil {
		if err := old.Close(w.t.Context(), w.r.IntN(2) == 0); err != nil { // it has no more to report
			w.t.Error(err)
		}
	}
}

func (w *world) leave(c *listener, lost bool) {
	w.t.Helper()
	if w.read(c); c.l == nil {
		if !lost && c.id != "" {
			if err := w.s.Disconnect(w.t.Context(), roomA, c.token); err != nil {
				w.t.Error(err)
			}
		}
		return
	}
	if err := c.l.Close(w.t.Context(), lost); err != nil {
		w.t.Error(err)
	}
	c.l = nil
}

// resubscribe changes the subscriptions of a listener once it has all earlier events.
func (w *world) resubscribe(c *listener) {
	w.t.Helper()
	if w.read(c); c.l == nil {
		return
	}
	name := []string{"said", "kept"}[w.r.IntN(2)]
	if _, ok := c.subs[name]; ok {
		if err := c.l.Unsubscribe(w.t.Context(), name); err != nil {
			w.t.Fatal(err)
		}
		delete(c.subs, name)
		c.cursor = max(c.cursor, w.last) // it knows that it has all events, and none is due
		return
	}
	if err := c.l.Subscribe(w.t.Context(), name); err != nil {
		w.t.Fatal(err)
	}
	c.subs[name] = w.last
}

// cut turns the power off while turns run.
func (w *world) cut() {
	results := make(chan struct{})
	n := w.r.IntN(3)
	for range n {
		f, _ := w.turn()
		s, q := w.s, w.rooms.request(f)
		go func() {
			s.Call(context.Background(), q) // the outcome is unknown
			results <- struct{}{}
		}()
	}
	if w.r.IntN(2) == 0 {
		synctest.Wait()
	}
	w.crash(w.r.Uint64(), w.r.IntN(101))
	for range n {
		<-results
	}
}
