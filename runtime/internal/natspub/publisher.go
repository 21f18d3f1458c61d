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
//  1. Every change set with a row in the outbox is published at least once, unless the limits drop
//     it. Rows of an earlier process come first, then the change sets of Committed, in their order.
//     A row is deleted only when the server, or with JetStream the stream, has all its messages.
//  2. The messages of one actor are sent by version and index. A message is sent only when the one
//     before it has certainly arrived or will be sent again together with it.
//  3. Committed, Life and Refuse never wait for NATS or the disk.
//  4. When Close returns, every goroutine of the publisher has ended.
//
// How order survives a lost connection: the client library reconnects by itself and continues with
// the next message, so a lost message would be repeated after its successors. Therefore publishing
// uses its own connection, which does not reconnect. It delivers a prefix of the messages and then
// ends; a new connection begins with the first unconfirmed message. Without JetStream, a flush
// after each batch confirms it. A stream may refuse a message and accept the next, so with
// JetStream there is one message per actor on the way, and many actors in parallel.
//
// How order survives a full memory: see queue. One goroutine publishes, and only it reads and
// deletes rows. Without JetStream another one sends meanwhile: see plain.
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
	connected atomic.Bool  // a connection for publishing exists
	oldest    atomic.Int64 // time of the oldest record that the loop holds, 0 for none

	loop loop
}

// Start runs a publisher. It does not wait for NATS: it connects as soon as there is a server. ctx
// bounds only Start.
//
// REQUIRES: the rows of the outbox are from earlier processes; the first commit with a row comes
// after Start.
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

// lastRow returns the highest sequence number of the outbox, 0 if it is empty. The number of reads
// grows with the logarithm of the result; reading the whole outbox would delay the start of a node.
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

// Committed accepts a durable change set whose row in the outbox is seq. It must be called in
// version order per actor. It keeps cs, which must not be changed afterwards.
func (p *Publisher) Committed(seq uint64, cs *engine.ChangeSet) {
	p.queue.push(newRecord(seq, cs))
	p.wake()
}

// Life accepts a change set without a commit and without a row. The set is dropped, and counted, if
// the memory is full, and lost with the process. Life keeps cs.
func (p *Publisher) Life(cs *engine.ChangeSet) {
	if !p.queue.push(newRecord(0, cs)) {
		p.metrics.dropped.WithLabelValues(dropMemoryFull).Add(float64(len(cs.Changes)))
		return
	}
	p.wake()
}

// Refuse returns a retryable *host.Error with code Unavailable while a commit with a durable event
// must be refused: the outbox is over its limit and nothing in it may be dropped, or it is over the
// limit by a quarter. Otherwise it returns nil.
func (p *Publisher) Refuse() error {
	rows, bytes := p.outbox.OutboxSize()
	if !p.over(rows, bytes) {
		return nil
	}
	if !p.full.Load() && rows < p.opts.MaxOutboxRows+p.opts.MaxOutboxRows/4 &&
		bytes < p.opts.MaxOutboxBytes+p.opts.MaxOutboxBytes/4 {
		return nil // the loop is about to drop rows
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

// Close stops serving calls, waits for calls in flight, publishes waiting changes if there is a
// connection, and ends. Unpublished changes stay in the outbox. If ctx ends first, calls in flight
// are cancelled, publishing stops, and Close returns ctx's error. It still waits for its goroutines
// then, at most for the timeouts of a write and of a connection attempt. Committed must not be
// called during or after Close.
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

// wake signals the loop that there may be work.
func (p *Publisher) wake() {
	select {
	case p.poke <- struct{}{}:
	default:
	}
}
