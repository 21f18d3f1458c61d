package natspub

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
)

// A Publisher publishes change sets and serves calls. Its claims:
//
//  1. Every change set with a row in the outbox is published at least once, unless it is dropped as
//     the limits say: rows left by an earlier process first, then what Committed brings, in that
//     order. A row is deleted only when the server, or with JetStream the stream, has all its
//     messages.
//  2. The messages of one actor are sent by version and index, and none is sent before it is
//     certain that the one before it arrived or will be sent again together with it.
//  3. Committed, Life and Refuse never wait for NATS or the disk.
//  4. When Close returns, every goroutine of the publisher has ended.
//
// How order survives a lost connection: the client library reconnects by itself and goes on with
// the next message, so that one lost in between would be repeated after its successors. Publishing
// therefore uses a connection of its own that does not reconnect. It delivers a prefix of what was
// sent and then ends; a new one begins with the first message that is not known to have arrived.
// Without JetStream that knowledge comes from a flush after each batch. A stream may refuse a
// message and take the next one, so with JetStream there is one message per actor on the way, and
// many actors side by side.
//
// How order survives a full memory: see queue. There is one goroutine that publishes, and it alone
// reads and deletes rows. Without JetStream it has another one send meanwhile: see plain.
type Publisher struct {
	opts     Options
	outbox   Outbox
	log      *slog.Logger
	metrics  *metrics
	subjects Subjects
	queue    queue
	calls    *calls

	ctx    context.Context // ends when goroutines must
	cancel context.CancelFunc
	wg     sync.WaitGroup

	poke    chan struct{} // holds one token: there may be work
	links   chan *link    // new connections
	tried   chan struct{} // closed when the first attempt to connect is over
	closing chan struct{} // closed by Close
	once    sync.Once
	closed  chan struct{} // closed when Close is done
	err     error         // of Close; read after closed

	full      atomic.Bool  // the outbox is over its limit and holds nothing that may be dropped
	connected atomic.Bool  // there is a connection for publishing
	oldest    atomic.Int64 // time of the oldest record that the loop holds, 0 for none

	loop loop
}

// Start runs a publisher. It does not wait for NATS: with no server in reach it connects as soon as
// there is one. ctx bounds Start alone.
//
// REQUIRES: the rows of the outbox are those of earlier processes; the first commit with a row
// comes after Start.
func Start(ctx context.Context, o Options) (*Publisher, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	o = o.withDefaults()
	subjects, err := NewSubjects(o.Root)
	if err != nil {
		return nil, err
	}
	p := &Publisher{
		opts: o, outbox: o.Outbox, log: o.Logger, subjects: subjects,
		queue: queue{maxRows: o.MemoryRows, maxBytes: o.MemoryBytes},
		poke:  make(chan struct{}, 1), links: make(chan *link), tried: make(chan struct{}),
		closing: make(chan struct{}), closed: make(chan struct{}),
	}
	p.calls = newCalls(p)
	p.metrics = newMetrics(p)
	last, err := lastRow(ctx, o.Outbox)
	if err != nil {
		return nil, err
	}
	p.loop.init(p, last)
	if err := p.metrics.register(o.Registerer); err != nil {
		return nil, err
	}
	p.ctx, p.cancel = context.WithCancel(context.WithoutCancel(ctx))
	p.wg.Add(2)
	go func() { defer p.wg.Done(); p.loop.run() }()
	go func() { defer p.wg.Done(); p.connect() }()
	if o.Node != nil {
		if err := p.Serve(o.Node, o.Endpoints); err != nil {
			ended, cancel := context.WithCancel(ctx)
			cancel()
			return nil, errors.Join(err, ignore(p.Close(ended), context.Canceled))
		}
	}
	return p, nil
}

// ignore returns err unless it is target.
func ignore(err, target error) error {
	if errors.Is(err, target) {
		return nil
	}
	return err
}

// lastRow finds the highest sequence number of the outbox, 0 if it is empty, in a number of reads
// that grows with the logarithm of the answer. To read the whole outbox instead would delay the
// start of a node by all that waits.
func lastRow(ctx context.Context, o Outbox) (uint64, error) {
	var last uint64
	for step := uint64(1); step > 0; {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		after := last + step - 1
		if after < last { // no sequence number is that high
			step /= 2
			continue
		}
		rows, err := o.Outbox(after, 1)
		switch {
		case err != nil:
			return 0, err
		case len(rows) > 0:
			last, step = rows[0].Seq, step*2
			if step == 0 {
				step = 1 << 63
			}
		default:
			step /= 2
		}
	}
	return last, nil
}

// Committed takes over a change set that is durable and stands in the outbox under seq. It is
// called in version order per actor, and keeps cs: nobody may change it afterwards.
func (p *Publisher) Committed(seq uint64, cs *engine.ChangeSet) {
	p.queue.push(newRecord(seq, cs))
	p.wake()
}

// Life takes over a change set that has no commit and no row. It is dropped, and counted, when the
// memory is full, and lost with the process. It keeps cs.
func (p *Publisher) Life(cs *engine.ChangeSet) {
	if !p.queue.push(newRecord(0, cs)) {
		p.metrics.dropped.WithLabelValues(dropMemoryFull).Add(float64(len(cs.Changes)))
		return
	}
	p.wake()
}

// Refuse returns an *host.Error with code Unavailable, marked retryable, while a commit with a
// durable event must be refused: the outbox is over its limit and nothing in it may be dropped, or
// it is over the limit by a quarter. Else nil.
func (p *Publisher) Refuse() error {
	rows, bytes := p.outbox.OutboxSize()
	if !p.over(rows, bytes) {
		return nil
	}
	if !p.full.Load() && rows < p.opts.MaxOutboxRows+p.opts.MaxOutboxRows/4 &&
		bytes < p.opts.MaxOutboxBytes+p.opts.MaxOutboxBytes/4 {
		return nil // the loop is about to drop what may be dropped
	}
	p.metrics.refused.Inc()
	return host.Errorf(host.Unavailable, "the outbox is full: events wait for NATS").
		With("outbox_rows", strconv.FormatInt(rows, 10)).With("outbox_bytes", strconv.FormatInt(bytes, 10)).Retry()
}

// over reports whether the outbox has reached its limit.
func (p *Publisher) over(rows, bytes int64) bool {
	return rows >= p.opts.MaxOutboxRows || bytes >= p.opts.MaxOutboxBytes
}

// Connected reports whether there is a connection for publishing.
func (p *Publisher) Connected() bool { return p.connected.Load() }

// Lag returns the age of the oldest change that waits to be published, 0 if there is none.
func (p *Publisher) Lag() time.Duration {
	if ms := p.oldest.Load(); ms != 0 {
		return since(ms)
	}
	if ms, ok := p.queue.oldest(); ok {
		return since(ms)
	}
	return 0
}

// Close stops serving calls, waits for those in flight, publishes what waits if there is a
// connection, and ends. What it could not publish stays in the outbox. When ctx ends first, calls
// in flight are cancelled, publishing stops, and the error is that of ctx; Close then still waits
// for its goroutines, which takes at most the timeouts of a write and of a connection attempt. No
// commit may be handed over during or after Close.
func (p *Publisher) Close(ctx context.Context) error {
	p.once.Do(func() {
		stop := context.AfterFunc(ctx, p.cancel)
		defer stop()
		p.calls.close(ctx)
		close(p.closing)
		<-p.loop.done
		if p.ctx.Err() != nil {
			p.err = ctx.Err()
		}
		p.cancel()
		p.wg.Wait()
		p.metrics.unregister(p.opts.Registerer)
		close(p.closed)
	})
	<-p.closed
	return p.err
}

// wake tells the loop that there may be work.
func (p *Publisher) wake() {
	select {
	case p.poke <- struct{}{}:
	default:
	}
}
