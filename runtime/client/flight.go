package client

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strconv"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/audit"
)

// A flight is a request over a connection that is not answered yet. Connection.mu guards its
// fields, except receiving from done.
type flight struct {
	id    uint64
	frame []byte
	// again allows another send, over the next socket, after a loss that left the outcome unknown.
	again bool
	// sends counts the sockets over which it was, or may have been, sent.
	sends int
	done  chan landing // capacity 1
}

// A landing is the result of a flight.
type landing struct {
	reply host.Reply
	err   *host.Error
}

func (f *flight) settle(e *host.Error) { f.done <- landing{err: e} }

// outcomeUnknown returns the error of a call that was sent and not answered.
func outcomeUnknown(why string) *host.Error {
	return host.Errorf(host.Unavailable,
		"the connection was lost before the answer came, so the outcome is unknown: %s", why)
}

// Call calls a method of the actor on behalf of the connection. The address in r is not used.
func (cn *Connection) Call(ctx context.Context, r *host.Request) (host.Reply, error) {
	switch {
	case r.Method == "" || r.Create:
		return host.Reply{},
			host.Errorf(host.InvalidArgument, "a connection cannot create its actor: the request must name a method")
	case r.Codec == host.CBOR:
		over := *r
		over.Address = cn.address
		cn.mu.Lock()
		token := cn.token
		cn.mu.Unlock()
		return cn.c.CallOver(ctx, token, &over)
	case r.Codec != host.JSON:
		return host.Reply{}, host.Errorf(host.InvalidArgument, "the request has no codec")
	case len(r.Input) > 0 && !json.Valid(r.Input):
		return host.Reply{}, host.Errorf(host.InvalidArgument, "the input is not JSON")
	}
	m := outgoing{Call: r.Method, IdempotencyKey: r.IdempotencyKey}
	if o := audit.Of(ctx); o != nil {
		m.Reason = o.Reason
	}
	if len(r.Input) > 0 {
		m.Input = r.Input
	}
	again := repeatable(r.Method)
	if m.IdempotencyKey == "" && !again && cn.c.opts.Attempts > 1 {
		m.IdempotencyKey = newKey()
	}
	return cn.send(ctx, &m, again || m.IdempotencyKey != "")
}

// Subscribe adds events to the subscriptions of the connection.
func (cn *Connection) Subscribe(ctx context.Context, events ...string) error {
	return cn.resubscribe(ctx, &outgoing{Subscribe: events}, events, func() {
		for _, name := range events {
			if !slices.Contains(cn.events, name) {
				cn.events = append(cn.events, name)
			}
		}
	})
}

// Unsubscribe removes events from the subscriptions of the connection.
func (cn *Connection) Unsubscribe(ctx context.Context, events ...string) error {
	return cn.resubscribe(ctx, &outgoing{Unsubscribe: events}, events, func() {
		cn.events = slices.DeleteFunc(cn.events, func(name string) bool { return slices.Contains(events, name) })
	})
}

// resubscribe sends a change of the subscriptions and records it once it is confirmed.
func (cn *Connection) resubscribe(ctx context.Context, m *outgoing, events []string, confirmed func()) error {
	if e := eventNames(events); e != nil {
		return e
	}
	if len(events) == 0 {
		return nil
	}
	if _, err := cn.send(ctx, m, true); err != nil {
		return err
	}
	cn.mu.Lock()
	defer cn.mu.Unlock()
	confirmed()
	return nil
}

// send sends a request until its answer is final. It sends it again if the node says that it did
// nothing.
func (cn *Connection) send(ctx context.Context, m *outgoing, again bool) (host.Reply, error) {
	for attempt := 1; ; attempt++ {
		reply, e := cn.once(ctx, m, again)
		switch {
		case e == nil:
			return reply, nil
		case attempt >= cn.c.opts.Attempts || !e.Retryable:
			return reply, e
		}
		if !sleep(ctx, cn.c.wait(attempt, 0)) {
			late := contextError(ctx)
			late.Message += "; before that: " + e.Error()
			return reply, late
		}
	}
}

// once sends a request and waits for its answer, over one or more sockets.
func (cn *Connection) once(ctx context.Context, m *outgoing, again bool) (host.Reply, *host.Error) {
	if ctx.Err() != nil {
		return host.Reply{}, contextError(ctx)
	}
	cn.mu.Lock()
	cn.lastID++
	id := cn.lastID
	cn.mu.Unlock()
	numbered := *m
	numbered.ID = id
	frame, err := numbered.encode()
	if err != nil {
		return host.Reply{}, host.Errorf(host.InvalidArgument, "the request cannot be encoded: %v", err)
	}
	f := &flight{id: id, frame: frame, again: again, done: make(chan landing, 1)}
	cn.mu.Lock()
	if cn.fault != nil {
		cn.mu.Unlock()
		return host.Reply{}, cn.fault
	}
	cn.flights[id] = f
	cn.queue = append(cn.queue, f)
	cn.mu.Unlock()
	wake(cn.work)
	select {
	case l := <-f.done:
		return l.reply, l.err
	case <-ctx.Done():
	}
	cn.mu.Lock()
	delete(cn.flights, id) // the writer skips it, and the answer has no waiter
	cn.catchUp()
	cn.mu.Unlock()
	select {
	case l := <-f.done:
		return l.reply, l.err
	default:
		return host.Reply{}, contextError(ctx)
	}
}

// wake signals the waiter. A pending signal is enough.
func wake(signal chan struct{}) {
	select {
	case signal <- struct{}{}:
	default:
	}
}

// nextFlight takes the next request from the queue. It then counts as sent.
func (cn *Connection) nextFlight() *flight {
	cn.mu.Lock()
	defer cn.mu.Unlock()
	for len(cn.queue) > 0 {
		f := cn.queue[0]
		cn.queue = cn.queue[1:]
		if cn.flights[f.id] == f {
			f.sends++
			return f
		}
	}
	cn.queue = nil
	return nil
}

// landed passes an answer to its waiter, if there still is one.
func (cn *Connection) landed(m *incoming) {
	cn.mu.Lock()
	defer cn.mu.Unlock()
	f := cn.flights[m.ID]
	if f == nil {
		return
	}
	delete(cn.flights, m.ID)
	l := landing{reply: host.Reply{Output: m.Output, Version: m.Version, Replayed: m.Replayed}, err: m.Error}
	if l.err != nil {
		l.reply = host.Reply{}
		if f.sends > 1 && l.err.Retryable {
			// This attempt did nothing, but one over an earlier socket may have.
			c := *l.err
			c.Retryable = false
			l.err = &c
		}
	}
	f.done <- l
	cn.catchUp()
}

// grounded handles the loss of the socket: it queues, in order, the requests that may be sent
// again, and answers the others. If the socket was closed because a message was too long, this was
// presumably the longest request.
//
// REQUIRES: cn.mu
func (cn *Connection) grounded(b *breach) {
	cn.queue = cn.queue[:0]
	if b.tooLong {
		cn.refuseLongest(b.err)
	}
	for _, id := range slices.Sorted(maps.Keys(cn.flights)) {
		f := cn.flights[id]
		switch {
		case f.sends == 0:
		case !f.again:
			f.settle(outcomeUnknown("the request has no idempotency key, with which it could be repeated"))
			delete(cn.flights, id)
			continue
		case f.sends >= cn.c.opts.Attempts:
			f.settle(outcomeUnknown("it was sent as often as Options.Attempts allows"))
			delete(cn.flights, id)
			continue
		}
		cn.queue = append(cn.queue, f)
	}
}

// refuseLongest answers the longest request that was sent. The cause names the node's limit if the
// node sent it.
//
// REQUIRES: cn.mu
func (cn *Connection) refuseLongest(cause *host.Error) {
	var longest *flight
	for _, f := range cn.flights {
		if f.sends > 0 && (longest == nil || len(f.frame) > len(longest.frame)) {
			longest = f
		}
	}
	if longest != nil {
		e, actual := errTooLong(), int64(len(longest.frame))
		if limit, err := strconv.ParseInt(cause.Metadata["limit"], 10, 64); err == nil && actual > limit {
			e = host.OverLimit("message", limit, actual)
		}
		longest.settle(e)
		delete(cn.flights, longest.id)
	}
}
