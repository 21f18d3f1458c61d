package runtime

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"path/filepath"
	"sync"
	"syscall"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/audit"
	"github.com/cairn-run/cairn/actor/host/changes"
	"github.com/cairn-run/cairn/actor/host/kv"
	"github.com/cairn-run/cairn/actor/host/token"
	hosttrace "github.com/cairn-run/cairn/actor/host/trace"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/runtime/dashboard"
	"github.com/cairn-run/cairn/runtime/internal/gateway"
	"github.com/cairn-run/cairn/runtime/internal/gateway/serve"
	"github.com/cairn-run/cairn/runtime/internal/kernel/options"
	"github.com/cairn-run/cairn/runtime/internal/natspub"
	"github.com/cairn-run/cairn/runtime/internal/node"
	"github.com/cairn-run/cairn/runtime/internal/part/sqlite"
	"github.com/cairn-run/cairn/traces"
	"github.com/cairn-run/cairn/traces/collector"
)

// A Runtime is a running node. It implements actor.Node, so contracts can be called through it,
// from any goroutine, until Close.
type Runtime struct {
	options    Options
	attributes []traces.Attribute // name the sender of spans and metrics
	store      *engine.Store
	node       *node.Node
	exporter   *collector.Exporter       // nil without a collector of spans
	metrics    *collector.MetricExporter // nil without a collector of metrics
	front      *serve.Front
	gateway    *gateway.Gateway
	local      NATSServer
	publisher  *natspub.Publisher
	registry   *prometheus.Registry
	pprof      *pprofServer // nil for none

	listener net.Listener
	server   *http.Server
	served   chan struct{} // closed when server has stopped

	closing sync.Once
	closed  error
}

// Open starts a node. ctx bounds only the start. The error lists every fault of the options, or
// says what could not be started. After an error nothing is left running.
func Open(ctx context.Context, o Options) (_ *Runtime, err error) {
	o.EnsureDefaults()
	if err := o.Validate(); err != nil {
		return nil, err
	}
	budget, by := o.memoryBudget()
	o.divideMemory(budget)
	o.logMemory(budget, by)
	r := &Runtime{options: o, registry: prometheus.NewRegistry()}
	defer func() {
		if err != nil {
			r.abort()
		}
	}()
	if err := r.openCollector(ctx); err != nil {
		return nil, err
	}
	r.registry.MustRegister(collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	if err := o.memoryMetrics(r.registry, budget); err != nil {
		return nil, err
	}
	if r.store, err = openStore(ctx, &o); err != nil {
		return nil, err
	}
	if o.PprofListen != "" { // early, to profile a slow start
		if r.pprof, err = startPprof(ctx, o.PprofListen, o.Logger); err != nil {
			return nil, err
		}
	}
	if err := r.buildListing(ctx); err != nil {
		return nil, err
	}
	if err := r.startNATS(ctx); err != nil {
		return nil, err
	}
	if err := r.startNode(); err != nil {
		return nil, err
	}
	if err := r.startGateway(ctx); err != nil {
		return nil, err
	}
	r.node.Start()
	return r, nil
}

// buildListing builds the index of actors if the store has none, because an earlier release wrote
// it or it was damaged. A node can run without it, for example on a full disk or a store that lost
// a table. Then only Find fails, and the next start tries again.
func (r *Runtime) buildListing(ctx context.Context) error {
	log := r.options.Logger
	built, err := r.store.ListingBuilt()
	if built {
		return nil
	}
	var read, unread int
	if err == nil {
		log.Info("the index of actors is being built; this takes about ten seconds for a million actors")
		read, unread, err = r.store.BuildListing(ctx)
	}
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("runtime: build the index of actors: %w", ctx.Err())
	case err != nil:
		log.Error("the index of actors cannot be built, and no actors are found by conditions or in an order", "error", err)
	default:
		log.Info("the index of actors is built", "actors", read, "unreadable", unread)
	}
	return nil
}

func openStore(ctx context.Context, o *Options) (*engine.Store, error) {
	e := engine.Options{
		Dir: filepath.Join(o.Dir,
			"store"), DataDir: o.Dir, Disk: o.Disk, PlainCommit: o.PlainCommit, CacheBytes: o.CacheBytes,
		MemTableBytes: uint64(o.MemTableBytes / memTables), WriteBytes: o.MaxWriteBytes, MinFreeBytes: o.MinFreeBytes, Logger: o.Logger,
		AcceptDataLoss: o.AcceptDataLoss,
	}
	if o.NoSync {
		e.Durability = engine.NoSync
	}
	s, err := engine.Open(ctx, e)
	if errors.Is(err, engine.ErrLocked) {
		return nil, fmt.Errorf("runtime: the data in %s is in use by another process; stop it, or choose another directory with --data; see %s: %w", o.Dir, directoryPage, err)
	}
	if errors.Is(err, engine.ErrDamaged) && o.AcceptDataLoss {
		return nil, fmt.Errorf("runtime: the data in %s is damaged so that it cannot be opened without what was lost, either; docs/operate/damaged-store.md says what to do: %w", o.Dir, err)
	}
	if errors.Is(err, engine.ErrDamaged) {
		return nil, fmt.Errorf("runtime: the data in %s is damaged, and nothing of it was changed; docs/operate/damaged-store.md says what to do: %w", o.Dir, err)
	}
	if errors.Is(err, engine.ErrFormat) {
		return nil, fmt.Errorf("runtime: a newer version of the program wrote the data in %s, and nothing of it was lost; run that version, or see docs/operate/back-up.md#restore: %w", o.Dir, err)
	}
	if errors.Is(err, engine.ErrDiskFull) {
		return nil, fmt.Errorf("runtime: open the data in %s; docs/operate/free-disk.md says how to make space: %w", o.Dir, err)
	}
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		return nil, fmt.Errorf("runtime: the data in %s cannot be opened, because %s cannot be used; %s says what it needs: %w", o.Dir, path.Path, directoryPage, err)
	}
	if err != nil {
		return nil, fmt.Errorf("runtime: open the data in %s: %w", o.Dir, err)
	}
	return s, nil
}

// directoryPage describes what the directory of the data needs.
const directoryPage = "docs/operate/start.md#the-data-directory"

// startNATS starts the server in the process, if it is configured, and the publisher, if there is a
// server to publish to.
func (r *Runtime) startNATS(ctx context.Context) error {
	o := &r.options
	p := natspub.Options{
		Conn: o.NATSConn, Root: o.NATSRoot, Namespace: o.Namespace, JetStream: o.NATSJetStream, Outbox: r.store,
		Logger: o.Logger, Registerer: r.registry,
	}
	switch {
	case o.NATSListen != "":
		dir := ""
		if o.NATSJetStream {
			dir = filepath.Join(o.Dir, "nats")
		}
		var err error
		r.local, err = o.NATSServer(o.NATSListen, o.Token, dir, o.Logger)
		if err == nil && r.local == nil {
			err = errors.New("Options.NATSServer returned no server")
		}
		if err != nil {
			r.local = nil
			return fmt.Errorf("runtime: start NATS on %s; choose another address with --nats-listen: %w", o.NATSListen, err)
		}
		p.Dial = r.local.Connect
	case o.NATSURL != "":
		var options []nats.Option
		if o.NATSCredentials != "" {
			options = append(options, nats.UserCredentials(o.NATSCredentials))
		}
		p.Dial = natspub.URL(o.NATSURL, options...)
	case o.NATSConn == nil:
		return nil
	}
	var err error
	r.publisher, err = natspub.Start(ctx, p)
	return err
}

func (r *Runtime) startNode() error {
	o := &r.options
	s := node.Options{
		Options: options.Options{
			Store: r.store, Namespace: o.Namespace, IdleTimeout: o.IdleTimeout, Limits: o.Limits, TypeLimits: o.TypeLimits, MaxAwake: o.MaxAwake,
			MaxAwakeBytes: o.MaxAwakeBytes, MaxMailboxBytes: o.MaxMailboxBytes, MaxEventBytes: o.MaxEventBytes,
			TurnGrace: o.TurnGrace, AlarmConcurrency: o.AlarmConcurrency, Logger: o.Logger,
			Registerer: r.registry, Profile: o.PprofListen != "",
		},
		SQL: sqlite.Options{
			MaxOpen: o.SQL.MaxOpen, MaxMemory: o.SQL.MaxMemory, ConnMemory: o.SQL.ConnMemory, CacheBytes: o.SQL.CacheBytes,
			TurnBytes: o.SQL.TurnBytes, Temporary: o.SQL.Temporary, MaxTemporary: o.SQL.MaxTemporary, MaxLength: o.SQL.MaxLength, IdleTime: o.SQL.IdleTime,
		},
	}
	s.UsageOff = o.Usage.Off
	s.Traces = r.traceOptions()
	s.Audit.MaxAge = o.AuditMaxAge
	if r.publisher != nil {
		s.Changes = r.publisher
	}
	for _, d := range o.Actors {
		s.Behaviors = append(s.Behaviors, d.Behavior())
	}
	var err error
	r.node, err = node.New(s)
	if errors.Is(err, engine.ErrDamaged) {
		return fmt.Errorf("runtime: the data in %s is damaged; docs/operate/damaged-store.md says what to do: %w", r.options.Dir, err)
	}
	if err != nil {
		return err
	}
	if r.publisher != nil {
		endpoints := make([]natspub.Endpoint, len(s.Behaviors))
		for i, b := range s.Behaviors {
			endpoints[i] = natspub.Endpoint{Type: b.Type, Methods: r.node.Methods(b)}
		}
		if err := r.publisher.Serve(r.node, endpoints); err != nil {
			return fmt.Errorf("runtime: serve calls over NATS: %w", err)
		}
	}
	return errors.Join(r.registry.Register(storeMetrics{r.store}),
		r.registry.Register(newStorageMetrics(r.store, o.Namespace)),
		r.registry.Register(prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "cairn_trace_spans_unsent_total", Help: "Spans that the collector did not get; see the log.",
		}, r.unsent)))
}

func (r *Runtime) startGateway(ctx context.Context) error {
	o := &r.options
	loopback := false
	if o.Listen != "" {
		loopback, _ = isLoopback(o.Listen) // Validate has parsed it
	}
	f := serve.Options{
		Authorize: o.Authorize, Token: o.Token, AllowedOrigins: o.AllowedOrigins, LoopbackOnly: loopback,
		Limits: o.Gateway, Gatherer: r.registry, Registerer: r.registry, Logger: o.Logger,
	}
	for _, d := range o.Actors {
		f.Behaviors = append(f.Behaviors, d.Behavior())
	}
	var err error
	if r.front, err = serve.New(f); err != nil {
		return err
	}
	g := gateway.Options{Node: r.node, Health: r.Err}
	if !o.NoDashboard {
		g.Dashboard = dashboard.Handler()
	}
	r.gateway = gateway.New(r.front, g)
	if o.Listen == "" {
		return nil
	}
	if r.listener, err = new(net.ListenConfig).Listen(ctx, "tcp", o.Listen); err != nil {
		if errors.Is(err, syscall.EADDRINUSE) {
			return fmt.Errorf("runtime: %s is in use, perhaps by another node; choose another address with --listen: %w", o.Listen, err)
		}
		return fmt.Errorf("runtime: listen on %s: %w", o.Listen, err)
	}
	r.server, r.served = r.front.Server(r.gateway), make(chan struct{})
	go func() {
		defer close(r.served)
		if err := r.server.Serve(r.listener); err != nil && !errors.Is(err, http.ErrServerClosed) {
			o.Logger.Error("the HTTP server stopped", "error", err)
		}
	}()
	return nil
}

// abort undoes a start that failed half way.
func (r *Runtime) abort() {
	if r.server != nil {
		r.server.Close()
		<-r.served
	} else if r.listener != nil {
		r.listener.Close()
	}
	if r.node != nil {
		r.node.Kill()
	}
	r.closeCollector(context.Background(), 0)
	if r.publisher != nil {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		r.publisher.Close(ctx)
	}
	if r.local != nil {
		r.local.Close()
	}
	r.pprof.stop()
	if r.store != nil {
		r.store.Close()
	}
}

// Close stops the node: it refuses new calls, waits up to Options.DrainTimeout for turns, runs
// sleep hooks, publishes pending changes if NATS is connected, and closes the store. Work that did
// not finish in time was not acknowledged; the error names it. A second Close returns the same
// error.
func (r *Runtime) Close() error {
	r.closing.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), r.options.DrainTimeout)
		defer cancel()
		var faults []error
		r.node.EndWaits()
		r.closeGateway(ctx)
		faults = append(faults, r.node.Close(ctx))
		if r.publisher != nil {
			faults = append(faults, r.publisher.Close(ctx))
		}
		if r.local != nil {
			r.local.Close()
		}
		r.closeCollector(ctx, collectorTimeout)
		r.pprof.stop() // late, to profile a slow stop
		faults = append(faults, r.store.Close())
		r.closed = errors.Join(faults...)
	})
	return r.closed
}

// closeGateway ends HTTP. Clients that do not send their request or read their reply get a third of
// the drain's time, so that the actors can finish. A client that is cut off has no answer.
func (r *Runtime) closeGateway(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, r.options.DrainTimeout/3)
	defer cancel()
	if r.server != nil {
		if err := r.server.Shutdown(ctx); err != nil {
			r.options.Logger.Warn("HTTP requests did not finish and are cut off", "error", err)
			r.server.Close()
		}
		<-r.served
	}
	if err := r.front.Shutdown(ctx); err != nil && r.server == nil {
		r.options.Logger.Warn("event streams did not end", "error", err)
	}
}

// Crash stops a node on a memory disk as a power cut would, and returns the disk. That has
// everything that was synced, and each other block with a probability of unsyncedPercent, drawn
// from seed. No hook runs. Every acknowledged commit is on the returned disk. It is for tests.
func (r *Runtime) Crash(seed uint64, unsyncedPercent int) (left *engine.Disk, err error) {
	if r.options.Disk == nil {
		return nil, errors.New("runtime: Crash needs Options.Disk")
	}
	r.closing.Do(func() {
		r.node.Halt()
		left = r.options.Disk.Crash(seed, unsyncedPercent)
		r.abort()
	})
	if left == nil {
		return nil, errors.New("runtime: the node is closed")
	}
	return left, nil
}

// Handler returns the HTTP gateway, to be mounted at the root of the program's own server. The
// gateway checks requests as with Options.Listen. The program must restrict access to the server,
// by Token or Authorize.
func (r *Runtime) Handler() http.Handler { return r.gateway }

// Addr returns the address that the HTTP gateway listens on, or "" if Options.Listen was "".
func (r *Runtime) Addr() string {
	if r.listener == nil {
		return ""
	}
	return r.listener.Addr().String()
}

// Dir returns the directory of the data.
func (r *Runtime) Dir() string { return r.options.Dir }

// NATSURL returns the URL of the NATS server in the process, or the one that was configured, or "".
func (r *Runtime) NATSURL() string {
	if r.local != nil {
		return r.local.ClientURL()
	}
	return r.options.NATSURL
}

// Err returns why the node cannot take calls or cannot write, or nil.
func (r *Runtime) Err() error { return r.node.Err() }

// Gatherer returns the node's metrics in the form of the Prometheus client library.
func (r *Runtime) Gatherer() prometheus.Gatherer { return r.registry }

// Call implements actor.Node.
func (r *Runtime) Call(ctx context.Context, q *host.Request) (host.Reply, error) {
	return r.node.Call(ctx, q)
}

// TakesValues implements [host.Local].
func (r *Runtime) TakesValues() {}

// Lookup implements actor.Node.
func (r *Runtime) Lookup(ctx context.Context, a host.Address) (host.Status, error) {
	return r.node.Lookup(ctx, a)
}

// List implements actor.Node.
func (r *Runtime) List(ctx context.Context, q host.ListQuery) (host.ListPage, error) {
	return r.node.List(ctx, q)
}

// QueryMany runs a read-only statement on the databases of many actors, without waking them.
func (r *Runtime) QueryMany(ctx context.Context, in *host.QueryManyInput) (host.QueryManyOutput, error) {
	return r.node.QueryMany(ctx, in)
}

// Runs pages through the workflow runs that are paused or have failed, without waking an actor.
func (r *Runtime) Runs(ctx context.Context, q host.RunQuery) (host.RunPage, error) {
	return r.node.Runs(ctx, q)
}

// CountRuns counts the workflow runs that are paused or have failed, by type, state and reason.
func (r *Runtime) CountRuns(ctx context.Context) (host.RunCounts, error) {
	return r.node.CountRuns(ctx)
}

// Destroy implements actor.Node.
func (r *Runtime) Destroy(ctx context.Context, a host.Address) error {
	return r.node.Destroy(ctx, a)
}

// Subscribe delivers the events of an actor.
func (r *Runtime) Subscribe(ctx context.Context, a host.Address, s host.Subscription) (host.EventStream, error) {
	return r.node.Subscribe(ctx, a, s)
}

// WatchKV follows entries of an actor's key-value store, for [kv.Store.Watch].
func (r *Runtime) WatchKV(ctx context.Context, a host.Address, w kv.Watching) (kv.Watch, error) {
	return r.node.WatchKV(ctx, a, w)
}

// CheckToken returns the grant of an actor's token, for the program's own handlers. A call whose
// context has the grant, by token.With, may do what it allows and nothing else.
func (r *Runtime) CheckToken(ctx context.Context, a host.Address, text string) (*token.Grant, error) {
	return r.node.CheckToken(ctx, a, text)
}

// Audit returns a page of the audit log, the records of what operators did to actors, latest first.
func (r *Runtime) Audit(ctx context.Context, q audit.Query) (audit.Page, error) {
	return r.node.Audit(ctx, q)
}

// FollowAudit calls f for the records of the audit log as they are committed, until ctx ends or f
// returns an error.
func (r *Runtime) FollowAudit(ctx context.Context, q audit.Query, f func(*audit.Record) error) error {
	return r.node.FollowAudit(ctx, q, f)
}

// FollowChanges calls f for changes in actors as they become durable, until ctx ends or f returns
// an error.
func (r *Runtime) FollowChanges(ctx context.Context, q changes.Query, f func(*changes.Record) error) error {
	return r.node.FollowChanges(ctx, q, f)
}

// FollowTraces returns the spans of an actor as they end, without waking it. The error code is
// NotFound if there is no such actor, and FailedPrecondition if the node records no spans.
func (r *Runtime) FollowTraces(ctx context.Context, a host.Address, in hosttrace.FollowInput) (hosttrace.Tail, error) {
	return r.node.FollowTraces(ctx, a, in)
}

// Inspect reads an actor's raw keyspace.
func (r *Runtime) Inspect(ctx context.Context, a host.Address, q host.InspectQuery) (host.InspectPage, error) {
	return r.node.Inspect(ctx, a, q)
}

// ExportSQL writes an actor's SQLite database as a plain file, as of one commit, without waking the
// actor. The error code is NotFound if there is no such actor or if it has no database.
func (r *Runtime) ExportSQL(ctx context.Context, a host.Address, w io.Writer) error {
	return r.node.ExportSQL(ctx, a, w)
}

// ImportSQL replaces an actor's SQLite database with a plain file, in one commit, and applies the
// type's migrations. It creates the actor if necessary, and the actor wakes anew afterwards. The
// reason is logged. The file is held in memory, and the type's Limits.WriteSetBytes bounds it. The
// error code is InvalidArgument if the file is not a sound database, and TooLarge or QuotaExceeded
// if it does not fit.
func (r *Runtime) ImportSQL(ctx context.Context, a host.Address, file io.Reader,
	reason string) (host.SQLStatusOutput, error) {
	return r.node.ImportSQL(ctx, a, file, reason)
}

// Connect connects a client to an actor.
func (r *Runtime) Connect(ctx context.Context, a host.Address, q host.ConnectRequest) (host.LiveConnection, error) {
	return r.node.Connect(ctx, a, q)
}

// CallOver calls a method on behalf of the connection that token belongs to.
func (r *Runtime) CallOver(ctx context.Context, token string, q *host.Request) (host.Reply, error) {
	return r.node.CallOver(ctx, token, q)
}

// Disconnect ends the connection that token belongs to.
func (r *Runtime) Disconnect(ctx context.Context, a host.Address, token string) error {
	return r.node.Disconnect(ctx, a, token)
}
