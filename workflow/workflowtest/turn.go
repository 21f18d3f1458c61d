package workflowtest

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	wfhost "github.com/cairn-run/cairn/workflow/host"
	"github.com/cairn-run/cairn/workflow/internal/replay"
)

// A turn is a transaction of an actor. It writes through, and knows how it was before.
type turn struct {
	*rows
	a       *Actor
	queues  map[string][]wfhost.Delivery // before; nil while nothing was changed
	state   *snapshot                    // before; nil while nobody looked
	replies []*Request                   // answered
	sent    []wfhost.Outgoing
}

func (a *Actor) begin() *turn { return &turn{rows: a.rows, a: a} }

// wrote reports whether anything has changed, or may have.
func (t *turn) wrote() bool {
	return len(t.undo) > 0 || t.queues != nil || len(t.replies) > 0 || len(t.sent) > 0
}

func (t *turn) commit() {
	t.rows.commit()
	for _, m := range t.sent {
		t.a.w.mail = append(t.a.w.mail, letter{t.a, m})
	}
}

// describe says for people what the transaction is about.
func (t *turn) describe() string {
	keys := make([][]byte, len(t.undo))
	for i, c := range t.undo {
		keys[i] = []byte(c.key)
	}
	var parts []string
	if d, err := replay.Changed(t.rows, keys); err == nil {
		for _, e := range d.Entries {
			parts = append(parts, fmt.Sprintf("%s %q %s", e.Kind, e.Path, e.Status))
		}
		if len(d.Removed) > 0 {
			parts = append(parts, fmt.Sprintf("%d entries deleted", len(d.Removed)))
		}
	}
	for _, m := range t.sent {
		parts = append(parts, m.Verb+" to "+nameOf(m.To))
	}
	if s, err := wfhost.ReadStatus(t.rows); err == nil && (s.State.Over() || s.State == wfhost.StateRollingBack || len(parts) == 0) {
		parts = append(parts, "the run is "+string(s.State))
	}
	return nameOf(t.a.self) + ": " + strings.Join(parts, ", ")
}

func (t *turn) rollback() {
	t.rows.rollback()
	if t.queues != nil {
		t.a.queues = t.queues
	}
	if t.state != nil {
		t.state.restore()
	}
	for _, q := range t.replies {
		q.answer, q.failure, q.answered = nil, nil, false
	}
}

func (t *turn) Put(key, value []byte) error {
	t.put(string(key), value)
	return nil
}

// PutNew implements wfhost.NewPutter, and checks what it is told.
func (t *turn) PutNew(key, value []byte) error {
	if _, ok, _ := t.Get(key); ok {
		return fmt.Errorf("PutNew of %x, which has a row", key)
	}
	return t.Put(key, value)
}

func (t *turn) Delete(key []byte) error {
	t.remove(string(key))
	return nil
}

func (t *turn) DeleteRange(start, end []byte) error {
	t.removeRange(start, end)
	return nil
}

func (t *turn) Now() time.Time { return t.a.w.now() }

func (t *turn) Value() any {
	if t.a.state == nil {
		return nil
	}
	if t.state == nil {
		t.state = take(t.a.state)
	}
	return t.a.state
}

// own keeps the queues as they were, because they are about to change.
func (t *turn) own() {
	if t.queues == nil {
		t.queues = maps.Clone(t.a.queues)
	}
}

func (t *turn) Receive(queues []string, limit int) ([]wfhost.Delivery, error) {
	var got []wfhost.Delivery
	for _, q := range queues {
		list := t.a.queues[q]
		n := min(limit-len(got), len(list))
		if n <= 0 {
			continue
		}
		t.own()
		got = append(got, list[:n]...)
		t.a.queues[q] = slices.Clone(list[n:])
	}
	return got, nil
}

func (t *turn) Return(messages []wfhost.Delivery) error {
	t.own()
	for _, m := range slices.Backward(messages) {
		t.a.queues[m.Queue] = append([]wfhost.Delivery{m}, t.a.queues[m.Queue]...)
	}
	return nil
}

func (t *turn) Reply(m *wfhost.Delivery, reply []byte, failure *wfhost.Failure) error {
	q := t.a.requests[m.ID]
	if q == nil || q.answered {
		return nil // the sender no longer waits, or has its answer
	}
	q.answer, q.failure, q.answered = bytes.Clone(reply), failure, true
	t.replies = append(t.replies, q)
	return nil
}

func (t *turn) Send(m *wfhost.Outgoing) error {
	c := *m
	c.Body = bytes.Clone(m.Body)
	t.sent = append(t.sent, c)
	return nil
}
