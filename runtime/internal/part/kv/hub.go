package kv

import (
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/kv"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/runtime/internal/kernel"
	"github.com/cairn-run/cairn/runtime/internal/kernel/fault"
)

// A hub notifies watches of the keys that the durable commits of their actor have changed. It is
// apart from the Actors, so an actor sleeps while it is watched.
//
// A watch joins before it reads. Kernel.Durable gives it a snapshot when the consequences of the
// snapshot's commits are out, and only then it looks which keys are dirty. So these are all keys
// that differ in the snapshot, and no commit is shown by half. Marks of later commits stay dirty. A
// turn that finds no watch collects no keys, and its commit marks that anything may have changed.
type hub struct {
	mu        sync.RWMutex
	audiences map[string]*audience // by actor
	held      atomic.Int64         // bytes of the changes that watchers have in hand
	known     atomic.Int64         // bytes of what watchers remember

	watchBounds
}

// An audience is the watches of one actor.
type audience struct {
	all      map[*watch]bool
	keys     map[string]map[*watch]bool // by packed key
	prefixes map[string]map[*watch]bool // by packed prefix
	lengths  map[int]int                // of the prefixes, and how many have them
	ranged   int                        // the cost of comparing a range with all watches
}

// hubOf returns the hub of a node.
func hubOf(k *kernel.Kernel) *hub { return &kernel.PartOf[*Part](k).hub }

// join adds a watch.
func (h *hub) join(w *watch) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	au := h.audiences[w.actor]
	if au == nil {
		au = &audience{
			all: make(map[*watch]bool), keys: make(map[string]map[*watch]bool), prefixes: make(map[string]map[*watch]bool),
			lengths: make(map[int]int),
		}
		if h.audiences == nil {
			h.audiences = make(map[string]*audience)
		}
		h.audiences[w.actor] = au
	}
	if len(au.all) >= kv.MaxWatchers {
		return host.Errorf(host.Overloaded, "the actor has %d watchers", len(au.all)).
			With("limit", strconv.Itoa(kv.MaxWatchers)).Retry()
	}
	au.all[w] = true
	au.ranged += 1 + len(w.prefixes)
	for _, key := range w.keys {
		enter(au.keys, key, w)
	}
	for _, prefix := range w.prefixes {
		if enter(au.prefixes, prefix, w) {
			au.lengths[len(prefix)]++
		}
	}
	return nil
}

// enter adds a watch to an index, and reports whether it is the first under its name.
func enter(index map[string]map[*watch]bool, name string, w *watch) bool {
	first := index[name] == nil
	if first {
		index[name] = make(map[*watch]bool)
	}
	index[name][w] = true
	return first
}

// drop is the reverse of enter. It reports whether the watch was the last.
func drop(index map[string]map[*watch]bool, name string, w *watch) bool {
	delete(index[name], w)
	last := len(index[name]) == 0
	if last {
		delete(index, name)
	}
	return last
}

// leave removes a watch.
func (h *hub) leave(w *watch) {
	h.mu.Lock()
	defer h.mu.Unlock()
	au := h.audiences[w.actor]
	if au == nil || !au.all[w] {
		return
	}
	au.ranged -= 1 + len(w.prefixes)
	for _, key := range w.keys {
		drop(au.keys, key, w)
	}
	for _, prefix := range w.prefixes {
		if !drop(au.prefixes, prefix, w) {
			continue
		}
		if au.lengths[len(prefix)]--; au.lengths[len(prefix)] == 0 {
			delete(au.lengths, len(prefix))
		}
	}
	if delete(au.all, w); len(au.all) == 0 {
		delete(h.audiences, w.actor)
	}
}

// watched reports whether an actor has a watch.
func (h *hub) watched(actor string) bool {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return h.audiences[actor] != nil
}

// maxMarks bounds the comparisons that publish makes, because all replies of the store wait for it.
// Beyond, the watches make them when they read.
const maxMarks = 10_000

// publish notifies the watches of an actor of the changes of a durable turn. It does not block.
func (h *hub) publish(actor string, what *touched) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	au := h.audiences[actor]
	if au == nil {
		return
	}
	if what.any {
		for w := range au.all {
			w.touchAll(what.version)
		}
		return
	}
	if len(what.keys)*(len(au.all)+len(au.lengths))+len(what.ranges)*au.ranged > maxMarks {
		for w := range au.all {
			w.hand(what)
		}
		return
	}
	for _, key := range what.keys {
		for w := range au.keys[key] {
			w.touch(key, what.version)
		}
		for n := range au.lengths {
			if n > len(key) || len(key) > n && key[n] == 0xFF { // 0xFF there goes on with a part of the prefix
				continue
			}
			for w := range au.prefixes[key[:n]] {
				w.touch(key, what.version)
			}
		}
	}
	for _, r := range what.ranges {
		for w := range au.all {
			w.touchRange(r, what.version)
		}
	}
}

// end notifies the watches of an actor that it was destroyed. It is called before anything of a
// successor is durable.
func (h *hub) end(actor string) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	if au := h.audiences[actor]; au != nil {
		for w := range au.all {
			w.finish(fault.Destroyed())
		}
	}
}

// Destroy implements kernel.Destroyer. Watchers get no last state, only the error that the actor
// was destroyed.
func (p *Part) Destroy(t *kernel.Turn) error {
	actor := t.Actor.Key
	t.Then(func() { p.hub.end(actor) })
	return nil
}

// A span is a range of packed keys. An empty end is the end of the store.
type span struct{ start, end string }

func (s span) has(key string) bool { return key >= s.start && (s.end == "" || key < s.end) }

// touched has the changes of a turn. Watchers are notified when the turn is durable.
type touched struct {
	in      *kernel.Actor
	version engine.Version // of the turn
	any     bool           // anything may have changed
	logged  bool           // the log was written
	keys    []string
	ranges  []span
	changes int // of keys, that are published
}

// After changes of more than so many keys or ranges, watchers read everything again.
const (
	maxTouched = 1_000
	maxRanges  = 16
)

// touch records that a key has changed.
//
// REQUIRES: h.K.Mu
func (h *Turn) touch(key []byte) {
	recentOf(h.K.Actor.Kernel, &h.K.Core.Attached).mark(key, h.K.Core.Rows.Version())
	if what := h.collects(); !what.any {
		what.keys = append(what.keys, string(key))
	}
}

// touchRange records that a range has changed.
//
// REQUIRES: h.K.Mu
func (h *Turn) touchRange(start, end []byte) {
	recentOf(h.K.Actor.Kernel, &h.K.Core.Attached).mark(nil, h.K.Core.Rows.Version())
	if what := h.collects(); !what.any {
		what.ranges = append(what.ranges, span{string(start), string(end)})
	}
}

// collects returns where the turn records a change, if any is not set.
func (h *Turn) collects() *touched {
	if h.touched == nil {
		h.touched = &touched{in: h.K.Actor, version: h.K.AsOf}
		h.K.After = append(h.K.After, h.touched)
	}
	what := h.touched
	if !what.any && (len(what.keys) >= maxTouched || len(what.ranges) >= maxRanges ||
		!hubOf(what.in.Kernel).watched(what.in.Key)) {
		what.any, what.keys, what.ranges = true, nil, nil
	}
	return what
}

// Durable implements kernel.Consequence.
func (what *touched) Durable() {
	hubOf(what.in.Kernel).publish(what.in.Key, what)
	if what.logged {
		what.in.Kernel.Signals.Notify(what.in.Key, feedTopic)
	}
}
