package strata

import (
	"cmp"
	"net/http"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime/internal/gateway/kvrest"
	"github.com/cairn-run/cairn/runtime/internal/gateway/serve"
)

// name is in the metadata of errors that have a name of their own.
const name = "strata"

// named is an error with a name of its own.
func named(as string, code host.Code, format string, args ...any) *host.Error {
	return host.Errorf(code, format, args...).With(name, as)
}

// invalid is the error for what a command says of one of its members.
func invalid(member, format string, args ...any) *host.Error {
	return host.Errorf(host.InvalidArgument, member+" "+format, args...).With("field", member)
}

// reasons are the names of errors that a store gives a reason for.
var reasons = map[string]string{"history_trimmed": "HistoryTrimmed", "branch_not_found": "BranchNotFound"}

// nameOf is the name of other errors. For one that has none, the client may come back.
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

// Form is an error as clients see it.
func Form(e *host.Error) any {
	type fault struct {
		Name     string `json:"name"`
		Message  string `json:"message"`
		Earliest string `json:"earliest,omitempty"` // version that is known, if an earlier one is not
	}
	return map[string]fault{"error": {
		Name:    cmp.Or(e.Metadata[name], reasons[e.Metadata["reason"]], nameOf(e.Code)),
		Message: serve.Message(e), Earliest: e.Metadata["earliest"],
	}}
}

// status is the HTTP status of an error.
func status(c host.Code) int {
	if c == host.FailedPrecondition {
		return http.StatusConflict
	}
	return kvrest.Status(c)
}
