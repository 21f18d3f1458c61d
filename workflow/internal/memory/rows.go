package memory

import (
	"maps"
	"slices"

	wfhost "github.com/cairn-run/cairn/workflow/host"
	"github.com/cairn-run/cairn/workflow/internal/rowmap"
)

// Rows are the rows of an actor.
type Rows = rowmap.Map

// Recorded returns the rows of a recording.
func Recorded(rec *wfhost.Recording) *Rows {
	all := make(map[string]string, len(rec.Rows))
	for _, row := range rec.Rows {
		all[string(row.Key)] = string(row.Value)
	}
	return rowmap.Of(all)
}

// Queues are messages by queue, the next one first.
type Queues struct {
	lists  map[string][]wfhost.Delivery
	before map[string][]wfhost.Delivery // of the transaction; nil while nothing was changed
}

// NewQueues returns queues without messages.
func NewQueues() *Queues { return &Queues{lists: make(map[string][]wfhost.Delivery)} }

// Add puts a message at the end of its queue. It is no part of a transaction.
func (q *Queues) Add(m wfhost.Delivery) { q.lists[m.Queue] = append(q.lists[m.Queue], m) }

// Lists returns the messages of all queues. The caller must not change them.
func (q *Queues) Lists() map[string][]wfhost.Delivery { return q.lists }

// Receive implements wfhost.Turn.
func (q *Queues) Receive(queues []string, limit int) ([]wfhost.Delivery, error) {
	var got []wfhost.Delivery
	for _, name := range queues {
		list := q.lists[name]
		n := min(limit-len(got), len(list))
		if n <= 0 {
			continue
		}
		q.own()
		got = append(got, list[:n]...)
		q.lists[name] = slices.Clone(list[n:])
	}
	return got, nil
}

// Return implements wfhost.Turn.
func (q *Queues) Return(messages []wfhost.Delivery) error {
	q.own()
	for _, m := range slices.Backward(messages) {
		q.lists[m.Queue] = append([]wfhost.Delivery{m}, q.lists[m.Queue]...)
	}
	return nil
}

// Moved reports whether the transaction has received or returned messages.
func (q *Queues) Moved() bool { return q.before != nil }

// Keep ends the transaction and keeps its changes.
func (q *Queues) Keep() { q.before = nil }

// Restore ends the transaction and undoes its changes.
func (q *Queues) Restore() {
	if q.before != nil {
		q.lists, q.before = q.before, nil
	}
}

// own saves the queues before they change.
func (q *Queues) own() {
	if q.before == nil {
		q.before = maps.Clone(q.lists)
	}
}
