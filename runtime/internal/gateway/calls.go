package gateway

import (
	"context"
	"strconv"
	"time"

	"github.com/cairn-run/cairn/actor/host"
)

// answerable is the id to answer a message with that is at fault: 0 if the id belongs to a call that is in flight, whose
// answer it would be taken for.
func (c *session) answerable(id int64) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, taken := c.calls[id]; taken {
		return 0
	}
	return id
}

// handle begins what a message asks for.
func (c *session) handle(m *message) {
	var fault *host.Error
	switch {
	case m.Connect == nil && c.answerable(m.ID) == 0:
		fault = host.Errorf(host.InvalidArgument, "the id %d is that of a call in flight", m.ID)
	case m.Connect != nil:
		fault = host.Errorf(host.FailedPrecondition, "the connection is made already")
	case m.Unfollow != 0:
		c.unfollow(m)
	case c.g.closing.Load():
		fault = errShutdown
	case m.Follow != "":
		fault = c.follow(m)
	default:
		if fault = c.begin(m); fault == nil {
			return // perform frees the message
		}
	}
	c.free(m)
	if fault != nil {
		c.send(appendFault(nil, c.answerable(m.ID), fault))
	}
}

// begin runs a call or a change of subscriptions on a goroutine of its own.
func (c *session) begin(m *message) *host.Error {
	most := c.g.opts.Limits.ConnectionCalls
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.calls) >= most {
		return host.Errorf(host.Overloaded, "the connection has too many calls in flight").
			With("limit", strconv.Itoa(most)).Retry()
	}
	if c.calls == nil {
		c.calls = make(map[int64]struct{})
	}
	c.calls[m.ID] = struct{}{}
	c.unanswered++
	before := c.barrier
	if m.Call == "" {
		after := make(chan struct{})
		c.barrier = after
		c.spawn(func() {
			defer close(after)
			c.perform(m, before, c.subscribe)
		})
		return nil
	}
	c.spawn(func() { c.perform(m, before, c.call) })
	return nil
}

// perform runs do once the subscriptions before it are in effect, and answers with what it returns.
func (c *session) perform(m *message, before <-chan struct{}, do func(*message) ([]byte, *host.Error)) {
	if before != nil {
		select {
		case <-before:
		case <-c.life.Done():
		}
	}
	answer, fault := func() ([]byte, *host.Error) {
		defer c.free(m) // a panic of do included, and before the answer
		return do(m)
	}()
	if fault != nil {
		answer = appendFault(nil, m.ID, fault)
	}
	c.mu.Lock()
	delete(c.calls, m.ID)
	c.mu.Unlock()
	c.send(answer)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.unanswered--; c.unanswered == 0 && c.idle != nil {
		close(c.idle)
		c.idle = nil
	}
}

// call calls a method of the actor.
func (c *session) call(m *message) ([]byte, *host.Error) {
	start := time.Now()
	q := &host.Request{Address: c.address, Method: m.Call, Codec: host.JSON, Input: m.Input, IdempotencyKey: m.IdempotencyKey}
	if validTraceparent(m.Traceparent) {
		q.Traceparent = m.Traceparent
	}
	life := c.life
	if waits(m.Call) {
		life = c.stream.ctx // at a shutdown there is nothing to wait for
	}
	ctx, cancel := c.g.limited(life, m.Call)
	defer cancel()
	reply, fault := c.ask(ctx, q)
	code := host.Code("")
	if fault != nil {
		code = fault.Code
	}
	c.g.meter.count(c.g.meter.actorType(c.address.Type), c.g.meter.method(c.address.Type, m.Call), code, time.Since(start))
	if fault != nil {
		return nil, fault
	}
	return appendReply(make([]byte, 0, len(reply.Output)+64), m.ID, &reply), nil
}

// ask calls the node over the connection, if Authorize allows it.
func (c *session) ask(ctx context.Context, q *host.Request) (host.Reply, *host.Error) {
	op := c.g.operation(c.address.Type, q.Method)
	if op == Call && c.g.meter.method(c.address.Type, q.Method) == labelCreate {
		op = Create
	}
	fault := c.g.allowed(ctx, AuthRequest{
		Operation: op, Type: c.address.Type, Key: c.address.Key, Method: q.Method, Header: c.header, RemoteAddr: c.remote,
	})
	if fault != nil {
		return host.Reply{}, fault
	}
	q.Veiled = c.g.veils(ctx, q, c.header, c.remote)
	reply, err := c.conn.Call(ctx, q)
	switch {
	case err == nil:
		return reply, nil
	case context.Cause(c.stream.ctx) == errClosing && host.CodeOf(err) == host.Canceled:
		return host.Reply{}, errShutdown
	}
	return host.Reply{}, c.g.asError(err)
}

// subscribe changes what the client gets. Who may is for the actor's hooks to say.
func (c *session) subscribe(m *message) ([]byte, *host.Error) {
	ctx, cancel := c.g.limited(c.life, "")
	defer cancel()
	var err error
	if m.Subscribe != nil {
		err = c.conn.Subscribe(ctx, m.Subscribe...)
	} else {
		err = c.conn.Unsubscribe(ctx, m.Unsubscribe...)
	}
	if err != nil {
		member := "subscribe"
		if m.Unsubscribe != nil {
			member = "unsubscribe"
		}
		return nil, about(c.g.asError(err), "event", member)
	}
	return appendDone(nil, m.ID), nil
}
