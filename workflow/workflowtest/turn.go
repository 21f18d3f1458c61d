package workflowtest

import (
	"bytes"
	"fmt"
	"strings"
	"time"

	wfhost "github.com/cairn-run/cairn/workflow/host"
	"github.com/cairn-run/cairn/workflow/internal/memory"
	"github.com/cairn-run/cairn/workflow/internal/replay"
)

// A turn is a transaction of an actor. It writes through, and knows how it was before.
type turn struct {
	*memory.Rows
	*memory.Queues
	a       *Actor
	state   *snapshot  // before; nil while nobody looked
	replies []*Request // answered
	sent    []wfhost.Outgoing
}

func (a *Actor) begin() *turn { return &turn{Rows: a.rows, Queues: a.queues, a: a} }

// wrote reports whether anything has changed, or may have.
func (t *turn) wrote() bool {
	return t.Changed() || t.Moved() || len(t.replies) > 0 || len(t.sent) > 0
}

func (t *turn) commit() {
	t.Rows.Commit()
	t.Keep()
	for _, m := range t.sent {
		t.a.w.mail = append(t.a.w.mail, letter{t.a, m})
	}
}

// describe says for people what the transaction is about.
func (t *turn) describe() string {
	var parts []string
	if d, err := replay.Changed(t.Rows, t.Written()); err == nil {
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
	if s, err := wfhost.ReadStatus(t.Rows); err == nil && (s.State.Over() || s.State == wfhost.StateRollingBack || len(parts) == 0) {
		parts = append(parts, "the run is "+string(s.State))
	}
	return nameOf(t.a.self) + ": " + strings.Join(parts, ", ")
}

func (t *turn) rollback() {
	t.Rollback()
	t.Restore()
	if t.state != nil {
		t.state.restore()
	}
	for _, q := range t.replies {
		q.answer, q.failure, q.answered = nil, nil, false
	}
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
