package strata

import (
	"cmp"
	"net/http"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime/internal/gateway/kvrest"
	"github.com/cairn-run/cairn/runtime/internal/gateway/serve"
)

// name is the metadata key of an error's own name.
const name = "strata"

// named returns an error with its own name.
func named(as string, code host.Code, format string, args ...any) *host.Error {
	return host.Errorf(code, format, args...).With(name, as)
}

// invalid returns the error for a faulty member of a command.
func invalid(member, format string, args ...any) *host.Error {
	return host.Errorf(host.InvalidArgument, member+" "+format, args...).With("field", member)
}

// reasons are the names of a store's errors, by their reason.
var reasons = map[string]string{"history_trimmed": "HistoryTrimmed", "branch_not_found": "BranchNotFound"}

// nameOf returns the name of other errors. For an error without one, the client may retry.
func nameOf(c host.Code) string {
	switch c {
	case host.InvalidArgument:
		return "InvalidInput"
	case host.TooLarge, host.QuotaExceeded, host.Overloaded:
		return "CapacityExceeded"
	case host.NotFound, host.UnknownType, host.UnknownMethod, host.Destroyed:
		return "NotFound"
	case host.AlreadyExists:
		return "BranchExists"
	case host.FailedPrecondition:
		return "ConstraintViolation"
	case host.Unauthenticated, host.PermissionDenied:
		return "AccessDenied"
	case host.Internal, host.Crashed, host.ReadOnly, host.StateTooNew:
		return "Internal"
	}
	return "Unavailable"
}

// Form returns an error in the form for clients.
func Form(e *host.Error) any {
	type fault struct {
		Name     string `json:"name"`
		Message  string `json:"message"`
		Earliest string `json:"earliest,omitempty"` // known version, if the requested one is older
	}
	return map[string]fault{"error": {
		Name:    cmp.Or(e.Metadata[name], reasons[e.Metadata["reason"]], nameOf(e.Code)),
		Message: serve.Message(e), Earliest: e.Metadata["earliest"],
	}}
}

// status returns the HTTP status of an error.
func status(c host.Code) int {
	if c == host.FailedPrecondition {
		return http.StatusConflict
	}
	return kvrest.Status(c)
}
