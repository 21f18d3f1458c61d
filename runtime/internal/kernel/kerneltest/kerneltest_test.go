package kerneltest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/method"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/runtime/internal/call"
	"github.com/cairn-run/cairn/runtime/internal/kernel"
	"github.com/cairn-run/cairn/runtime/internal/kernel/address"
	"github.com/cairn-run/cairn/runtime/internal/kernel/attach"
	"github.com/cairn-run/cairn/runtime/internal/kernel/cached"
	"github.com/cairn-run/cairn/runtime/internal/kernel/options"
	"github.com/cairn-run/cairn/runtime/internal/kernel/standing"
)

// A probe is a part like the real ones that fulfills each claim of the suite: a use writes a key,
// counts it in a facet, sets a row of the wake index, and arms a row at 0 while work is under way.
// broken names a fault that it has instead.
type probe struct {
	broken string

	mu     sync.Mutex
	shown  map[int]bool // what a broken probe remembers outside of facets
	listen func(n int)
	lost   map[string]bool
	held   []*kernel.Core
}

// The keys of a probe: one for each use, one for each use whose work is under way, and their
// number.
const (
	usedKind  = 0x70
	openKind  = 0x71
	countKind = 0x72
)

const probeWake keyspace.WakeKind = 15

// probeEnds is how long the work of a use takes.
const probeEnds = 10 * time.Second

func key(kind byte, n int) []byte { return []byte{kind, byte(n >> 8), byte(n)} }

// each calls f for the keys of a kind.
func each(rows engine.Reader, kind byte, f func(n int, value []byte)) error {
	page, err := rows.List(engine.ListQuery{Start: []byte{kind}, End: []byte{kind + 1}})
	for _, e := range page.Entries {
		f(int(e.Key[1])<<8|int(e.Key[2]), e.Value)
	}
	return err
}

// counted has the probe's count for an awake actor: how many uses have work under way.
type counted struct {
	p    *probe
	open cached.Value[int]
}

func (p *probe) countedOf(c *kernel.Core) *counted {
	return attach.Make(&c.Attached, func() *counted { return &counted{p: p} })
}

func (f *counted) Forget(_ *kernel.Core, version engine.Version) {
	f.p.panicIf("Forget")
	if f.p.broken != "forgets Forget" {
		f.open.Forget(version)
	}
}

func (f *counted) Close(*kernel.Core)   { f.p.panicIf("Close") }
func (f *counted) Abandon(*kernel.Core) { f.p.panicIf("Abandon") }

func (p *probe) panicIf(hook string) {
	if p.broken == "panics in "+hook {
		panic("the probe panics in " + hook)
	}
}

// A stay keeps an actor in memory for good.
type stay struct{}

func (stay) Busy() bool  { return true }
func (stay) Leave() bool { return false }

func (*probe) Name() string                 { return "probe" }
func (*probe) Kinds() []keyspace.WakeKind   { return []keyspace.WakeKind{probeWake} }
func (*probe) StandsFor() keyspace.WakeKind { return probeWake }

func (f *counted) get(c *kernel.Core) (int, error) {
	return f.open.Get(c.Rows, func() (int, error) {
		e, ok, err := c.Rows.Get([]byte{countKind})
		if !ok || err != nil {
			return 0, err
		}
		return strconv.Atoi(string(e.Value))
	})
}

// set writes how many uses have work under way, and arms the row at 0 while there are some.
func (f *counted) set(c *kernel.Core, n int) error {
	f.open.Set(c.Rows, n)
	c.Arm(probeWake, n > 0)
	return c.Rows.Put([]byte{countKind}, []byte(strconv.Itoa(n)), engine.PutOptions{})
}

func (p *probe) use(t *kernel.Turn, n int) error {
	if err := t.Enter(); err != nil {
		return err
	}
	defer t.Leave()
	c, f := t.Core, p.countedOf(t.Core)
	open, err := f.get(c)
	if err != nil {
		return err
	}
	switch p.broken {
	case "keeps state of a failed turn":
		p.show(n)
	case "keeps the actor awake":
		attach.Make(&t.Actor.Attached, func() *stay { return new(stay) })
	case "keeps the core":
		p.mu.Lock()
		p.held = append(p.held, c)
		p.mu.Unlock()
	case "leaks a goroutine":
		go time.Sleep(24 * time.Hour)
	}
	if p.broken == "keeps the core" {
		return c.Rows.Put(key(usedKind, n), nil, engine.PutOptions{})
	}
	due := t.Start.Add(probeEnds).UnixMilli()
	if err := c.Rows.Put(key(openKind, n), []byte(strconv.FormatInt(due, 10)), engine.PutOptions{}); err != nil {
		return err
	}
	if p.broken == "keeps work in memory" || p.broken == "works for another life" {
		a, w := t.Actor, p.Due(nil, nil, host.Address{}, &engine.Wake{ID: c.ID, Kind: probeWake, Name: strconv.Itoa(n)}, nil)
		w.Existing, w.Finish = true, func(*kernel.Work) {}
		t.Then(func() { a.Kernel.Later(probeEnds, func() { _, _ = a.Kernel.Post(a.Type, a.Address, w, nil) }) })
	} else {
		c.Rows.SetWake(due, probeWake, strconv.Itoa(n), "")
	}
	if p.broken == "leaks a wake row" {
		c.Rows.SetWake(t.Start.Add(1000*time.Hour).UnixMilli(), probeWake, strconv.Itoa(n), "")
	}
	if err := f.set(c, open+1); err != nil {
		return err
	}
	t.Enlist(&probeTurn{p, n})
	return c.Rows.Put(key(usedKind, n), nil, engine.PutOptions{})
}

// show remembers a number outside of facets.
func (p *probe) show(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.shown == nil {
		p.shown = make(map[int]bool)
	}
	p.shown[n] = true
}

// A probeTurn notifies a client of a use.
type probeTurn struct {
	p *probe
	n int
}

func (u *probeTurn) Seal(t *kernel.Turn) error {
	u.p.panicIf("Seal")
	if u.p.broken == "answers before it is durable" {
		u.tell()
	}
	t.After = append(t.After, u)
	return nil
}

func (u *probeTurn) Durable() {
	u.p.panicIf("Durable")
	if u.p.broken != "answers before it is durable" {
		u.tell()
	}
}

func (u *probeTurn) tell() {
	u.p.mu.Lock()
	got := u.p.listen
	u.p.mu.Unlock()
	got(u.n)
}

func (c *counted) Follow(*kernel.Core) { c.p.panicIf("Follow") }

func (p *probe) Destroy(t *kernel.Turn) error {
	p.panicIf("Destroy")
	return nil
}

func (p *probe) Wakes(rows engine.Reader) ([]engine.Wake, error) {
	if p.broken == "keeps a row of the dead" {
		return nil, nil
	}
	var due []engine.Wake
	err := each(rows, openKind, func(n int, v []byte) {
		ms, _ := strconv.ParseInt(string(v), 10, 64)
		due = append(due, engine.Wake{Due: ms, Kind: probeWake, Name: strconv.Itoa(n)})
	})
	return due, err
}

func (p *probe) Due(_ *kernel.Kernel, _ *kernel.Type, _ host.Address, row *engine.Wake, _ func(*kernel.Work)) *kernel.Work {
	p.panicIf("Due")
	return &kernel.Work{Job: &probeJob{p: p, row: row}}
}

func (p *probe) TakeUp(*kernel.Actor) *kernel.Work {
	p.panicIf("TakeUp")
	return &kernel.Work{Job: &probeJob{p: p}, Existing: true, Finish: func(*kernel.Work) {}}
}

// A probeJob ends the work of a use, or clears the row at 0 if there is none.
type probeJob struct {
	p   *probe
	row *engine.Wake
}

func (j *probeJob) Traits(*kernel.Actor) kernel.Traits {
	return kernel.Traits{Kind: "probe", Code: j.row != nil}
}

func (j *probeJob) Run(c *kernel.Core, w *kernel.Work) {
	f := j.p.countedOf(c)
	open, err := f.get(c)
	if err != nil {
		c.Respond(w, nil, err)
		return
	}
	if j.row == nil && j.p.broken == "works while paused" {
		_, err := c.RunTurn(w, "take up", true, func(t *kernel.Turn) ([]byte, error) {
			return nil, each(c.Rows, openKind, func(n int, _ []byte) { c.Instance.Alarm(t.Host, 0, "", Payload(n)) })
		})
		c.Respond(w, nil, err)
		return
	}
	if j.row == nil {
		err := c.System(w, "take up", func(*kernel.Turn) error {
			c.Standing.Note(probeWake, standing.Armed)
			c.Arm(probeWake, open > 0)
			return nil
		})
		c.Respond(w, nil, err)
		return
	}
	if j.p.broken == "works for another life" {
		j.row.ID = c.ID
	}
	c.Due(w, j.row, func() error {
		n, err := strconv.Atoi(j.row.Name)
		if err != nil {
			if j.p.broken == "keeps leftovers" {
				return err
			}
			return kernel.ErrLeftover
		}
		if _, ok, err := c.Rows.Get(key(openKind, n)); err != nil || !ok && j.p.broken != "works for another life" {
			return kernel.ErrLeftover
		}
		_, err = c.RunTurn(w, "ring", true, func(t *kernel.Turn) ([]byte, error) {
			if _, err := c.Rows.Delete(key(openKind, n)); err != nil {
				return nil, err
			}
			switch j.p.broken {
			case "fires twice":
				if !j.p.fired(n) {
					c.Rows.Put(key(openKind, n), []byte(strconv.FormatInt(j.row.Due, 10)), engine.PutOptions{})
					return nil, c.Instance.Alarm(t.Host, 0, "", Payload(n))
				}
				fallthrough
			default:
				c.Rows.ClearWake(j.row.Due, j.row.Kind, j.row.Name, j.row.Instance)
			}
			if err := f.set(c, open-1); err != nil {
				return nil, err
			}
			return nil, c.Instance.Alarm(t.Host, 0, "", Payload(n))
		})
		return err
	})
}

// fired reports whether a use was recorded before, and records it.
func (p *probe) fired(n int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.lost == nil {
		p.lost = make(map[string]bool)
	}
	k := fmt.Sprint("fired ", n)
	had := p.lost[k]
	p.lost[k] = true
	return had
}

// An operator is the part that pauses and resumes actors.
type operator struct{}

func (operator) Name() string { return "operator" }

func (operator) Methods() []*call.Method {
	return []*call.Method{
		call.Bare(call.Act(method.ActorPause, func(c *kernel.Core, h *kernel.Turn, _ host.Codec, in *host.PauseInput) (host.Pause, error) {
			a, p := c.Actor, host.Pause{Reason: in.Reason, Since: h.Start}
			c.Arm(keyspace.WakePaused, true)
			h.Then(func() { a.Kernel.Pauses.Pause(a.Key, p) })
			return p, nil
		})),
		call.Bare(call.Act(method.ActorResume,
			func(c *kernel.Core, h *kernel.Turn, _ host.Codec, _ *method.None) (host.CountOutput, error) {
				a := c.Actor
				c.Arm(keyspace.WakePaused, false)
				h.Then(func() { a.Kernel.Unpause(a.Key) })
				return host.CountOutput{Count: 1}, nil
			})),
	}
}

// Start implements kernel.Runner: it reads which actors are paused.
func (operator) Start(s *kernel.Kernel) {
	rows, err := s.Store.Wakes(nil, 0, 1000)
	if err != nil {
		panic(err)
	}
	for _, row := range rows {
		ident, _, ok, err := s.Store.Identity(row.ID)
		if err != nil {
			panic(err)
		}
		if ok && row.Kind == keyspace.WakePaused {
			key := address.Append(nil, host.Address{Type: ident.Type, Key: ident.Key})
			s.Pauses.Pause(string(key), host.Pause{Reason: "read at a start"})
		}
	}
}

// Stop implements kernel.Runner.
func (operator) Stop(*kernel.Kernel) {}

// A handlerTurn and a handlerQuery are the views that handlers get. They have none of the
// capabilities of package host.
type (
	handlerTurn struct {
		kernel.Turn
		noTurn
	}
	handlerQuery struct {
		call.Query
		noReader
	}
	noTurn   struct{ host.Turn }
	noReader struct{ host.Reader }
)

// probed makes the subject of a probe.
func probed(broken string) *Subject {
	return &Subject{
		Part: "probe", Ends: probeEnds,
		Use: func(h host.Turn, n int) error {
			t := kernel.CallerOf(h).Waiter
			return kernel.PartOf[*probe](t.Actor.Kernel).use(t, n)
		},
		New: func(o options.Options) (*kernel.Kernel, error) {
			p := &probe{broken: broken}
			router, err := call.New([]kernel.Part{operator{}}, func() call.HandlerQuery { return new(handlerQuery) })
			if err != nil {
				return nil, err
			}
			return kernel.New(o, kernel.Composition{
				Parts: []kernel.Part{p, operator{}, router},
				Turn: func() *kernel.Turn {
					h := new(handlerTurn)
					h.Turn.Host = h
					return &h.Turn
				},
			})
		},
		Read: func(r host.Reader) (seen []int, err error) {
			q := &r.(*handlerQuery).Query
			if p := kernel.PartOf[*probe](q.Actor.Kernel); broken == "keeps state of a failed turn" {
				p.mu.Lock()
				defer p.mu.Unlock()
				for n := range p.shown {
					seen = append(seen, n)
				}
				return seen, nil
			}
			return call.Reading(q, func(rows engine.Reader) (seen []int, err error) {
				err = each(rows, usedKind, func(n int, _ []byte) { seen = append(seen, n) })
				return seen, err
			})
		},
		Listen: func(k *kernel.Kernel, _ host.Address, got func(int)) error {
			p := kernel.PartOf[*probe](k)
			p.mu.Lock()
			defer p.mu.Unlock()
			p.listen = got
			return nil
		},
	}
}

func TestProbeConforms(t *testing.T) { Run(t, *probed("")) }

// A suite that cannot fail is worth nothing: each of these probes has one fault, and a scenario
// finds it.
func TestSuiteFindsTheFaultOfABrokenPart(t *testing.T) {
	for _, x := range []struct{ broken, scenario, says string }{
		{"forgets Forget", "group", "all work has ended, and the wake index has a row of kind"},
		{"keeps state of a failed turn", "turn fails", "the part shows [1 10], and the actor has used [1]"},
		{"answers before it is durable", "durable first", "a client got number 2 before it was durable"},
		{"leaks a wake row", "use", "all work has ended, and the wake index has a row of kind"},
		{"keeps a row of the dead", "destroy", "the wake index has a row of an actor that was destroyed"},
		{"keeps work in memory", "crash", "the work of use 1 has not ended"},
		{"works for another life", "two lives", "the work of use 1 has ended in the successor of its actor"},
		{"keeps leftovers", "leftovers", "all work has ended, and the wake index has a row of kind"},
		{"fires twice", "use", "the work of use 1 has ended 2 times"},
		{"works while paused", "pause", "the actor is paused, and work has ended in it"},
		{"keeps the actor awake", "use", "has nothing to do, and stays in memory"},
		{"keeps the core", "destroy", "is gone, and something still refers to it"},
		{"leaks a goroutine", "use", "goroutines are left after Close"},
		{"panics in Forget", "turn fails", "part panicked"},
		{"panics in Close", "sleep", "part panicked"},
		{"panics in Abandon", "abandon", "part panicked"},
		{"panics in Follow", "use", "part panicked"},
		{"panics in Seal", "use", "the probe panics in Seal"},
		{"panics in Durable", "use", "part panicked"},
		{"panics in Destroy", "destroy", "the probe panics in Destroy"},
		{"panics in Due", "use", "part panicked"},
		{"panics in TakeUp", "restart", "part panicked"},
	} {
		t.Run(x.broken, func(t *testing.T) {
			t.Parallel()
			i := slices.IndexFunc(scenarios, func(sc scenario) bool { return sc.name == x.scenario })
			faults := scenarios[i].run(t, probed(x.broken))
			if !slices.ContainsFunc(faults, func(f string) bool { return strings.Contains(f, x.says) }) {
				t.Errorf("the scenario %q does not find it: %q", x.scenario, faults)
			}
		})
	}
}
