package kvconnect

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fxamacker/cbor/v2"
	"github.com/google/uuid"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/kv"
	"github.com/cairn-run/cairn/runtime/internal/gateway/serve"
	"github.com/cairn-run/cairn/runtime/internal/timed"
)

// A Handler serves the actors of a node.
type Handler struct {
	// Call calls a method of an actor.
	Call func(context.Context, *host.Request) (host.Reply, error)
	// Watch follows entries of an actor.
	Watch func(context.Context, host.Address, kv.Watching) (kv.Watch, error)
	// Operation returns the operation, for Authorize, of a method of an actor type.
	Operation func(typ, method string) serve.Operation
}

// validity is how long a client uses the answer to a metadata exchange. The next answer has the
// same token, because the call of that exchange still uses the old one.
const validity = time.Hour

// longReply is the size from which an answer counts against the memory for all clients.
const longReply = 64 << 10

// maxMetadata bounds the body of a metadata exchange in bytes.
const maxMetadata = 4 << 10

// coalesced is the size of bodies that a client of Deno sends together with their header. It sends
// a longer body separately, and TCP delays that until the header is acknowledged. That takes 40 ms
// unless something is sent to the client.
const coalesced = 256

// Serve answers a POST to a database: the metadata exchange if operation is "", else an operation
// on its data.
func (h *Handler) Serve(x *serve.Exchange, a host.Address, operation string) {
	x.Count(a.Type, serve.LabelBuiltin)
	if operation == "watch" {
		x.Count(a.Type, serve.LabelWatch)
	}
	ctx := x.R.Context()
	if d := x.Front.Limits.CallTimeout; d > 0 {
		c := timed.Until(ctx, time.Now().Add(d))
		defer c.Cancel()
		ctx = c
	}
	method := host.KVListMany
	switch operation {
	case "atomic_write":
		method = host.KVCommit
	case "watch":
		method = host.KVWatch
	}
	if e := x.Authorize(ctx, h.Operation(a.Type, method), a, method); e != nil {
		fail(x, e, operation)
		return
	}
	s := &store{h, x, a}
	var run func(context.Context, []byte) ([]byte, error)
	kind := "application/x-protobuf"
	switch operation {
	case "":
		kind = "application/json" // without charset: the npm client compares it
		run = func(ctx context.Context, body []byte) ([]byte, error) {
			// A client that may not read gets the error now, not at its first read.
			if err := s.call(ctx, host.KVListMany, &kv.ListManyInput{Lists: []kv.ListInput{}},
				new(kv.ListManyOutput)); err != nil {
				return nil, err
			}
			return s.metadata(x.R, body, time.Now())
		}
	case "snapshot_read":
		run = s.snapshotRead
	case "atomic_write":
		run = s.atomicWrite
	case "watch": // lasts, and answers by itself
	default:
		fail(x, host.Errorf(host.NotFound, "there is no operation %.40q", operation), operation)
		return
	}
	if operation != "" {
		if err := s.checkHeader(x.R.Header); err != nil {
			fail(x, err, operation)
			return
		}
	}
	if n := x.R.ContentLength; x.R.ProtoMajor == 2 && (n < 0 || n > coalesced) {
		x.W.WriteHeader(http.StatusContinue)
	}
	read := x.KVBody
	switch operation {
	case "":
		read = func() ([]byte, *host.Error) { return x.BodyUpTo(maxMetadata) }
	case "watch":
		read = func() ([]byte, *host.Error) { return x.BodyUpTo(maxWatch) }
	}
	body, fault := read()
	if fault != nil {
		fail(x, fault, operation)
		return
	}
	if run == nil {
		s.watch(body)
		return
	}
	out, err := run(ctx, body)
	if err != nil {
		fail(x, x.Front.AsError(err), operation)
		return
	}
	header := x.W.Header()
	header.Set("Cache-Control", "no-store")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Content-Type", kind)
	header.Set("Content-Length", strconv.Itoa(len(out)))
	x.Begin(http.StatusOK)
	x.W.Write(out) // an error means that the client is gone
}

// fail answers with a text, and with a status that says whether the client must try again.
func fail(x *serve.Exchange, e *host.Error, operation string) {
	status := serve.Status(e.Code)
	switch e.Code {
	case host.FailedPrecondition: // the types of a sum do not fit
		status = http.StatusBadRequest
	case host.QuotaExceeded:
		status = http.StatusRequestEntityTooLarge
	case host.Overloaded:
		status = http.StatusServiceUnavailable
	case host.DeadlineExceeded:
		if operation == "atomic_write" { // it may be done, and must not be done twice
			status = http.StatusRequestTimeout
		}
	}
	x.FailStatus(e, status)
}

func refused(format string, args ...any) *host.Error {
	return host.Errorf(host.InvalidArgument, format, args...)
}

// within adds the element of a list to an error about it.
func within(err error, list string, i int) error {
	e, ok := errors.AsType[*host.Error](err)
	if !ok {
		return err
	}
	located := *e
	located.Message = fmt.Sprintf("%s[%d]: %s", list, i, e.Message)
	return &located
}

// encoding is the encoding of inputs.
var encoding = func() cbor.EncMode {
	m, err := cbor.EncOptions{Time: cbor.TimeRFC3339Nano, TimeTag: cbor.EncTagRequired}.EncMode()
	if err != nil {
		panic(err)
	}
	return m
}()

// A store is the store of one actor.
type store struct {
	*Handler
	x       *serve.Exchange
	address host.Address
}

// call calls a method, whose output is decoded into out.
func (s *store) call(ctx context.Context, method string, in, out any) error {
	input, err := encoding.Marshal(in)
	if err != nil {
		return err
	}
	reply, err := s.Call(ctx, &host.Request{Address: s.address, Method: method, Codec: host.CBOR, Input: input})
	if err != nil {
		return err
	}
	if n := len(reply.Output); n > longReply { // it is decoded, and encoded again, in memory
		if e := s.x.Hold(2 * n); e != nil {
			return e
		}
	}
	return cbor.Unmarshal(reply.Output, out)
}

// databases is the name space of the ids of databases.
var databases = uuid.MustParse("7a1f1d0e-3f0b-5b53-9c5e-0d6a6e0c1c1b")

// id returns the id of the database: the same for an address on each node and after each start.
func (s *store) id() string {
	name := []byte(s.address.Type)
	for _, part := range s.address.Key {
		name = append(append(name, 0), part...)
	}
	return uuid.NewSHA1(databases, name).String()
}

// checkHeader checks that a request has a known version, and the id of this database.
func (s *store) checkHeader(h http.Header) *host.Error {
	if v := h.Get("X-Denokv-Version"); v != "2" && v != "3" {
		return refused("the header x-denokv-version is %.40q; the versions 2 and 3 are known", v)
	}
	if id := h.Get("X-Denokv-Database-Id"); !strings.EqualFold(id, s.id()) {
		return refused("the header x-denokv-database-id is %.40q, which is not the id of this database", id)
	}
	return nil
}

// metadata answers a metadata exchange.
func (s *store) metadata(r *http.Request, body []byte, now time.Time) ([]byte, error) {
	in := struct {
		SupportedVersions []int `json:"supportedVersions"`
	}{[]int{1}} // for a client that does not send it
	if len(body) > 0 {
		in.SupportedVersions = nil
		if err := json.Unmarshal(body, &in); err != nil {
			return nil, refused(`the body is not {"supportedVersions":[numbers]}`)
		}
	}
	version := 3
	if !slices.Contains(in.SupportedVersions, version) {
		version = 2
	}
	if !slices.Contains(in.SupportedVersions, version) {
		return nil, refused("the client supports neither version 2 nor 3 of the protocol, which this node has")
	}
	type endpoint struct {
		URL         string `json:"url"`
		Consistency string `json:"consistency"`
	}
	return json.Marshal(struct {
		Version    int        `json:"version"`
		DatabaseID string     `json:"databaseId"`
		Endpoints  []endpoint `json:"endpoints"`
		Token      string     `json:"token"`
		ExpiresAt  string     `json:"expiresAt"`
	}{
		version, s.id(), []endpoint{{s.endpoint(r.URL), "strong"}}, credential(r.Header),
		now.Add(validity).UTC().Format("2006-01-02T15:04:05.000Z"),
	})
}

// credential returns the token of the request, which each later request must have. A node without
// tokens accepts any.
func credential(h http.Header) string {
	scheme, token, _ := strings.Cut(h.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "bearer") {
		token = ""
	}
	return cmp.Or(strings.TrimSpace(token), "none")
}

// endpoint returns the path of the database, relative to the URL of a request, which may be the
// short form. A relative path also works behind a proxy that adds a prefix.
func (s *store) endpoint(from *url.URL) string {
	var b strings.Builder
	for range strings.Count(from.EscapedPath(), "/") - 1 {
		b.WriteString("../")
	}
	b.WriteString("actors/" + segment(s.address.Type))
	for _, part := range s.address.Key {
		b.WriteString("/" + segment(part))
	}
	return b.String() + "/-/kv"
}

// segment escapes a part of a key as a segment of a path.
func segment(part string) string {
	if part == "" || part == "." || part == ".." || part == "-" || part[0] == '~' {
		part = "~" + part
	}
	return url.PathEscape(part)
}
