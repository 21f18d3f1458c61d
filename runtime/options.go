package runtime

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/actor/host/trace"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/runtime/internal/gateway/serve"
)

// The defaults of Options.
const (
	// DefaultListen is where Main listens; Open listens nowhere unless asked.
	DefaultListen = "127.0.0.1:6420"
	// DefaultDir is where Main keeps its data.
	DefaultDir = "./data"
	// DefaultDrainTimeout is how long Close waits for turns.
	DefaultDrainTimeout = 15 * time.Second
)

// StoreFormat is the version of the layout of data on disk that this release writes. It opens
// stores of this version and of every earlier one.
const StoreFormat = engine.StoreFormat

// An AuthRequest is what Options.Authorize decides on.
type AuthRequest = serve.AuthRequest

// An Operation is what a request wants to do: one of the constants.
type Operation = serve.Operation

// The operations that Options.Authorize sees.
const (
	OpCall    = serve.Call
	OpCreate  = serve.Create
	OpRead    = serve.Read
	OpDestroy = serve.Destroy
	OpEvents  = serve.Events
	OpConnect = serve.Connect
	OpWork    = serve.Work
	OpFollow  = serve.Follow
	OpOperate = serve.Operate
	OpInspect = serve.Inspect
	OpList    = serve.List
	OpHealth  = serve.Health
	OpMetrics = serve.Metrics
	OpOpenAPI = serve.OpenAPI
)

// GatewayLimits bound what one HTTP client can take. A zero field means its default.
type GatewayLimits = serve.Limits

// Options configure a Runtime. Dir and Actors are all that most programs set.
type Options struct {
	// Dir is the directory of the data. It is created if missing, and used by one process at a
	// time.
	Dir string
	// Disk, if not nil, is a filesystem in memory to use instead, for tests.
	Disk *engine.Disk
	// Actors are the actor types that the node hosts.
	Actors []actor.Definition
	// Namespace separates nodes that publish to the same NATS; "" means "default". Actors of
	// another namespace in the same directory are not seen.
	Namespace string

	// Listen is the TCP address of the HTTP gateway; "" listens nowhere, and Handler can be mounted
	// in the program's own server. An address beyond loopback is refused unless Token or Authorize
	// is set.
	Listen string
	// Token, if not "", is demanded of every HTTP request but GET /healthz and the pages of the
	// dashboard as "Authorization: Bearer <token>". A request to the key-value store of an actor
	// may have a token of the actor instead, as token.create makes it.
	Token string
	// Authorize, if not nil, is asked about every HTTP request except CORS preflights, after the
	// token. An *actor.Error is passed on to the client; any other error becomes permission_denied
	// without details. Calls over NATS are not passed to it: NATS authorizes them, by credentials
	// and permissions on subjects.
	Authorize func(ctx context.Context, r AuthRequest) error
	// AllowedOrigins are the web origins whose pages may use the gateway from a browser; "*" stands
	// for all and demands a Token or Authorize.
	AllowedOrigins []string
	// Gateway bounds what one HTTP client can take.
	Gateway GatewayLimits
	// NoDashboard leaves out the pages for operators at /dashboard/.
	NoDashboard bool

	// PprofListen is the TCP address, on loopback, of the profiles of net/http/pprof, under
	// /debug/pprof/; "" serves none. An address beyond loopback is refused even if Token is set,
	// because the profiles show code and timing of the process and are served without a token. It
	// also labels the goroutines of actors with their type and work, for the profiles.
	PprofListen string

	// NATSListen, if not "", runs a NATS server in the process and opens its port there. An address
	// beyond loopback is refused unless Token is set, which NATS clients then need too.
	NATSListen string
	// NATSServer starts the server of NATSListen: set it to localnats.Serve. Only programs that
	// name that function have the server in them, which is 13 MB.
	NATSServer func(listen, token, storeDir string, log *slog.Logger) (NATSServer, error)
	// NATSURL, if not "", is the NATS server, or the comma-separated servers of a cluster, to
	// publish changes to and to take calls from.
	NATSURL string
	// NATSCredentials is the path of a credentials file for NATSURL.
	NATSCredentials string
	// NATSConn is a connection whose servers and credentials are used instead of NATSURL.
	NATSConn *nats.Conn
	// NATSJetStream demands the acknowledgement of a stream for each message that is published, and
	// enables JetStream in the server of NATSListen, with its data under Dir.
	NATSJetStream bool
	// NATSRoot begins every subject; "" means "cairn".
	NATSRoot string

	// With NoSync calls return before their commits are on disk. A power cut or a kill may then
	// lose acknowledged commits, but tears none. For tests and caches.
	NoSync bool
	// PlainCommit uses only the stable part of Pebble's commit interface; a little slower.
	PlainCommit bool
	// Memory is how much memory the node may take, in bytes; at least MinMemory. 0 means what the
	// process's cgroup allows, or three quarters of the machine's memory, and at most
	// DefaultMaxMemory. The options that are a size of memory and are not set get their part of it.
	// It bounds what the node keeps; what handlers allocate is theirs to bound.
	Memory int64
	// CacheBytes is the size of the block cache; 0 means 6/64 of Memory.
	CacheBytes int64
	// MemTableBytes bounds what is written and not yet flushed to files: four memtables together.
	// At least 256 KiB; 0 means 6/64 of Memory, and 256 MiB at most.
	MemTableBytes int64
	// MaxWriteBytes bounds what the turns that run at once have written: 4/64 of Memory if 0.
	// Beyond it a write fails with the code Overloaded.
	MaxWriteBytes int64
	// MaxMailboxBytes bounds the inputs of the calls that wait in the mailboxes of all actors: 2/64
	// of Memory if 0.
	MaxMailboxBytes int64
	// MaxEventBytes bounds the events that wait for the clients of all actors, and what all
	// watchers of entries remember: 2/64 of Memory if 0.
	// Beyond it, a subscriber that is slow goes on from the kept history, and a connection that
	// does not read is cut off.
	MaxEventBytes int64
	// MinFreeBytes is the free disk space below which writes are refused; 0 means 256 MiB, or less
	// on small disks.
	MinFreeBytes uint64
	// AcceptDataLoss opens a store that is damaged, without what was lost, where Open fails
	// otherwise; see docs/operate/damaged-store.md. It is for one start, so the configuration file
	// cannot set it.
	AcceptDataLoss bool

	// IdleTimeout is how long an actor stays in memory unused, for types that do not say; 0 means
	// 30 seconds.
	IdleTimeout time.Duration
	// Limits are for actor types that set none of their own.
	Limits actor.Limits
	// TypeLimits are limits by actor type. They go before what the types set themselves, so that an
	// operator can change what the code says; fields that are zero do not.
	TypeLimits map[string]actor.Limits
	// MaxAwake and MaxAwakeBytes bound the actors in memory: 100,000 and 6/64 of Memory if 0. The
	// least recently used sleep first.
	MaxAwake      int
	MaxAwakeBytes int64
	// SQL bounds the connections to the SQLite databases of actors.
	SQL SQLOptions
	// Traces says what is recorded of what actors do.
	Traces TraceOptions
	// Usage says whether it is counted what actors do.
	Usage UsageOptions
	// AuditMaxAge is how long the audit log keeps its records: 90 days if 0. See
	// docs/operate/audit.md.
	AuditMaxAge time.Duration
	// TurnGrace is how long after its deadline a handler may still return before its turn is
	// abandoned; 0 means 5 seconds. The node looks once a second, and so may abandon it up to a
	// second later.
	TurnGrace time.Duration
	// AlarmConcurrency bounds the alarms that run or wait in mailboxes at once, which paces a
	// restart; 0 means 256.
	AlarmConcurrency int
	// DrainTimeout is how long Close waits for turns; 0 means 15 seconds.
	DrainTimeout time.Duration
	// Logger gets the log for operators; nil means slog.Default().
	Logger *slog.Logger
}

// UsageOptions say whether a node counts what its actors do on each day, and keeps that in their
// keyspaces.
type UsageOptions struct {
	// Off counts nothing, so that actors that nobody bills take no room for it.
	Off bool
}

// TraceOptions say which traces a node records, in the keyspaces of the actors that take part. A
// trace that began elsewhere is recorded if its caller says so; of callers from outside, ten times
// PerSecond in a second. Turns and queries that fail or are slow are recorded in any case. Spans
// also go to a collector of OpenTelemetry, if the environment names one in
// OTEL_EXPORTER_OTLP_ENDPOINT, and so do the node's metrics, whatever these options say. A zero
// field means its default.
type TraceOptions struct {
	// Off records nothing.
	Off bool
	// PerSecond is how many traces may begin at the node in a second: 100 if 0.
	PerSecond int64
	// Share is the part of the traces that begin at the node which is recorded, up to 1: 1 if 0.
	Share float64
	// Slow is how long a turn or query takes that is recorded in any case: 100 ms if 0.
	Slow time.Duration
	// Types are rules for some actor types.
	Types map[string]TraceRule
	// MaxAge is how long spans are kept: 7 days if 0.
	MaxAge time.Duration
	// MaxBytes bounds the spans that an actor keeps: 16 MiB if 0. They do not count against its
	// storage.
	MaxBytes int64
}

// A TraceRule says which traces are recorded that begin with an actor type. What it lacks is as for
// the other types, except that the type has a rate of its own.
type TraceRule = trace.Rule

// SQLOptions bound the connections to the SQLite databases of actors. A zero field means its
// default. A connection takes some 0.4 MiB while it is open, and opening one and reading a row some
// 0.15 ms.
type SQLOptions struct {
	// MaxOpen bounds the connections of the node: 2,000 if 0. The least recently used idle one is
	// closed for another; if turns and queries use them all, the next statement fails with the code
	// Overloaded.
	MaxOpen int
	// MaxMemory bounds the memory of the connections, in bytes: 8/64 of Options.Memory if 0. Idle
	// connections are closed for it. Connections in use may take ConnMemory more in total; a turn
	// or query that needs more fails with the code Overloaded.
	MaxMemory int64
	// ConnMemory bounds the heap of one connection, in bytes: 96 MiB if 0, or half of MaxMemory if
	// that is less; at least 1 MiB. A statement that needs more fails with the code TooLarge.
	ConnMemory int64
	// CacheBytes bounds the page cache of one connection: 2 MiB if 0, or 1/64 of MaxMemory if that
	// is less.
	CacheBytes int64
	// TurnBytes bounds the pages that one turn changes: 64 MiB if 0, or Options.MaxWriteBytes if
	// that is less. What the actor's Limits.WriteSetBytes allows bounds them too.
	TurnBytes int64
	// Temporary bounds the temporary files of one connection, which are in memory: 64 MiB if 0, or
	// MaxTemporary if that is less.
	Temporary int64
	// MaxTemporary bounds the temporary files of all connections: 4/64 of Options.Memory if 0, and
	// 512 MiB at most.
	MaxTemporary int64
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
	for _, name := range slices.Sorted(maps.Keys(o.TypeLimits)) {
		if !seen[name] {
			fault("runtime: Options.TypeLimits has limits of actor type %q, which is not in Options.Actors", name)
		}
	}
	if o.Listen != "" {
		if err := exposed("listen", o.Listen, o.Token != "" ||
			o.Authorize != nil, "a token (CAIRN_TOKEN) or Options.Authorize"); err != nil {
			faults = append(faults, err)
		}
	}
	if o.PprofListen != "" {
		if err := checkPprof(o.PprofListen); err != nil {
			faults = append(faults, err)
		}
	}
	if o.NATSListen != "" {
		if o.NATSServer == nil {
			fault("runtime: Options.NATSListen needs NATSServer: set it to localnats.Serve of runtime/localnats")
		}
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
	negative := false
	for _, d := range []struct {
		name  string
		value int64
	}{
		{"Memory", o.Memory}, {"CacheBytes", o.CacheBytes}, {"MemTableBytes",
			o.MemTableBytes}, {"MaxWriteBytes", o.MaxWriteBytes},
		{"MaxMailboxBytes", o.MaxMailboxBytes}, {"MaxEventBytes",
			o.MaxEventBytes}, {"SQL.MaxTemporary", o.SQL.MaxTemporary}, {"Gateway.MemoryBytes", o.Gateway.MemoryBytes},
		{"MaxAwake", int64(o.MaxAwake)}, {"MaxAwakeBytes", o.MaxAwakeBytes}, {"IdleTimeout", int64(o.IdleTimeout)},
		{"SQL.MaxOpen", int64(o.SQL.MaxOpen)}, {"SQL.MaxMemory", o.SQL.MaxMemory}, {"SQL.ConnMemory", o.SQL.ConnMemory},
		{"SQL.CacheBytes", o.SQL.CacheBytes}, {"SQL.TurnBytes", o.SQL.TurnBytes}, {"SQL.Temporary", o.SQL.Temporary},
		{"SQL.MaxLength", int64(o.SQL.MaxLength)}, {"SQL.IdleTime", int64(o.SQL.IdleTime)},
		{"Traces.PerSecond", o.Traces.PerSecond}, {"Traces.Slow",
			int64(o.Traces.Slow)}, {"Traces.MaxAge", int64(o.Traces.MaxAge)},
		{"AuditMaxAge", int64(o.AuditMaxAge)}, {"Traces.MaxBytes", o.Traces.MaxBytes},
		{"TurnGrace", int64(o.TurnGrace)}, {"DrainTimeout",
			int64(o.DrainTimeout)}, {"AlarmConcurrency", int64(o.AlarmConcurrency)},
	} {
		if d.value < 0 {
			fault("runtime: Options.%s is negative", d.name)
			negative = true
		}
	}
	if s := o.Traces.Share; !(s >= 0 && s <= 1) {
		fault("runtime: Options.Traces.Share is %v; it is above 0 and at most 1, or 0 for all", s)
	}
	if o.MemTableBytes > 0 && o.MemTableBytes < minMemTables {
		fault("runtime: Options.MemTableBytes is %d bytes; the least is %d (256 KiB)", o.MemTableBytes, minMemTables)
	}
	if err := o.checkMemory(); err != nil && !negative {
		faults = append(faults, err)
	}
	return errors.Join(faults...)
}

var namespacePattern = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// exposed returns an error if other machines can reach an address without authentication.
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

// isLoopback reports whether an address to listen on is reachable from this machine only. A host
// name other than localhost is not trusted to be.
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

// NATSServer is a running NATS server in the process, as localnats.Serve returns it.
type NATSServer = interface {
	Connect(...nats.Option) (*nats.Conn, error)
	ClientURL() string
	Close()
}
