package serve

import (
	"net/http"

	"github.com/cairn-run/cairn/actor/host"
)

// StatusClientClosedRequest answers a request whose client has gone: nobody reads it, but logs of proxies show it.
const StatusClientClosedRequest = 499

// Status is the HTTP status of an error code. Requests that never reach the node may have a status of their own with
// the code invalid_argument: 405 for the wrong HTTP method and 415 for a body that is neither JSON nor CBOR.
func Status(c host.Code) int {
	switch c {
	case host.InvalidArgument:
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
	case host.ReadOnly, host.StateTooNew, host.Crashed, host.Internal:
		return http.StatusInternalServerError
	}
	return http.StatusInternalServerError
}
