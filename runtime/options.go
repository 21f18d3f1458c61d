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
	// DefaultListen is where Main listens. Open listens nowhere by default.
	DefaultListen = "127.0.0.1:6420"
	// DefaultDir is where Main keeps its data.
	DefaultDir = "./data"
	// DefaultDrainTimeout is how long Close waits for turns.
	DefaultDrainTimeout = 15 * time.Second
)

// StoreFormat is the version of the layout of data on disk that this release writes. It opens
// stores of this version and of every earlier one.
const StoreFormat = engine.StoreFormat

// An AuthRequest is a request that Options.Authorize allows or refuses.
type AuthRequest = serve.AuthRequest

// An Operation is the kind of a request: one of the constants.
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

// GatewayLimits bound the resources of one HTTP client. A zero field means its default.
type GatewayLimits = serve.Limits

// Options configure a Runtime. Dir and Actors are all that most programs set.
type Options struct {
	// Dir is the directory of the data. It is created if missing, and used by one process at a
	// time.
	Dir string
	// Disk, if not nil, is a filesystem in memory that replaces Dir, for tests.
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
	// Token, if not "", is required of every HTTP request as "Authorization: Bearer <token>",
	// except GET /healthz and the pages of the dashboard. A request to the key-value store of an
	// actor may have a token of the actor instead, made by token.create.
	Token string
	// Authorize, if not nil, checks every HTTP request except CORS preflights, after the token. An
	// *actor.Error is passed on to the client; any other error becomes permission_denied without
	// details. It does not check calls over NATS: NATS authorizes them, by credentials and
	// permissions on subjects.
	Authorize func(ctx context.Context, r AuthRequest) error
	// AllowedOrigins are the web origins whose pages may use the gateway from a browser; "*" means
	// all and requires a Token or Authorize.
	AllowedOrigins []string
	// Gateway bounds the resources of one HTTP client.
	Gateway GatewayLimits
	// NoDashboard turns off the pages for operators at /dashboard/.
	NoDashboard bool

	// PprofListen is the TCP address of the profiles of net/http/pprof, under /debug/pprof/; ""
	// serves none. An address beyond loopback is refused even if Token is set, because the profiles
	// show code and timing of the process and are served without a token. If it is set, the
	// goroutines of actors have labels with their type and work, for the profiles.
	PprofListen string

	// NATSListen, if not "", runs a NATS server in the process and opens its port there. An address
	// beyond loopback is refused unless Token is set, which NATS clients then need too.
	NATSListen string
	// NATSServer starts the server of NATSListen: set it to localnats.Serve. Only programs that
	// name that function contain the server, which is 13 MB.
	NATSServer func(listen, token, storeDir string, log *slog.Logger) (NATSServer, error)
	// NATSURL, if not "", is the NATS server, or the comma-separated servers of a cluster, to
	// publish changes to and to take calls from.
	NATSURL string
	// NATSCredentials is the path of a credentials file for NATSURL.
	NATSCredentials string
	// NATSConn, if not nil, is a connection whose servers and credentials replace NATSURL.
	NATSConn *nats.Conn
	// NATSJetStream requires a stream's acknowledgement for each published message. It also enables
	// JetStream in the server of NATSListen, with its data under Dir.
	NATSJetStream bool
	// NATSRoot is the first part of every subject; "" means "cairn".
	NATSRoot string

	// NoSync makes calls return before their commits are on disk. A power cut or a kill may then
	// lose acknowledged commits, but no part of a commit. For tests and caches.
	NoSync bool
	// PlainCommit uses only the stable part of Pebble's commit interface; a little slower.
	PlainCommit bool
	// Memory is how much memory the node may take, in bytes; at least MinMemory. 0 means the limit
	// of the process's cgroup, or three quarters of the machine's memory, up to DefaultMaxMemory.
	// Each size of memory below that is 0 gets its part of it. It bounds the memory of the node
	// itself; handlers must bound their own.
	Memory int64
	// CacheBytes is the size of the block cache; 0 means 6/64 of Memory.
	CacheBytes int64
	// MemTableBytes bounds the data that is written and not yet flushed to files: four memtables
	// together. At least 256 KiB; 0 means 6/64 of Memory, up to 256 MiB.
	MemTableBytes int64
	// MaxWriteBytes bounds the uncommitted writes of all running turns together: 4/64 of Memory if
	// 0. Beyond it a write fails with the code Overloaded.
	MaxWriteBytes int64
	// MaxMailboxBytes bounds the inputs of the calls that wait in the mailboxes of all actors: 2/64
	// of Memory if 0.
	MaxMailboxBytes int64
	// MaxEventBytes bounds the events that wait for the clients of all actors, and the memory of
	// all watchers of entries: 2/64 of Memory if 0. Beyond it, a slow subscriber continues from the
	// kept history, and a connection that does not read is closed.
	MaxEventBytes int64
	// MinFreeBytes is the free disk space below which writes are refused; 0 means 256 MiB, or less
	// on small disks.
	MinFreeBytes uint64
	// AcceptDataLoss opens a damaged store without the lost data, where Open fails otherwise; see
	// docs/operate/damaged-store.md. It is for one start, so the configuration file cannot set it.
	AcceptDataLoss bool

	// IdleTimeout is how long an unused actor stays in memory, for types that do not set it; 0
	// means 30 seconds.
	IdleTimeout time.Duration
	// Limits are for actor types that set none of their own.
	Limits actor.Limits
	// TypeLimits are limits by actor type. Fields that are not zero override the types' own, so
	// that an operator can change the limits of the code.
	TypeLimits map[string]actor.Limits
	// MaxAwake and MaxAwakeBytes bound the actors in memory: 100,000 and 6/64 of Memory if 0. The
	// least recently used actors sleep first.
	MaxAwake      int
	MaxAwakeBytes int64
	// SQL bounds the connections to the SQLite databases of actors.
	SQL SQLOptions
	// Traces says which traces of actors are recorded.
	Traces TraceOptions
	// Usage says whether the node counts the work of actors.
	Usage UsageOptions
	// AuditMaxAge is how long the audit log keeps its records: 90 days if 0. See
	// docs/operate/audit.md.
	AuditMaxAge time.Duration
	// TurnGrace is how long after its deadline a handler may still return before its turn is
	// abandoned; 0 means 5 seconds. The node checks once a second, so it may abandon the turn up to
	// a second later.
	TurnGrace time.Duration
	// AlarmConcurrency bounds the alarms that run or wait in mailboxes at once, which slows the
	// work after a restart; 0 means 256.
	AlarmConcurrency int
	// DrainTimeout is how long Close waits for turns; 0 means 15 seconds.
	DrainTimeout time.Duration
	// Logger gets the log for operators; nil means slog.Default().
	Logger *slog.Logger
}

// UsageOptions say whether a node counts the daily work of its actors. The counts are in the
// actors' keyspaces.
type UsageOptions struct {
	// Off turns counting off, which saves the space of the counts if nobody bills for the actors.
	Off bool
}

// TraceOptions say which traces a node records, in the keyspaces of the actors that take part. A
// trace that began elsewhere is recorded if its caller says so; from outside callers, up to ten
// times PerSecond in a second. Turns and queries that fail or are slow are always recorded. If
// OTEL_EXPORTER_OTLP_ENDPOINT in the environment names an OpenTelemetry collector, spans also go
// there. So do the node's metrics, regardless of these options. A zero field means its default.
type TraceOptions struct {
	// Off records nothing.
	Off bool
	// PerSecond is how many traces may begin at the node in a second: 100 if 0.
	PerSecond int64
	// Share is the recorded part of the traces that begin at the node, up to 1: 1 if 0.
	Share float64
	// Slow is the time from which a turn or query is always recorded: 100 ms if 0.
	Slow time.Duration
	// Types are rules for some actor types.
	Types map[string]TraceRule
	// MaxAge is how long spans are kept: 7 days if 0.
	MaxAge time.Duration
	// MaxBytes bounds the spans that an actor keeps: 16 MiB if 0. They do not count against its
	// storage.
	MaxBytes int64
}

// A TraceRule says which of the traces that begin with an actor type are recorded. Fields that are
// not set are as for the other types, except that the type has a rate of its own.
type TraceRule = trace.Rule

// SQLOptions bound the connections to the SQLite databases of actors. A zero field means its
// default. An open connection takes about 0.4 MiB; opening one and reading a row takes about 0.15
// ms.
type SQLOptions struct {
	// MaxOpen bounds the connections of the node: 2,000 if 0. The least recently used idle one is
	// closed to open another. If turns and queries use them all, the next statement fails with the
	// code Overloaded.
	MaxOpen int
	// MaxMemory bounds the memory of the connections, in bytes: 8/64 of Options.Memory if 0. Idle
	// connections are closed to stay within it. Connections in use may take ConnMemory more in
	// total; a turn or query that needs more fails with the code Overloaded.
	MaxMemory int64
	// ConnMemory bounds the heap of one connection, in bytes: 96 MiB if 0, or half of MaxMemory if
	// that is less; at least 1 MiB. A statement that needs more fails with the code TooLarge.
	ConnMemory int64
	// CacheBytes bounds the page cache of one connection: 2 MiB if 0, or 1/64 of MaxMemory if that
	// is less.
	CacheBytes int64
	// TurnBytes bounds the pages that one turn changes: 64 MiB if 0, or Options.MaxWriteBytes if
	// that is less. The actor's Limits.WriteSetBytes bounds them too.
	TurnBytes int64
	// Temporary bounds the temporary files of one connection, which are in memory: 64 MiB if 0, or
	// MaxTemporary if that is less.
	Temporary int64
	// MaxTemporary bounds the temporary files of all connections: 4/64 of Options.Memory if 0, up
	// to 512 MiB.
	MaxTemporary int64
	// MaxLength bounds one string, blob or row: 16 MiB if 0.
	MaxLength int
	// IdleTime is how long an idle connection stays open: 30 seconds if 0.
	IdleTime time.Duration
}

// EnsureDefaults sets the zero fields whose default does not depend on the machine.
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

// isLoopback reports whether an address to listen on is reachable from this machine only. Of host
// names, only localhost counts as such.
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
