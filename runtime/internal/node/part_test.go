package node

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/runtime/internal/kernel"
	"github.com/cairn-run/cairn/runtime/internal/kernel/attach"
	"github.com/cairn-run/cairn/runtime/internal/kernel/options"
	"github.com/cairn-run/cairn/runtime/internal/survey"
)

// A probe is a part from outside. It keeps a key, and has rows in the wake index. Each hook can be
// set to fail.
type probe struct {
	failing                 atomic.Pointer[string]
	panics                  bool
	fired, takenUp, retired atomic.Int64
	told                    atomic.Int64
}

const probeWake keyspace.WakeKind = 15

var (
	probeKey = []byte{0x70}
	probeDue = []byte{0x71}
)

// hook fails if it is the one that fails.
func (p *probe) hook(name string) error {
	if at := p.failing.Load(); at == nil || *at != name {
		return nil
	}
	if p.panics {
		panic("the probe panics in " + name)
	}
	return errors.New("the probe fails in " + name)
}

func (p *probe) fail(name string) { p.failing.Store(&name) }
func (p *probe) heal()            { p.failing.Store(nil) }

func (*probe) Name() string                                          { return "probe" }
func (*probe) Kinds() []keyspace.WakeKind                            { return []keyspace.WakeKind{probeWake} }
func (*probe) StandsFor() keyspace.WakeKind                          { return probeWake }
func (p *probe) Stale(*kernel.Core) (bool, error)                    { return true, p.hook("Stale") }
func (p *probe) Prepare(*kernel.Turn) error                          { return p.hook("Prepare") }
func (p *probe) Risen(*kernel.Core) error                            { return p.hook("Risen") }
func (*probe) Watches(*kernel.Type) bool                             { return true }
func (p *probe) StateChanged(*kernel.Turn) error                     { return p.hook("StateChanged") }
func (p *probe) Seal(*kernel.Turn) error                             { return p.hook("Seal") }
func (p *probe) Succeeded(*kernel.Turn)                              { _ = p.hook("Succeeded") }
func (p *probe) Report(*engine.Snapshot, *host.Status) error         { return p.hook("Report") }
func (p *probe) Present(*kernel.Kernel, *kernel.Actor, *host.Status) { _ = p.hook("Present") }

func (p *probe) Follow(*kernel.Core)                             { _ = p.hook("Follow") }
func (p *probe) Forget(*kernel.Core, engine.Version)             { _ = p.hook("Forget") }
func (p *probe) Close(*kernel.Core)                              { _ = p.hook("Close") }
func (p *probe) Abandon(*kernel.Core)                            { _ = p.hook("Abandon") }
func (p *probe) Durable()                                        { _ = p.hook("Durable") }
func (p *probe) Resumed(*kernel.Turn) error                      { return p.hook("Resumed") }
func (p *probe) Keeps(*kernel.Actor) error                       { return p.hook("Keeps") }
func (p *probe) Explain(*survey.Inquiry, *engine.Snapshot) error { return p.hook("Explain") }

func (p *probe) Destroy(t *kernel.Turn) error {
	p.retired.Add(1)
	return p.hook("Destroy")
}

func (p *probe) Wakes(rows engine.Reader) ([]engine.Wake, error) {
	if _, ok, err := rows.Get(probeDue); !ok || err != nil {
		return nil, err
	}
	return []engine.Wake{{Due: probeTime, Kind: probeWake, Name: "x"}}, nil
}

// probeTime is when the probe's row is due: long ago.
const probeTime = 1000

func (p *probe) Due(_ *kernel.Kernel, _ *kernel.Type, _ host.Address, row *engine.Wake, _ func(*kernel.Work)) *kernel.Work {
	_ = p.hook("Due")
	return &kernel.Work{Job: &probeJob{p: p, row: row}}
}

func (p *probe) TakeUp(*kernel.Actor) *kernel.Work {
	_ = p.hook("TakeUp")
	return &kernel.Work{Job: &probeJob{p: p}, Existing: true, Finish: func(*kernel.Work) {}}
}

// A probeJob clears the due row, or the row at 0.
type probeJob struct {
	p   *probe
	row *engine.Wake
}

func (*probeJob) Traits(*kernel.Actor) kernel.Traits { return kernel.Traits{Kind: "probe"} }

func (j *probeJob) Run(c *kernel.Core, w *kernel.Work) {
	_ = j.p.hook("Run")
	if j.row == nil {
		err := c.System(w, "take up", func(*kernel.Turn) error {
			c.Arm(probeWake, false)
			return nil
		})
		j.p.takenUp.Add(1)
		c.Respond(w, nil, err)
		return
	}
	c.Due(w, j.row, func() error {
		err := c.System(w, "fire", func(*kernel.Turn) error {
			if _, err := c.Rows.Delete(probeDue); err != nil {
				return err
			}
			c.Rows.ClearWake(j.row.Due, j.row.Kind, j.row.Name, j.row.Instance)
			return j.p.hook("fire")
		})
		if err == nil {
			j.p.fired.Add(1)
		}
		return err
	})
}

// does is a deed that uses the probe, and more of it, depending on what.
func (p *probe) does(what string) deed {
	return func(u *puppet, h host.Turn) error {
		t := kernelTurn(h)
		t.Enlist(p)
		attach.Make(&t.Core.Attached, func() *probe { return p }) // a facet
		t.After = append(t.After, p)
		switch what {
		case "fail":
			return host.Errorf(host.FailedPrecondition, "the handler fails")
		case "hang":
			time.Sleep(time.Hour)
		case "key": // nothing else: the key must be kept even so
			return t.Core.Rows.Put(probeKey, []byte("kept"), engine.PutOptions{})
		case "due":
			t.Core.Rows.SetWake(probeTime, probeWake, "x", "")
			return t.Core.Rows.Put(probeDue, nil, engine.PutOptions{})
		case "then":
			t.Then(func() { p.told.Add(1) })
		case "arm":
			t.Core.Arm(probeWake, true)
		}
		u.s.N++
		return t.Core.Rows.Put(probeKey, []byte{byte(u.s.N)}, engine.PutOptions{})
	}
}

// A bench is a stage with a probe, whose actors do not fall asleep by themselves.
type bench struct {
	*stage
	p *probe
}

// probing runs a test on a bench in a bubble.
func probing(t *testing.T, panics bool, f func(t *testing.T, b *bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p := &probe{panics: panics}
		f(t, &bench{p: p, stage: newStage(t, func(o *Options) { o.Parts, o.IdleTimeout = []kernel.Part{p}, 100*time.Hour })})
	})
}

func (b *bench) do(key, what string) error { return b.stage.do(key, b.p.does(what)) }

func (b *bench) must(key, what string) {
	b.t.Helper()
	b.stage.must(key, b.p.does(what))
}

// rows dumps the stored rows of the actor "a".
func (b *bench) rows() (dump string) {
	b.t.Helper()
	id, ok, err := b.store.Lookup(b.Identity(pAddr("a")))
	fatalIf(b.t, err != nil || !ok, "%v %v", ok, err)
	snap := b.store.Snapshot(id)
	defer snap.Close()
	page, err := snap.List(engine.ListQuery{})
	b.ok(err)
	for _, e := range page.Entries {
		dump += fmt.Sprintf("%x = %x, version %d\n", e.Key, e.Value, e.Version)
	}
	for _, until := range []int64{0, probeTime} {
		wakes, err := b.store.Wakes(nil, until, 100)
		b.ok(err)
		dump += fmt.Sprintln(until, wakes)
	}
	return dump
}

// A part from outside is used in turns, at wakes, at starts and at the end of an actor. If one of
// its hooks fails or panics, the rest goes on.
func TestHookOfAPartThatFailsLeavesNoTraceAndStopsNothingElse(t *testing.T) {
	restart := func(b *bench) error {
		b.restart()
		return b.do("a", "")
	}
	call := func(b *bench) error { return b.do("a", "") }
	lookup := func(b *bench) error { _, err := b.Lookup(context.Background(), pAddr("a")); return err }
	for _, x := range []struct {
		hook    string
		panics  bool // it has no error to return
		quiet   bool // no waiter is notified
		changes bool // it was written before the hook failed
		rebuilt bool // the actor is, because of what parts may remember
		use     func(b *bench) error
	}{
		{hook: "Seal", use: call},
		{hook: "StateChanged", use: call},
		{hook: "Succeeded", panics: true, use: call},
		{hook: "Destroy", use: func(b *bench) error { return b.Destroy(context.Background(), pAddr("a")) }},
		{hook: "Stale", use: restart},
		{hook: "Prepare", use: restart},
		{hook: "Risen", use: restart},
		{hook: "Report", use: lookup},
		{hook: "Present", panics: true, quiet: true, use: lookup},
		{hook: "Follow", panics: true, quiet: true, changes: true, use: call},
		{hook: "Forget", panics: true, rebuilt: true, use: func(b *bench) error {
			return wantCode(b.t, b.do("a", "fail"), host.FailedPrecondition) // the handler's error
		}},
		{hook: "Close", panics: true, quiet: true, use: func(b *bench) error { return b.verb("a", host.ActorSleep, nil, nil) }},
		{hook: "Abandon", panics: true, use: func(b *bench) error { return b.do("a", "hang") }},
		{hook: "Durable", panics: true, quiet: true, changes: true, use: func(b *bench) error { return b.do("a", "then") }},
		{hook: "Keeps", use: func(b *bench) error { return b.verb("a", host.ActorSleep, nil, nil) }},
		{hook: "Explain", use: func(b *bench) error { return b.verb("a", host.ActorWhy, nil, nil) }},
		{hook: "Resumed", changes: true, use: func(b *bench) error {
			b.ok(b.verb("a", host.ActorPause, nil, nil))
			err := b.verb("a", host.ActorResume, nil, nil)
			b.p.heal()
			b.ok(b.verb("a", host.ActorResume, nil, nil))
			return err
		}},
		{hook: "Run", panics: true, quiet: true, changes: true, rebuilt: true, use: func(b *bench) error { return b.do("a", "due") }},
		{hook: "Due", panics: true, quiet: true, changes: true, use: func(b *bench) error { return b.do("a", "due") }},
		{hook: "fire", quiet: true, changes: true, use: func(b *bench) error { return b.do("a", "due") }},
		{hook: "TakeUp", panics: true, quiet: true, changes: true, use: func(b *bench) error {
			err := b.do("a", "arm")
			b.restart()
			return err
		}},
	} {
		for _, panics := range []bool{false, true} {
			if x.panics && !panics {
				continue
			}
			t.Run(fmt.Sprintf("%s/panics=%t", x.hook, panics), func(t *testing.T) {
				probing(t, panics, func(t *testing.T, b *bench) {
					b.must("a", "key")
					before, core := b.rows(), b.core("a")
					b.p.fail(x.hook)
					if err := x.use(b); (err == nil) != x.quiet {
						t.Errorf("the error is %v", err)
					}
					time.Sleep(time.Second)
					after := b.rows()
					errorIf(t, !x.changes && after != before, "left behind: %s, not %s", after, before)
					b.p.heal()
					b.must("other", "")
					time.Sleep(time.Hour)
					b.must("a", "")
					errorIf(t, x.rebuilt && b.core("a") == core, "the core with the part's memory is still used")
					happened := map[string]*atomic.Int64{ // once, although the hook has failed
						"Due": &b.p.fired, "fire": &b.p.fired, "Run": &b.p.fired, "TakeUp": &b.p.takenUp, "Durable": &b.p.told,
					}[x.hook]
					if happened != nil && happened.Load() != 1 {
						t.Errorf("it has happened %d times", happened.Load())
					}
					b.p.retired.Store(0)
					if err := b.Destroy(t.Context(), pAddr("a")); err != nil || b.p.retired.Load() != 1 {
						t.Error(err, b.p.retired.Load())
					}
				})
			})
		}
	}
}

// core returns the core of an awake actor.
func (b *bench) core(key string) *kernel.Core {
	a := b.Find(pAddr(key))
	a.Mu.Lock()
	defer a.Mu.Unlock()
	return a.Core
}

// Of two parts with one kind of wake rows the second would get the rows of the first.
func TestTwoPartsOfOneKindAreRefused(t *testing.T) {
	g := newStage(t, nil)
	if _, err := New(Options{Parts: []kernel.Part{new(probe), new(probe)},
		Options: options.Options{Store: g.store}}); err == nil || !strings.Contains(err.Error(), "probe") {
		t.Error(err)
	}
}

// A regret is a job that destroys its actor in a turn, and panics before the commit. A late one
// does so after the commit of a turn before it was refused.
type regret struct{ late bool }

func (regret) Traits(*kernel.Actor) kernel.Traits { return kernel.Traits{Kind: "regret"} }

func (j regret) Run(c *kernel.Core, w *kernel.Work) {
	var err error
	if j.late {
		err = c.System(w, "before", func(h *kernel.Turn) error { h.ExpireAt(time.Now().Add(time.Hour).UnixMilli(), time.Hour); return nil })
	}
	if err == nil {
		err = c.System(w, "regret", func(h *kernel.Turn) error {
			if j.late {
				h.Done() // commits the turn before
			}
			h.DestroySelf()
			return nil
		})
	}
	if err == nil && !j.late {
		panic("the job panics after its turn")
	}
	c.Respond(w, nil, err)
}

// A survivor counts the cores of its actor that were lost.
type survivor struct{ lost atomic.Int64 }

func (*survivor) Busy() bool  { return false }
func (*survivor) Leave() bool { return true }
func (s *survivor) Lost()     { s.lost.Add(1) }

// post runs a job on actor "a".
func (b *bench) post(j kernel.Job) error {
	done := make(chan error, 1)
	w := &kernel.Work{Job: j, Existing: true, Finish: func(w *kernel.Work) { done <- w.Err }}
	must(b.t, errOf(b.Post(b.Types["p"], pAddr("a"), w, nil)))
	return <-done
}

// A destruction that is not committed has not happened, so survivors of a lost core must go on.
func TestDestructionThatIsNotCommittedTellsWhatSurvivesTheCore(t *testing.T) {
	for name, c := range map[string]struct {
		refused bool // the next commit is
		destroy func(b *bench) error
	}{
		"job panics after its turn":         {false, func(b *bench) error { return b.post(regret{}) }},
		"commit is refused":                 {true, func(b *bench) error { return b.Destroy(b.t.Context(), pAddr("a")) }},
		"commit of a turn before is, in it": {true, func(b *bench) error { return b.post(regret{late: true}) }},
	} {
		t.Run(name, func(t *testing.T) {
			probing(t, true, func(t *testing.T, b *bench) {
				b.must("a", "")
				a := b.Find(pAddr("a"))
				s := attach.Make(&a.Attached, func() *survivor { return new(survivor) })
				if c.refused { // because the space is opened again without the kernel
					a.Mu.Lock()
					space, err := b.Store.OpenSpace(a.Core.ID)
					a.Mu.Unlock()
					b.ok(err)
					defer space.Close()
				}
				if err := c.destroy(b); err == nil {
					t.Error("the destruction was committed")
				}
				synctest.Wait()
				same(t, s.lost.Load(), 1, "times what survives was told that the core was lost")
				check(t, errOf(b.Lookup(t.Context(), pAddr("a"))))
				b.must("a", "")
			})
		})
	}
}
