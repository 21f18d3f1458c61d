package kv

import (
	"container/heap"
	"maps"
	"slices"

	"github.com/cairn-run/cairn/engine"
)

// dirt marks keys that may differ from the watcher's entries, with the versions that changed them.
type dirt struct {
	all    bool
	keys   map[string]engine.Version
	ranges map[span]engine.Version
	last   engine.Version // of all marks
}

func (d *dirt) none() bool { return !d.all && len(d.keys)+len(d.ranges) == 0 }

// mark marks a key or a range, or all if there are too many.
func mark[K comparable](d *dirt, marked *map[K]engine.Version, k K, version engine.Version, most int) {
	if d.last = max(d.last, version); d.all {
		return
	}
	if *marked == nil {
		*marked = make(map[K]engine.Version)
	}
	if (*marked)[k] = max((*marked)[k], version); len(*marked) > most {
		*d = dirt{all: true, last: d.last}
	}
}

// add adds the marks of another.
func (d *dirt) add(o *dirt) {
	if d.last = max(d.last, o.last); o.all {
		*d = dirt{all: true, last: d.last}
	}
	for key, version := range o.keys {
		mark(d, &d.keys, key, version, maxTouched)
	}
	for r, version := range o.ranges {
		mark(d, &d.ranges, r, version, maxRanges)
	}
}

// after returns the marks after a version.
func (d *dirt) after(version engine.Version) dirt {
	if d.last <= version {
		return dirt{}
	}
	earlier := func(v engine.Version) bool { return v <= version }
	left := dirt{all: d.all, last: d.last, keys: maps.Clone(d.keys), ranges: maps.Clone(d.ranges)}
	maps.DeleteFunc(left.keys, func(_ string, v engine.Version) bool { return earlier(v) })
	maps.DeleteFunc(left.ranges, func(_ span, v engine.Version) bool { return earlier(v) })
	return left
}

// An expiry is when an entry expires, in Unix milliseconds.
type expiry struct {
	at  int64
	key string
}

// expiries is a heap of when entries expire. An entry that is out of date is skipped.
type expiries []expiry

// Len implements heap.Interface, with Less, Swap, Push and Pop.
func (x expiries) Len() int           { return len(x) }
func (x expiries) Less(i, j int) bool { return x[i].at < x[j].at }
func (x expiries) Swap(i, j int)      { x[i], x[j] = x[j], x[i] }
func (x *expiries) Push(v any)        { *x = append(*x, v.(expiry)) }
func (x *expiries) Pop() any {
	last := len(*x) - 1
	v := (*x)[last]
	*x = (*x)[:last]
	return v
}

// add adds one. When most are out of date, they are dropped.
func (x *expiries) add(e expiry, known map[string]seen) {
	if len(*x) > 2*len(known)+64 {
		*x = slices.DeleteFunc(*x, func(e expiry) bool { return known[e.key].expire != e.at })
		heap.Init(x)
	}
	heap.Push(x, e)
}

// due removes all that are due, and returns the keys of entries that expire then.
func (x *expiries) due(now int64, known map[string]seen) (keys []string) {
	for len(*x) > 0 && (*x)[0].at <= now {
		e := heap.Pop(x).(expiry)
		if s := known[e.key]; s.expire == e.at {
			s.expire = 0 // if it is still there, because the clock was set back, it is added again
			known[e.key] = s
			keys = append(keys, e.key)
		}
	}
	return keys
}
