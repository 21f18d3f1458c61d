package node

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/cairn-run/cairn/actor/host"
)

// The events of a hotel's puppets.
const (
	evSaid = iota
	evPrivate
	evKept
)

// A hotel is a stage whose puppet "a" has clients.
type hotel struct{ *stage }

func newHotel(t testing.TB, d puppetType, limits host.Limits) *hotel {
	t.Helper()
	d.name, d.idle, d.limits, d.events = "p", 10*time.Second, limits, []host.Event{{Name: "said"}, {Name: "private"}, {Name: "kept"}}
	return &hotel{newStage(t, nil, &d)}
}

// say emits the event said once for each text.
func (h *hotel) say(texts ...string) {
	h.t.Helper()
	h.must("a", says(texts...))
}

func says(texts ...string) deed {
	return func(_ *puppet, t host.Turn) error {
		for _, text := range texts {
			if err := t.Emit(evSaid, []byte(strconv.Quote(text))); err != nil {
				return err
			}
		}
		return nil
	}
}

// listening asks for all events said from now on.
var listening = host.ConnectRequest{Events: []string{"said"}}

// client connects a client.
func (g *stage) client(key string, r host.ConnectRequest) host.LiveConnection {
	g.t.Helper()
	l, err := g.Connect(context.Background(), pAddr(key), r)
	must(g.t, err)
	return l
}

func (h *hotel) connect(r host.ConnectRequest) host.LiveConnection {
	h.t.Helper()
	return h.client("a", r)
}

// back resumes a connection after an event.
func (h *hotel) back(w host.Welcome, after uint64) host.LiveConnection {
	h.t.Helper()
	l := h.connect(host.ConnectRequest{Token: w.Token, After: after, HasAfter: true, Events: []string{"said"}})
	got := l.Welcome()
	fatalIf(h.t, !got.Resumed || got.Connection != w.Connection, "resumed %q: %+v", w.Connection, got)
	return l
}

// log returns what the puppet has noted.
func (h *hotel) log() (log []string) {
	h.t.Helper()
	h.must("a", func(p *puppet, _ host.Turn) error { log = slices.Clone(p.s.Log); return nil })
	return log
}

// records returns the connections of the puppet.
func (h *hotel) records() (list []host.ConnectionState) {
	h.t.Helper()
	h.must("a", func(_ *puppet, t host.Turn) (err error) { list, err = t.Connections("", 0); return err })
	return list
}

// wakes returns how many rows the wake index has.
func (h *hotel) wakes() int {
	h.t.Helper()
	rows, err := h.store.Wakes(nil, 1<<60, 1<<20)
	must(h.t, err)
	return len(rows)
}

// heard reads what comes within a second: texts of events, and the events missed. It ends early when the connection does.
func heard(l host.LiveConnection) (texts []string, last, missed uint64, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	for {
		d, err := l.Next(ctx)
		if err != nil {
			if ctx.Err() != nil {
				err = nil
			}
			return texts, last, missed, err
		}
		missed += d.Missed
		for _, e := range d.Events {
			var text string
			if err := json.Unmarshal(e.Data, &text); err != nil {
				return texts, last, missed, err
			}
			texts, last = append(texts, text), e.Sequence
		}
	}
}

// expect reads what comes within a second and compares it.
func expect(t testing.TB, l host.LiveConnection, want ...string) {
	t.Helper()
	got, _, missed, err := heard(l)
	errorIf(t, !slices.Equal(got, want) || missed != 0 || err != nil, "heard %q, missed %d, %v; want %q", got, missed, err, want)
}
