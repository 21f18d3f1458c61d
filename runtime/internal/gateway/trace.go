package gateway

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/token"
	"github.com/cairn-run/cairn/actor/host/trace"
	"github.com/cairn-run/cairn/runtime/internal/gateway/serve"
)

// beginTrace finds the trace of a request for an actor, and sets the header for the client,
// regardless of the answer. It puts the trace into the context and traceparent for the calls that
// the request makes. If there is no trace here, the exchange itself sets the header.
func (x *exchange) beginTrace(t *target) {
	x.cause = x.Cause()
	x.span = x.cause
	if tracer := x.g.tracer; tracer != nil && t.route != toTraces {
		x.span = tracer.BeginRequest(t.Type, x.cause)
	}
	if x.traceparent = x.span.String(); x.traceparent == "" {
		return
	}
	if x.span != x.cause {
		x.W.Header()["Traceresponse"] = []string{x.traceparent}
	}
	x.about, x.name = t.Address, t.name
	if t.route != toCall && t.route != toActor {
		x.R = x.R.WithContext(host.WithSpan(x.R.Context(), x.span))
	}
}

// A hop is a call by a message of a connection, as a part of a trace.
type hop struct {
	span, cause host.Span
	began       time.Time
}

// hop begins a call of an actor of a type.
func (g *Gateway) hop(typ, traceparent string) hop {
	h := hop{cause: host.ParseSpan(traceparent), began: time.Now()}
	if h.span = h.cause; g.tracer != nil {
		h.span = g.tracer.BeginRequest(typ, h.cause)
	}
	return h
}

// end records the call.
func (g *Gateway) end(h *hop, a host.Address, method string, err error) {
	if h.span.Sampled() && g.tracer != nil {
		g.tracer.EndRequest(a, "websocket", a.Type+"."+method, h.span, h.cause, h.began, err)
	}
}

// told returns the trace for the client, in the form of traceresponse, if it is recorded or the
// client has sent one. Otherwise it returns "".
func (h *hop) told() string {
	if h.span == h.cause || !h.span.Sampled() && h.cause.IsZero() {
		return ""
	}
	return h.span.String()
}

// endTrace records the request.
func (x *exchange) endTrace() {
	if x.span.Sampled() && x.g.tracer != nil {
		var err error
		if x.Code != "" {
			err = &host.Error{Code: x.Code}
		}
		x.g.tracer.EndRequest(x.about, "http",
			strings.TrimSuffix(x.R.Method+" "+x.about.Type+"."+x.name, "."), x.span, x.cause, x.Start, err)
	}
}

// EventSpan is a span that has ended. Data: a trace.Span.
const EventSpan = "span"

// traces answers with spans of the actor: stored ones as an OTLP document, or each span that ends
// from now on as a server-sent event.
func (x *exchange) traces(t *target) {
	x.Count(t.Type, serve.LabelBuiltin)
	ctx, cancel := x.limited()
	defer cancel()
	follows := x.g.follower != nil && strings.Contains(x.R.Header.Get("Accept"), "text/event-stream")
	fault := x.Authorize(ctx, serve.Operate, t.Address, host.TraceRead)
	var in trace.ReadInput
	life := x.R.Header.Get("Last-Event-ID")
	if fault == nil && follows {
		_, fault = x.tracesFollowed(&in)
		if e := host.CheckLife(life); fault == nil && e != nil {
			fault = e.With("field", "Last-Event-ID")
		}
	} else if fault == nil {
		fault = x.tracesWanted(&in)
	}
	if fault != nil {
		x.Fail(fault)
		return
	}
	if follows {
		x.followTraces(t, trace.FollowInput{TraceID: in.TraceID, Name: in.Name, Errors: in.Errors, Life: life})
		return
	}
	document, cursor, err := x.g.documents.TraceDocument(ctx, t.Address, &in)
	if err != nil {
		x.Fail(x.Front.AsError(err))
		return
	}
	if cursor != "" {
		x.W.Header().Set("Cairn-Cursor", cursor)
	}
	x.Document(http.StatusOK, document)
}

// tracesWanted reads the selection of spans from the parameters.
func (x *exchange) tracesWanted(in *trace.ReadInput) *host.Error {
	p, fault := x.tracesFollowed(in, "start", "end", "limit", "max_bytes", "cursor")
	if fault != nil {
		return fault
	}
	if fault := p.times(&in.Start, &in.End); fault != nil {
		return fault
	}
	in.Cursor, _ = p.one("cursor")
	if in.Limit, fault = p.number("limit", 1, trace.MaxPage); fault == nil {
		in.MaxBytes, fault = p.number("max_bytes", 1, trace.MaxBytes)
	}
	return fault
}

// tracesFollowed reads the selection of spans, except times. more are other allowed parameters.
func (x *exchange) tracesFollowed(in *trace.ReadInput, more ...string) (parameters, *host.Error) {
	p, fault := x.params(append(more, "trace_id", "name", "errors")...)
	if fault != nil {
		return nil, fault
	}
	in.TraceID, _ = p.one("trace_id")
	in.Name, _ = p.one("name")
	in.Errors, fault = p.flag("errors")
	return p, fault
}

// followTraces answers with server-sent events, one for each span as it ends. A slow client misses
// spans, and an event says how many. The id of the stream is the life of the actor, so a client
// that reconnects does not follow a successor.
func (x *exchange) followTraces(t *target, in trace.FollowInput) {
	s, fault := x.Front.Admit(x.R.Context(), serve.EventStream)
	if fault != nil {
		x.Fail(fault)
		return
	}
	defer s.Done()
	tail, err := x.g.follower.FollowTraces(s.Context(), t.Address, in)
	if err != nil {
		x.Fail(x.Front.AsError(err))
		return
	}
	defer tail.Close()
	out := x.stream()
	out.Buf = append(append(append(out.Buf, "id: "...), tail.Life()...), "\n\n"...)
	if out.Flush() != nil {
		return
	}
	grant := token.Of(x.R.Context())
	x.pump(s, out, func(ctx context.Context) error {
		for {
			var news trace.News
			if err := grant.While(ctx, func(ctx context.Context) (err error) {
				news, err = tail.Next(ctx)
				return err
			}); err != nil {
				return err
			}
			for i := range news.Spans {
				text, fault := x.encode(&news.Spans[i])
				if fault != nil {
					return fault
				}
				out.Buf = serve.AppendEvent(out.Buf, EventSpan, text)
				if err := out.FlushFull(); err != nil {
					return err
				}
			}
			if news.Missed > 0 {
				out.Buf = appendGapEvent(out.Buf, news.Missed, false, nil)
			}
			if err := out.Flush(); err != nil {
				return err
			}
			x.Front.Meter.Events.Add(float64(len(news.Spans)))
		}
	})
}

// times reads the parameters start and end.
func (p parameters) times(start, end **time.Time) *host.Error {
	for name, at := range map[string]**time.Time{"start": start, "end": end} {
		text, ok := p.one(name)
		if !ok {
			continue
		}
		when, err := time.Parse(time.RFC3339, text)
		if err != nil {
			return wrong(name, "the parameter %s is %.40q; it is a time such as 2026-01-31T09:30:00Z", name, text)
		}
		*at = &when
	}
	return nil
}

// findTrace answers GET /-/traces.
func (x *exchange) findTrace() {
	typ := x.R.URL.Query().Get("type")
	x.Count(typ, serve.LabelBuiltin)
	ctx, cancel := x.limited()
	defer cancel()
	fault := x.Authorize(ctx, serve.Operate, host.Address{Type: typ}, host.TraceRead)
	var p parameters
	if fault == nil {
		p, fault = x.params("trace", "type", "start", "end", "cursor")
	}
	q := trace.FindQuery{Type: typ}
	if fault == nil {
		fault = p.times(&q.Start, &q.End)
	}
	if fault != nil {
		x.Fail(fault)
		return
	}
	q.TraceID, _ = p.one("trace")
	q.Cursor, _ = p.one("cursor")
	page, err := x.g.finder.FindTrace(ctx, q)
	if err != nil {
		fault := x.Front.AsError(err)
		if fault.Metadata["field"] == "trace_id" { // the name in an actor's methods
			fault = fault.With("field", "trace")
		}
		x.Fail(fault)
		return
	}
	x.JSON(http.StatusOK, page)
}

// SampleTraces is the AuthRequest.Method of requests for the rules of recorded traces.
const SampleTraces = "trace.sample"

// sampling answers GET and PUT /-/traces/sampling.
func (x *exchange) sampling() {
	x.Count("", serve.LabelBuiltin)
	ctx, cancel := x.limited()
	defer cancel()
	fault := x.Authorize(ctx, serve.Operate, host.Address{}, SampleTraces)
	if fault == nil {
		_, fault = x.params()
	}
	var s trace.Sampling
	if fault == nil && x.R.Method == http.MethodPut {
		if fault = x.jsonBody(&s); fault == nil {
			var err error
			if s, err = x.g.sampler.SetSampling(ctx, s); err != nil {
				fault = x.Front.AsError(err)
			}
		}
	} else if fault == nil {
		s = x.g.sampler.Sampling()
	}
	if fault != nil {
		x.Fail(fault)
		return
	}
	x.JSON(http.StatusOK, s)
}

// jsonBody decodes a body, which may be empty.
func (x *exchange) jsonBody(v any) *host.Error {
	if codec, ok := x.codec(); !ok || codec != host.JSON {
		return host.Errorf(host.InvalidArgument, "the Content-Type %q is not application/json",
			x.R.Header.Get("Content-Type"))
	}
	body, fault := x.Body()
	defer x.FreeBody()
	if fault != nil || len(body) == 0 {
		return fault
	}
	if fault := serve.DecodeJSON(body, v); fault != nil {
		e := *fault
		e.Message = "the body: " + e.Message
		return &e
	}
	return nil
}
