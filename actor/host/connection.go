package host

import (
	"context"
	"sync"
	"time"
)

// The bounds of connections.
const (
	// MaxConnectionParams bounds the parameters of a connection, in bytes.
	MaxConnectionParams = 16 << 10
	// MaxSubscriptions bounds the events that one connection is subscribed to.
	MaxSubscriptions = 256
	// DefaultConnections bounds the connections of one actor.
	DefaultConnections = 10_000
	// DefaultConnectionGrace is how long a lost connection may take to come back.
	DefaultConnectionGrace = 2 * time.Minute
	// DefaultConnectionBytes bounds the memory for a client that does not read; beyond it the
	// client is cut off.
	DefaultConnectionBytes = 1 << 20
)

// ConnectionMethods says which connection hooks a behavior has.
type ConnectionMethods struct {
	// Connect and Disconnect name the hooks for logs; "" if there is none.
	Connect, Disconnect string
}

// A ConnectionState is one connection of an actor as it is stored.
type ConnectionState struct {
	ID string
	// Params are the parameters from the client, as JSON, without anything that looks like
	// credentials; nil if none are kept.
	Params []byte
	// State is CBOR; nil if it was never set.
	State []byte
	// Events are the names of the events that the client is subscribed to.
	Events []string
	// Transport is "websocket", "sse" or "go".
	Transport string
	Connected time.Time
	// Lost is when the client was last lost; zero while it is connected.
	Lost time.Time
}

// A ConnectionInfo describes a connection for operators.
type ConnectionInfo struct {
	ID        string    `json:"id"`
	Events    []string  `json:"events"`
	Transport string    `json:"transport"`
	Connected time.Time `json:"connected"`
	// Lost is when the client was lost; nil while it is connected.
	Lost *time.Time `json:"lost,omitempty"`
}

// A ConnectRequest opens a connection, or resumes a lost one.
type ConnectRequest struct {
	// Params is JSON, handed to the connect hook; nil for none. Ignored if the connection resumes.
	Params []byte
	// Events are subscribed to at once.
	Events []string
	// Token, if not "", resumes the connection whose Welcome had it. If that connection is gone for
	// good, a new one is made from the rest of the request, and Welcome.Resumed is false.
	Token string
	// After is the sequence of the last event that the client got; HasAfter says that it is known.
	// Life is the id of the actor's life that it counts in, or "" for the present one: see
	// Position.
	After    uint64
	HasAfter bool
	Life     string
	// Transport is "websocket", "sse" or "go".
	Transport string
	// Existing demands that the actor exists.
	Existing    bool
	Traceparent string
}

// A Welcome is the first message to a connected client.
type Welcome struct {
	Connection string `json:"connection"`
	// Token resumes the connection; it is a secret of the client's.
	Token string `json:"token"`
	// Cursor is the sequence of the last event before the first of the connection.
	Cursor uint64 `json:"cursor"`
	// Life is the id of the actor's life to which Cursor and all events of the connection belong.
	Life    string   `json:"life,omitempty"`
	Resumed bool     `json:"resumed"`
	Events  []string `json:"events"`
}

// A LiveConnection is a client's end of a connection to an actor, while it is there. The actor may
// sleep meanwhile. Next is called by one goroutine at a time; the rest from any.
type LiveConnection interface {
	Welcome() Welcome
	// Next waits for events for the client: subscribed broadcast ones, and events sent to it alone.
	// The error is an *Error and ends the connection: Canceled when ctx ended (Next may be called
	// again), Unavailable when the node shuts down or another client took the connection over,
	// Overloaded when the client read too slowly (all three may be resumed), Destroyed when the
	// actor was destroyed, or the error with which the actor closed the connection.
	Next(ctx context.Context) (Delivery, error)
	// Subscribe and Unsubscribe change what the client gets, durably, before they return.
	// Subscribing runs the hooks of the events.
	Subscribe(ctx context.Context, events ...string) error
	Unsubscribe(ctx context.Context, events ...string) error
	// Call calls a method of the actor on behalf of the connection.
	Call(ctx context.Context, r *Request) (Reply, error)
	// Close ends it. If lost, the client may still come back for as long as the type allows;
	// otherwise the disconnect hook runs now. It returns when that is durable, or ctx ends.
	Close(ctx context.Context, lost bool) error
}

// A Connector connects clients to actors. Connecting creates a missing actor, like a call.
type Connector interface {
	Connect(ctx context.Context, a Address, r ConnectRequest) (LiveConnection, error)
	// CallOver calls a method on behalf of the connection that token belongs to, for clients whose
	// connection carries events only. The error code is Unauthenticated if there is no such
	// connection.
	CallOver(ctx context.Context, token string, r *Request) (Reply, error)
	// Disconnect ends the connection of a token, as LiveConnection.Close ends a live one.
	Disconnect(ctx context.Context, a Address, token string) error
}

// SharedFrames holds the encoded forms of an event that goes to many clients, so that each form is
// made once. The zero value is ready.
type SharedFrames struct {
	mu     sync.Mutex
	frames [2][]byte
}

// The forms that SharedFrames holds.
const (
	FrameSSE = iota
	FrameWebSocket
)

// Get returns a form, and calls make if it is not there yet. The result must not be changed.
func (s *SharedFrames) Get(form int, make func() []byte) []byte {
	if s == nil {
		return make()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.frames[form] == nil {
		s.frames[form] = make()
	}
	return s.frames[form]
}
