package queuerows

import (
	"errors"
	"slices"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
)

// A Set is the queues of an actor in one turn; see the package's documentation. It is used by one
// goroutine.
type Set struct {
	// Ready are the queues in which a message became receivable, each once.
	Ready []string
	// Settled are the queues in which locked messages were settled, extended or lost their lock,
	// each once.
	Settled []string
	// Replied are the messages whose reply or failure is there now, or which are gone without one.
	Replied []uint64
	// Expires are times (Unix ms) at which rows expire that were put; within one hour only the
	// first is listed.
	Expires []int64
	// Dead counts the messages that became dead letters.
	Dead int
	// Room is how many bytes the turn may write; 0 for plenty. Operations that choose messages
	// themselves stop well before that.
	Room int
	// Span is what sends messages. They carry it if it is sampled.
	Span host.Span
	// Keeper has the bodies of messages that are given up.
	Keeper Keeper

	rows   engine.Writer
	config func(queue string) (host.Queue, bool)
	now    int64 // Unix ms
	broken error // of an operation that may have been done in part

	first     line // most turns use one queue
	more      []*line
	meta      metadata
	metaKnown bool
	metaDirty bool

	msg   message // the last message that was read
	fresh bool    // msg is as it is stored, and the next of its queue
	out   message // being sent
	key   []byte
	value []byte
	room  [384]byte // where key and value begin
}

// A Keeper keeps bodies in the key-value store, under packed keys. After an error with the code
// TooLarge, QuotaExceeded or FailedPrecondition, which changes nothing, the body is in the dead
// letter alone.
type Keeper interface{ Keep(key, body []byte) error }

// A line is one queue in a Set.
type line struct {
	name  string // "" is no line
	cfg   host.Queue
	dirty bool
	again bool // the wake row must be set even if its time is the same
	counts
	runs [indexes][2]run // the arrays in which the fronts begin
}

// New makes the queues of a turn. now is the clock of the turn and of rows. config returns the
// settings of a queue, and false if the actor type does not have it. It must accept only names of 1
// to 64 characters without a slash or a zero byte.
func New(rows engine.Writer, now time.Time, config func(queue string) (host.Queue, bool)) *Set {
	s := &Set{rows: rows, config: config, now: now.UnixMilli()}
	s.key, s.value = s.room[:0:96], s.room[96:96]
	return s
}

// Unknown makes the error for a queue that the actor type does not have.
func Unknown(queue string) *host.Error {
	return host.Errorf(host.NotFound, "the actor type has no queue %q", queue).With("queue", queue)
}

// open returns a queue that the actor type has.
func (s *Set) open(queue string) (*line, error) {
	if s.broken != nil {
		return nil, s.broken
	}
	if l := s.opened(queue); l != nil {
		return l, nil
	}
	cfg, ok := s.config(queue)
	if !ok || !possible(queue) {
		return nil, Unknown(queue)
	}
	return s.load(queue, cfg)
}

// openAny is open for operations that work on a queue that the actor type no longer has, with
// default settings.
func (s *Set) openAny(queue string) (*line, error) {
	l, err := s.open(queue)
	if s.broken != nil || err == nil || !errors.Is(err, Unknown(queue)) || !possible(queue) {
		return l, err
	}
	return s.load(queue, host.Queue{Name: queue})
}

// possible reports whether a name is unambiguous in a key.
func possible(queue string) bool {
	for i := range len(queue) {
		if c := queue[i]; c == '/' || c == 0 {
			return false
		}
	}
	return queue != "" && len(queue) <= maxName
}

func (s *Set) opened(queue string) *line {
	if s.first.name == queue && queue != "" {
		return &s.first
	}
	for _, l := range s.more {
		if l.name == queue {
			return l
		}
	}
	return nil
}

func (s *Set) load(queue string, cfg host.Queue) (*line, error) {
	l := &s.first
	if l.name != "" {
		l = new(line)
	}
	cfg.EnsureDefaults()
	l.cfg = cfg
	l.fronts[readyIndex].ranked = true
	for i := range l.fronts {
		l.fronts[i].runs = l.runs[i][:0]
	}
	s.key = keyspace.QueueStats.Append(s.key[:0], queue)
	e, ok, err := s.rows.Get(s.key)
	if err == nil && ok {
		err = l.decode(queue, e.Value)
	}
	if err != nil {
		*l = line{}
		return nil, s.fail(err)
	}
	l.name = queue
	if l != &s.first {
		s.more = append(s.more, l)
	}
	return l, nil
}

// fail breaks the Set: its work is not complete.
func (s *Set) fail(err error) error {
	if s.broken == nil && err != nil {
		s.broken = err
	}
	return err
}

// metadata returns the metadata for a change.
func (s *Set) metadata() (*metadata, error) {
	if !s.metaKnown {
		s.meta = metadata{next: 1}
		s.key = keyspace.QueueMetadata.Append(s.key[:0])
		e, ok, err := s.rows.Get(s.key)
		if err == nil && ok {
			err = s.meta.decode(e.Value)
		}
		if err != nil {
			return nil, s.fail(err)
		}
		s.metaKnown = true
	}
	s.metaDirty = true
	return &s.meta, nil
}

// Flush writes counts and wake rows as they are now. It must be called after the last change of a
// turn, before the commit, and before functions of this package other than the Set's read rows; it
// may be called more than once. If an earlier call may have been done in part, it returns the error
// of that call: the turn must then not be committed.
func (s *Set) Flush() error {
	if s.broken != nil {
		return s.broken
	}
	if err := s.flush(&s.first); err != nil {
		return s.fail(err)
	}
	for _, l := range s.more {
		if err := s.flush(l); err != nil {
			return s.fail(err)
		}
	}
	if s.metaDirty {
		s.key = keyspace.QueueMetadata.Append(s.key[:0])
		s.value = s.meta.append(s.value[:0])
		if err := s.rows.Put(s.key, s.value, engine.PutOptions{Exempt: true}); err != nil {
			return s.fail(err)
		}
		s.metaDirty = false
	}
	return nil
}

func (s *Set) flush(l *line) error {
	if !l.dirty {
		return nil
	}
	wake := int64(0)
	for ix := delayedIndex; ix < indexes; ix++ {
		f := &l.fronts[ix]
		if f.n == 0 {
			continue
		}
		if !f.runs[0].exact {
			if _, err := walk(s.rows, l.name, ix, f, 1, last); err != nil {
				return err
			}
		}
		if at := max(f.runs[0].from.at, 1); wake == 0 || at < wake {
			wake = at
		}
	}
	if wake != l.wake || l.again {
		if l.wake != 0 && l.wake != wake {
			s.rows.ClearWake(l.wake, keyspace.WakeQueue, l.name, "")
		}
		if wake != 0 {
			s.rows.SetWake(wake, keyspace.WakeQueue, l.name, "")
		}
		l.wake = wake
	}
	s.key = keyspace.QueueStats.Append(s.key[:0], l.name)
	s.value = l.append(s.value[:0])
	if err := s.rows.Put(s.key, s.value, engine.PutOptions{Exempt: true}); err != nil {
		return err
	}
	l.dirty, l.again = false, false
	return nil
}

// get reads a message of any queue into s.msg.
func (s *Set) get(id uint64) (bool, error) {
	ok, err := readMessage(s.rows, s.key, id, s.scratch())
	return ok, s.fail(err)
}

// scratch returns s.msg to read into.
func (s *Set) scratch() *message {
	s.fresh = false
	return &s.msg
}

// put writes the record of a message that is there already, and is not dead after this.
func (s *Set) put(m *message, isNew bool) error {
	s.key = keyspace.QueueMessage.Append(s.key[:0], m.id)
	return s.fail(s.putText(s.key, m, engine.PutOptions{New: isNew}))
}

// putText writes a record. If the actor's quota is used up, it writes the record without the cause
// of the failure, so that the record does not grow: the message is there already.
func (s *Set) putText(key []byte, m *message, o engine.PutOptions) error {
	s.value = m.append(s.value[:0])
	err := s.rows.Put(key, s.value, o)
	if err == nil || !errors.Is(err, &engine.QuotaError{}) {
		return err
	}
	m.cause, m.code, o.Exempt = nil, nil, true
	s.value = m.append(s.value[:0])
	return s.rows.Put(key, s.value, o)
}

// remove deletes the record of a message that is not dead.
func (s *Set) remove(l *line, m *message) error {
	s.key = keyspace.QueueMessage.Append(s.key[:0], m.id)
	if _, err := s.rows.Delete(s.key); err != nil {
		return s.fail(err)
	}
	meta, err := s.metadata()
	if err != nil {
		return err
	}
	meta.count = max(meta.count-1, 0)
	l.bytes = max(l.bytes-int64(len(m.body)), 0)
	l.dirty = true
	return nil
}

// enter puts the index entries of a message in its state.
func (s *Set) enter(l *line, m *message) error {
	var err error
	switch m.state {
	case pending:
		s.Ready = note(s.Ready, l.name)
		err = s.addEntry(l, readyIndex, m.place())
		if err == nil && m.expires != 0 {
			err = s.addEntry(l, ttlIndex, place{m.expires, m.id})
		}
	case delayed:
		err = s.addEntry(l, delayedIndex, m.place())
	case locked:
		err = s.addEntry(l, lockedIndex, m.place())
	case dead:
		err = s.addEntry(l, deadIndex, m.place())
	}
	return err
}

// leave removes the index entries of a message in its state.
func (s *Set) leave(l *line, m *message) error {
	s.fresh = false
	switch m.state {
	case pending:
		if m.expires != 0 {
			if err := s.removeEntry(l, ttlIndex, place{m.expires, m.id}); err != nil {
				return err
			}
		}
		return s.removeEntry(l, readyIndex, m.place())
	case delayed:
		return s.removeEntry(l, delayedIndex, m.place())
	case locked:
		s.Settled = note(s.Settled, l.name)
		return s.removeEntry(l, lockedIndex, m.place())
	default:
		return s.removeEntry(l, deadIndex, m.place())
	}
}

func (s *Set) addEntry(l *line, ix index, p place) error {
	s.entryKey(l, ix, p)
	if err := s.rows.Put(s.key, nil, engine.PutOptions{New: true, Exempt: true}); err != nil {
		return s.fail(err)
	}
	l.fronts[ix].add(p)
	l.dirty = true
	return nil
}

func (s *Set) removeEntry(l *line, ix index, p place) error {
	s.entryKey(l, ix, p)
	if _, err := s.rows.Delete(s.key); err != nil {
		return s.fail(err)
	}
	if !l.fronts[ix].remove(p) {
		return s.fail(corrupt("queue %q: the counts know nothing of message %d", l.name, p.id))
	}
	l.dirty = true
	return nil
}

func (s *Set) entryKey(l *line, ix index, p place) {
	s.key = appendIndex(s.key[:0], ix, l.name)
	s.key = appendPlace(s.key, nil, p)
}

// share is how many bytes of messages an operation moves: most, or less if the turn has less room.
func (s *Set) share(most int) int {
	if s.Room <= 0 {
		return most
	}
	return min(most, s.Room/4)
}

// expires records that a row was put that expires.
func (s *Set) expires(at int64) {
	const hour = int64(time.Hour / time.Millisecond)
	for i, e := range s.Expires {
		if e/hour == at/hour {
			s.Expires[i] = min(e, at)
			return
		}
	}
	s.Expires = append(s.Expires, at)
}

// note adds a name to a list that has each name once.
func note(names []string, name string) []string {
	if slices.Contains(names, name) {
		return names
	}
	return append(names, name)
}

// Pending returns how many messages of a queue can be received, as of the changes of this Set.
func (s *Set) Pending(queue string) (int64, error) {
	l, err := s.open(queue)
	if err != nil {
		return 0, err
	}
	return l.fronts[readyIndex].n, nil
}
