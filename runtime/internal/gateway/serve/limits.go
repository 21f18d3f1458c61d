package serve

import "time"

// The defaults of Limits, and fixed limits.
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

	// KVBodyBytes bounds the body of a request that may contain entries of a key-value store: of
	// the methods kv.*, and of all methods of a type with OpenKV. A greater BodyBytes overrides it.
	KVBodyBytes = 16 << 20
	// ReadHeaderTimeout is how long a client may take to send a request's header.
	ReadHeaderTimeout = 10 * time.Second
	// IdleTimeout is how long an unused connection is kept.
	IdleTimeout = 2 * time.Minute
	// ReplyTimeout is how long a client may take to read a reply, after the time that the call
	// itself may take.
	ReplyTimeout = 30 * time.Second
	// MaxHeaderBytes bounds a request's header, with the path.
	MaxHeaderBytes = 64 << 10
)

// Limits bound the resources of one client. A zero field means its default.
type Limits struct {
	// BodyBytes bounds the body of a request: 1 MiB by default.
	BodyBytes int64
	// BodyTimeout is how long a client may take to send a body: 30 s by default.
	BodyTimeout time.Duration
	// ImportBytes bounds an imported database: 1 GiB by default. Each 256 KiB of it must arrive
	// within BodyTimeout; the total time is not bounded.
	ImportBytes int64
	// CallTimeout ends a request's context, and so the wait for a reply: 60 s by default, negative
	// for never. The turn has its own limit, set by the actor type. Built-in methods that wait for
	// something may take a minute longer, their longest wait.
	CallTimeout time.Duration
	// Streams bounds the open event streams, followed streams and listening workers together:
	// 10,000 by default.
	Streams int
	// Connections bounds the open connections to actors, over WebSockets and as event streams:
	// 20,000 by default.
	Connections int
	// ConnectionCalls bounds the calls in flight of one WebSocket, and its followed streams: 64 of
	// each by default.
	ConnectionCalls int
	// ConnectionBytes bounds the unwritten bytes of one WebSocket: 4 MiB by default. Beyond it the
	// WebSocket is closed because its client is too slow. One message may be longer.
	ConnectionBytes int
	// MemoryBytes bounds the memory for all clients together: 256 MiB by default. It counts bodies
	// and WebSocket messages beyond 64 KiB, until they are answered, and unwritten bytes of
	// WebSockets. Beyond it a long body is refused as overloaded, and a WebSocket with a long
	// message or more than StreamBufferBytes of unwritten bytes is closed. Its client may
	// reconnect.
	MemoryBytes int64
	// StreamWriteTimeout is how long a client may take to accept a write before its stream or
	// WebSocket is closed: 10 s by default.
	StreamWriteTimeout time.Duration
	// StreamBufferBytes is how much of a stream is buffered before it is written: 64 KiB by
	// default. One event may be longer.
	StreamBufferBytes int
	// Heartbeat is the time between the comments that keep an event stream alive, and between the
	// pings of a WebSocket: 15 s by default. A WebSocket without a byte from its client for two of
	// them is lost.
	Heartbeat time.Duration
}

// ensureDefaults replaces zero fields with the defaults.
func (l *Limits) ensureDefaults() {
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
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// check reports each limit that must be positive and is not, with the format of fault.
func (l *Limits) check(fault func(bad bool, format string, args ...any)) {
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
}
