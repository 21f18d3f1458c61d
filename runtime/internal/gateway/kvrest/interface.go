package kvrest

import (
	"context"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime/internal/gateway/serve"
	"github.com/cairn-run/cairn/runtime/internal/timed"
)

// An Interface serves the actors of a node under some routes.
type Interface struct {
	// Call calls a method of an actor.
	Call func(context.Context, *host.Request) (host.Reply, error)
	// Operation returns the operation, for Authorize, of a method of an actor type.
	Operation func(typ, method string) serve.Operation
	// Routes are in the order in which they are tried.
	Routes []Route
	// Observe, if not nil, is called for each authorized request of a route with a name, with that
	// name and the error.
	Observe func(r *Request, operation string, err error)
	// Form converts errors, and Status returns their HTTP status.
	Form   func(*host.Error) any
	Status func(host.Code) int
}

// A Route answers one method of HTTP on some paths. It has an Answer or a Stream.
type Route struct {
	Verb string
	// Path has names between slashes. The segment "*" matches any one segment, and "**" at the end
	// one or more.
	Path string
	// Method is the built-in method of the first question to Authorize.
	Method string
	// Answer returns the answer, for JSON, or a Text. Its status is Status, or 200 if that is 0.
	Answer func(*Request) (any, error)
	Status int
	// Counted is the operation for Observe of requests with an Answer; "" means none.
	Counted string
	// Stream answers by itself, until the response ends. Its error is answered, unless the response
	// has begun.
	Stream func(*Request) error
	// Label is the label of a Stream in metrics.
	Label serve.Label
	// Effect: a GET changes something. So HEAD is refused, and pages of other sites need an allowed
	// Origin.
	Effect bool
}

// Text is an answer that is not JSON.
type Text struct{ Type, Body string }

// match returns the segments of a path that match the stars of the route.
func (rt *Route) match(path []string) (stars []string, ok bool) {
	rest := rt.Path
	for i := range path {
		want, more, goesOn := strings.Cut(rest, "/")
		switch {
		case want == "**":
			return append(stars, path[i:]...), true
		case want == "*":
			stars = append(stars, path[i])
		case want != path[i]:
			return nil, false
		}
		if rest = more; !goesOn {
			return stars, i == len(path)-1
		}
	}
	return nil, false
}

// A Request is one request for an actor.
type Request struct {
	*serve.Exchange
	Address host.Address
	// Stars are the segments of the path that match the stars of the route.
	Stars []string

	of      *Interface
	ctx     context.Context
	allowed []string // methods that Authorize has allowed
}

// Context bounds how long the node may take.
func (r *Request) Context() context.Context { return r.ctx }

// Request returns a request for an actor that is answered elsewhere. ctx bounds its calls.
func (in *Interface) Request(ctx context.Context, x *serve.Exchange, a host.Address) *Request {
	return &Request{Exchange: x, Address: a, of: in, ctx: ctx}
}

// Serve answers a request for a path of decoded segments.
func (in *Interface) Serve(x *serve.Exchange, a host.Address, path []string) {
	x.Form = in.Form
	x.Count(a.Type, serve.LabelBuiltin)
	rt, stars, verbs := in.find(x.R.Method, path)
	if rt == nil {
		x.Uncounted = len(verbs) == 0
		if len(verbs) == 0 {
			x.Fail(host.Errorf(host.NotFound, "there is nothing at this path"))
			return
		}
		verbs = append(verbs, http.MethodOptions)
		x.W.Header().Set("Allow", strings.Join(verbs, ", "))
		x.FailStatus(host.Errorf(host.InvalidArgument, "the method %s does not apply to this path",
			x.R.Method), http.StatusMethodNotAllowed)
		return
	}
	r := in.Request(x.R.Context(), x, a)
	r.Stars = stars
	if fault := serve.CheckSite(x.R); rt.Effect && fault != nil {
		r.fail(fault)
		return
	}
	if err := r.Allow(rt.Method); err != nil {
		r.fail(err)
		return
	}
	if rt.Stream != nil {
		x.Label = rt.Label
		if err := rt.Stream(r); err != nil {
			r.fail(err)
		}
		return
	}
	if d := x.Front.Limits.CallTimeout; d > 0 {
		c := timed.Until(r.ctx, time.Now().Add(d))
		defer c.Cancel()
		r.ctx = c
	}
	out, err := rt.Answer(r)
	if in.Observe != nil && rt.Counted != "" {
		in.Observe(r, rt.Counted, err)
	}
	if err != nil {
		r.fail(err)
		return
	}
	if text, is := out.(Text); is {
		h := x.W.Header()
		h.Set("Cache-Control", "no-store")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Content-Type", text.Type)
		x.Begin(http.StatusOK)
		io.WriteString(x.W, text.Body) // an error means that the client is gone
		return
	}
	body, err := encode(out)
	if err != nil {
		r.fail(err)
		return
	}
	x.Document(max(rt.Status, http.StatusOK), body)
}

// find returns the route of a request, or else the methods of its path.
func (in *Interface) find(verb string, path []string) (found *Route, stars, verbs []string) {
	for i := range in.Routes {
		rt := &in.Routes[i]
		stars, ok := rt.match(path)
		if !ok {
			continue
		}
		// net/http omits the body
		head := verb == http.MethodHead && rt.Verb == http.MethodGet && rt.Answer != nil && !rt.Effect
		if rt.Verb == verb || head {
			return rt, stars, nil
		}
		if !slices.Contains(verbs, rt.Verb) {
			verbs = append(verbs, rt.Verb)
		}
	}
	return nil, nil, verbs
}

// fail answers with an error.
func (r *Request) fail(err error) {
	e := r.Front.AsError(err)
	switch {
	case r.Began():
		r.Code = e.Code
	case e == errMedia:
		r.FailStatus(e, http.StatusUnsupportedMediaType)
	default:
		r.FailStatus(e, r.of.Status(e.Code))
	}
}

// Status returns the HTTP status of an error with the form {"error":text}.
func Status(c host.Code) int {
	switch c {
	case host.FailedPrecondition: // the types of a sum do not fit
		return http.StatusBadRequest
	case host.QuotaExceeded:
		return http.StatusRequestEntityTooLarge
	}
	return serve.Status(c)
}
