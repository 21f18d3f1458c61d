package memhost

import (
	"fmt"
	"time"

	wfhost "github.com/cairn-run/cairn/workflow/host"
	"github.com/cairn-run/cairn/workflow/internal/memory"
)

// A turn is a transaction.
type turn struct {
	*memory.Rows
	*memory.Queues
	h       *Host
	replies int
	changed bool
}

func (h *Host) begin() *turn {
	return &turn{Rows: h.rows, Queues: h.queues, h: h, replies: len(h.Replies)}
}

// wrote reports whether the transaction has changed anything.
func (t *turn) wrote() bool {
	return t.Changed() || t.Moved() || t.h.state.before != nil || t.changed
}

func (t *turn) commit() {
	t.Rows.Commit()
	t.Keep()
	t.h.state.before = nil
}

func (t *turn) undo() {
	t.Rollback()
	t.Restore()
	if t.h.state.before != nil {
		t.h.state.values, t.h.state.before = t.h.state.before, nil
	}
	t.h.Replies = t.h.Replies[:t.replies]
}

func (t *turn) Get(key []byte) ([]byte, bool, error) {
	t.h.Reads++
	return t.Rows.Get(key)
}

func (t *turn) Scan(start, end []byte, visit func(key, value []byte) error) error {
	t.h.Reads++
	return t.Rows.Scan(start, end, visit)
}

func (t *turn) Now() time.Time { return t.h.now() }

func (t *turn) Value() any {
	if t.h.View != nil {
		return t.h.View(t.h.state)
	}
	return t.h.state
}

func (t *turn) Reply(m *wfhost.Delivery, reply []byte, failure *wfhost.Failure) error {
	t.changed = true
	if failure != nil {
		t.h.Replies = append(t.h.Replies, fmt.Sprintf("%s/%d error %s", m.Queue, m.ID, failure.Message))
	} else {
		t.h.Replies = append(t.h.Replies, fmt.Sprintf("%s/%d %x", m.Queue, m.ID, reply))
	}
	return nil
}

func (t *turn) Send(m *wfhost.Outgoing) error {
	return fmt.Errorf("memhost has one run: %s to %v", m.Verb, m.To)
}
