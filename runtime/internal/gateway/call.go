package gateway

import (
	"context"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime/internal/gateway/serve"
)

// call answers POST .../-/call/{method}.
func (x *exchange) call(t *target) {
	x.Type = x.Front.Meter.Type(t.Type)
	x.Label = x.Type.Kind(t.name)
	ctx, cancel := x.g.limited(x.R.Context(), t.name)
	defer cancel()
	op := x.g.operation(t.Type, t.name)
	if op == serve.Call && (len(x.R.Header["If-None-Match"]) > 0 || x.Label == serve.LabelCreate) { // a creation creates, whatever the headers say
		op = serve.Create
	}
	q := &host.Request{Address: t.Address, Method: t.name}
	token := ""
	fault := x.Authorize(ctx, op, t.Address, t.name)
	if fault == nil {
		fault = x.conditions(q)
	}
	if fault == nil {
		token, fault = x.single("Cairn-Connection", maxConnectionToken)
	}
	if fault != nil {
		x.Fail(fault)
		return
	}
	q.Veiled = x.g.veils(ctx, q, x.R.Header, x.R.RemoteAddr)
	if reply, ok := x.run(ctx, q, token); ok {
		x.reply(q.Codec, reply.Output)
	}
}

// create answers PUT .../-/. The body, if any, is the input of the type's creation.
func (x *exchange) create(t *target) {
	x.Count(t.Type, serve.LabelCreate)
	ctx, cancel := x.limited()
	defer cancel()
	q := &host.Request{Address: t.Address, Create: true}
	method := ""
	if x.R.ContentLength != 0 {
		method = x.g.creations[t.Type]
	}
	fault := x.Authorize(ctx, serve.Create, t.Address, method)
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
		x.Fail(fault)
		return
	}
	if _, ok := x.run(ctx, q, ""); !ok {
		return
	}
	x.W.Header().Set("Location", x.R.URL.EscapedPath())
	st, err := x.g.node.Lookup(ctx, t.Address)
	if err != nil {
		// The actor was created, but is gone again or cannot be described now.
		x.Begin(http.StatusCreated)
		return
	}
	x.JSON(http.StatusCreated, x.shown(ctx, st))
}

// creation returns the name of the creation that a PUT runs. It is "" without a body, which creates
// the actor without input.
func (x *exchange) creation(t *target) (string, *host.Error) {
	if _, fault := x.params(); fault != nil || x.R.ContentLength == 0 {
		return "", fault
	}
	name, ok := x.g.creations[t.Type]
	if !ok {
		return "", host.Errorf(host.InvalidArgument,
			"actors of the type %q are created without input: send no body", t.Type)
	}
	return name, nil
}

// conditions reads the headers If-Match, If-None-Match and Idempotency-Key.
func (x *exchange) conditions(q *host.Request) *host.Error {
	h := x.R.Header
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
	q.Traceparent = x.traceparent
	return fault
}

// single reads a header that may be given once, with a value of up to most bytes.
func (x *exchange) single(name string, most int) (string, *host.Error) {
	v := x.R.Header[name]
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

// MaxIdempotencyKey bounds the Idempotency-Key header.
const MaxIdempotencyKey = 255

// codec returns the encoding of input and output by the Content-Type: JSON unless it is CBOR. For a
// request without a body, any Content-Type is allowed.
func (x *exchange) codec() (host.Codec, bool) {
	v := x.R.Header["Content-Type"]
	if len(v) == 0 {
		return host.JSON, true
	}
	switch v[0] {
	case "", "application/json":
		return host.JSON, true
	case "application/cbor":
		return host.CBOR, true
	}
	media, params, err := mime.ParseMediaType(v[0])
	charset := params["charset"]
	switch {
	case x.R.ContentLength == 0:
		return host.JSON, true
	case err != nil:
	case media == "application/cbor":
		return host.CBOR, true
	case media == "application/json" && (charset == "" || strings.EqualFold(charset, "utf-8")):
		return host.JSON, true
	}
	return 0, false
}

// run reads the request's body and calls the node, over the connection of token unless that is "".
// It sets the headers of the reply, such as the version. On failure it answers and returns false.
func (x *exchange) run(ctx context.Context, q *host.Request, token string) (host.Reply, bool) {
	codec, ok := x.codec()
	if !ok {
		x.FailStatus(host.Errorf(host.InvalidArgument,
			"the Content-Type %q is neither application/json nor application/cbor (with curl, use --json)",
			x.R.Header.Get("Content-Type")), http.StatusUnsupportedMediaType)
		return host.Reply{}, false
	}
	q.Codec = codec
	read := x.Body
	if x.g.open[q.Address.Type]&host.KVOpen != 0 || strings.HasPrefix(q.Method, "kv.") {
		read = x.KVBody
	}
	var fault *host.Error
	if q.Input, fault = read(); fault != nil {
		x.Fail(fault)
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
		e := x.Front.AsError(err)
		if q.Create {
			e = about(e, "create", "If-None-Match")
		}
		x.Fail(e)
		return host.Reply{}, false
	}
	h := x.W.Header()
	if reply.Version != 0 { // methods outside the actor have none
		h["Cairn-Version"] = []string{strconv.FormatUint(reply.Version, 10)}
	}
	if reply.Replayed {
		h["Idempotency-Replayed"] = x.g.values.yes
	}
	return reply, true
}

// autoLength is the size up to which net/http sets a reply's length by itself.
const autoLength = 2048

// reply answers a call with its output, or with 204 if there is none.
func (x *exchange) reply(c host.Codec, output []byte) {
	if len(output) == 0 {
		x.Begin(http.StatusNoContent)
		return
	}
	h := x.W.Header()
	kind, end := x.g.values.json, "\n" // for curl, so that its output ends with a newline
	if c == host.CBOR {
		kind, end = x.g.values.cbor, ""
	}
	h["Content-Type"] = kind
	if n := len(output) + len(end); n >= autoLength {
		h["Content-Length"] = []string{strconv.Itoa(n)}
	}
	x.Begin(http.StatusOK)
	x.W.Write(output) // an error means that the client is gone
	if end != "" {
		io.WriteString(x.W, end)
	}
}

// veils reports whether the answer to a call must omit information for operators.
func (g *Gateway) veils(ctx context.Context, q *host.Request, h http.Header, remote string) bool {
	switch q.Method {
	case host.WorkflowStatus, host.WorkflowResult:
		return g.front.Veiled(ctx,
			serve.AuthRequest{Type: q.Type, Key: q.Key, Header: h, RemoteAddr: remote}, host.WorkflowHistory)
	}
	return false
}
