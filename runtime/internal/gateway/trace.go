package gateway

import (
	"strings"

	"github.com/cairn-run/cairn/actor/host"
)

// beginTrace finds out which trace a request for an actor is part of, and tells the client, whatever the answer will be. What the
// request causes learns it from its context or from traceparent.
func (x *exchange) beginTrace(t *target) {
	if values := x.R.Header["Traceparent"]; len(values) == 1 {
		x.cause = host.ParseSpan(values[0])
	}
	x.span = x.cause
	if tracer := x.g.tracer; tracer != nil {
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

// endTrace records the request.
func (x *exchange) endTrace() {
	if x.span.Sampled() && x.g.tracer != nil {
		var err error
		if x.Code != "" {
			err = &host.Error{Code: x.Code}
		}
		x.g.tracer.EndRequest(x.about, strings.TrimSuffix(x.R.Method+" "+x.about.Type+"."+x.name, "."), x.span, x.cause, x.Start, err)
	}
}
