package natspub

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"regexp"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
)

// Defaults of Options.
const (
	DefaultRoot      = "cairn"
	DefaultNamespace = "default"
	// DefaultMaxOutboxRows and DefaultMaxOutboxBytes (256 MiB) bound the outbox while NATS is away.
	DefaultMaxOutboxRows  = 1_000_000
	DefaultMaxOutboxBytes = 256 << 20
	// DefaultMemoryRows and DefaultMemoryBytes (16 MiB) bound the part that is also in memory.
	DefaultMemoryRows  = 16_384
	DefaultMemoryBytes = 16 << 20
	// DefaultMaxCalls is how many calls are served at once.
	DefaultMaxCalls = 256
	// DefaultCallTimeout bounds a call without a timeout header.
	DefaultCallTimeout = time.Minute
	// DefaultAckTimeout is how long a stream may take to acknowledge a message.
	DefaultAckTimeout = 5 * time.Second
)

// An Outbox is the part of the engine's store that a Publisher uses. A read returns only durable
// rows, in the order of their sequence numbers, without a hole that could be filled later.
type Outbox interface {
	// Outbox returns up to limit rows with sequence numbers greater than after.
	Outbox(after uint64, limit int) ([]engine.OutboxRow, error)
	// AckOutbox deletes rows. Only the publisher calls it, from one goroutine.
	AckOutbox(seqs []uint64) error
	// OutboxSize counts the rows and the bytes of their records.
	OutboxSize() (rows, bytes int64)
}

// An Endpoint is one actor type whose actions and queries are served. Creations are not served:
// over NATS the first call creates an actor.
type Endpoint struct {
	Type    string
	Methods []host.Method
}

// A Dial opens a connection to NATS, with opts in addition to its own options. It is called from
// one goroutine at a time, repeatedly while there is no connection, and must return within the
// connect timeout of NATS.
type Dial func(opts ...nats.Option) (*nats.Conn, error)

// URL dials a server, or a comma-separated list of servers of one cluster, with opts first.
func URL(url string, opts ...nats.Option) Dial {
	return func(more ...nats.Option) (*nats.Conn, error) {
		all := make([]nats.Option, 0, len(opts)+len(more))
		return nats.Connect(url, append(append(all, opts...), more...)...)
	}
}

// Options configure a Publisher. Outbox and one of Conn and Dial are required; the zero value of
// every other field works.
type Options struct {
	// Conn is a connection whose servers, credentials and TLS settings are used for new
	// connections. It is not used itself and may be closed at any time; the comment on Publisher
	// says why.
	Conn *nats.Conn
	// Dial opens connections. It takes precedence over Conn.
	Dial Dial
	// Root is the beginning of every subject: one or more tokens. "" means DefaultRoot.
	Root string
	// Namespace is for calls, and for change sets that have none. "" means DefaultNamespace.
	Namespace string
	// JetStream requires the acknowledgement of a stream for each message. Without it, a message
	// counts as published when the server has it.
	JetStream bool
	// Outbox is the store's outbox.
	Outbox Outbox
	// Node runs the calls. With nil, no calls are served until Serve is called.
	Node Node
	// Endpoints are the actor types whose methods Node serves.
	Endpoints []Endpoint
	// Version is the program's semantic version, shown by NATS tools. "" means "0.0.0".
	Version string
	// MaxOutboxRows and MaxOutboxBytes bound the outbox; see Publisher.Refuse. 0 means the
	// defaults.
	MaxOutboxRows, MaxOutboxBytes int64
	// MemoryRows and MemoryBytes bound the change sets that wait in memory; others are read from
	// the store later. 0 means the defaults.
	MemoryRows, MemoryBytes int
	// MaxCalls is how many calls are served at once; more are refused with code Overloaded. 0 means
	// DefaultMaxCalls.
	MaxCalls int
	// CallTimeout bounds a call without the header HeaderTimeout. 0 means DefaultCallTimeout.
	CallTimeout time.Duration
	// AckTimeout is how long to wait for a stream's acknowledgement before a message is sent again.
	// 0 means DefaultAckTimeout.
	AckTimeout time.Duration
	// Logger receives the log for operators. nil discards it.
	Logger *slog.Logger
	// Registerer receives the metrics. nil keeps them unregistered.
	Registerer prometheus.Registerer
}

var semantic = regexp.MustCompile(`^\d+\.\d+\.\d+([-+][0-9A-Za-z.+-]+)?$`)

// Validate reports everything that is wrong with the options, joined into one error.
func (o Options) Validate() error {
	var faults []error
	if o.Outbox == nil {
		faults = append(faults, errors.New("natspub: Outbox is missing"))
	}
	if o.Conn == nil && o.Dial == nil {
		faults = append(faults, errors.New("natspub: neither Conn nor Dial is set"))
	}
	if !semantic.MatchString(o.withDefaults().Version) {
		faults = append(faults, fmt.Errorf("natspub: Version %.40q is no semantic version, such as 1.2.3", o.Version))
	}
	if _, err := NewSubjects(o.withDefaults().Root); err != nil {
		faults = append(faults, err)
	}
	for name, n := range map[string]int64{
		"MaxOutboxRows": o.MaxOutboxRows, "MaxOutboxBytes": o.MaxOutboxBytes, "MemoryRows": int64(o.MemoryRows),
		"MemoryBytes": int64(o.MemoryBytes), "MaxCalls": int64(o.MaxCalls), "CallTimeout": int64(o.CallTimeout),
		"AckTimeout": int64(o.AckTimeout),
	} {
		if n < 0 {
			faults = append(faults, fmt.Errorf("natspub: %s must not be negative", name))
		}
	}
	return errors.Join(faults...)
}

// withDefaults fills the fields that are zero.
func (o Options) withDefaults() Options {
	if o.Root == "" {
		o.Root = DefaultRoot
	}
	if o.Namespace == "" {
		o.Namespace = DefaultNamespace
	}
	if o.Version == "" {
		o.Version = "0.0.0"
	}
	if o.MaxOutboxRows == 0 {
		o.MaxOutboxRows = DefaultMaxOutboxRows
	}
	if o.MaxOutboxBytes == 0 {
		o.MaxOutboxBytes = DefaultMaxOutboxBytes
	}
	if o.MemoryRows == 0 {
		o.MemoryRows = DefaultMemoryRows
	}
	if o.MemoryBytes == 0 {
		o.MemoryBytes = DefaultMemoryBytes
	}
	if o.MaxCalls == 0 {
		o.MaxCalls = DefaultMaxCalls
	}
	if o.CallTimeout == 0 {
		o.CallTimeout = DefaultCallTimeout
	}
	if o.AckTimeout == 0 {
		o.AckTimeout = DefaultAckTimeout
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.NewTextHandler(io.Discard, &slog.HandlerOptions{Level: slog.Level(math.MaxInt)}))
	}
	if o.Dial == nil && o.Conn != nil {
		o.Dial = like(o.Conn)
	}
	return o
}

// like returns a Dial with the options of nc, without its callbacks.
func like(nc *nats.Conn) Dial {
	return func(more ...nats.Option) (*nats.Conn, error) {
		o := nc.Opts
		o.ClosedCB, o.DisconnectedCB, o.DisconnectedErrCB, o.ConnectedCB, o.ReconnectedCB = nil, nil, nil, nil, nil
		o.DiscoveredServersCB, o.AsyncErrorCB, o.ReconnectErrCB, o.LameDuckModeHandler = nil, nil, nil, nil
		for _, opt := range more {
			if opt == nil {
				continue
			}
			if err := opt(&o); err != nil {
				return nil, err
			}
		}
		return o.Connect()
	}
}
