package runtime

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"regexp"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/runtime/internal/gateway"
)

// The defaults of Options.
const (
	// DefaultListen is where Main listens; Open listens nowhere unless asked.
	DefaultListen = "127.0.0.1:6420"
	// DefaultDir is where Main keeps its data.
	DefaultDir = "./data"
	// DefaultDrainTimeout is how long Close lets turns finish.
	DefaultDrainTimeout = 15 * time.Second
)

// StoreFormat is the version of the layout of data on disk that this release writes. It opens stores of this version and
// of every earlier one.
const StoreFormat = engine.StoreFormat

// An AuthRequest is what Options.Authorize decides on.
type AuthRequest = gateway.AuthRequest

// An Operation is what a request wants to do: one of the constants.
type Operation = gateway.Operation

// The operations that Options.Authorize sees.
const (
	OpCall    = gateway.Call
	OpCreate  = gateway.Create
	OpRead    = gateway.Read
	OpDestroy = gateway.Destroy
	OpEvents  = gateway.Events
	OpInspect = gateway.Inspect
	OpList    = gateway.List
	OpHealth  = gateway.Health
	OpMetrics = gateway.Metrics
)

// GatewayLimits bound what one HTTP client can take. A zero field means its default.
type GatewayLimits = gateway.Limits

// Options configure a Runtime. Dir and Actors are all that most programs set.
type Options struct {
	// Dir is the directory of the data. It is created if missing, and used by one process at a time.
	Dir string
	// Disk, if not nil, is a filesystem in memory to use instead, for tests.
	Disk *engine.Disk
	// Actors are the actor types that the node hosts.
	Actors []actor.Definition
	// Namespace separates nodes that publish to the same NATS; "" means "default". Actors of another namespace in the same
	// directory are not seen.
	Namespace string

	// Listen is the TCP address of the HTTP gateway; "" listens nowhere, and Handler can be mounted in the program's own
	// server. An address beyond loopback is refused unless Token or Authorize is set.
	Listen string
	// Token, if not "", is demanded of every HTTP request but GET /healthz as "Authorization: Bearer <token>".
	Token string
	// Authorize, if not nil, is asked about every HTTP request, after the token. An *actor.Error is passed on to the client;
	// any other error becomes permission_denied without details. Calls over NATS are not shown to it: who may make them is
	// for NATS to decide, by credentials and permissions on subjects.
	Authorize func(ctx context.Context, r AuthRequest) error
	// AllowedOrigins are the web origins whose pages may use the gateway from a browser; "*" stands for all and demands a
	// Token or Authorize.
	AllowedOrigins []string
	// Gateway bounds what one HTTP client can take.
	Gateway GatewayLimits

	// NATSListen, if not "", runs a NATS server in the process and opens its port there. An address beyond loopback is
	// refused unless Token is set, which NATS clients then need too.
	NATSListen string
	// NATSURL, if not "", is the NATS server, or the comma-separated servers of a cluster, to publish changes to and to take
	// calls from.
	NATSURL string
	// NATSCredentials is the path of a credentials file for NATSURL.
	NATSCredentials string
	// NATSConn is a connection whose servers and credentials are used instead of NATSURL.
	NATSConn *nats.Conn
	// NATSJetStream demands the acknowledgement of a stream for each message that is published, and enables JetStream in
	// the server of NATSListen, with its data under Dir.
	NATSJetStream bool
	// NATSRoot begins every subject; "" means "cairn".
	NATSRoot string

	// NoSync lets calls return before their commits are on disk. A power cut or a kill may then lose what was acknowledged,
	// though nothing is torn. For tests and caches.
	NoSync bool
	// PlainCommit uses only the stable part of Pebble's commit interface; a little slower.
	PlainCommit bool
	// CacheBytes is the size of the block cache; 0 means 256 MiB.
	CacheBytes int64
	// MinFreeBytes is the free disk space below which writes are refused; 0 means 256 MiB, or less on small disks.
	MinFreeBytes uint64

	// IdleTimeout is how long an actor stays in memory unused, for types that do not say; 0 means 30 seconds.
	IdleTimeout time.Duration
	// Limits are for actor types that set none of their own.
	Limits actor.Limits
	// MaxAwake and MaxAwakeBytes bound the actors in memory: 100,000 and 1 GiB if 0. The least recently used sleep first.
	MaxAwake      int
	MaxAwakeBytes int64
	// SQL bounds the connections to the SQLite databases of actors.
	SQL SQLOptions
	// TurnGrace is how long after its deadline a handler may still return before its turn is abandoned; 0 means 5 seconds.
	TurnGrace time.Duration
	// AlarmConcurrency bounds the alarms that run or wait in mailboxes at once, which paces a restart; 0 means 256.
	AlarmConcurrency int
	// DrainTimeout is how long Close lets turns finish; 0 means 15 seconds.
	DrainTimeout time.Duration
	// Logger takes what operators should know; nil means slog.Default().
	Logger *slog.Logger
}

// SQLOptions bound the connections to the SQLite databases of actors. A zero field means its default. A connection takes
// some 0.4 MiB while it is open, and opening one and reading a row some 0.15 ms.
type SQLOptions struct {
	// MaxOpen bounds the connections of the node: 2,000 if 0. The least recently used idle one is closed for another; if turns
	// and queries use them all, the next statement fails with the code Overloaded.
	MaxOpen int
	// MaxMemory bounds what the connections take, in bytes: 1 GiB if 0. Idle ones are closed for it; beyond it and ConnMemory, with none
	// left that is idle, a turn or query that needs another is refused.
	MaxMemory int64
	// ConnMemory bounds the heap of one connection, in bytes: 32 MiB if 0, and at least 1 MiB. A statement that needs more
	// fails with the code TooLarge.
	ConnMemory int64
	// CacheBytes bounds the page cache of one connection: 2 MiB if 0.
	CacheBytes int64
	// TurnBytes bounds the pages that one turn changes: 64 MiB if 0. What the actor's Limits.WriteSetBytes allows bounds them
	// too.
	TurnBytes int64
	// Temporary bounds the temporary files of one connection, which are in memory: 64 MiB if 0.
	Temporary int64
	// MaxLength bounds one string, blob or row: 16 MiB if 0.
	MaxLength int
	// IdleTime is after how long an idle connection is closed: 30 seconds if 0.
	IdleTime time.Duration
}

// EnsureDefaults sets the fields that are zero and whose default does not depend on the machine.
func (o *Options) EnsureDefaults() {
	if o.Namespace == "" {
		o.Namespace = "default"
	}
	if o.DrainTimeout == 0 {
		o.DrainTimeout = DefaultDrainTimeout
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
}

// Validate reports everything that is wrong with o, joined into one error.
func (o *Options) Validate() error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if o.Dir == "" && o.Disk == nil {
		fault("runtime: Options.Dir is empty")
	}
	if o.Namespace != "" && !namespacePattern.MatchString(o.Namespace) {
		fault("runtime: namespace %q is not 1 to 64 letters, digits, \"-\" and \"_\"", o.Namespace)
	}
	seen := make(map[string]bool)
	for _, d := range o.Actors {
		if err := d.Validate(); err != nil {
			faults = append(faults, err)
		}
		if seen[d.Type()] {
			fault("runtime: actor type %q is defined twice", d.Type())
		}
		seen[d.Type()] = true
	}
	if o.Listen != "" {
		if err := exposed("listen", o.Listen, o.Token != "" || o.Authorize != nil, "a token (CAIRN_TOKEN) or Options.Authorize"); err != nil {
			faults = append(faults, err)
		}
	}
	if o.NATSListen != "" {
		if err := exposed("nats-listen", o.NATSListen, o.Token != "", "a token (CAIRN_TOKEN)"); err != nil {
			faults = append(faults, err)
		}
	}
	n := 0
	for _, set := range []bool{o.NATSListen != "", o.NATSURL != "", o.NATSConn != nil} {
		if set {
			n++
		}
	}
	if n > 1 {
		fault("runtime: Options.NATSListen, NATSURL and NATSConn exclude each other")
	}
	if o.NATSListen != "" && o.Authorize != nil && o.Token == "" {
		fault("runtime: Options.Authorize is not asked about calls over NATS: with NATSListen set a Token too")
	}
	if o.NATSJetStream && n == 0 {
		fault("runtime: Options.NATSJetStream needs NATSListen, NATSURL or NATSConn")
	}
	if o.NATSCredentials != "" && o.NATSURL == "" {
		fault("runtime: Options.NATSCredentials needs NATSURL")
	}
	for _, d := range []struct {
		name  string
		value int64
	}{
		{"CacheBytes", o.CacheBytes}, {"MaxAwake", int64(o.MaxAwake)}, {"MaxAwakeBytes", o.MaxAwakeBytes}, {"IdleTimeout", int64(o.IdleTimeout)},
		{"SQL.MaxOpen", int64(o.SQL.MaxOpen)}, {"SQL.MaxMemory", o.SQL.MaxMemory}, {"SQL.ConnMemory", o.SQL.ConnMemory},
		{"SQL.CacheBytes", o.SQL.CacheBytes}, {"SQL.TurnBytes", o.SQL.TurnBytes}, {"SQL.Temporary", o.SQL.Temporary},
		{"SQL.MaxLength", int64(o.SQL.MaxLength)}, {"SQL.IdleTime", int64(o.SQL.IdleTime)},
		{"TurnGrace", int64(o.TurnGrace)}, {"DrainTimeout", int64(o.DrainTimeout)}, {"AlarmConcurrency", int64(o.AlarmConcurrency)},
	} {
		if d.value < 0 {
			fault("runtime: Options.%s is negative", d.name)
		}
	}
	return errors.Join(faults...)
}

var namespacePattern = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// exposed returns an error if an address can be reached from other machines although nothing asks who is there.
func exposed(name, address string, guarded bool, needs string) error {
	loopback, err := isLoopback(address)
	if err != nil {
		return fmt.Errorf("runtime: %s address %q: %w", name, address, err)
	}
	if !loopback && !guarded {
		return fmt.Errorf("runtime: %s address %q can be reached from other machines: set %s, or listen on 127.0.0.1", name, address, needs)
	}
	return nil
}

// isLoopback reports whether an address to listen on is reachable from this machine only. A host name other than
// localhost is not trusted to be.
func isLoopback(address string) (bool, error) {
	h, _, err := net.SplitHostPort(address)
	if err != nil {
		return false, err
	}
	if strings.EqualFold(h, "localhost") {
		return true, nil
	}
	ip := net.ParseIP(h)
	return ip != nil && ip.IsLoopback(), nil
}
