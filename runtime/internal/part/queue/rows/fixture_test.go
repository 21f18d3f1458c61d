package queuerows

import (
	"errors"
	"testing"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/keyspace/testutil"
)

// start is when the tests begin.
var start = time.UnixMilli(1_800_000_000_000)

// A world is one actor with queues in a store, and a clock.
type world struct {
	t     testing.TB
	disk  *engine.Disk
	store *engine.Store
	space *engine.Space
	id    keyspace.ActorID
	now   time.Time
	cfg   map[string]host.Queue
	last  *Set
	next  int64 // WriteSet.NextWake of the last turn that was committed
}

func newWorld(t testing.TB, queues ...host.Queue) *world {
	w := &world{t: t, disk: engine.NewDisk(), now: start, cfg: map[string]host.Queue{}}
	for _, q := range queues {
		w.cfg[q.Name] = q
	}
	w.open(engine.Options{Disk: w.disk, CacheBytes: 8 << 20, MemTableBytes: 4 << 20})
	t.Cleanup(func() { w.close() })
	return w
}

func (w *world) open(o engine.Options) {
	w.t.Helper()
	var err error
	w.store, err = engine.Open(w.t.Context(), o)
	must(w.t, err)
	if w.id == (keyspace.ActorID{}) {
		w.id = w.store.NewActorID(engine.Identity{Namespace: "ns", Type: "t", Key: []string{"k"}})
	}
	w.space, err = w.store.OpenSpace(w.id)
	must(w.t, err)
}

func (w *world) close() {
	w.space.Close()
	err := w.store.Close()
	errorIf(w.t, err != nil, "close: %v", err)
}

func (w *world) config(name string) (host.Queue, bool) {
	q, ok := w.cfg[name]
	return q, ok
}

// set begins a turn that is committed by hand.
func (w *world) set() *Set {
	w.space.Writes().Advance(w.now.UnixMilli())
	s := New(w.space.Writes(), w.now, w.config)
	s.Keeper = keeper{s.rows}
	return s
}

// A keeper keeps bodies in the rows.
type keeper struct{ engine.Writer }

func (k keeper) Keep(key, body []byte) error {
	err := k.Put(keyspace.UserKV.Append(nil, key), body, engine.PutOptions{})
	if errors.Is(err, &engine.LimitError{}) || errors.Is(err, &engine.QuotaError{}) {
		return host.Errorf(host.TooLarge, "%s", err)
	}
	return err
}

// turn runs f in a turn and commits it, or rolls it back if f fails.
func (w *world) turn(f func(s *Set) error) error {
	w.t.Helper()
	ws := w.space.Writes()
	before := ws.Savepoint()
	s := w.set()
	w.last = s
	err := f(s)
	if err == nil {
		err = s.Flush()
	}
	if err != nil {
		ws.Rollback(before)
		return err
	}
	w.next = ws.NextWake()
	w.commit()
	return nil
}

func (w *world) commit() {
	w.t.Helper()
	_, err := w.space.Commit(nil)
	must(w.t, err)
}

// sync waits until everything that was committed is durable.
func (w *world) sync() {
	w.t.Helper()
	done := make(chan error, 1)
	_, err := w.space.Commit(func(err error) { done <- err })
	must(w.t, err)
	must(w.t, <-done)
}

// must runs f in a turn that must succeed.
func (w *world) must(f func(s *Set) error) {
	w.t.Helper()
	must(w.t, w.turn(f))
}

func (w *world) send(queue string, messages ...host.Enqueue) []host.Sent {
	w.t.Helper()
	var sent []host.Sent
	w.must(func(s *Set) (err error) { sent, err = s.Send(queue, messages); return err })
	return sent
}

func (w *world) receive(queue string, limit int) []host.Received {
	w.t.Helper()
	var got []host.Received
	w.must(func(s *Set) (err error) { got, err = s.Receive(queue, limit, 0); return err })
	return got
}

func (w *world) due(queue string) {
	w.t.Helper()
	w.must(func(s *Set) error { return s.Due(queue, 0) })
}

// fail makes the actor's handler fail with the next message, and returns the message.
func (w *world) fail(queue, cause string) *host.Received {
	w.t.Helper()
	var m *host.Received
	w.must(func(s *Set) (err error) {
		m, _, err = s.Next(queue)
		if m == nil || err != nil {
			return errors.Join(err, errors.New("no message"))
		}
		return s.Fail(m, host.Errorf(host.FailedPrecondition, "%s", cause), "")
	})
	return m
}

func (w *world) stats(queue string) host.QueueStats {
	w.t.Helper()
	st, err := Stats(w.space.Writes(), queue)
	must(w.t, err)
	return st
}

// wakes returns the wake rows of queues: name to time.
func (w *world) wakes() map[string]int64 {
	w.t.Helper()
	rows, err := w.store.Wakes(nil, 1<<60, 1_000)
	must(w.t, err)
	m := map[string]int64{}
	for _, r := range rows {
		if r.Kind != keyspace.WakeQueue {
			continue
		}
		_, twice := m[r.Name]
		fatalIf(w.t, twice, "queue %q has two wake rows", r.Name)
		m[r.Name] = r.Due
	}
	return m
}

// list reads all messages of a queue with Peek or DeadList, a page at a time.
func (w *world) list(read func(engine.Reader, *host.QueueListInput) ([]host.ListedMessage, bool, error),
	queue string) (all []host.ListedMessage) {
	w.t.Helper()
	in := &host.QueueListInput{Queue: queue, Limit: 7}
	for more := true; more; {
		page, left, err := read(w.space.Writes(), in)
		must(w.t, err)
		if all, more = append(all, page...), left; more {
			in.After = page[len(page)-1].ID
		}
	}
	return all
}

func body(text string) host.Enqueue { return host.Enqueue{Body: []byte(text)} }

// wantCode checks the code of an error.
func wantCode(t testing.TB, err error, code host.Code) *host.Error {
	t.Helper()
	var e *host.Error
	fatalIf(t, !errors.As(err, &e) || e.Code != code, "error %v, want code %s", err, code)
	return e
}

// verify checks that index entries, counts, metadata and wake rows agree with the messages.
func (w *world) verify() {
	w.t.Helper()
	all := func(kind keyspace.Kind) []engine.Entry {
		from, to := kind.Range()
		page, err := w.space.Writes().List(engine.ListQuery{Start: from, End: to, Limit: 1 << 20, MaxBytes: 1 << 29})
		must(w.t, err)
		return page.Entries
	}
	type counted struct {
		n     [indexes]int64
		bytes int64
		first [indexes]place
	}
	queues := map[string]*counted{}
	entries := map[string]bool{}
	entry := func(q string, ix index, p place) *counted {
		entries[string(appendPlace(appendIndex(nil, ix, q), nil, p))] = true
		c := queues[q]
		if c == nil {
			c = new(counted)
			queues[q] = c
		}
		if c.n[ix] == 0 || p.before(c.first[ix]) {
			c.first[ix] = p
		}
		c.n[ix]++
		return c
	}
	messages := all(keyspace.QueueMessage.Kind)
	for _, e := range messages {
		var m message
		id, err := keyspace.QueueMessage.Parse(e.Key)
		if err == nil {
			err = m.decode(id, e.Value)
		}
		must(w.t, err)
		ix, lists := map[state]index{pending: readyIndex, delayed: delayedIndex, locked: lockedIndex}[m.state]
		fatalIf(w.t, !lists, "message %d is %v", id, m.state)
		entry(string(m.queue), ix, m.place()).bytes += int64(len(m.body))
		if m.state == pending && m.expires != 0 {
			entry(string(m.queue), ttlIndex, place{m.expires, id})
		}
	}
	for _, e := range all(keyspace.DeadLetter.Kind) {
		var m message
		queue, id, err := keyspace.DeadLetter.Parse(e.Key)
		if err == nil {
			err = m.decodeDead(id, e.Value)
		}
		fatalIf(w.t, err != nil || queue != string(m.queue), "dead letter %d of %q: %v", id, queue, err)
		entry(queue, deadIndex, m.place())
	}
	for _, kind := range []keyspace.Kind{keyspace.QueueReady.Kind, keyspace.QueueDelayed.Kind} {
		for _, e := range all(kind) {
			fatalIf(w.t, !entries[string(e.Key)], "leaked index entry %x", e.Key)
			delete(entries, string(e.Key))
		}
	}
	fatalIf(w.t, len(entries) > 0, "%d index entries are missing", len(entries))
	wakes := w.wakes()
	for _, e := range all(keyspace.QueueStats.Kind) {
		queue, err := keyspace.QueueStats.Parse(e.Key)
		must(w.t, err)
		var c counts
		must(w.t, c.decode(queue, e.Value))
		want := queues[queue]
		if want == nil {
			want = new(counted)
		}
		wake := int64(0)
		for ix := range indexes {
			f := &c.fronts[ix]
			fatalIf(w.t, f.n != want.n[ix], "queue %q index %d: counted %d, has %d", queue, ix, f.n, want.n[ix])
			if f.n == 0 {
				continue
			}
			first, run := want.first[ix], f.runs[0]
			fatalIf(w.t, first.before(run.from) ||
				run.exact && first != run.from, "queue %q index %d begins at %+v, counts say %+v", queue, ix, first, run)
			if ix != readyIndex && (wake == 0 || first.at < wake) {
				wake = first.at
			}
		}
		fatalIf(w.t, c.bytes != want.bytes, "queue %q: counted %d bytes, has %d", queue, c.bytes, want.bytes)
		fatalIf(w.t, c.wake != wake || wakes[queue] != wake,
			"queue %q: wake row at %d, counts say %d, first due %d", queue, wakes[queue], c.wake, wake)
		delete(wakes, queue)
		delete(queues, queue)
	}
	fatalIf(w.t, len(queues) > 0 || len(wakes) > 0, "queues without counts: %v, wakes %v", queues, wakes)
	if meta := all(keyspace.QueueMetadata.Kind); len(meta) > 0 {
		var m metadata
		err := m.decode(meta[0].Value)
		fatalIf(w.t, err != nil || m.count != int64(len(messages)), "metadata %+v %v, there are %d messages", m, err, len(messages))
	}
}

var must, fatalIf, errorIf = testutil.Must, testutil.FatalIf, testutil.ErrorIf
