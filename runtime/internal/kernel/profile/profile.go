// Package profile labels goroutines for the profiles of Go, so that a profile shows which actor
// type its samples belong to.
//
// A goroutine inherits the labels of the goroutine that starts it. So the goroutines that a handler
// starts carry the labels of the handler, and those of the runtime's own drop them: see
// [Unlabelled].
package profile

import (
	"context"
	"runtime/pprof"
	"sync"
	"sync/atomic"
)

// The keys of the labels. No label holds the key of an actor, because a profile keeps every label
// set that it has seen.
const (
	// ActorType is the key of the actor type's name.
	ActorType = "actor_type"
	// Work is the key of the kind of work, such as call, query or alarm.
	Work = "work"
	// Name is the key of the name that the code declares: of a method, alarm, schedule or queue.
	Name = "name"
)

// Labels are the label sets of one actor type. A nil *Labels labels nothing.
//
// Invariant: a map in sets is never changed, so that readers need no lock.
type Labels struct {
	actorType string
	sets      atomic.Pointer[map[set]context.Context]
	mu        sync.Mutex // held to replace sets
}

// A set identifies a label set of a type.
type set struct{ kind, name string }

// Of makes the labels of an actor type; nil if goroutines get none.
func Of(on bool, actorType string) *Labels {
	if !on {
		return nil
	}
	l := &Labels{actorType: actorType}
	l.sets.Store(new(map[set]context.Context))
	return l
}

// Enter labels the calling goroutine with the type, a kind of work and a name. The name is left out
// if it is "" or the code does not declare it: names that exist only at run time may be too many.
func (l *Labels) Enter(kind, name string, declared bool) {
	if l == nil {
		return
	}
	if !declared {
		name = ""
	}
	ctx, ok := (*l.sets.Load())[set{kind, name}]
	if !ok {
		ctx = l.add(set{kind, name})
	}
	pprof.SetGoroutineLabels(ctx)
}

// Leave removes the labels of the calling goroutine.
func (l *Labels) Leave() {
	if l != nil {
		pprof.SetGoroutineLabels(context.Background())
	}
}

// add makes a label set that is used for the first time.
func (l *Labels) add(s set) context.Context {
	l.mu.Lock()
	defer l.mu.Unlock()
	old := *l.sets.Load()
	if ctx, ok := old[s]; ok {
		return ctx
	}
	labels := []string{ActorType, l.actorType, Work, s.kind}
	if s.name != "" {
		labels = append(labels, Name, s.name)
	}
	ctx := pprof.WithLabels(context.Background(), pprof.Labels(labels...))
	next := make(map[set]context.Context, len(old)+1)
	for k, v := range old {
		next[k] = v
	}
	next[s] = ctx
	l.sets.Store(&next)
	return ctx
}

// Worker returns run for a worker that runs jobs of many types: it removes the labels after each.
func Worker[Job any](on bool, run func(Job)) func(Job) {
	if !on {
		return run
	}
	return func(job Job) {
		defer pprof.SetGoroutineLabels(context.Background())
		run(job)
	}
}

// Unlabelled returns f for a goroutine of the runtime's own, which may outlive the work that starts
// it: f runs without labels.
func Unlabelled(on bool, f func()) func() {
	if !on {
		return f
	}
	return func() {
		pprof.SetGoroutineLabels(context.Background())
		f()
	}
}
