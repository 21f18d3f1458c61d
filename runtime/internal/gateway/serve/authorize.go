package serve

import (
	"context"
	"errors"
	"net/http"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/audit"
)

// An Operation is the kind of a request, for Authorize.
type Operation string

// The operations.
const (
	// Call runs an action or query; it creates a missing actor unless the request forbids that.
	Call Operation = "call"
	// Create creates an actor explicitly, with the creation or first action that Method names, if
	// any.
	Create Operation = "create"
	// Read describes an actor.
	Read Operation = "read"
	// Destroy removes an actor and all its data.
	Destroy Operation = "destroy"
	// Events subscribes to an actor's events.
	Events Operation = "events"
	// Connect opens, resumes or ends a connection to an actor. Authorize is also asked about each
	// call over it, but not about subscriptions, because the actor's own hooks decide on those.
	Connect Operation = "connect"
	// Work receives, settles and extends messages of a queue, as a worker.
	Work Operation = "work"
	// Follow reads a stream.
	Follow Operation = "follow"
	// Operate is the work of operators, by calling a built-in method: to pause, wake or retry an
	// actor, to list or remove messages and dead letters, to set schedules, to close connections,
	// to read and write SQL unless the type opens that to its callers, and so on. OperationOf has
	// the list. Operate also exports and imports databases, and lists and counts the workflow runs
	// that are paused or have failed. Then Key is empty, and so is Type for the runs of all types.
	//
	// In the audit log, the method audit.read reads the records of one actor, and audit.list the
	// records of several. For audit.list, Key is the beginning of their keys, and both Type and Key
	// are empty for all records. The same is true of changes.follow, for changes in actors, and of
	// usage.get and usage.list.
	//
	// If an answer shows more to operators than to others, Authorize is asked about Operate in
	// addition to another operation: with the method actor.why for the status of a failed actor,
	// and with workflow.history for workflow.status and workflow.result.
	Operate Operation = "operate"
	// Inspect reads an actor's raw keyspace.
	Inspect Operation = "inspect"
	// List pages through actors; Key is the requested prefix.
	List Operation = "list"
	// Health, Metrics and OpenAPI are GET /healthz, GET /metrics and GET /openapi.json.
	Health  Operation = "health"
	Metrics Operation = "metrics"
	OpenAPI Operation = "openapi"
)

// An AuthRequest is a request that Authorize allows or refuses. Its slices and maps belong to the
// request and must not be changed or kept.
type AuthRequest struct {
	Operation Operation
	// Type and Key name the actor; both are empty for Health, Metrics and OpenAPI.
	Type string
	Key  []string
	// Method is the name of the action, query, creation or built-in method; ExportSQL or ImportSQL
	// for whole databases; ListRuns for lists of workflow runs; SampleTraces for the rules of
	// recorded traces; "" if the request names none.
	Method string
	// Header is the request's header. For a call over a WebSocket it is the header of the
	// handshake, where a token from a subprotocol appears as Authorization.
	Header http.Header
	// RemoteAddr is the address of the peer of the connection: of the last proxy, if there is one.
	RemoteAddr string
	// Token is the id of the request's actor token, as in token.list; "" for none. The token is
	// valid. Regardless of Authorize, the request may do only what the token allows. A hook for
	// which a token is enough returns nil.
	Token string

	origin *audit.Origin // SetPrincipal sets its name; nil if that is not needed
}

// Allowed asks the hook Authorize.
func (f *Front) Allowed(ctx context.Context, r AuthRequest) *host.Error {
	if f.Authorize == nil {
		return nil
	}
	err := f.Authorize(ctx, r)
	if err == nil {
		return nil
	}
	var e *host.Error
	if errors.As(err, &e) {
		return e
	}
	f.Logger.Warn("request not authorized", "operation", string(r.Operation), "actor_type", r.Type, "error", err)
	return host.Errorf(host.PermissionDenied, "not allowed")
}

// Veiled reports whether a caller must not read the details of an actor that are for operators. It
// asks the hook Authorize about a method that shows them to operators; r names the actor.
func (f *Front) Veiled(ctx context.Context, r AuthRequest, method string) bool {
	if f.Authorize == nil {
		return false
	}
	r.Operation, r.Method = Operate, method
	return f.Authorize(ctx, r) != nil
}
