package natspub

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/audit"
	builtin "github.com/cairn-run/cairn/actor/host/method"
	"github.com/cairn-run/cairn/actor/host/token"
)

// ServiceName is the name of the micro service.
const ServiceName = "cairn"

// Headers of requests, in addition to HeaderTraceparent. The case of names does not matter.
const (
	// HeaderIdempotencyKey makes the reply part of the commit; a repeated request gets the stored
	// reply.
	HeaderIdempotencyKey = "Idempotency-Key"
	// HeaderTimeout is how long the caller waits from the arrival of the request, as a Go duration:
	// "1.5s". It is a duration, not a time, because the clocks of caller and node may differ.
	HeaderTimeout = "Cairn-Timeout"
	// HeaderReason says why an operator makes the call, for the audit log.
	HeaderReason = audit.Header
)

// Headers of replies. Errors also have micro.ErrorHeader, the message, and micro.ErrorCodeHeader,
// the host.Code.
const (
	// HeaderToken is a token of the actor: the call may do what it allows, and nothing else.
	HeaderToken = "Cairn-Token"
	// HeaderTraceresponse is the trace of the call, in the form of HeaderTraceparent.
	HeaderTraceresponse = "traceresponse"
	// HeaderVersion is the actor's version at the reply.
	HeaderVersion = "Cairn-Version"
	// HeaderReplayed is "true" if the reply was stored by an earlier request with the same
	// idempotency key.
	HeaderReplayed = "Idempotency-Replayed"
	// HeaderRetryable is "true" if the same call may succeed later and nothing was done.
	HeaderRetryable = "Cairn-Error-Retryable"
	// HeaderMetadata is the error's metadata as a JSON object of strings.
	HeaderMetadata = "Cairn-Error-Metadata"
)

// ErrServing is the error of a second Serve.
var ErrServing = errors.New("natspub: calls are served already")

// calls serves the actors' methods as a micro service. Its claims:
//
//  1. A handler of the client library never waits: a call runs in its own goroutine, or is refused
//     because too many are running.
//  2. Every request with a reply subject is answered, unless the connection is lost or the subject
//     cannot be a client's.
//  3. After close, no call is running.
//
// It has its own connection, which reconnects by itself.
type calls struct {
	p        *Publisher
	inFlight atomic.Int64
	room     chan struct{}
	wg       sync.WaitGroup
	forged   sync.Once // the warning about reply subjects

	mu      sync.Mutex
	closed  bool // Serve fails
	sealed  bool // calls fail
	nc      *nats.Conn
	ended   chan struct{} // closed when nc is
	service *service
}

// A method is one served method and its statistics.
type method struct {
	c         *calls
	nc        *nats.Conn
	node      Node
	typ, name string
	kind      host.MethodKind
	prefix    string        // of its subjects, up to the key
	timeout   time.Duration // of a call without a timeout header

	requests, errors, nanoseconds atomic.Int64
	lastError                     atomic.Pointer[string]
}

func newCalls(p *Publisher) *calls {
	return &calls{p: p, room: make(chan struct{}, p.opts.MaxCalls)}
}

// A Node runs calls and checks tokens.
type Node interface {
	host.Node
	token.Checker
}

// Serve begins to serve the methods of the endpoints with calls to n. It may be called once, at
// Start or later, because a publisher is made before the node that uses it. If no server can be
// reached, Serve returns after one attempt to connect, and serves calls once there is a server.
func (p *Publisher) Serve(n Node, endpoints []Endpoint) error {
	return p.calls.serve(n, endpoints)
}

func (c *calls) serve(n Node, endpoints []Endpoint) (err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.nc != nil || c.closed {
		return ErrServing
	}
	ended := make(chan struct{})
	nc, err := c.p.opts.Dial(
		nats.Name("cairn calls"),
		nats.RetryOnFailedConnect(true),
		nats.MaxReconnects(-1),
		nats.CustomReconnectDelay(func(attempts int) time.Duration {
			return min(minConnectPause<<min(attempts, 10), maxConnectPause)
		}),
		nats.FlusherTimeout(writeTimeout),
		nats.ClosedHandler(func(*nats.Conn) { close(ended) }),
		nats.ErrorHandler(c.p.reporter()),
	)
	if err != nil {
		return fmt.Errorf("natspub: connecting to serve calls: %w", err)
	}
	defer func() {
		if err != nil {
			nc.Close()
			<-ended
		}
	}()
	service := newService(c, nc)
	for _, e := range endpoints {
		for _, hm := range e.Methods {
			if hm.Kind != host.Action && hm.Kind != host.Query {
				continue
			}
			prefix := string(c.p.subjects.appendPrefix(nil, c.p.opts.Namespace, familyCall, e.Type, hm.Name))
			m := &method{c: c, nc: nc, node: n, typ: e.Type, name: hm.Name, kind: hm.Kind,
				prefix: prefix + ".", timeout: c.p.opts.CallTimeout}
			if row, found := builtin.Find(hm.Name); found && row.Waits {
				m.timeout += builtin.MaxWait
			}
			service.methods = append(service.methods, m)
		}
	}
	if err = service.start(); err != nil {
		return fmt.Errorf("natspub: serving calls: %w", err)
	}
	c.nc, c.ended, c.service = nc, ended, service
	return nil
}

// endpointName makes a name of letters, digits, "-" and "_", the characters that package micro
// allows.
func endpointName(typ, method string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '-', r == '_':
			return r
		}
		return '-'
	}, typ+"-"+method)
}

// close refuses new calls, waits for calls in flight, and closes the connection. If ctx ends first,
// they are cancelled, because ctx cancels the publisher's own context.
func (c *calls) close(ctx context.Context) {
	c.mu.Lock()
	c.closed = true
	nc, service := c.nc, c.service
	c.mu.Unlock()
	if nc == nil {
		return
	}
	if err := service.stop(); err != nil && !errors.Is(err, nats.ErrConnectionClosed) {
		c.p.log.Warn("nats: stopping the service", "error", err)
	}
	// Once a flush is answered, earlier messages of the server are in the client's queues. Once a
	// barrier has passed those queues, goroutines have the messages.
	flush := func() {
		if nc.IsConnected() {
			bounded, cancel := context.WithTimeout(ctx, flushTimeout)
			defer cancel()
			if err := nc.FlushWithContext(bounded); err != nil && ctx.Err() == nil {
				c.p.log.Warn("nats: answers to calls may be lost", "error", err)
			}
		}
	}
	flush()
	passed := make(chan struct{})
	if err := nc.Barrier(func() { close(passed) }); err == nil {
		select {
		case <-passed:
		case <-c.ended:
		}
	}
	c.mu.Lock()
	c.sealed = true
	c.mu.Unlock()
	c.wg.Wait()
	flush()
	nc.Close()
	<-c.ended
}

// begin counts a call that is about to run, and reports whether it may run.
func (c *calls) begin() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sealed {
		return false
	}
	c.wg.Add(1)
	return true
}

// An incoming is a request with its parsed headers.
type incoming struct {
	*nats.Msg
	at             host.Address
	addressed      bool // its subject names an actor
	began          time.Time
	timeout        time.Duration
	reason         string
	idempotencyKey string
	cause, span    host.Span
	tracer         host.Tracer
}

// handle handles a request in the goroutine of its subscription.
func (m *method) handle(req *nats.Msg) {
	if m.c.p.subjects.forged(req.Reply) {
		m.requests.Add(1)
		m.note(host.Errorf(host.InvalidArgument, "the reply subject is one of the node, or of the server"))
		m.c.forged.Do(func() {
			m.c.p.log.Warn("nats: a request is not taken, because its answer would go to a subject of the node or of the server; further ones are counted only",
				"subject", req.Subject, "reply", req.Reply)
		})
		return
	}
	in := &incoming{Msg: req, began: time.Now(), at: host.Address{Type: m.typ},
		cause: host.ParseSpan(first(req.Header, HeaderTraceparent))}
	in.span = in.cause
	if t, ok := m.node.(host.Tracer); ok {
		in.span, in.tracer = t.BeginRequest(m.typ, in.cause), t
	}
	if fault := m.read(in); fault != nil {
		m.refuse(in, fault)
		return
	}
	select {
	case m.c.room <- struct{}{}:
	default:
		m.refuse(in, host.Errorf(host.Overloaded, "%d calls are being served", cap(m.c.room)).Retry())
		return
	}
	if !m.c.begin() {
		<-m.c.room
		m.refuse(in, host.Errorf(host.Unavailable, "the node is shutting down").Retry())
		return
	}
	m.c.inFlight.Add(1)
	go func() {
		defer m.c.wg.Done()
		defer func() { <-m.c.room; m.c.inFlight.Add(-1) }()
		m.serve(in)
	}()
}

// read reads the subject and the headers of a request.
func (m *method) read(in *incoming) *host.Error {
	var err error
	if in.at.Key, err = ParseKey(strings.TrimPrefix(in.Subject, m.prefix)); err != nil {
		return host.Errorf(host.InvalidArgument, "the key: %v", err)
	}
	in.addressed = true
	timeout, fault := header(in.Header, HeaderTimeout)
	if fault != nil {
		return fault
	}
	if in.timeout = m.timeout; timeout != "" {
		if in.timeout, err = time.ParseDuration(timeout); err != nil || in.timeout <= 0 {
			return host.Errorf(host.InvalidArgument,
				"header %s: %.40q is not a positive duration such as 1.5s", HeaderTimeout, timeout)
		}
	}
	reason, fault := header(in.Header, HeaderReason)
	if fault != nil {
		return fault
	}
	if in.reason, fault = audit.ParseReason(reason); fault != nil {
		return fault
	}
	in.idempotencyKey, fault = header(in.Header, HeaderIdempotencyKey)
	return fault
}

// call calls the node, with the token of a request.
func (m *method) call(ctx context.Context, r *host.Request, tokens []string) (host.Reply, error) {
	if len(tokens) > 0 {
		if len(tokens) > 1 {
			return host.Reply{}, token.ErrInvalid
		}
		g, err := m.node.CheckToken(ctx, r.Address, tokens[0])
		if err != nil {
			return host.Reply{}, err
		}
		ctx = token.With(ctx, g)
	}
	return m.node.Call(ctx, r)
}

// serve runs a call and answers it.
func (m *method) serve(in *incoming) {
	ctx, cancel := context.WithDeadline(m.c.p.ctx, in.began.Add(in.timeout))
	defer cancel()
	if strings.Contains(m.name, ".") { // maybe a method of operators
		ctx = audit.With(ctx, &audit.Origin{Channel: "nats", Reason: in.reason})
	}
	reply, err := m.call(ctx, &host.Request{
		Address: in.at, Method: m.name, Codec: host.JSON, Input: in.Data,
		IdempotencyKey: in.idempotencyKey, Traceparent: in.span.String(),
	}, all(in.Header, HeaderToken))
	m.traced(in, err)
	if err == nil {
		h := nats.Header{}
		if reply.Version != 0 { // methods outside the actor have none
			h[HeaderVersion] = []string{strconv.FormatUint(reply.Version, 10)}
		}
		if reply.Replayed {
			h[HeaderReplayed] = []string{"true"}
		}
		in.told(h)
		err = m.respond(in, h, reply.Output)
		if errors.Is(err, nats.ErrMaxPayload) {
			answer := nats.Msg{Header: h, Data: reply.Output}
			e := host.OverLimit("output", m.nc.MaxPayload(), int64(answer.Size())) // the headers count
			e.Message = "the output does not fit into a message of this NATS server; the call itself was done"
			err = e
		} else {
			err = nil // the connection is gone, and with it the caller
		}
	}
	if err != nil {
		e := wireError(err)
		m.note(e)
		m.fail(in, e)
	} else {
		m.c.p.metrics.calls.WithLabelValues("ok").Inc()
	}
	m.requests.Add(1)
	m.nanoseconds.Add(int64(time.Since(in.began)))
}

// traced ends the span of a request.
func (m *method) traced(in *incoming, err error) {
	if in.span.Sampled() && in.tracer != nil && in.addressed {
		in.tracer.EndRequest(in.at, "nats", m.typ+"."+m.name, in.span, in.cause, in.began, err)
	}
}

// told adds the span of a request to the headers of its answer, unless it is the caller's span.
func (in *incoming) told(h nats.Header) {
	if in.span != in.cause {
		h[HeaderTraceresponse] = []string{in.span.String()}
	}
}

// respond publishes an answer, if the request has a reply subject.
func (m *method) respond(in *incoming, h nats.Header, body []byte) error {
	if in.Reply == "" {
		return nil
	}
	return m.nc.PublishMsg(&nats.Msg{Subject: in.Reply, Header: h, Data: body})
}

// refuse answers a request with an error, in the goroutine of its subscription.
func (m *method) refuse(in *incoming, e *host.Error) {
	m.requests.Add(1)
	m.note(e)
	m.traced(in, e)
	m.fail(in, e)
}

// fail answers a request with an error, in a short form if it is too long for a message.
func (m *method) fail(in *incoming, e *host.Error) {
	h, body := errorReply(e)
	in.told(h)
	err := m.respond(in, h, body)
	if errors.Is(err, nats.ErrMaxPayload) {
		h, body = errorReply(&host.Error{Code: e.Code, Message: host.Clip(e.Message), Retryable: e.Retryable})
		in.told(h)
		err = m.respond(in, h, body)
	}
	if err != nil {
		m.c.p.log.Debug("nats: an error could not be sent", "error", err)
	}
}

// note counts an error and keeps it as the last one.
func (m *method) note(e *host.Error) {
	m.errors.Add(1)
	text := host.Clip(e.Error())
	m.lastError.Store(&text)
	m.c.p.metrics.calls.WithLabelValues(string(e.Code)).Inc()
}

// wireError turns an error of a Node into one that may be shown.
func wireError(err error) *host.Error {
	var e *host.Error
	if errors.As(err, &e) {
		return e
	}
	switch code := host.CodeOf(err); code {
	case host.Canceled, host.DeadlineExceeded:
		return host.Errorf(code, "%v", err)
	}
	return host.Errorf(host.Internal, "internal error")
}

// errorReply makes the headers and the body of an error. The body is the error as JSON, as over
// HTTP.
func errorReply(e *host.Error) (nats.Header, []byte) {
	message := e.Message
	if message == "" {
		message = string(e.Code)
	}
	h := nats.Header{micro.ErrorHeader: {message}, micro.ErrorCodeHeader: {string(e.Code)}}
	if e.Retryable {
		h[HeaderRetryable] = []string{"true"}
	}
	if len(e.Metadata) > 0 {
		h[HeaderMetadata] = []string{string(mustJSON(maps.Clone(e.Metadata)))}
	}
	return h, mustJSON(e)
}

// mustJSON encodes values of strings and booleans, which cannot fail.
func mustJSON(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		return []byte("{}")
	}
	return b
}

// all returns the values of a header, regardless of the case of its name.
func all(h nats.Header, name string) (values []string) {
	for key, more := range h {
		if strings.EqualFold(key, name) {
			values = append(values, more...)
		}
	}
	return values
}

// first returns the first value of a header, "" if there is none.
func first(h nats.Header, name string) string {
	if values := all(h, name); len(values) > 0 {
		return values[0]
	}
	return ""
}

// header returns the only value of a header; "" if there is none. It refuses an empty value and
// several values, because its sender may have meant something else.
func header(h nats.Header, name string) (string, *host.Error) {
	switch values := all(h, name); {
	case len(values) == 0:
		return "", nil
	case len(values) > 1:
		return "", host.Errorf(host.InvalidArgument, "there is more than one header %s", name).With("field", name)
	case values[0] == "":
		return "", host.Errorf(host.InvalidArgument, "the header %s is empty", name).With("field", name)
	default:
		return values[0], nil
	}
}
