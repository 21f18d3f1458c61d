package serve

import (
	"context"
	"errors"
	"net/http"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/audit"
)

// An Operation is what a request wants to do, as Authorize sees it.
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
	// Connect opens a connection to an actor, resumes or ends one. The calls that come over it are
	// asked about one by one; subscriptions are not, because the actor's own hooks decide on those.
	Connect Operation = "connect"
	// Work receives, settles and extends messages of a queue, as a worker.
	Work Operation = "work"
	// Follow reads a stream.
	Follow Operation = "follow"
	// Operate does what operators do, by calling a method that every actor has: it pauses, wakes or
	// retries an actor, looks at or removes messages and dead letters, sets schedules, closes
	// connections, reads and writes SQL where the type does not leave that to its callers, and so
	// on. OperationOf has the list. Exporting and importing databases belong here too, and listing
	// and counting the workflow runs that are paused or have failed: then Key is empty, and so is
	// Type if the runs of all types are meant.
	//
	// The records of one actor in the audit log are read with the method audit.read, those of
	// several with audit.list: then Key is the beginning of their keys, and both Type and Key are
	// empty for the records of all. So it is with changes.follow, for what changes in actors, and
	// with usage.get and usage.list.
	//
	// It is also asked about, beside another operation, where an answer shows operators more than
	// others: with the method actor.why for the status of an actor that has failed, with
	// workflow.history for workflow.status and workflow.result.
	Operate Operation = "operate"
	// Inspect reads an actor's raw keyspace.
	Inspect Operation = "inspect"
	// List pages through actors; Key is the prefix asked for.
	List Operation = "list"
	// Health, Metrics and OpenAPI are GET /healthz, GET /metrics and GET /openapi.json.
	Health  Operation = "health"
	Metrics Operation = "metrics"
	OpenAPI Operation = "openapi"
)

// An AuthRequest is what Authorize decides on. Its slices and maps are those of the request: they
// must not be changed or kept.
type AuthRequest struct {
	Operation Operation
	// Type and Key name the actor; both are empty for Health, Metrics and OpenAPI.
	Type string
	Key  []string
	// Method is the name of the action, query, creation or built-in method; ExportSQL or ImportSQL
	// for whole databases; ListRuns for lists of workflow runs, SampleTraces for what is recorded
	// of traces; "" if the request names none.
	Method string
	// Header is the request's. Of a call over a WebSocket it is the header of the handshake, in
	// which a token that came as a subprotocol stands as Authorization.
	Header http.Header
	// RemoteAddr is the address of the peer of the connection: of the last proxy, if there is one.
	RemoteAddr string
	// Token is the id of the actor's token that the request came with, as token.list shows it; ""
	// for none. The token is valid, and whatever Authorize says, the request may do only what the
	// token allows. A hook that lets tokens suffice returns nil for it.
	Token string

	origin *audit.Origin // where SetPrincipal puts the name; nil if it is not needed
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

// Veiled reports whether a caller must not read what operators read of an actor. It asks the hook
// Authorize about a method that shows the same to operators; r names the actor.
func (f *Front) Veiled(ctx context.Context, r AuthRequest, method string) bool {
	if f.Authorize == nil {
		return false
	}
	r.Operation, r.Method = Operate, method
	return f.Authorize(ctx, r) != nil
}
