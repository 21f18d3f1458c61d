package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/cairn-run/cairn/actor/host"
)

// A failure is the error of one attempt.
type failure struct {
	err *host.Error
	// nothing means that the attempt did nothing at the node, lost that its outcome is unknown. If
	// both are false, the node's answer is final.
	nothing, lost bool
	// after is how long the node asks to wait.
	after time.Duration
}

// sendFailure returns the failure of a request without a complete response.
func sendFailure(ctx context.Context, err error) *failure {
	switch {
	case ctx.Err() != nil:
		return &failure{err: contextError(ctx)}
	case notSent(err):
		return &failure{err: host.Errorf(host.Unavailable, "the node cannot be reached: %v", err).
			Retry(), nothing: true}
	}
	return &failure{err: host.Errorf(host.Unavailable, "the connection to the node was lost: %v", err), lost: true}
}

// notSent reports whether err says that there was no connection.
func notSent(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// contextError returns the error of a context that ended.
func contextError(ctx context.Context) *host.Error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return host.Errorf(host.DeadlineExceeded, "the caller's deadline passed")
	}
	return host.Errorf(host.Canceled, "the caller gave up")
}

// answerFailure returns the failure of a response with an error status.
func answerFailure(status int, h http.Header, body []byte) *failure {
	f := &failure{}
	if s, err := strconv.Atoi(h.Get("Retry-After")); err == nil && s > 0 {
		f.after = time.Duration(s) * time.Second
	}
	e := new(host.Error)
	if json.Unmarshal(body, e) == nil && e.Code.Known() {
		f.err, f.nothing = e, e.Retryable
		return f
	}
	// The answer is from a proxy or a server at a wrong base URL, not from a node. Its 404 must not
	// look like a missing actor.
	code := host.Internal
	switch status {
	case http.StatusUnauthorized:
		code = host.Unauthenticated
	case http.StatusForbidden:
		code = host.PermissionDenied
	case http.StatusRequestEntityTooLarge:
		code = host.InvalidArgument // TooLarge needs a limit, and this answer names none
	case http.StatusTooManyRequests:
		code, f.nothing = host.Overloaded, true
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		code, f.lost = host.Unavailable, true
	}
	f.err = host.Errorf(code, "HTTP status %d and no error of Cairn: %s", status, excerpt(body)).
		With("http_status", strconv.Itoa(status))
	f.err.Retryable = f.nothing
	return f
}

// excerpt returns the beginning of a body, for a message.
func excerpt(body []byte) string {
	const most = 120
	body = bytes.TrimSpace(body)
	if len(body) > most {
		return fmt.Sprintf("%q...", body[:most])
	}
	return fmt.Sprintf("%q", body)
}
