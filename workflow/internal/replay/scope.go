package replay

import (
	"log/slog"
	"math/rand/v2"
	"runtime"
	"strconv"
	"time"

	"github.com/cairn-run/cairn/workflow/internal/journal"
)

// Context gives a workflow function its operations.
type Context interface {
	// Info describes the run and its progress.
	Info() Info
	// Now is the time of the run: the time of the last operation that ended. It is the same when
	// the function runs again, and never goes backwards.
	Now() time.Time
	// Rand returns random numbers that are the same in a replay.
	Rand() *rand.Rand
	// Logger logs with the run's attributes, and is silent during a replay.
	Logger() *slog.Logger
	// Err is nil until the scope is canceled; then it is a *CanceledError, which matches
	// ErrCanceled.
	Err() error
	scope() *scope
}

// Info describes the run of a Context. All fields except Replaying are the same in a replay.
type Info struct {
	// Workflow and Version are the name and version of the running definition.
	Workflow, Version string
	// RunID names the run, in hexadecimal. A fork (see Import) has its own, even during its replay.
	RunID string
	// Self is the run's actor, from RunOptions.
	Self Destination
	// Epoch counts the run's restarts by Restart, from 0.
	Epoch uint32
	// Started is the time at which the run, or the epoch, began.
	Started time.Time
	// Resolutions counts the operations that have ended so far. It measures the length of the run.
	Resolutions uint64
	// Replaying is set while the function replays the history. A decision by it breaks determinism.
	Replaying bool
}

// A scope implements Context: a view of a place. Views of one place differ in their cancellation.
type scope struct {
	*place
	cancel *cancellation
	saga   *saga // the innermost saga around the scope
}

// A place is a node of the history under which operations are named: the root, an iteration, a
// branch.
//
//  1. Operations begin on the owner's coroutine only, while no container runs inside on it (inner).
//  2. next is the ordinal of the next new operation; recorded operations are consumed in the order
//     of their ordinals.
//  3. used holds the names of the operations of this activation, so that none is used twice.
type place struct {
	run    *Run
	parent *scope
	owner  *coroutine
	loc    journal.Location

	next     uint32
	slack    uint32 // ordinals of removed operations that may be missing in the history
	records  []*record
	cursor   int  // the first of records that was not consumed, if they are consumed in order
	byName   bool // the order does not count: records of form 1
	used     nameSet
	inner    *op // the container whose body runs on the owner's coroutine
	ended    bool
	racing   bool              // inside of a race: its messages may have to go back, and stay on record
	sealed   bool              // the history has the end of the scope: no new operation begins in it
	renames  map[string]string // new name to recorded name
	taken    map[uint32]bool   // see take
	versions map[string]int
	futures  []*op // begun and perhaps not over
	cancels  []*cancellation
	random   *rand.Rand
	printed  string // the result of path; "" until its first call
}

// A nameSet is a set of small numbers.
type nameSet []uint64

// add reports whether i was not yet in the set, and adds it.
func (b *nameSet) add(i uint32) bool {
	word := int(i / 64)
	for len(*b) <= word {
		*b = append(*b, 0)
	}
	bit := uint64(1) << (i % 64)
	if (*b)[word]&bit != 0 {
		return false
	}
	(*b)[word] |= bit
	return true
}

func (s *scope) scope() *scope { return s }

// with returns another view of the same place.
func (s *scope) with(cancel *cancellation, saga *saga) *scope {
	return &scope{s.place, cancel, saga}
}

// newPlace makes the place at loc. While there is an image, it fetches the records of the place.
func (r *Run) newPlace(parent *scope, loc journal.Location) *place {
	p := &place{run: r, parent: parent, loc: loc}
	if parent != nil {
		p.owner, p.racing = parent.owner, parent.racing
	}
	if r.image != nil {
		p.records = r.image.children(loc)
		for _, rec := range p.records {
			if rec.form == journal.Form1 {
				p.byName = true
				break
			}
		}
		r.places = append(r.places, p)
	}
	return p
}

// iteration returns the scope of the i-th iteration, or element, of o.
func (r *Run) iteration(o *op, i uint32) *scope {
	loc := journal.ChildIteration(nil, o.loc, o.index, i)
	return &scope{r.newPlace(o.s, loc), o.s.cancel, o.s.saga}
}

// path returns the path of the place, for people: "serve~3/checkout".
func (p *place) path() string {
	if p.printed == "" && len(p.loc) > 0 {
		p.printed = p.run.names.Path(p.loc)
	}
	return p.printed
}

// pathOf returns the path of an operation in the place.
func (p *place) pathOf(name string) string {
	if path := p.path(); path != "" {
		return path + "/" + name
	}
	return name
}

// Info implements Context.
func (s *scope) Info() Info {
	r := s.run
	return Info{
		Workflow: r.program.name, Version: r.program.config.version,
		RunID: r.id(), Self: r.options.Self, Epoch: r.record.Epoch - r.record.Rewinds, Started: r.record.Started,
		Resolutions: r.seq, Replaying: r.replaying(),
	}
}

// Now implements Context.
func (s *scope) Now() time.Time { return s.run.now }

// Rand implements Context. The numbers depend on the run, its epoch and the place.
func (s *scope) Rand() *rand.Rand {
	s.own() // or a body could draw from the sequence, which would then differ when the function runs again
	if s.random == nil {
		seed := s.run.record.randomSeed()
		s.random = rand.New(rand.NewPCG(fnv(seed, s.loc), seed))
	}
	return s.random
}

// Logger implements Context.
func (s *scope) Logger() *slog.Logger { return s.run.logger() }

// Err implements Context.
func (s *scope) Err() error { return s.cancel.err() }

const fnvOffset = 14695981039346656037

// fnv continues a 64-bit FNV-1a hash. Its results are not stored, but must be the same in every
// process.
func fnv(h uint64, b []byte) uint64 {
	for _, c := range b {
		h = (h ^ uint64(c)) * 1099511628211
	}
	return h
}

// own checks that the running coroutine may use the scope. Otherwise it does not return.
func (s *scope) own() {
	r := s.run
	if c := r.current.Load(); c == nil || c != s.owner || s.ended || s.inner != nil || r.gone ||
		r.moves.abandoned.Load() {
		s.disown(c)
	}
	r.moves.move()
}

func (s *scope) disown(c *coroutine) {
	switch {
	case s.run.gone:
		// A deferred function of the user uses the scope while its coroutine unwinds: continue
		// unwinding.
		runtime.Goexit()
	case c == nil:
		panic(&MisuseError{"a workflow.Context was used outside of its workflow function, such as in the body of a step or on a goroutine of its own"})
	case s.run.moves.abandoned.Load():
		s.run.hang(c) // the driver closes the run
	case s.ended:
		s.misuse(c, "the Context of "+s.describe()+" was used after its function returned")
	case c != s.owner:
		s.misuse(c, "the Context of "+s.describe()+
			" was used in a function that has a Context of its own, such as a branch: use that one")
	default:
		s.misuse(c, "the Context of "+s.describe()+" was used inside of "+
			strconv.Quote(s.inner.name)+", whose function has a Context of its own: use that one")
	}
}

func (p *place) describe() string {
	if path := p.path(); path != "" {
		return strconv.Quote(path)
	}
	return "the workflow function"
}

// misuse pauses the run with a text that names the place in the code. It does not return.
func (s *scope) misuse(c *coroutine, text string) {
	s.run.fail(PausedMisuse, text+callSite())
	s.run.hang(c)
}

// hang parks a coroutine for good, because the run is about to be paused.
func (r *Run) hang(c *coroutine) {
	for {
		c.park()
	}
}

// end ends the scope. It waits for operations that the scope has begun, gives up timers, and checks
// that the code has used all records of the scope. It does not return if a record is left over.
//
// REQUIRES: called on the owner's coroutine.
func (s *scope) end() {
	c := s.owner
	for _, o := range s.futures {
		if !o.done && o.replay == 0 && o.abandon != nil {
			o.abandon()
		}
	}
	for i := 0; i < len(s.futures); i++ {
		s.futures[i].wait(c)
	}
	s.futures = nil
	s.ended = true
	for _, x := range s.cancels {
		x.unlink()
	}
	if rec := s.leftover(); rec != nil {
		s.run.divergedLeftover(s, rec)
		s.run.hang(c)
	}
	if s.run.image != nil {
		s.run.leave(s.place)
	}
}

// leftover returns a recorded operation that the code has not used.
func (p *place) leftover() *record {
	if !p.byName {
		if p.cursor < len(p.records) {
			return p.records[p.cursor]
		}
		return nil
	}
	for _, rec := range p.records {
		if !rec.visited {
			return rec
		}
	}
	return nil
}

// leave removes a place that has ended.
func (r *Run) leave(p *place) {
	for i := len(r.places) - 1; i >= 0; i-- {
		if r.places[i] == p {
			last := len(r.places) - 1
			r.places[i], r.places[last] = r.places[last], nil
			r.places = r.places[:last]
			return
		}
	}
}
