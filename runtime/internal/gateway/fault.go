package gateway

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime/internal/gateway/serve"
)

// maxRetryAfter bounds the Retry-After header.
const maxRetryAfter = time.Hour

// retryAfter is the value of the Retry-After header, in whole seconds: until the error's retry_at or for its
// retry_after_ms if it has one of them, a second otherwise.
func retryAfter(e *host.Error, now time.Time) string {
	wait := time.Second
	if at, err := time.Parse(time.RFC3339, e.Metadata["retry_at"]); err == nil {
		wait = min(max(at.Sub(now), wait), maxRetryAfter)
	} else if ms, err := strconv.ParseUint(e.Metadata["retry_after_ms"], 10, 63); err == nil {
		wait = max(time.Duration(min(ms, uint64(maxRetryAfter.Milliseconds())))*time.Millisecond, wait)
	}
	return strconv.FormatInt(int64((wait+time.Second-1)/time.Second), 10)
}

// asError gives err the form that may leave the node. What has no code is logged under an id that the caller sees.
func (g *Gateway) asError(err error) *host.Error {
	var e *host.Error
	if errors.As(err, &e) {
		return e
	}
	switch c := host.CodeOf(err); c {
	case host.Canceled:
		return host.Errorf(c, "the caller gave up")
	case host.DeadlineExceeded:
		return host.Errorf(c, "the call took longer than it may")
	}
	return g.internal("request failed", slog.Any("error", err))
}

// internal logs what went wrong under a fresh id and returns an error that tells no more than this id.
func (g *Gateway) internal(message string, attrs ...any) *host.Error {
	id := rand.Text()
	g.log.With(attrs...).Error(message, "error_id", id)
	return host.Errorf(host.Internal, "internal error").With("error_id", id)
}

// fail answers with an error and its status.
func (x *exchange) fail(e *host.Error) { x.failStatus(e, serve.Status(e.Code)) }

// failStatus answers with an error. If the response has begun there is nothing left to say, and it is cut off.
func (x *exchange) failStatus(e *host.Error, status int) {
	x.code = e.Code
	if x.began {
		panic(http.ErrAbortHandler)
	}
	h := x.w.Header()
	switch status {
	case http.StatusUnauthorized:
		h.Set("WWW-Authenticate", `Bearer realm="cairn"`)
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		if e.Retryable {
			h.Set("Retry-After", retryAfter(e, time.Now()))
		}
	}
	x.json(status, e)
}

// json answers with v. It is not for the hot path.
func (x *exchange) json(status int, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		x.fail(x.g.internal("response does not encode", slog.Any("error", err)))
		return
	}
	h := x.w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(body)+1))
	x.began = true
	x.w.WriteHeader(status)
	x.w.Write(append(body, '\n'))
}
