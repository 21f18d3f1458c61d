package gateway

import (
	"context"
	"strconv"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/audit"
	"github.com/cairn-run/cairn/runtime/internal/gateway/serve"
)

// answerable returns the id for the answer to a faulty message: 0 if a call in flight has the id,
// because the answer would look like that call's.
func (c *session) answerable(id int64) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, taken := c.calls[id]; taken {
		return 0
	}
	return id
}

// handle begins the request of a message.
func (c *session) handle(m *message) {
	var fault *host.Error
	switch {
	case m.Connect == nil && c.answerable(m.ID) == 0:
		fault = host.Errorf(host.InvalidArgument, "the id %d is that of a call in flight", m.ID)
	case m.Connect != nil:
		fault = host.Errorf(host.FailedPrecondition, "the connection is made already")
	case m.Unfollow != 0:
		c.unfollow(m)
	case c.g.front.Closing():
		fault = serve.ErrShutdown
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

// A request is a call, or a change of subscriptions, that a session runs in its own goroutine.
type request struct {
	c     *session
	m     *message
	place serve.Place
	hop   hop
	done  chan struct{} // closed when a change of subscriptions is in effect, or refused; nil in a call
}

// begin runs a request.
func (c *session) begin(m *message) *host.Error {
	most := c.g.front.Limits.ConnectionCalls
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
	r := &request{c: c, m: m}
	c.line.Join(&r.place)
	if m.Call == "" {
		r.done = make(chan struct{})
		c.barrier = r.done
	}
	c.tasks.Add(1)
	go r.run()
	return nil
}

// run performs the request and answers.
func (r *request) run() {
	c := r.c
	defer c.tasks.Done()
	defer r.end()
	defer c.guard()
	c.send(r.perform())
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.unanswered--; c.unanswered == 0 && c.idle != nil {
		close(c.idle)
		c.idle = nil
	}
}

// end makes room for the later requests, if this was not done before.
func (r *request) end() {
	r.place.Leave()
	if r.done != nil {
		close(r.done)
	}
}

// perform runs the message's request and returns the answer. The message's id is free again.
func (r *request) perform() []byte {
	c, m := r.c, r.m
	answer, fault := func() ([]byte, *host.Error) {
		defer c.free(m) // even after a panic, and before the answer
		if m.Call == "" {
			r.place.Arrive(c.life)
			return c.subscribe(m)
		}
		defer r.place.Leave() // later requests need not wait for a slow client
		r.hop = c.g.hop(c.address.Type, m.Traceparent)
		return c.call(m, &r.hop, &r.place)
	}()
	if fault != nil {
		answer = appendFault(nil, m.ID, fault)
	}
	answer = appendTrace(answer, r.hop.told())
	c.mu.Lock()
	delete(c.calls, m.ID)
	c.mu.Unlock()
	return answer
}

// call calls a method of the actor.
func (c *session) call(m *message, h *hop, at *serve.Place) ([]byte, *host.Error) {
	q := &host.Request{Address: c.address, Method: m.Call, Codec: host.JSON, Input: m.Input,
		IdempotencyKey: m.IdempotencyKey,
		Traceparent:    h.span.String()}
	life := c.life
	if waits(m.Call) {
		life = c.stay.Context() // a shutdown ends the wait
	}
	ctx, cancel := c.g.limited(life, m.Call)
	defer cancel()
	if m.Reason != "" {
		ctx = audit.WithReason(ctx, m.Reason)
	}
	reply, fault := c.ask(ctx, q, at)
	code, err := host.Code(""), error(nil)
	if fault != nil {
		code, err = fault.Code, fault
	}
	c.g.end(h, c.address, m.Call, err)
	typ := c.g.front.Meter.Type(c.address.Type)
	c.g.front.Meter.Count(typ, typ.Kind(m.Call), code, time.Since(h.began))
	if fault != nil {
		return nil, fault
	}
	return appendReply(make([]byte, 0, len(reply.Output)+64), m.ID, &reply), nil
}

// ask calls the node over the connection, if Authorize allows it, and in order, if the request has
// a place.
func (c *session) ask(ctx context.Context, q *host.Request, at *serve.Place) (host.Reply, *host.Error) {
	op := c.g.operation(c.address.Type, q.Method)
	if op == serve.Call && c.g.front.Meter.Type(c.address.Type).Kind(q.Method) == serve.LabelCreate {
		op = serve.Create
	}
	question := serve.AuthRequest{
		Operation: op, Type: c.address.Type, Key: c.address.Key, Method: q.Method, Header: c.header, RemoteAddr: c.remote,
	}
	given := audit.Of(ctx)
	if op == serve.Operate || given != nil && c.g.explains(ctx, question, q.Method) {
		o := &audit.Origin{Channel: "websocket", Remote: c.remote}
		if given != nil {
			o.Reason = given.Reason
		}
		ctx, question = audit.With(ctx, o), question.From(o)
	} else if given != nil {
		ctx = audit.With(ctx, nil)
	}
	fault := c.g.front.Allowed(ctx, question)
	if fault != nil {
		return host.Reply{}, fault
	}
	q.Veiled = c.g.veils(ctx, q, c.header, c.remote)
	var reply host.Reply
	var err error
	if at != nil {
		q.Order = at
	}
	if at == nil || at.Arrive(ctx) {
		reply, err = c.conn.Call(ctx, q)
	} else {
		err = ctx.Err()
	}
	switch {
	case err == nil:
		return reply, nil
	case c.stay.Closing() && host.CodeOf(err) == host.Canceled:
		return host.Reply{}, serve.ErrShutdown
	}
	return host.Reply{}, c.g.front.AsError(err)
}

// subscribe adds or removes subscriptions of the connection. The actor's hooks decide whether the
// client may.
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
		return nil, about(c.g.front.AsError(err), "event", member)
	}
	return appendDone(nil, m.ID), nil
}
