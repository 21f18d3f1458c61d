package gateway

import (
	"context"
	"io"
	"net/http"
	"strconv"

	"github.com/cairn-run/cairn/actor/host"
)

// call answers POST .../-/call/{method}.
func (x *exchange) call(t *target) {
	x.counts(t.Type, x.g.meter.method(t.Type, t.name))
	ctx, cancel := x.g.limited(x.r.Context(), t.name)
	defer cancel()
	op := x.g.operation(t.Type, t.name)
	if op == Call && (len(x.r.Header["If-None-Match"]) > 0 || x.label == labelCreate) { // a creation creates, whatever the headers say
		op = Create
	}
	q := &host.Request{Address: t.Address, Method: t.name}
	token := ""
	fault := x.authorize(ctx, op, t.Address, t.name)
	if fault == nil {
		fault = x.conditions(q)
	}
	if fault == nil {
		token, fault = x.connection()
	}
	if fault != nil {
		x.fail(fault)
		return
	}
	q.Veiled = x.g.veils(ctx, q, x.r.Header, x.r.RemoteAddr)
	if reply, ok := x.run(ctx, q, token); ok {
		x.reply(q.Codec, reply)
	}
}

// create answers PUT .../-/. A body is the input of the type's creation.
func (x *exchange) create(t *target) {
	x.counts(t.Type, labelCreate)
	ctx, cancel := x.limited()
	defer cancel()
	q := &host.Request{Address: t.Address, Create: true}
	method := ""
	if x.r.ContentLength != 0 {
		method = x.g.creations[t.Type]
	}
	fault := x.authorize(ctx, Create, t.Address, method)
	if fault == nil {
		fault = x.conditions(q)
	}
	if fault == nil && q.Existing {
		fault = wrong("If-Match", "If-Match contradicts an explicit create")
	}
	if fault == nil {
		q.Method, fault = x.creation(t)
	}
	if fault != nil {
		x.fail(fault)
		return
	}
	reply, ok := x.run(ctx, q, "")
	if !ok {
		return
	}
	h := x.w.Header()
	h.Set("Location", x.r.URL.EscapedPath())
	x.version(reply)
	st, err := x.g.node.Lookup(ctx, t.Address)
	if err != nil {
		// The actor was created and is gone again, or cannot be described just now. That it was created stays true.
		x.began = true
		x.w.WriteHeader(http.StatusCreated)
		return
	}
	x.json(http.StatusCreated, x.shown(ctx, st))
}

// creation names the creation that a PUT runs: "" without a body, so that the actor is created without input.
func (x *exchange) creation(t *target) (string, *host.Error) {
	if _, fault := x.params(); fault != nil || x.r.ContentLength == 0 {
		return "", fault
	}
	name, ok := x.g.creations[t.Type]
	if !ok {
		return "", host.Errorf(host.InvalidArgument, "actors of the type %q are created without input: send no body", t.Type)
	}
	return name, nil
}

// conditions reads the headers If-Match, If-None-Match, Idempotency-Key and Traceparent.
func (x *exchange) conditions(q *host.Request) *host.Error {
	h := x.r.Header
	if v := h["If-Match"]; len(v) > 0 {
		if len(v) > 1 || v[0] != "*" {
			return wrong("If-Match", `If-Match can only be "*": the actor must exist`)
		}
		q.Existing = true
	}
	if v := h["If-None-Match"]; len(v) > 0 {
		if len(v) > 1 || v[0] != "*" {
			return wrong("If-None-Match", `If-None-Match can only be "*": the actor must not exist`)
		}
		q.Create = true
	}
	if q.Create && q.Existing && len(h["If-None-Match"]) > 0 {
		return wrong("If-None-Match", "If-Match and If-None-Match contradict each other")
	}
	var fault *host.Error
	q.IdempotencyKey, fault = x.single("Idempotency-Key", MaxIdempotencyKey)
	q.Traceparent = x.traceparent()
	return fault
}

// single reads a header that may come once and, if it comes, has a value of at most so many bytes.
func (x *exchange) single(name string, most int) (string, *host.Error) {
	v := x.r.Header[name]
	switch {
	case len(v) == 0:
		return "", nil
	case len(v) > 1:
		return "", wrong(name, "there is more than one %s header", name)
	case v[0] == "":
		return "", wrong(name, "the %s header is empty", name)
	case len(v[0]) > most:
		return "", wrong(name, "the %s header is %d bytes long; the limit is %d", name, len(v[0]), most)
	}
	return v[0], nil
}

// maxConnectionToken bounds the Cairn-Connection header.
const maxConnectionToken = 1024

// connection reads the token of the connection that the request is made on behalf of, "" for none.
func (x *exchange) connection() (string, *host.Error) {
	return x.single("Cairn-Connection", maxConnectionToken)
}

// traceparent returns the request's trace context, or "" if there is none that is valid.
func (x *exchange) traceparent() string {
	if v := x.r.Header["Traceparent"]; len(v) == 1 && validTraceparent(v[0]) {
		return v[0]
	}
	return ""
}

// run reads the request's body and calls the node, over the connection that token belongs to unless that is "". On failure
// it answers and returns false.
func (x *exchange) run(ctx context.Context, q *host.Request, token string) (host.Reply, bool) {
	codec, ok := x.codec()
	if !ok {
		x.failStatus(host.Errorf(host.InvalidArgument,
			"the Content-Type %q is neither application/json nor application/cbor (with curl, use --json)",
			x.r.Header.Get("Content-Type")), http.StatusUnsupportedMediaType)
		return host.Reply{}, false
	}
	q.Codec = codec
	var fault *host.Error
	if q.Input, fault = x.body(); fault != nil {
		x.fail(fault)
		return host.Reply{}, false
	}
	var reply host.Reply
	var err error
	if token == "" {
		reply, err = x.g.node.Call(ctx, q)
	} else {
		reply, err = x.g.node.CallOver(ctx, token, q)
	}
	if err != nil {
		e := x.g.asError(err)
		if q.Create {
			e = about(e, "create", "If-None-Match")
		}
		x.fail(e)
		return host.Reply{}, false
	}
	return reply, true
}

// version sets the headers that say which state the reply reflects.
func (x *exchange) version(reply host.Reply) {
	h := x.w.Header()
	h["Cairn-Version"] = []string{strconv.FormatUint(reply.Version, 10)}
	if reply.Replayed {
		h["Idempotency-Replayed"] = x.g.values.yes
	}
}

// autoLength is up to where net/http finds out a reply's length by itself.
const autoLength = 2048

// reply answers a call with its output, or with 204 if there is none.
func (x *exchange) reply(c host.Codec, reply host.Reply) {
	x.version(reply)
	x.began = true
	if len(reply.Output) == 0 {
		x.w.WriteHeader(http.StatusNoContent)
		return
	}
	h := x.w.Header()
	kind, end := x.g.values.json, "\n" // for people who call with curl
	if c == host.CBOR {
		kind, end = x.g.values.cbor, ""
	}
	h["Content-Type"] = kind
	if n := len(reply.Output) + len(end); n >= autoLength {
		h["Content-Length"] = []string{strconv.Itoa(n)}
	}
	x.w.Write(reply.Output) // an error means that the client is gone, which needs no answer
	if end != "" {
		io.WriteString(x.w, end)
	}
}

// validTraceparent reports whether s is a W3C trace context: version 00, or a later one that begins alike.
func validTraceparent(s string) bool {
	const size = 55
	if len(s) < size || len(s) > 4*size || s[2] != '-' || s[35] != '-' || s[52] != '-' {
		return false
	}
	if len(s) > size && (s[:2] == "00" || s[size] != '-') {
		return false
	}
	return hex(s[:2], "ff") && hex(s[3:35], "00000000000000000000000000000000") && hex(s[36:52], "0000000000000000") &&
		hex(s[53:55], "")
}

// hex reports whether s is lower-case hexadecimal and not the one value that is reserved.
func hex(s, reserved string) bool {
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return s != reserved
}
