package memhost

import (
	"fmt"
	"maps"
	"slices"
	"time"

	wfhost "github.com/cairn-run/cairn/workflow/host"
)

// A turn is a transaction.
type turn struct {
	h       *Host
	queues  map[string][]wfhost.Delivery // before; nil while nothing was changed
	replies int
	changed bool
}

func (h *Host) begin() *turn { return &turn{h: h, replies: len(h.Replies)} }

// wrote reports whether the transaction has changed anything.
func (t *turn) wrote() bool {
	return len(t.h.rows.undo) > 0 || t.queues != nil || t.h.state.before != nil || t.changed
}

func (t *turn) commit() {
	t.h.rows.commit()
	t.h.state.before = nil
}

func (t *turn) undo() {
	t.h.rows.rollback()
	if t.queues != nil {
		t.h.queues = t.queues
	}
	if t.h.state.before != nil {
		t.h.state.values, t.h.state.before = t.h.state.before, nil
	}
	t.h.Replies = t.h.Replies[:t.replies]
}

func (t *turn) Get(key []byte) ([]byte, bool, error) {
	t.h.Reads++
	v, ok := t.h.rows.values[string(key)]
	return v, ok, nil
}

func (t *turn) Scan(start, end []byte, visit func(key, value []byte) error) error {
	t.h.Reads++
	for _, k := range t.h.rows.between(start, end) {
		if err := visit([]byte(k), t.h.rows.values[k]); err != nil {
			return err
		}
	}
	return nil
}

func (t *turn) Put(key, value []byte) error {
	t.h.rows.put(key, value)
	return nil
}

// PutNew implements wfhost.NewPutter, and checks what it is told.
func (t *turn) PutNew(key, value []byte) error {
	if _, ok := t.h.rows.values[string(key)]; ok {
		return fmt.Errorf("PutNew of %x, which has a row", key)
	}
	return t.Put(key, value)
}

func (t *turn) Delete(key []byte) error {
	t.h.rows.remove(string(key))
	return nil
}

func (t *turn) DeleteRange(start, end []byte) error {
	for _, k := range slices.Clone(t.h.rows.between(start, end)) {
		t.h.rows.remove(k)
	}
	return nil
}

func (t *turn) Now() time.Time { return t.h.now() }

func (t *turn) Value() any {
	if t.h.View != nil {
		return t.h.View(t.h.state)
	}
	return t.h.state
}

func (t *turn) own() {
	if t.queues == nil {
		t.queues = maps.Clone(t.h.queues)
	}
}

func (t *turn) Receive(queues []string, limit int) ([]wfhost.Delivery, error) {
	var got []wfhost.Delivery
	for _, q := range queues {
		list := t.h.queues[q]
		n := min(limit-len(got), len(list))
		if n <= 0 {
			continue
		}
		t.own()
		got = append(got, list[:n]...)
		t.h.queues[q] = slices.Clone(list[n:])
	}
	return got, nil
}

func (t *turn) Return(messages []wfhost.Delivery) error {
	t.own()
	for i := len(messages) - 1; i >= 0; i-- {
		q := messages[i].Queue
		t.h.queues[q] = append([]wfhost.Delivery{messages[i]}, t.h.queues[q]...)
	}
	return nil
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
