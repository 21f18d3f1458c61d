package natspub

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/cairn-run/cairn/engine"
)

// Bounds of the loop.
const (
	// windowRows and windowBytes bound the records in the loop: taken from the queue and not yet
	// confirmed.
	windowRows  = 2048
	windowBytes = 8 << 20
	// pageRows is how many rows are read from the store at once.
	pageRows = 128
	// holePause is how long to wait for a row that cannot be read yet because an earlier one is not
	// durable.
	holePause = 2 * time.Millisecond
	// faultPause is how long to wait after an error of the store.
	faultPause = time.Second
)

// An item is a record in the window.
type item struct {
	record
	// confirmed counts the messages, from the first, that arrived. With JetStream, next also counts
	// the messages that were sent.
	confirmed, next int
	sent            bool // a message of it was sent before; another counts as repeated
	busy            bool // a message of it is on the way
}

// done reports whether all messages arrived.
func (it *item) done() bool { return it.confirmed >= len(it.set.Changes) }

// A loop is the goroutine that publishes, and its state. No other goroutine uses that, except as
// the comment of plain says.
type loop struct {
	p        *Publisher
	done     chan struct{}
	env      envelope
	link     *link   // nil without a connection
	window   []*item // in order
	bytes    int     // of the window
	scratch  []record
	acks     []uint64 // rows to delete
	reported tally    // messages that arrived and are not counted yet

	backlog     uint64 // the last row of earlier processes that was read
	backlogLast uint64 // the last row of earlier processes
	trimmed     uint64 // rows up to here were examined by trim

	maxSubject int // longest subject that the server accepts
	longest    int // longest subject sent and not flushed
	faulty     bool
	pause      time.Duration // longest wait; 0 means no bound
	plain      *plain        // nil with JetStream
	streams    *streams      // nil without
}

func (l *loop) init(p *Publisher, last uint64) {
	*l = loop{p: p, done: make(chan struct{}), backlogLast: last, maxSubject: maxSubject}
	l.env = envelope{subjects: p.subjects, namespace: p.opts.Namespace}
	if p.opts.JetStream {
		l.streams = newStreams(l)
	} else {
		l.plain = &plain{l: l}
	}
}

func (l *loop) run() {
	defer close(l.done)
	defer l.detach(nil)
	p := l.p
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	closing, ending := p.closing, false
	for p.ctx.Err() == nil {
		l.pause = 0
		l.fill()
		// Send first, so that the server works while rows are deleted and read.
		more := l.link != nil && l.publish()
		l.delete()
		l.trim()
		l.note()
		if more {
			continue
		}
		if ending && l.idle() {
			return
		}
		var ended <-chan struct{}
		var answer <-chan error
		if l.link != nil {
			ended = l.link.closed
			if l.plain != nil {
				answer = l.plain.answer()
			}
		}
		var tried <-chan struct{}
		if ending && l.link == nil {
			tried = p.tried
		}
		var due <-chan time.Time
		if l.pause > 0 {
			timer.Reset(l.pause)
			due = timer.C
		}
		select {
		case <-p.poke:
		case <-due:
		case err := <-answer:
			l.plain.answered(err)
		case <-closing:
			closing, ending = nil, true
		case next := <-p.links:
			l.attach(next)
		case <-ended:
			l.detach(l.link.nc.LastError())
		case <-tried:
			l.delete()
			return // no server: the rest stays in the outbox
		case <-p.ctx.Done():
		}
	}
}

// wait makes the loop run again after at most d.
func (l *loop) wait(d time.Duration) {
	if l.pause == 0 || d < l.pause {
		l.pause = max(d, time.Microsecond)
	}
}

// idle reports whether nothing waits to be published.
func (l *loop) idle() bool {
	if len(l.window) > 0 || l.backlog < l.backlogLast {
		return false
	}
	_, waits := l.p.queue.oldest()
	return !waits
}

// note updates the state for metrics.
func (l *loop) note() {
	var ms int64
	if len(l.window) > 0 {
		ms = l.window[0].set.TimeMS
	}
	l.p.oldest.Store(ms)
}

// fault logs an error of the store, only the first of a series, and pauses.
func (l *loop) fault(what string, err error) {
	if !l.faulty {
		l.p.log.Error("nats: the outbox fails", "operation", what, "error", err)
	}
	l.faulty = true
	l.wait(faultPause)
}

// delete deletes the rows whose messages arrived.
func (l *loop) delete() {
	if len(l.acks) == 0 {
		return
	}
	if err := l.p.outbox.AckOutbox(l.acks); err != nil {
		l.fault("delete", err)
		return
	}
	l.acks, l.faulty = l.acks[:0], false
}

// fill adds records to the window: the rows of earlier processes, then records in memory, then rows
// again.
func (l *loop) fill() {
	for len(l.window) < windowRows && l.bytes < windowBytes {
		if l.backlog < l.backlogLast {
			if !l.fillBacklog() {
				return
			}
			continue
		}
		l.scratch = l.p.queue.take(l.scratch[:0], windowRows-len(l.window), windowBytes-l.bytes)
		if len(l.scratch) > 0 {
			for _, r := range l.scratch {
				l.add(r)
			}
			clear(l.scratch)
			continue
		}
		if r, ok := l.p.queue.next(); !ok || !l.fillRun(r) {
			return
		}
	}
}

func (l *loop) fillBacklog() bool {
	rows, err := l.p.outbox.Outbox(l.backlog, pageRows)
	if err != nil {
		l.fault("read", err)
		return false
	}
	if len(rows) == 0 || rows[0].Seq > l.backlogLast {
		l.backlog = l.backlogLast
		return true
	}
	for _, row := range rows {
		if row.Seq > l.backlogLast {
			break
		}
		l.backlog = row.Seq
		l.decode(row)
	}
	return true
}

// fillRun reads rows of the queue's first run. A missing row was deleted if a later one can be
// read; otherwise it may be one that cannot be read yet.
func (l *loop) fillRun(r run) bool {
	rows, err := l.p.outbox.Outbox(r.first-1, int(min(r.n, pageRows)))
	if err != nil {
		l.fault("read", err)
		return false
	}
	if len(rows) == 0 {
		if n, _ := l.p.outbox.OutboxSize(); n == 0 {
			l.p.queue.advance(r.n)
			return true
		}
		l.wait(holePause)
		return false
	}
	for _, row := range rows {
		if row.Seq >= r.first+r.n {
			l.p.queue.advance(r.n)
			return true
		}
		l.decode(row)
		n := row.Seq - r.first + 1
		l.p.queue.advance(n)
		r.first, r.n = r.first+n, r.n-n
	}
	return true
}

// decode adds a row of the store to the window. A row that does not decode stays in the store,
// because a newer version may have written it.
func (l *loop) decode(row engine.OutboxRow) {
	set, err := engine.ParseChangeSet(row.Record)
	if err != nil {
		l.p.metrics.dropped.WithLabelValues(dropInvalid).Inc()
		l.p.log.Error("nats: a record of the outbox does not decode; it is left out and kept",
			"row", row.Seq, "error", err)
		return
	}
	l.add(newRecord(row.Seq, &set))
}

func (l *loop) add(r record) {
	it := &item{record: r}
	if it.done() { // no changes: nothing to publish
		l.finish(it)
		return
	}
	l.window = append(l.window, it)
	l.bytes += r.size
	if l.streams != nil {
		l.streams.add(it)
	}
}

// finish marks the item's row for deletion.
func (l *loop) finish(it *item) {
	if it.seq != 0 {
		l.acks = append(l.acks, it.seq)
	}
}

// sweep removes the items that are done from the window.
func (l *loop) sweep() {
	before := len(l.window)
	l.window = slices.DeleteFunc(l.window, func(it *item) bool {
		if !it.done() {
			return false
		}
		l.bytes -= it.size
		l.finish(it)
		return true
	})
	if len(l.window) < before && l.link != nil {
		l.link.useful.Store(true)
	}
	l.count()
}

// count adds the arrived messages to the metrics.
func (l *loop) count() {
	for i, family := range [...]string{familyEvent, familyChange, familyLife, familyAudit} {
		if l.reported[i] > 0 {
			l.p.metrics.published.WithLabelValues(family).Add(float64(l.reported[i]))
			l.reported[i] = 0
		}
	}
}

// A tally counts messages by family: events, changes, life, audit.
type tally [4]int

// add counts a message.
func (t *tally) add(c *engine.Change) {
	switch c.Kind {
	case engine.ChangeEvent:
		t[0]++
	case engine.ChangeLife:
		t[2]++
	case engine.ChangeAudit:
		t[3]++
	default:
		t[1]++
	}
}

// join adds another tally.
func (t *tally) join(other tally) {
	for i, n := range other {
		t[i] += n
	}
}

// attach begins to use a new connection.
func (l *loop) attach(next *link) {
	l.detach(nil)
	if l.streams != nil {
		if err := l.streams.attach(next.nc); err != nil {
			next.nc.Close()
			return
		}
	}
	l.link = next
	if l.plain != nil {
		l.plain.attach(next.nc)
	}
	l.p.connected.Store(true)
	l.p.metrics.connects.Inc()
}

// detach gives up the connection. Unconfirmed messages will be sent again on the next one.
func (l *loop) detach(cause error) {
	if l.link == nil {
		return
	}
	l.p.connected.Store(false)
	l.link.nc.Close()
	if l.plain != nil {
		l.plain.detach()
	}
	l.link = nil
	if cause != nil {
		l.p.log.Warn("nats: connection lost", "error", cause)
		if strings.Contains(strings.ToLower(cause.Error()), "control line") && l.longest > 0 {
			// The server accepts less than the default; longer subjects are dropped from now on.
			l.maxSubject = l.longest - 1
		}
	}
	l.longest = 0
	for _, it := range l.window {
		l.idles(it)
		it.next = it.confirmed
	}
	if l.streams != nil {
		l.streams.detach()
	}
}

// idles records that no message of an item is on the way: trim skipped it, and may drop it now.
func (l *loop) idles(it *item) {
	if it.busy && it.seq != 0 {
		l.trimmed = min(l.trimmed, it.seq-1)
	}
	it.busy = false
}

// publish sends messages. The result is true if it may have more to do at once.
//
// REQUIRES: there is a connection.
func (l *loop) publish() bool {
	if l.streams != nil {
		return l.streams.publish()
	}
	return l.plain.publish()
}

// flush waits until the server has all messages; on failure it gives up the connection.
func (l *loop) flush() bool {
	ctx, cancel := context.WithTimeout(l.p.ctx, flushTimeout)
	defer cancel()
	if err := l.link.nc.FlushWithContext(ctx); err != nil {
		l.lost(err)
		return false
	}
	l.longest = 0
	return true
}

// lost gives up the connection because a flush failed. It prefers an earlier error of the server as
// the reason.
func (l *loop) lost(err error) {
	if last := l.link.nc.LastError(); last != nil {
		err = last
	}
	l.detach(err)
}

// send sends one message. A message that is too large for the server is sent without its payload.
// dropped means that it cannot be sent on any connection; an error means that this connection is
// over.
func (l *loop) send(it *item, index int, reply string, omit bool) (dropped bool, err error) {
	l.env.begin(it.set, it.rowless)
	m := l.env.message(index)
	if len(m.Subject) > l.maxSubject {
		l.drop(it, dropSubject, "its key makes the subject too long", len(m.Subject))
		return true, nil
	}
	l.longest = max(l.longest, len(m.Subject))
	m.Reply = reply
	if !omit {
		if err = l.link.nc.PublishMsg(m); !errors.Is(err, nats.ErrMaxPayload) {
			return false, err
		}
	}
	size := len(m.Data)
	l.env.omit()
	err = l.link.nc.PublishMsg(m)
	if errors.Is(err, nats.ErrMaxPayload) {
		l.drop(it, dropTooLarge, "even its headers are too large", size)
		return true, nil
	}
	if err == nil {
		l.p.metrics.omitted.Inc()
	}
	return false, err
}

// drop counts and logs a message that is never published.
func (l *loop) drop(it *item, reason, why string, size int) {
	l.p.metrics.dropped.WithLabelValues(reason).Inc()
	l.p.log.Error("nats: a change is not published", "reason", why, "size", size, "actor_type", it.set.Identity.Type,
		"actor_key", it.set.Identity.Key, "version", uint64(it.set.Version))
}
