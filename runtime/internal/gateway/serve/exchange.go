package serve

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/audit"
)

// An Exchange is one request and its response. The gateway sets the front, W, R and Start, and
// defers Finish.
//
//  1. It is counted once, by its Type, Label and Code, unless it is Uncounted.
//  2. A response begins once, with Begin, Reply, JSON or Fail. A failure after that aborts the
//     response.
//  3. Finish gives back the memory of its body, and of a long response, if that is not done before.
type Exchange struct {
	Front *Front
	W     http.ResponseWriter
	R     *http.Request
	Start time.Time

	Type      *TypeMeter // nil for an unknown type
	Label     Label
	Code      host.Code // of the error, "" for success
	Uncounted bool
	Text      bool // errors are texts, not JSON
	// Form converts an error to the JSON of another product's interface; nil means no conversion.
	Form func(*host.Error) any
	// Token is the id of the request's actor token, "" for none.
	Token string

	origin      *audit.Origin // set by Identify
	reasonFault *host.Error

	began bool  // the response's status is sent
	held  int64 // of the front's memory
}

// Finish counts the request and turns a panic into an internal error. Callers defer it.
func (x *Exchange) Finish() {
	p := recover()
	if x.held > 0 {
		x.FreeBody()
	}
	if p != nil && p != http.ErrAbortHandler {
		e := x.Front.Panicked("request panicked", p)
		if x.began {
			x.Code, p = e.Code, http.ErrAbortHandler
		} else {
			x.Fail(e)
			p = nil
		}
	}
	if !x.Uncounted {
		x.Front.Meter.Count(cmp.Or(x.Type, x.Front.Meter.unknown), x.Label, x.Code, time.Since(x.Start))
	}
	if p != nil {
		panic(p)
	}
}

// Count sets the type and label of the request for metrics.
func (x *Exchange) Count(typ string, l Label) { x.Type, x.Label = x.Front.Meter.Type(typ), l }

// Authorize asks the hook whether the request is allowed. Routes call it before they read
// parameters, conditions or the body.
func (x *Exchange) Authorize(ctx context.Context, op Operation, a host.Address, method string) *host.Error {
	if x.Front.Authorize == nil {
		return x.reasonFault
	}
	return cmp.Or(x.Front.Allowed(ctx, AuthRequest{
		Operation: op, Type: a.Type, Key: a.Key, Method: method, Header: x.R.Header, RemoteAddr: x.R.RemoteAddr, Token: x.Token, origin: x.origin,
	}), x.reasonFault)
}

// Begin sends the status of a response. The caller sends the rest.
func (x *Exchange) Begin(status int) {
	x.began = true
	x.tell()
	x.W.WriteHeader(status)
}

// tell sets the trace header of the response if it is not set: to the client's trace, or a new one.
// Nothing of the trace is kept.
func (x *Exchange) tell() {
	h := x.W.Header()
	if h["Traceresponse"] == nil {
		s := x.Cause()
		s.Flags = 0
		h["Traceresponse"] = []string{s.Child().String()}
	}
}

// Cause returns the client's span in the request; the zero Span if there is none.
func (x *Exchange) Cause() host.Span {
	if values := x.R.Header["Traceparent"]; len(values) == 1 {
		return host.ParseSpan(values[0])
	}
	return host.Span{}
}

// Pass answers with h.
func (x *Exchange) Pass(h http.Handler) {
	x.began = true
	x.tell()
	h.ServeHTTP(x.W, x.R)
}

// Began reports whether the response's status is sent.
func (x *Exchange) Began() bool { return x.began }

// Fail answers with an error and its status.
func (x *Exchange) Fail(e *host.Error) { x.FailStatus(e, Status(e.Code)) }

// FailStatus answers with an error. If the response has begun, it aborts the response.
func (x *Exchange) FailStatus(e *host.Error, status int) {
	x.Code = e.Code
	if x.began {
		panic(http.ErrAbortHandler)
	}
	h := x.W.Header()
	switch status {
	case http.StatusUnauthorized:
		h.Set("WWW-Authenticate", `Bearer realm="cairn"`)
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		if e.Retryable {
			h.Set("Retry-After", retryAfter(e, time.Now()))
		}
	}
	switch {
	case x.Text:
		x.text(status, e)
	case x.Form != nil:
		x.JSON(status, x.Form(e))
	default:
		x.JSON(status, e)
	}
}

// Brief is the Form for errors of the form {"error":text}.
func Brief(e *host.Error) any { return map[string]string{"error": Message(e)} }

// Message returns the text of an error, with the id of its cause in the log.
func Message(e *host.Error) string {
	if id := e.Metadata["error_id"]; id != "" {
		return e.Message + " (error_id " + id + ")"
	}
	return e.Message
}

// text answers with the message of an error.
func (x *Exchange) text(status int, e *host.Error) {
	h := x.W.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Type", "text/plain; charset=utf-8")
	x.Begin(status)
	io.WriteString(x.W, Message(e)+"\n")
}

// JSON answers with v. It is not for the hot path.
func (x *Exchange) JSON(status int, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		x.Fail(x.Front.Internal("response does not encode", slog.Any("error", err)))
		return
	}
	x.Document(status, body)
}

// Document answers with a JSON document.
func (x *Exchange) Document(status int, body []byte) {
	h := x.W.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(body)+1))
	x.Begin(status)
	x.W.Write(append(body, '\n'))
}

// AllowMethods answers OPTIONS: a CORS preflight, or a request for the methods of a path. headers
// lists the headers that pages of allowed origins may send.
func (x *Exchange) AllowMethods(methods, headers string) {
	h := x.W.Header()
	if Preflight(x.R) && h.Get("Access-Control-Allow-Origin") != "" {
		h.Set("Access-Control-Allow-Methods", methods)
		h.Set("Access-Control-Allow-Headers", headers)
		h.Set("Access-Control-Max-Age", "600")
		if x.R.Header.Get("Access-Control-Request-Private-Network") == "true" {
			h.Set("Access-Control-Allow-Private-Network", "true")
		}
	}
	h.Set("Allow", methods)
	x.Begin(http.StatusNoContent)
}

// Body reads the request's body: nil if it is empty.
//
// The buffer is new for each request, not from a pool: after a call was given up, the turn may
// still read its input. A body of usual size costs one small allocation.
func (x *Exchange) Body() ([]byte, *host.Error) { return x.BodyUpTo(x.Front.Limits.BodyBytes) }

// KVBody is Body for requests that may carry entries of a key-value store.
func (x *Exchange) KVBody() ([]byte, *host.Error) {
	return x.BodyUpTo(max(x.Front.Limits.BodyBytes, KVBodyBytes))
}

// BodyUpTo is Body with another limit.
func (x *Exchange) BodyUpTo(limit int64) ([]byte, *host.Error) {
	n := x.R.ContentLength
	switch {
	case n == 0:
		return nil, nil
	case n > limit:
		// The rest is not read, so the connection cannot be reused.
		x.W.Header().Set("Connection", "close")
		return nil, TooLong("body", limit, n)
	}
	x.ReadDeadline(time.Now().Add(x.Front.Limits.BodyTimeout))
	var buf []byte
	var err error
	if n > 0 && n <= firstRead {
		buf = make([]byte, n)
		_, err = io.ReadFull(x.R.Body, buf)
	} else {
		b := bodyReader{Reader: http.MaxBytesReader(x.W, x.R.Body, limit), of: &x.Front.Memory}
		buf, err = io.ReadAll(&b)
		if x.held += b.held; b.full {
			x.W.Header().Set("Connection", "close")
			return nil, x.Front.Memory.crowded()
		}
	}
	if err == nil {
		x.ReadDeadline(time.Time{})
		return buf, nil
	}
	return nil, x.BodyFault(err, limit)
}

// Hold reserves memory for n bytes of a long response, until it ends.
func (x *Exchange) Hold(n int) *host.Error {
	if !x.Front.Memory.take(int64(n)) {
		return x.Front.Memory.crowded()
	}
	x.held += int64(n)
	return nil
}

// FreeBody gives back the memory of the body before the response ends.
func (x *Exchange) FreeBody() {
	x.Front.Memory.Add(-int(x.held))
	x.held = 0
}

// ReadDeadline bounds the reading of the body, if the connection supports that.
func (x *Exchange) ReadDeadline(at time.Time) {
	if c, ok := x.W.(interface{ SetReadDeadline(time.Time) error }); ok {
		c.SetReadDeadline(at)
		return
	}
	http.NewResponseController(x.W).SetReadDeadline(at)
}

// BodyFault returns the error for a body that could not be read because of err. The rest of the
// body is not read, so the connection ends. The read deadline stays, or net/http would wait for the
// rest without one.
func (x *Exchange) BodyFault(err error, limit int64) *host.Error {
	x.W.Header().Set("Connection", "close")
	tooBig := (*http.MaxBytesError)(nil)
	switch {
	case errors.As(err, &tooBig):
		return TooLong("body", limit, limit+1)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return host.Errorf(host.DeadlineExceeded, "the body took too long to arrive")
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return host.Errorf(host.Canceled, "the body ended early")
	}
	return host.Errorf(host.InvalidArgument, "the body cannot be read")
}

// TooLong returns the error for a body or message of at least actual bytes.
func TooLong(what string, limit, actual int64) *host.Error {
	e := host.OverLimit(what, limit, actual)
	e.Message = fmt.Sprintf("the %s is longer than %d bytes", what, limit)
	return e
}
