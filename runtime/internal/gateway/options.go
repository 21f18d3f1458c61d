package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cairn-run/cairn/actor/host"
)

// The defaults of Limits, and what Server sets beyond them.
const (
	DefaultBodyBytes          = 1 << 20
	DefaultCallTimeout        = 60 * time.Second
	DefaultBodyTimeout        = 30 * time.Second
	DefaultImportBytes        = 1 << 30
	DefaultStreams            = 10_000
	DefaultConnections        = 20_000
	DefaultConnectionCalls    = 64
	DefaultConnectionBytes    = 4 << 20
	DefaultMemoryBytes        = 256 << 20
	DefaultStreamWriteTimeout = 10 * time.Second
	DefaultStreamBufferBytes  = 64 << 10
	DefaultHeartbeat          = 15 * time.Second

	// ReadHeaderTimeout is how long a client may take to send a request's header.
	ReadHeaderTimeout = 10 * time.Second
	// IdleTimeout is how long an unused connection is kept.
	IdleTimeout = 2 * time.Minute
	// ReplyTimeout is how long a client may take to read a reply, after the time that the call itself may take.
	ReplyTimeout = 30 * time.Second
	// MaxHeaderBytes bounds a request's header, the path included.
	MaxHeaderBytes = 64 << 10
	// MaxIdempotencyKey bounds the Idempotency-Key header.
	MaxIdempotencyKey = 255
	// ConnectTimeout is how long a WebSocket may take to send its first message, which connects.
	ConnectTimeout = 10 * time.Second
)

// A Node is what a gateway serves.
type Node interface {
	host.Node
	host.EventSource
	host.Inspector
	host.Connector
}

// An Operation is what a request wants to do, as Authorize sees it.
type Operation string

// The operations.
const (
	// Call runs an action or query; it creates a missing actor unless the request forbids that.
	Call Operation = "call"
	// Create creates an actor explicitly, with the creation or first action that Method names, if any.
	Create Operation = "create"
	// Read describes an actor.
	Read Operation = "read"
	// Destroy removes an actor and all its data.
	Destroy Operation = "destroy"
	// Events subscribes to an actor's events.
	Events Operation = "events"
	// Connect opens a connection to an actor, resumes or ends one. The calls that come over it are asked about one by one;
	// subscriptions are not, because the actor's own hooks decide on those.
	Connect Operation = "connect"
	// Work receives, settles and extends messages of a queue, as a worker.
	Work Operation = "work"
	// Follow reads a stream.
	Follow Operation = "follow"
	// Operate does what operators do, by calling a method that every actor has: it pauses, wakes or retries an actor, looks
	// at or removes messages and dead letters, sets schedules, closes connections, reads and writes SQL where the type does
	// not leave that to its callers, and so on. OperationOf has the list. Exporting and importing databases belong here too, and
	// listing and counting the workflow runs that are paused or have failed: then Key is empty, and so is Type if the runs of
	// all types are meant.
	//
	// It is also asked about, beside another operation, where an answer shows operators more than others: with the method
	// actor.why for the status of an actor that has failed, with workflow.history for workflow.status and workflow.result.
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

// An AuthRequest is what Authorize decides on. Its slices and maps are those of the request: they must not be changed
// or kept.
type AuthRequest struct {
	Operation Operation
	// Type and Key name the actor; both are empty for Health, Metrics and OpenAPI.
	Type string
	Key  []string
	// Method is the name of the action, query, creation or built-in method; ExportSQL or ImportSQL for whole databases;
	// ListRuns for lists of workflow runs; "" if the request names none.
	Method string
	// Header is the request's. Of a call over a WebSocket it is the header of the handshake, in which a token that came as
	// a subprotocol stands as Authorization.
	Header http.Header
	// RemoteAddr is the address of the peer of the connection: of the last proxy, if there is one.
	RemoteAddr string
}

// Limits bound what one client can take. A zero field means its default.
type Limits struct {
	// BodyBytes bounds the body of a request: 1 MiB by default.
	BodyBytes int64
	// BodyTimeout is how long a client may take to send a body: 30 s by default.
	BodyTimeout time.Duration
	// ImportBytes bounds a database that is imported: 1 GiB by default. It may take as long as it likes to arrive, but
	// BodyTimeout for every 256 KiB of it.
	ImportBytes int64
	// CallTimeout ends a request's context, and so the waiting for a reply: 60 s by default, negative for never. The turn
	// itself has a limit of its own, which the actor type sets. Built-in methods that wait for something may take a minute
	// longer, which is the longest that they can be asked to wait.
	CallTimeout time.Duration
	// Streams bounds what is open at a time of event streams, streams that are followed and workers that listen: 10,000 by
	// default.
	Streams int
	// Connections bounds the connections to actors that are open at a time, over WebSockets and as event streams: 20,000 by
	// default.
	Connections int
	// ConnectionCalls bounds the calls that one WebSocket has in flight, and the streams that it follows: 64 of each by
	// default.
	ConnectionCalls int
	// ConnectionBytes bounds what waits to be written to one WebSocket: 4 MiB by default. A client that lets more pile up is
	// closed as too slow. One message may be longer.
	ConnectionBytes int
	// MemoryBytes bounds what is kept for all clients together: 256 MiB by default, of bodies and WebSocket messages
	// beyond 64 KiB, until they are answered, and of what waits to be written to WebSockets. Beyond it a long body is refused as
	// overloaded, and a WebSocket that sends a long message, or whose client lets more than StreamBufferBytes pile up, is
	// closed. Its client may come back.
	MemoryBytes int64
	// StreamWriteTimeout is how long a client may take to accept what is written to its stream or WebSocket before that is
	// closed: 10 s by default.
	StreamWriteTimeout time.Duration
	// StreamBufferBytes is how much of a stream is put together before it is written: 64 KiB by default. One event may be
	// longer.
	StreamBufferBytes int
	// Heartbeat is the time between the comments that keep an event stream alive, and between the pings of a WebSocket:
	// 15 s by default. A WebSocket from which nothing comes for two of them is lost.
	Heartbeat time.Duration
}

// Options configure a Gateway. Only Node is required.
type Options struct {
	// Node answers the requests.
	Node Node
	// Databases gives out and takes in the actors' SQLite databases. Nil means Node if it is one, and otherwise that there is
	// nothing at their paths.
	Databases host.Databases
	// Runs finds the workflow runs that are paused or have failed. Nil means Node if it does, and otherwise that there is
	// nothing at their paths.
	Runs host.RunLister
	// Behaviors are the actor types of the node. They name the types and methods that appear in metrics (all others are
	// counted as "unknown"), the creation that a PUT with a body means, and the types whose callers may use SQL. Nil names
	// none.
	Behaviors []*host.Behavior
	// Authorize is asked about every request except CORS preflights, after the token. An *host.Error is passed on to the
	// client, any other error becomes permission_denied without details. Nil allows all.
	Authorize func(context.Context, AuthRequest) error
	// Token, if not "", is demanded of every request except GET /healthz, as "Authorization: Bearer <token>".
	Token string
	// AllowedOrigins are the web origins, such as "https://app.example.com", whose pages may use the gateway from a
	// browser, besides pages that the gateway's own host serves. "*" stands for all and demands a Token or Authorize.
	AllowedOrigins []string
	// LoopbackOnly says that the node listens on loopback only. Without a Token, requests are then accepted only if their
	// Host header is a loopback address or localhost, so that a web page cannot reach the node by pointing a name of its own
	// at 127.0.0.1. Authorize does not replace that check: such a page looks to it like a program on this machine.
	LoopbackOnly bool
	Limits       Limits
	// Gatherer is what GET /metrics shows, Registerer is where the gateway registers its own metrics. With both nil the
	// gateway shows its own. A Registerer that is also a Gatherer, such as a *prometheus.Registry, needs no Gatherer.
	Gatherer   prometheus.Gatherer
	Registerer prometheus.Registerer
	// Health says why the node cannot serve, or nil. The message of an *host.Error is shown to callers of GET /healthz,
	// other errors only in the log. A nil Health is always well.
	Health func() error
	// Logger takes panics and errors without a code. Nil discards them.
	Logger *slog.Logger
}

// EnsureDefaults returns o with its zero fields replaced by the defaults.
func (o Options) EnsureDefaults() Options {
	l := &o.Limits
	setDefault(&l.BodyBytes, DefaultBodyBytes)
	setDefault(&l.BodyTimeout, DefaultBodyTimeout)
	setDefault(&l.ImportBytes, DefaultImportBytes)
	setDefault(&l.CallTimeout, DefaultCallTimeout)
	setDefault(&l.Streams, DefaultStreams)
	setDefault(&l.Connections, DefaultConnections)
	setDefault(&l.ConnectionCalls, DefaultConnectionCalls)
	setDefault(&l.ConnectionBytes, DefaultConnectionBytes)
	setDefault(&l.MemoryBytes, DefaultMemoryBytes)
	setDefault(&l.StreamWriteTimeout, DefaultStreamWriteTimeout)
	setDefault(&l.StreamBufferBytes, DefaultStreamBufferBytes)
	setDefault(&l.Heartbeat, DefaultHeartbeat)
	if o.Databases == nil {
		o.Databases, _ = o.Node.(host.Databases)
	}
	if o.Runs == nil {
		o.Runs, _ = o.Node.(host.RunLister)
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Health == nil {
		o.Health = func() error { return nil }
	}
	if o.Gatherer == nil {
		if o.Registerer == nil {
			o.Registerer = prometheus.NewRegistry()
		}
		if g, ok := o.Registerer.(prometheus.Gatherer); ok {
			o.Gatherer = g
		}
	}
	return o
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// Validate reports every fault of o at once, or nil. It expects what EnsureDefaults returns.
func (o Options) Validate() error {
	var faults []error
	fault := func(bad bool, format string, args ...any) {
		if bad {
			faults = append(faults, fmt.Errorf("gateway: "+format, args...))
		}
	}
	fault(o.Node == nil, "Node is nil")
	l := o.Limits
	fault(l.BodyBytes < 0, "Limits.BodyBytes is %d: it must be positive", l.BodyBytes)
	fault(l.BodyTimeout < 0, "Limits.BodyTimeout is %v: it must be positive", l.BodyTimeout)
	fault(l.ImportBytes < 0, "Limits.ImportBytes is %d: it must be positive", l.ImportBytes)
	fault(l.Streams < 0, "Limits.Streams is %d: it must be positive", l.Streams)
	fault(l.Connections < 0, "Limits.Connections is %d: it must be positive", l.Connections)
	fault(l.ConnectionCalls < 0, "Limits.ConnectionCalls is %d: it must be positive", l.ConnectionCalls)
	fault(l.ConnectionBytes < 0, "Limits.ConnectionBytes is %d: it must be positive", l.ConnectionBytes)
	fault(l.MemoryBytes < 0, "Limits.MemoryBytes is %d: it must be positive", l.MemoryBytes)
	fault(l.StreamWriteTimeout < 0, "Limits.StreamWriteTimeout is %v: it must be positive", l.StreamWriteTimeout)
	fault(l.StreamBufferBytes < 0, "Limits.StreamBufferBytes is %d: it must be positive", l.StreamBufferBytes)
	fault(l.Heartbeat < 0, "Limits.Heartbeat is %v: it must be positive", l.Heartbeat)
	fault(o.Gatherer == nil, "Registerer is set and cannot be gathered from, and Gatherer is nil: /metrics would be empty")
	for i := range len(o.Token) {
		if c := o.Token[i]; c <= ' ' || c > '~' {
			fault(true, "Token has a byte at position %d that is not printable ASCII", i)
			break
		}
	}
	for _, origin := range o.AllowedOrigins {
		if origin == "*" {
			fault(o.Token == "" && o.Authorize == nil, `AllowedOrigins "*" demands a Token or Authorize`)
			continue
		}
		u, err := url.Parse(origin)
		fault(err != nil || u.Scheme == "" || u.Host == "" || u.Scheme+"://"+u.Host != origin,
			"AllowedOrigins: %q is not an origin like https://app.example.com", origin)
	}
	for i, b := range o.Behaviors {
		fault(b == nil, "Behaviors[%d] is nil", i)
	}
	return errors.Join(faults...)
}
