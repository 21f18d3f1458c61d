package run

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"hash"
	"io"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zeebo/xxh3"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/runtime/internal/kernel"
	"github.com/cairn-run/cairn/runtime/internal/record"
)

// A run that waits is not in memory. So if code does not fit it, that shows only when something
// wakes it, which may be never: a message to a queue that was renamed wakes nothing. After a start
// with other code the node therefore wakes every live run once: its replay finds a divergence, and
// records it as usual. The comparison is paced, and the store has its progress.

const (
	// comparePace is how long the comparison waits between two runs, and between two pages of
	// actors.
	comparePace = 5 * time.Millisecond
	// comparePage is how many actors it looks at at a time, which is cheap.
	comparePage = 100
	// compareSlots bounds the runs that it waits for.
	compareSlots = 4
	// compareSaves is how often it stores its progress.
	compareSaves = 10 * time.Second
)

// comparedNote names the note in the store that has the comparison of a namespace.
const comparedNote = "compared with code: "

// A comparison is how far the runs of a namespace were compared with the code of a program.
type comparison struct {
	_ struct{} `cbor:",toarray"`
	// Code is the program's identity.
	Code []byte
	// Done: all were compared. Else those before Cursor in the list of Type and of types before it.
	Done         bool
	Type, Cursor string
	// Skipped: some runs could not be read, or their actors not be woken. The store does not say
	// which.
	Skipped bool
}

// comparing is a comparison that runs.
type comparing struct {
	comparison
	s       *kernel.Kernel
	pace    *time.Ticker
	slots   chan struct{}
	saved   time.Time
	woken   int64
	skipped atomic.Int64 // runs that could not be read, or whose actors could not be woken
}

// errStops ends a comparison because the node stops.
var errStops = errors.New("run: the node stops")

// compareRuns wakes the live runs, if the node was started with other code than the code that they
// were last compared with.
func compareRuns(s *kernel.Kernel) {
	types := typesWithRuns(s)
	if len(types) == 0 {
		return
	}
	p := &comparing{s: s, slots: make(chan struct{}, compareSlots), saved: time.Now()}
	err := p.run(types)
	if err == errStops {
		err = p.save()
	}
	if err != nil && s.Life.Err() == nil {
		s.Logger.Error("compare workflow runs with the code", "error", err)
	}
}

// typesWithRuns lists the types that have workflows, in order.
func typesWithRuns(s *kernel.Kernel) (types []*kernel.Type) {
	for _, t := range s.Types {
		if !t.Retired && len(t.Workflows) > 0 {
			types = append(types, t)
		}
	}
	slices.SortFunc(types, func(a, b *kernel.Type) int { return bytes.Compare([]byte(a.Type), []byte(b.Type)) })
	return types
}

func (p *comparing) run(types []*kernel.Type) error {
	code := codeOf(types)
	note, err := p.s.Store.Note(comparedNote + p.s.Options.Namespace)
	if err != nil {
		return err
	}
	if note == nil || record.Decode(note, &p.comparison) != nil || !bytes.Equal(p.Code, code) {
		p.comparison = comparison{Code: code}
		if note != nil { // the code before is no longer the one that the runs were compared with
			if err := p.save(); err != nil {
				return err
			}
		}
	}
	if p.Done {
		return nil
	}
	p.pace = time.NewTicker(comparePace)
	defer p.pace.Stop()
	for _, t := range types {
		if t.Type < p.Type {
			continue
		}
		if t.Type > p.Type {
			p.Type, p.Cursor = t.Type, ""
		}
		if err := p.compareType(t); err != nil {
			return err
		}
	}
	if p.Skipped {
		p.s.Logger.Warn("not all workflow runs were compared with the code, because they could not be read or their actors not be woken; the next start tries all again")
		p.comparison = comparison{Code: code}
		return p.save()
	}
	if p.woken > 0 {
		p.s.Logger.Info("workflow runs were compared with the code", "compared", p.woken)
	}
	p.comparison = comparison{Code: code, Done: true}
	return p.save()
}

// compareType wakes the runs of a type from the cursor on.
func (p *comparing) compareType(t *kernel.Type) error {
	s := p.s
	for {
		page, err := s.Store.Actors(engine.ActorsQuery{Namespace: s.Options.Namespace, Type: t.Type,
			Limit: comparePage, Cursor: p.Cursor})
		if err != nil {
			return err
		}
		for i := range page.Actors {
			e := &page.Actors[i]
			snap := s.Store.Snapshot(e.ID)
			rec, _, live, err := readRun(snap)
			snap.Close()
			if err != nil {
				p.skipped.Add(1)
				s.Logger.Error("compare a workflow run with the code", "actor_type", t.Type,
					"actor_key", e.Identity.Key, "error", err)
			}
			if err != nil || !live || rec.Listed != "" { // retryPausedRuns tries the paused runs
				continue
			}
			if !p.wait() || !p.enter() {
				return errStops
			}
			p.woken++
			p.wake(t, host.Address{Type: t.Type, Key: e.Identity.Key})
		}
		if !p.settle() {
			return errStops
		}
		if page.Cursor == "" {
			return nil
		}
		p.Cursor = page.Cursor
		if time.Since(p.saved) >= compareSaves {
			if err := p.save(); err != nil {
				return err
			}
		}
		if !p.wait() {
			return errStops
		}
	}
}

// wake replays a run. An actor that cannot be woken is not tried again: if all were broken, they
// would keep the node busy.
func (p *comparing) wake(t *kernel.Type, addr host.Address) {
	a := p.s.ActorAt(t, addr)
	if a == nil {
		<-p.slots
		return // the kernel has closed
	}
	w := RunOf(a).Item(false)
	ran := w.Finish
	w.Finish = func(w *kernel.Work) {
		if w.Err == nil {
			ran(w)
		} else if code := host.CodeOf(w.Err); !w.Paused && code != host.NotFound && code != host.Destroyed {
			p.skipped.Add(1) // the run of a paused actor is replayed when the actor is resumed
		}
		<-p.slots
	}
	if _, err := p.s.Post(t, addr, w, nil); err != nil {
		w.Fail(err)
	}
}

// wait waits for the next tick, and enter for a slot; false means that the node stops.
func (p *comparing) wait() bool {
	select {
	case <-p.pace.C:
		return !p.s.Draining.Load()
	case <-p.s.Life.Done():
		return false
	}
}

func (p *comparing) enter() bool {
	select {
	case p.slots <- struct{}{}:
		return true
	case <-p.s.Life.Done():
		return false
	}
}

// settle waits for the runs of a page and records the skipped ones. The page is over then.
func (p *comparing) settle() bool {
	for range compareSlots {
		if !p.enter() {
			return false
		}
	}
	for range compareSlots {
		<-p.slots
	}
	p.Skipped = p.Skipped || p.skipped.Load() > 0
	return true
}

// save stores the progress of the comparison.
func (p *comparing) save() error {
	value, err := record.Encode(&p.comparison)
	if err != nil {
		return err
	}
	p.saved = time.Now()
	return p.s.Store.SetNote(comparedNote+p.s.Options.Namespace, value)
}

// codeOf identifies the code of the program, as far as runs may notice it: the executable, and the
// properties of the types that may depend on the configuration.
func codeOf(types []*kernel.Type) []byte {
	h := sha256.New()
	h.Write(executable())
	add := func(s string) {
		binary.Write(h, binary.BigEndian, uint64(len(s)))
		io.WriteString(h, s)
	}
	list := func(n int, names func(int) string) {
		binary.Write(h, binary.BigEndian, uint64(n))
		for i := range n {
			add(names(i))
		}
	}
	for _, t := range types {
		add(t.Type)
		list(len(t.Queues), func(i int) string { return t.Queues[i].Name })
		list(len(t.Workflows), func(i int) string { return t.Workflows[i].Name })
		list(len(t.Workflows), func(i int) string { return t.Workflows[i].Program.Version() })
	}
	return h.Sum(nil)
}

// executable returns the hash of the program's file, or random bytes if the file cannot be read:
// then each start counts as one with other code.
var executable = sync.OnceValue(func() []byte {
	name, err := "/proc/self/exe", error(nil) // even if another file has replaced it since
	if runtime.GOOS != "linux" {
		name, err = os.Executable()
	}
	h := xxh3.New() // a sixth of the time of SHA-256; nobody gains by two programs that look alike
	if err == nil {
		err = hashFile(h, name)
	}
	if err != nil {
		io.CopyN(h, rand.Reader, 32)
	}
	return h.Sum(nil)
})

func hashFile(h hash.Hash, name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(h, f)
	return err
}
