package kernel

import (
	"bytes"
	"reflect"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cairn-run/cairn/actor/host"
)

// A watchdog finds handlers that do not return although their turn's deadline and grace have passed, or that left a goroutine
// in a session that does not end. Such a turn is
// abandoned: its caller is answered, its writes can no longer be committed, the actor is rebuilt from the store for the
// work that waits, and the log names the handler and where it hangs. Its goroutine is left; Go has no way to end it.
//
// It runs only while turns do.
type watchdog struct {
	s      *Kernel
	active atomic.Bool
	quit   chan struct{}
	once   sync.Once
	mu     sync.Mutex // held while it looks: one that is about to end and the next may overlap
}

func (d *watchdog) init(s *Kernel) { d.s, d.quit = s, make(chan struct{}) }

func (d *watchdog) stop() { d.once.Do(func() { close(d.quit) }) }

// watch makes sure that the watchdog runs.
func (d *watchdog) watch() {
	if d.active.Load() || !d.active.CompareAndSwap(false, true) {
		return
	}
	if !d.s.Go(d.run) {
		d.active.Store(false)
	}
}

func (d *watchdog) run() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	idle := 0
	for {
		next, running := d.Look(time.Now())
		if idle++; running {
			idle = 0
		}
		if idle > 3 {
			d.active.Store(false)
			// A turn that began in between did not start a watchdog.
			if _, running := d.Look(time.Now()); !running || !d.active.CompareAndSwap(false, true) {
				return
			}
		}
		timer.Reset(next)
		select {
		case <-timer.C:
		case <-d.quit:
			return
		}
	}
}

// Look abandons the turns that are over their time and returns when to look again.
func (d *watchdog) Look(now time.Time) (next time.Duration, running bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	next = time.Second
	d.s.Each(func(a *Actor) {
		t := a.Turn.Load()
		if t == nil {
			return
		}
		running = true
		view, observes := t.Host.(Observer)
		if observes {
			wait, ended := view.Observe(now)
			if next = min(next, wait); ended {
				return
			}
		}
		limit := t.Start.Add(a.Type.Base.TurnTimeout).Add(d.s.Options.TurnGrace)
		if wait := limit.Sub(now); wait > 0 {
			next = min(next, max(wait, time.Millisecond))
			return
		}
		fault, what, where := "handler does not return", "did not return", NameOf(guard)
		if session := t.lingers(); session != nil {
			fault, what, where = session.Stuck()
		}
		d.s.Logger.Error(fault+"; its turn is abandoned", "actor_type", a.Address.Type, "actor_key", a.Address.Key,
			"handler", t.Handler, "running_for", now.Sub(t.Start), "goroutines", StacksOf(where))
		d.s.Metrics.Stuck.Inc()
		if observes {
			view.Overdue(now, where)
		}
		a.AbandonTurn(t, host.Errorf(host.DeadlineExceeded, "the handler %s %s within %s; nothing of the turn was kept",
			t.Handler, what, a.Type.Base.TurnTimeout).With("handler", t.Handler))
	})
	return next, running
}

// NameOf returns the name of a function as stacks have it.
func NameOf(function any) string {
	return runtime.FuncForPC(reflect.ValueOf(function).Pointer()).Name() + "("
}

// StacksOf returns the stacks of the goroutines that are somewhere in a function.
func StacksOf(function string) string {
	buf := make([]byte, 1<<20)
	buf = buf[:runtime.Stack(buf, true)]
	var out bytes.Buffer
	for _, g := range bytes.Split(buf, []byte("\n\n")) {
		if bytes.Contains(g, []byte(function)) {
			out.Write(g)
			out.WriteString("\n\n")
		}
		if out.Len() > 16<<10 {
			break
		}
	}
	return out.String()
}
