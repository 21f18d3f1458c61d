package replay

import (
	"container/heap"
	"time"
)

// A timer fires once, at a time of the run. Timers fire in the order of their times, then of their
// making.
type timer struct {
	at    time.Time
	order uint64
	index int // in the heap, -1 outside of it
	fire  func() error
}

// timers is a heap.
type timers struct {
	list []*timer
	made uint64
}

func (q *timers) Len() int { return len(q.list) }
func (q *timers) Less(i, j int) bool {
	a, b := q.list[i], q.list[j]
	return a.at.Before(b.at) || a.at.Equal(b.at) && a.order < b.order
}
func (q *timers) Swap(i, j int) {
	q.list[i], q.list[j] = q.list[j], q.list[i]
	q.list[i].index, q.list[j].index = i, j
}
func (q *timers) Push(x any) {
	t := x.(*timer)
	t.index = len(q.list)
	q.list = append(q.list, t)
}
func (q *timers) Pop() any {
	last := len(q.list) - 1
	t := q.list[last]
	q.list[last] = nil
	q.list = q.list[:last]
	t.index = -1
	return t
}

// set arms a timer.
func (q *timers) set(t *timer, at time.Time) {
	q.stop(t)
	q.made++
	t.at, t.order = at, q.made
	heap.Push(q, t)
}

// stop disarms a timer, if it is armed.
func (q *timers) stop(t *timer) {
	if t != nil && t.order != 0 && t.index >= 0 {
		heap.Remove(q, t.index)
	}
}

// due returns the next timer whose time has come, disarmed; nil if there is none.
func (q *timers) due(now time.Time) *timer {
	if len(q.list) == 0 || q.list[0].at.After(now) {
		return nil
	}
	return heap.Pop(q).(*timer)
}

// next returns the time at which the first timer fires, zero if none is armed.
func (q *timers) next() time.Time {
	if len(q.list) == 0 {
		return time.Time{}
	}
	return q.list[0].at
}
