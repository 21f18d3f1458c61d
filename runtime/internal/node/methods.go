package node

import (
	"context"
	"io"
	"slices"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	hostaudit "github.com/cairn-run/cairn/actor/host/audit"
	"github.com/cairn-run/cairn/actor/host/changes"
	hostkv "github.com/cairn-run/cairn/actor/host/kv"
	"github.com/cairn-run/cairn/actor/host/method"
	hosttoken "github.com/cairn-run/cairn/actor/host/token"
	hosttrace "github.com/cairn-run/cairn/actor/host/trace"
	hostusage "github.com/cairn-run/cairn/actor/host/usage"
	"github.com/cairn-run/cairn/runtime/internal/audit"
	"github.com/cairn-run/cairn/runtime/internal/call"
	"github.com/cairn-run/cairn/runtime/internal/duty"
	"github.com/cairn-run/cairn/runtime/internal/kernel"
	"github.com/cairn-run/cairn/runtime/internal/kernel/attach"
	"github.com/cairn-run/cairn/runtime/internal/kernel/limit"
	"github.com/cairn-run/cairn/runtime/internal/part/conn"
	"github.com/cairn-run/cairn/runtime/internal/part/event"
	"github.com/cairn-run/cairn/runtime/internal/part/kv"
	"github.com/cairn-run/cairn/runtime/internal/part/run"
	"github.com/cairn-run/cairn/runtime/internal/part/sqlite"
	"github.com/cairn-run/cairn/runtime/internal/part/token"
	"github.com/cairn-run/cairn/runtime/internal/part/trace"
	"github.com/cairn-run/cairn/runtime/internal/part/usage"
	"github.com/cairn-run/cairn/runtime/internal/survey"
)

// A Node hosts actors over one store: the kernel, and the functions of its parts for gateways and
// programs.
type Node struct{ *kernel.Kernel }

var (
	_ host.Node        = (*Node)(nil)
	_ host.EventSource = (*Node)(nil)
	_ host.Inspector   = (*Node)(nil)
	_ changes.Feed     = (*Node)(nil)
	_ host.Databases   = (*Node)(nil)
	_ hostkv.Watcher   = (*Node)(nil)

	_ hosttoken.Checker = (*Node)(nil)
	_ host.Tracer       = (*Node)(nil)

	_ hosttrace.Documents = (*Node)(nil)
	_ hosttrace.Sampler   = (*Node)(nil)
	_ hosttrace.Finder    = (*Node)(nil)
	_ hosttrace.Follower  = (*Node)(nil)
	_ hostusage.Meter     = (*Node)(nil)
	_ hostaudit.Log       = (*Node)(nil)
)

// New makes a node. Start begins to fire alarms and recovers pending messages. The error is about
// the options.
func New(o Options) (*Node, error) {
	parts := Parts(&o)
	router, err := call.New(parts, newQuery)
	if err != nil {
		return nil, err
	}
	k, err := kernel.New(o.Options, kernel.Composition{Parts: append(parts, router), Turn: newTurn})
	if err != nil {
		return nil, err
	}
	return &Node{k}, nil
}

// BeginRequest implements host.Tracer.
func (n *Node) BeginRequest(typ string, cause host.Span) host.Span {
	if p := kernel.PartOf[*trace.Recorder](n.Kernel); p != nil {
		return p.BeginRequest(typ, cause)
	}
	return cause
}

// EndRequest implements host.Tracer.
func (n *Node) EndRequest(a host.Address, kind, name string, s, cause host.Span, began time.Time, err error) {
	if p := kernel.PartOf[*trace.Recorder](n.Kernel); p != nil {
		p.EndRequest(a, kind, name, s, cause, began, err)
	}
}

// TraceDocument implements trace.Documents.
func (n *Node) TraceDocument(ctx context.Context, a host.Address, in *hosttrace.ReadInput) ([]byte, string, error) {
	return trace.Document(ctx, n.Kernel, a, in)
}

// Usage implements usage.Meter.
func (n *Node) Usage(ctx context.Context, q hostusage.Query) (hostusage.Page, error) {
	return usage.Usage(n.Kernel, ctx, q)
}

// Top implements usage.Meter.
func (n *Node) Top(q hostusage.TopQuery) (hostusage.Top, error) { return usage.Top(n.Kernel, q) }

// FollowTraces implements trace.Follower.
func (n *Node) FollowTraces(ctx context.Context, a host.Address, in hosttrace.FollowInput) (hosttrace.Tail, error) {
	return trace.Follow(ctx, n.Kernel, a, in)
}

// FindTrace implements trace.Finder.
func (n *Node) FindTrace(ctx context.Context, q hosttrace.FindQuery) (hosttrace.FindPage, error) {
	return trace.Find(ctx, n.Kernel, &q)
}

// Sampling implements trace.Sampler.
func (n *Node) Sampling() hosttrace.Sampling {
	if p := kernel.PartOf[*trace.Recorder](n.Kernel); p != nil {
		return p.Sampling()
	}
	return hosttrace.Sampling{}
}

// SetSampling implements trace.Sampler.
func (n *Node) SetSampling(ctx context.Context, s hosttrace.Sampling) (hosttrace.Sampling, error) {
	if p := kernel.PartOf[*trace.Recorder](n.Kernel); p != nil {
		return p.SetSampling(ctx, s)
	}
	return hosttrace.Sampling{}, host.Errorf(host.FailedPrecondition, "the configuration of the node turns traces off")
}

// Start begins to fire alarms and to continue the work that was under way when the store was last
// open. No call may come before it returns.
func (n *Node) Start() {
	n.Kernel.Start()
	n.Go(func() { duty.Recover(n.Kernel) })
}

// CheckLimits returns what is wrong with limits; zero ones have their defaults. The error is a
// *limit.Error.
func CheckLimits(l host.Limits) error {
	_, err := limit.New(l, slices.Collect(attach.As[kernel.Limiter](Parts(new(Options)))))
	return err
}

// Methods lists the methods of an actor type that can be called by name: its own and the built-in
// ones.
func (n *Node) Methods(b *host.Behavior) []host.Method {
	methods := slices.Clone(b.Methods)
	for _, r := range method.All() {
		methods = append(methods, host.Method{Name: r.Name, Kind: r.Kind})
	}
	return methods
}

// Lookup implements host.Node.
func (n *Node) Lookup(ctx context.Context, addr host.Address) (host.Status, error) {
	return survey.Lookup(n.Kernel, ctx, addr)
}

// List implements host.Node.
func (n *Node) List(ctx context.Context, q host.ListQuery) (host.ListPage, error) {
	return survey.List(n.Kernel, ctx, q)
}

// Inspect implements host.Inspector.
func (n *Node) Inspect(ctx context.Context, addr host.Address, q host.InspectQuery) (host.InspectPage, error) {
	return survey.Inspect(n.Kernel, ctx, addr, q)
}

// Subscribe implements host.EventSource.
func (n *Node) Subscribe(ctx context.Context, addr host.Address, sub host.Subscription) (host.EventStream, error) {
	return event.Subscribe(n.Kernel, ctx, addr, sub)
}

// WatchKV implements kv.Watcher.
func (n *Node) WatchKV(ctx context.Context, addr host.Address, w hostkv.Watching) (hostkv.Watch, error) {
	return kv.WatchKV(ctx, n.Kernel, addr, w)
}

// CheckToken implements token.Checker.
func (n *Node) CheckToken(ctx context.Context, addr host.Address, text string) (*hosttoken.Grant, error) {
	return token.Check(ctx, n.Kernel, addr, text)
}

// Audit implements audit.Log.
func (n *Node) Audit(ctx context.Context, q hostaudit.Query) (hostaudit.Page, error) {
	return audit.Audit(n.Kernel, q)
}

// FollowAudit implements audit.Log.
func (n *Node) FollowAudit(ctx context.Context, q hostaudit.Query, f func(*hostaudit.Record) error) error {
	return audit.Follow(ctx, n.Kernel, q, f)
}

// FollowChanges implements changes.Feed.
func (n *Node) FollowChanges(ctx context.Context, q changes.Query, f func(*changes.Record) error) error {
	return n.Changes.Live.Follow(ctx, q, n.NoWaits(), f)
}

// BeginChanges begins to follow changes. The caller must call the result once: it does the rest of
// FollowChanges.
func (n *Node) BeginChanges(q changes.Query) (tell func(context.Context, func(*changes.Record) error) error, err error) {
	tell, err = n.Changes.Live.Begin(q, n.NoWaits())
	return tell, err
}

// Connect opens or resumes a connection of a client to an actor.
func (n *Node) Connect(ctx context.Context, addr host.Address, r host.ConnectRequest) (host.LiveConnection, error) {
	return conn.Connect(n.Kernel, ctx, addr, r)
}

// CallOver calls a method over a connection that a token names.
func (n *Node) CallOver(ctx context.Context, token string, r *host.Request) (host.Reply, error) {
	return conn.CallOver(n.Kernel, ctx, token, r)
}

// Disconnect ends the connection that a token names.
func (n *Node) Disconnect(ctx context.Context, addr host.Address, token string) error {
	return conn.Disconnect(n.Kernel, ctx, addr, token)
}

// ExportSQL implements host.Databases.
func (n *Node) ExportSQL(ctx context.Context, addr host.Address, w io.Writer) error {
	return sqlite.ExportStored(ctx, n.Kernel, addr, w)
}

// ImportSQL implements host.Databases.
func (n *Node) ImportSQL(ctx context.Context, addr host.Address, file io.Reader,
	reason string) (host.SQLStatusOutput, error) {
	return sqlite.SQLiteIn(n.Kernel).ImportSQL(ctx, n.Kernel, addr, file, reason)
}

// QueryMany implements host.Databases.
func (n *Node) QueryMany(ctx context.Context, in *host.QueryManyInput) (host.QueryManyOutput, error) {
	return sqlite.QueryMany(ctx, n.Kernel, in, func(q host.ListQuery, after map[string]string) (host.ListPage, error) {
		return survey.ListAfter(n.Kernel, ctx, q, after)
	})
}

// Runs pages through the workflow runs of the node.
func (n *Node) Runs(ctx context.Context, q host.RunQuery) (host.RunPage, error) {
	return run.Runs(n.Kernel, ctx, q)
}

// CountRuns counts the workflow runs that are paused or have failed.
func (n *Node) CountRuns(ctx context.Context) (host.RunCounts, error) {
	return run.CountRuns(n.Kernel, ctx)
}
