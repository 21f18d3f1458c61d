package queue

import (
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
)

// A Wake is the row that a queue has in the wake index.
type Wake struct {
	Queue string
	Due   int64 // Unix ms
}

// Wakes returns the rows that the queues of an actor have in the wake index.
func Wakes(rows engine.Reader) ([]Wake, error) {
	var wakes []Wake
	start, end := keyspace.KindRange(keyspace.KindQueueStats)
	q := engine.ListQuery{Start: start, End: end, Limit: 1_000}
	for {
		page, err := rows.List(q)
		if err != nil {
			return nil, err
		}
		for i := range page.Entries {
			k, err := keyspace.ParseQueueStats(page.Entries[i].Key)
			if err != nil {
				return nil, corrupt("%v", err)
			}
			var c counts
			if err := c.decode(k.Queue, page.Entries[i].Value); err != nil {
				return nil, err
			}
			if c.wake != 0 {
				wakes = append(wakes, Wake{k.Queue, c.wake})
			}
		}
		if q.After = page.Next; q.After == nil {
			return wakes, nil
		}
	}
}

// Pending returns how many messages of a queue can be received, as of the changes of this Set.
func (s *Set) Pending(queue string) (int64, error) {
	l, err := s.open(queue)
	if err != nil {
		return 0, err
	}
	return l.fronts[readyIndex].n, nil
}
