package kerneltest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing/synctest"
	"time"
	"weak"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/runtime/internal/duty"
	"github.com/cairn-run/cairn/runtime/internal/kernel"
	"github.com/cairn-run/cairn/runtime/internal/kernel/options"
)

// idle is how long an actor stays in memory unused.
const idle = 2 * time.Second

// settled is how long a trial waits for all work to end.
const settled = 10 * time.Minute

// namespace is the node's.
const namespace = "test"

// subject is the actor that uses the part.
var subject = host.Address{Type: Type, Key: []string{"a"}}

// A trial is one node, its disk, and a model of what its actors must have.
type trial struct {
	s     *Subject
	disk  *engine.Disk
	store *engine.Store
	k     *kernel.Kernel
	hung  chan struct{} // closed when handlers that hang must return
	cores []weak.Pointer[kernel.Core]
	cut   atomic.Bool // the node was cut off, and may log anything

	mu     sync.Mutex
	hold   chan struct{} // closed when handlers that hold must return
	uses   []*use
	lives  []*life
	out    map[int]bool // numbers that clients have got
	sets   int          // change sets that were published
	list   []string
	locked bool // the disk does not sync: nothing may leave
	noRoom bool // the disk is full: all uses fail
}

// A use is a call that uses the part.
type use struct {
	n     int
	life  *life
	then  deed
	done  bool // it was answered
	err   error
	taken bool // the node ended before it was answered
}

// failed reports whether nothing of the use may be there.
func (u *use) failed() bool {
	return u.then.failing() || u.done && u.err != nil && !u.taken
}

// acked reports whether the use was acknowledged.
func (u *use) acked() bool { return u.done && u.err == nil }

// A life is an actor from its creation to its destruction.
type life struct{ ending, ended bool }

func newTrial(s *Subject) *trial {
	return &trial{s: s, disk: engine.NewDisk(), hung: make(chan struct{}), lives: []*life{{}}, out: make(map[int]bool)}
}

// A stop ends a trial.
type stop struct{}

// faultf records that a claim does not hold.
func (x *trial) faultf(format string, args ...any) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.list = append(x.list, fmt.Sprintf(format, args...))
}

// fatalf is faultf for a fault after which nothing is left to try.
func (x *trial) fatalf(format string, args ...any) {
	x.faultf(format, args...)
	panic(stop{})
}

// faulty reports whether a claim did not hold.
func (x *trial) faulty() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return len(x.list) > 0
}

// attempt runs f, and reports whether it did not end the trial.
func (x *trial) attempt(f func()) (ok bool) {
	defer func() {
		if p := recover(); p != nil {
			if _, is := p.(stop); !is {
				panic(p)
			}
		}
	}()
	f()
	return true
}

// release ends the node as a crash would, if it still runs, and everything that handlers wait for.
func (x *trial) release() {
	x.open()
	x.end()
	if x.k != nil {
		x.cut.Store(true)
		x.k.Kill()
		x.store.Close()
		x.k = nil
	}
	if x.faulty() {
		time.Sleep(48 * time.Hour) // goroutines that are left may end by then
	}
}

func (x *trial) start() {
	var err error
	log := slog.New(&logged{x: x})
	x.cut.Store(false)
	if x.store, err = engine.Open(context.Background(),
		engine.Options{Dir: "store", Disk: x.disk, Logger: slog.New(slog.DiscardHandler)}); err != nil {
		x.fatalf("the store does not open: %v", err)
	}
	k, err := x.s.New(options.Options{
		Store: x.store, Namespace: namespace, Logger: log, Behaviors: []*host.Behavior{x.behavior()}, Changes: (*sink)(x), IdleTimeout: idle,
	})
	if err != nil {
		x.store.Close()
		x.fatalf("the node does not start: %v", err)
	}
	x.k = k
	k.Start()
	k.Go(func() { duty.Recover(k) })
	if x.s.Listen != nil {
		if err := x.s.Listen(k, subject, x.got); err != nil {
			x.fatalf("nobody can listen: %v", err)
		}
	}
}

// stop ends the node in order.
func (x *trial) stop() {
	x.end()
	if err := errors.Join(x.k.Close(context.Background()), x.store.Close()); err != nil {
		x.faultf("the node does not close in order: %v", err)
	}
	x.k = nil
	synctest.Wait()
	if left := goroutinesOf("", "\x00"); left != "" {
		x.faultf("goroutines are left after Close:\n%s", left)
	}
}

// crash cuts the power and starts the node on the remaining data.
func (x *trial) crash() {
	x.off(1, 0)
	x.start()
}

// off cuts the power. Of the data that was not synced, unsynced percent are kept.
func (x *trial) off(seed uint64, unsynced int) {
	x.cut.Store(true)
	x.k.Halt()
	x.mu.Lock()
	x.locked = false
	x.mu.Unlock()
	left := x.disk.Crash(seed, unsynced)
	x.disk.Fail(nil)
	x.k.Kill()
	x.store.Close()
	x.disk, x.k = left, nil
}

// gate returns the channel that handlers wait for while they hold their actor.
func (x *trial) gate() chan struct{} {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.hold == nil {
		x.hold = make(chan struct{})
	}
	return x.hold
}

// open releases the handlers that hold their actor.
func (x *trial) open() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.hold != nil {
		close(x.hold)
		x.hold = nil
	}
}

// end releases the handlers that hang.
func (x *trial) end() {
	close(x.hung)
	synctest.Wait()
	x.hung = make(chan struct{})
}

// life returns the life that the actor is in.
func (x *trial) life() *life { return x.lives[len(x.lives)-1] }

// use makes a call that uses the part, and records the result. A call that is meant to fail must
// fail. Another must not, unless the node ends.
func (x *trial) use(n int, then deed) error {
	if x.s.Operates && then.failing() {
		return nil
	}
	if x.s.Operates && then == destroys {
		return errors.Join(x.use(n, succeeds), x.destroy())
	}
	x.mu.Lock()
	u := &use{n: n, life: x.life(), then: then}
	x.uses = append(x.uses, u)
	if then == destroys {
		x.lives = append(x.lives, &life{})
		u.life.ending = true
	}
	x.mu.Unlock()
	err := x.order(order{n, then})
	x.mu.Lock()
	u.done, u.err, u.taken = true, err, x.cut.Load()
	if then == destroys && err == nil {
		u.life.ended = true
	}
	x.mu.Unlock()
	x.mu.Lock()
	failing := then.failing() || x.noRoom
	x.mu.Unlock()
	switch {
	case u.taken:
	case failing && err == nil:
		x.faultf("use %d was acknowledged, though its handler did not succeed", n)
	case !failing && err != nil && then != perhaps:
		x.faultf("use %d failed: %v", n, err)
	}
	return err
}

// order makes a call.
func (x *trial) order(o order) error {
	input, err := json.Marshal(o)
	if err != nil {
		return err
	}
	if x.s.Call != nil && o.Then != holds && o.Then != litters {
		return x.s.Call(x.k, subject, input)
	}
	return x.call(subject, "use", input, nil)
}

// call calls a method.
func (x *trial) call(a host.Address, method string, input []byte, out any) error {
	reply, err := x.k.Call(context.Background(),
		&host.Request{Address: a, Method: method, Codec: host.JSON, Input: input})
	if err == nil && out != nil {
		err = json.Unmarshal(reply.Output, out)
	}
	return err
}

// destroy destroys the actor.
func (x *trial) destroy() error {
	x.mu.Lock()
	l := x.life()
	l.ending = true
	x.lives = append(x.lives, &life{})
	x.mu.Unlock()
	err := x.k.Destroy(context.Background(), subject)
	x.mu.Lock()
	l.ended = err == nil
	x.mu.Unlock()
	if err != nil && !x.cut.Load() {
		x.fatalf("the actor is not destroyed: %v", err)
	}
	return err
}

// meet records the core of the actor, which must be gone when the actor rests.
func (x *trial) meet() {
	if a := x.k.Find(subject); a != nil {
		a.Mu.Lock()
		defer a.Mu.Unlock()
		if a.Core != nil {
			x.cores = append(x.cores, weak.Make(a.Core))
		}
	}
}

// got records that a client has got a number.
func (x *trial) got(n int) {
	x.mu.Lock()
	early := x.locked
	x.out[n] = true
	x.mu.Unlock()
	if early {
		x.faultf("a client got number %d before it was durable", n)
	}
}

// A sink counts what is published.
type sink trial

func (k *sink) Committed(uint64, *engine.ChangeSet) {
	x := (*trial)(k)
	x.mu.Lock()
	early := x.locked
	x.sets++
	x.mu.Unlock()
	if early {
		x.faultf("a change was published before it was durable")
	}
}
func (*sink) Life(*engine.ChangeSet) {}
func (*sink) Refuse() error          { return nil }

// published returns how many change sets were published.
func (x *trial) published() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.sets
}

// A logged is the node's log. An error in it that no deed explains is a fault.
type logged struct {
	x     *trial
	attrs []slog.Attr
}

func (l *logged) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelError }
func (l *logged) WithGroup(string) slog.Handler                    { return l }
func (l *logged) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &logged{l.x, append(l.attrs[:len(l.attrs):len(l.attrs)], attrs...)}
}

func (l *logged) Handle(_ context.Context, r slog.Record) error {
	line := r.Message
	r.Attrs(func(a slog.Attr) bool {
		l := &line
		*l += " " + a.String()
		return true
	})
	switch {
	case l.x.cut.Load(), strings.Contains(line, panicText), strings.HasPrefix(line, "handler does not return"):
	case strings.HasPrefix(line, "commit failed") && strings.Contains(line, engine.ErrDiskFull.Error()):
	default:
		l.x.faultf("the node logs an error: %.2000s", line)
	}
	return nil
}
