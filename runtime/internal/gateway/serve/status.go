package serve

import (
	"net/http"
	"strconv"
	"time"

	"github.com/coder/websocket"

	"github.com/cairn-run/cairn/actor/host"
)

// StatusClientClosedRequest answers a request whose client is gone. Only logs of proxies show it.
const StatusClientClosedRequest = 499

// Status returns the HTTP status of an error code. Requests that never reach the node may have
// another status with the code invalid_argument: 405 for a wrong HTTP method and 415 for a body
// that is neither JSON nor CBOR.
func Status(c host.Code) int {
	switch c {
	case host.InvalidArgument, host.ReadOnly:
		return http.StatusBadRequest
	case host.Unauthenticated:
		return http.StatusUnauthorized
	case host.PermissionDenied:
		return http.StatusForbidden
	case host.NotFound, host.UnknownType, host.UnknownMethod:
		return http.StatusNotFound
	case host.AlreadyExists, host.FailedPrecondition, host.Cycle:
		return http.StatusConflict
	case host.Destroyed:
		return http.StatusGone
	case host.TooLarge:
		return http.StatusRequestEntityTooLarge
	case host.IdempotencyMismatch:
		return http.StatusUnprocessableEntity
	case host.Overloaded:
		return http.StatusTooManyRequests
	case host.Canceled:
		return StatusClientClosedRequest
	case host.ActorFailed, host.ActorPaused, host.Unavailable:
		return http.StatusServiceUnavailable
	case host.DeadlineExceeded:
		return http.StatusGatewayTimeout
	case host.QuotaExceeded:
		return http.StatusInsufficientStorage
	case host.StateTooNew, host.Crashed, host.Internal:
		return http.StatusInternalServerError
	}
	return http.StatusInternalServerError
}

// CloseCode returns the code with which to close a WebSocket after an error, after the welcome or
// instead of it.
func CloseCode(e *host.Error, welcomed bool) websocket.StatusCode {
	switch e.Code {
	case host.Unavailable:
		return websocket.StatusGoingAway
	case host.Overloaded, host.ActorPaused, host.ActorFailed, host.DeadlineExceeded:
		return websocket.StatusTryAgainLater
	case host.TooLarge:
		return websocket.StatusMessageTooBig
	case host.Internal, host.Crashed, host.StateTooNew, host.ReadOnly:
		return websocket.StatusInternalError
	}
	if welcomed {
		return websocket.StatusNormalClosure
	}
	return websocket.StatusPolicyViolation
}

// maxRetryAfter bounds the Retry-After header.
const maxRetryAfter = time.Hour

// retryAfter returns the value of the Retry-After header, in whole seconds: the time until the
// error's retry_at, or its retry_after_ms, or else a second.
func retryAfter(e *host.Error, now time.Time) string {
	wait := time.Second
	if at, err := time.Parse(time.RFC3339, e.Metadata["retry_at"]); err == nil {
		wait = min(max(at.Sub(now), wait), maxRetryAfter)
	} else if ms, err := strconv.ParseUint(e.Metadata["retry_after_ms"], 10, 63); err == nil {
		wait = max(time.Duration(min(ms, uint64(maxRetryAfter.Milliseconds())))*time.Millisecond, wait)
	}
	return strconv.FormatInt(int64((wait+time.Second-1)/time.Second), 10)
}
