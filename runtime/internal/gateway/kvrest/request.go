package kvrest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"mime"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/token"
	"github.com/cairn-run/cairn/runtime/internal/gateway/serve"
)

// longReply is the size from which an answer counts against the memory for all clients.
const longReply = 64 << 10

// Allow asks Authorize about a method, once. An Answer must call it before it changes something and
// calls another method.
func (r *Request) Allow(method string) error {
	if slices.Contains(r.allowed, method) {
		return nil
	}
	if fault := r.Authorize(r.ctx, r.of.Operation(r.Address.Type, method), r.Address, method); fault != nil {
		return fault
	}
	r.allowed = append(r.allowed, method)
	return nil
}

// AllowRead returns an error if the token of the request lacks the right read. A change whose
// answer always shows the old state must call it before.
func (r *Request) AllowRead() error {
	if g := token.Of(r.ctx); g != nil {
		return g.Allow(token.Read)
	}
	return nil
}

// Do calls a method, and decodes its output into out.
func (r *Request) Do(method string, in, out any) error {
	return r.do(host.Request{Method: method}, in, out)
}

// DoExisting is Do, except that it fails with the code NotFound if there is no actor.
func (r *Request) DoExisting(method string, in, out any) error {
	return r.do(host.Request{Method: method, Existing: true}, in, out)
}

// DoOn is Do for a call that continues an earlier one: it does not create a destroyed actor again.
func (r *Request) DoOn(method string, in, out any) error {
	return r.do(host.Request{Method: method, Continues: true}, in, out)
}

// DoLater is DoOn, except that it continues after the client has left, for up to most.
func (r *Request) DoLater(most time.Duration, method string, in, out any) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.ctx), most)
	defer cancel()
	later := *r
	later.ctx = ctx
	return later.DoOn(method, in, out)
}

func (r *Request) do(q host.Request, in, out any) error {
	var err error
	q.Codec = host.JSON
	if q.Input, err = encode(in); err != nil {
		return r.internal("the input of a built-in method does not encode", q.Method, err)
	}
	reply, err := r.Send(&q)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(reply.Output, out); err != nil {
		return r.internal("the output of a built-in method does not decode", q.Method, err)
	}
	return nil
}

// Send calls a method of the actor with q, if Authorize allows it.
func (r *Request) Send(q *host.Request) (reply host.Reply, err error) {
	if err := r.Allow(q.Method); err != nil {
		return reply, err
	}
	q.Address = r.Address
	if reply, err = r.of.Call(r.ctx, q); err != nil {
		return reply, err
	}
	if n := len(reply.Output); n > longReply { // it is decoded, and encoded again, in memory
		if fault := r.Hold(2 * n); fault != nil {
			return reply, fault
		}
	}
	return reply, nil
}

func (r *Request) internal(what, method string, err error) error {
	return r.Front.Internal(what, slog.String("method", method), slog.Any("error", err))
}

// encode returns JSON. The documents in it lose only their white space.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

var errMedia = host.Errorf(host.InvalidArgument, "the Content-Type is not application/json (with curl, use --json)")

// Bytes returns the body, which must be JSON but is not checked; nil if there is none.
func (r *Request) Bytes() ([]byte, error) {
	if kind := r.R.Header.Get("Content-Type"); kind != "" {
		if media, _, err := mime.ParseMediaType(kind); err != nil || media != "application/json" {
			return nil, errMedia
		}
	}
	body, fault := r.KVBody()
	if fault != nil {
		return nil, fault
	}
	return body, nil
}

// Body decodes the body, an object with only members that v has.
func (r *Request) Body(v any) error {
	body, err := r.Bytes()
	if err != nil {
		return err
	}
	return Decode(body, v)
}

// Decode decodes an object with only members that v has.
func Decode(body []byte, v any) error {
	switch fault := serve.DecodeJSON(body, v); {
	case fault == serve.ErrNotJSON:
		return host.Errorf(host.InvalidArgument, "the body is not JSON")
	case fault != nil:
		return fault
	case len(body) > 0 && bytes.TrimLeft(body, " \t\r\n")[0] != '{':
		return host.Errorf(host.InvalidArgument, "the body is not an object")
	}
	return nil
}

// Params returns the parameters of the URL. Each may be given once.
func (r *Request) Params(known ...string) (map[string]string, error) {
	params := make(map[string]string)
	if r.R.URL.RawQuery == "" {
		return params, nil
	}
	values, err := url.ParseQuery(r.R.URL.RawQuery)
	if err != nil {
		return nil, host.Errorf(host.InvalidArgument, "the query of the URL is malformed")
	}
	for name, given := range values {
		switch {
		case !slices.Contains(known, name):
			if len(known) == 0 {
				known = []string{"none"}
			}
			return nil, Wrong(strings.ToValidUTF8(name, "\uFFFD"),
				"the parameter %.80q is not known here; known are: %s", name, strings.Join(known, ", "))
		case len(given) > 1:
			return nil, Wrong(name, "the parameter %s is given %d times; it takes one value", name, len(given))
		case !utf8.ValidString(given[0]):
			return nil, Wrong(name, "the parameter %s is not valid UTF-8", name)
		}
		params[name] = given[0]
	}
	return params, nil
}

// Wrong returns the error for a wrong parameter or member.
func Wrong(member, format string, args ...any) *host.Error {
	return host.Errorf(host.InvalidArgument, format, args...).With("field", member)
}

// Outside removes the position in a list from an error about an element, for a client whose request
// has no list.
func Outside(err error, list string) error {
	e, is := errors.AsType[*host.Error](err)
	if !is {
		return err
	}
	field, member := e.Metadata["field"], ""
	if rest, of := strings.CutPrefix(field, list+"["); of {
		_, member, _ = strings.Cut(rest, "]")
	}
	if member == "" {
		return err
	}
	member = strings.TrimPrefix(member, ".")
	out := e.With("field", member)
	if text, found := strings.CutPrefix(e.Message, field); found {
		out.Message = member + text
	}
	return out
}
