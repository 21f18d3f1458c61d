package runtime_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/actor/actortest"
	"github.com/cairn-run/cairn/actor/handle"
	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/keyspace/tuple"
	"github.com/cairn-run/cairn/runtime"
	"github.com/cairn-run/cairn/workflow"
	wfhost "github.com/cairn-run/cairn/workflow/host"
)

// A desk handles claims, each by a workflow.
type desk struct {
	Paid  int
	Open  bool
	Notes []string
}

// A claim is the input of the workflow. How names what it does.
type claim struct {
	How string
	N   int
}

// A bureau is a program with desks. Scenarios and tests give the code of their runs.
type bureau struct {
	typ     *actor.Type[desk]
	run     *actor.Workflow[desk, claim, string]
	papers  *actor.Queue[desk, string, actor.None] // for the run
	consent *actor.Queue[desk, string, bool]       // requests to the run
	tidings *actor.Queue[desk, string, actor.None] // for the actor
	errands *actor.Queue[desk, string, actor.None] // for workers
	order   *actor.Action[desk, order, string]
	see     *actor.Query[desk, actor.None, desk]

	limits  actor.Limits
	idle    time.Duration
	options []workflow.Option
	wake    func(d *desk, ctx *actor.Context) error
	gate    func(name string) chan struct{} // of a scenario
}

// An order is the input of the desks' action.
type order struct {
	What string // "begin", "open", "note", "stuff", "chore" or "wedge"
	N    int
	How  string
}

// newBureau makes a program whose queue of papers has a name.
func newBureau(papers string, options ...workflow.Option) *bureau {
	typ := actor.NewType[desk]("desk")
	return &bureau{
		typ: typ, run: actor.NewWorkflow[claim, string](typ, "handle"), papers: actor.NewQueue[string](typ, papers,
			actor.QueueConfig{ByRun: true}),
		consent: actor.NewRequestQueue[string, bool](typ, "consent", actor.QueueConfig{ByRun: true}),
		tidings: actor.NewQueue[string](typ, "tidings", actor.QueueConfig{}),
		errands: actor.NewQueue[string](typ, "errands", actor.QueueConfig{Workers: true}),
		order:   actor.NewAction[order, string](typ, "order"), see: actor.NewQuery[actor.None, desk](typ, "see"),
		limits: actor.Limits{TurnTimeout: 10 * time.Second}, idle: time.Second, options: options,
	}
}

var (
	// office is the program of tests that need only one.
	office = newBureau("papers")

	// ways are the functions of workflows, by the name in the claim.
	ways sync.Map
)

type way = func(ctx workflow.Context, c claim) (string, error)

func does(name string, f way) { ways.Store(name, f) }

func runClaim(ctx workflow.Context, c claim) (string, error) {
	f, ok := ways.Load(c.How)
	if !ok {
		return "", fmt.Errorf("no way %q", c.How)
	}
	return f.(way)(ctx, c)
}

func (b *bureau) definition() actor.Definition {
	return actor.Define(b.typ, actor.Spec[desk]{
		IdleTimeout: b.idle, Limits: b.limits, OnWake: b.wake,
		Migrations: []actor.Migration{{Name: "1", SQL: "CREATE TABLE paid(note TEXT)"}},
	}, actor.On(b.order, b.obey), actor.OnQuery(b.see, b.seen), actor.OnRun(b.run, runClaim, b.options...),
		actor.OnMessage(b.tidings, func(d *desk, _ *actor.Context, s string) error { d.Notes = append(d.Notes, s); return nil }))
}

func (b *bureau) obey(d *desk, ctx *actor.Context, o order) (string, error) {
	switch o.What {
	case "begin":
		_, err := b.run.Start(ctx, claim{o.How, o.N})
		return "", err
	case "stuff": // stores N useless bytes
		return "", ctx.KV().Put(tuple.Tuple{"filler"}, make([]byte, o.N))
	case "chore":
		return "", ctx.Go("chore", func(task *actor.Task) error { <-task.Done(); <-b.gate("chore"); return nil })
	case "wedge": // regardless of its context
		<-b.gate("wedge")
	case "open":
		d.Open = true
	case "note":
		d.Notes = append(d.Notes, o.How)
	}
	return "", nil
}

// seen returns the state, and the rows among its notes.
func (b *bureau) seen(d desk, ctx *actor.ReadContext, _ actor.None) (desk, error) {
	rows, err := selectAll(ctx, "SELECT 'row ' || note FROM paid ORDER BY rowid")
	d.Notes = append(d.Notes, rows...)
	return d, err
}

// pay is an update that touches everything that a turn has.
func (b *bureau) pay(ctx workflow.Context, name string, n int) error {
	_, err := actor.UpdateState(ctx, name, func(d *desk, ctx *actor.Context) (int, error) {
		d.Paid += n
		_, serr := ctx.SQL().ExecContext(ctx, "INSERT INTO paid(note) VALUES (?)", name)
		_, qerr := b.tidings.Put(ctx, "tidings of "+name)
		return d.Paid, errors.Join(serr, qerr, ctx.KV().Put(tuple.Tuple{"paid", name}, []byte("yes")))
	})
	return err
}

// at returns the run of a desk.
func (b *bureau) at(n actor.Node, key ...string) handle.Run[claim, string] {
	return b.run.Of(b.typ.Ref(n, key...))
}

func startClaim(t testing.TB, n actor.Node, key, how string) {
	t.Helper()
	must(t, errOf(office.at(n, key).Start(context.Background(), claim{how, 1})))
}

func wantResult(t *testing.T, n actor.Node, key, want string) {
	t.Helper()
	got, err := office.at(n, key).Result(context.Background())
	fatalIf(t, err != nil || got != want, "the run returned %q, %v; want %q", got, err, want)
}

func claimStatus(t *testing.T, n actor.Node, key string) wfhost.RunStatus {
	t.Helper()
	st, err := office.at(n, key).Status(context.Background())
	must(t, err)
	return st
}

func deskAt(key ...string) host.Address { return host.Address{Type: "desk", Key: key} }

// awaitWaiting returns the status of the run of a desk when it waits for something.
func awaitWaiting(t *testing.T, rt *runtime.Runtime, key ...string) wfhost.RunStatus {
	t.Helper()
	in := host.WorkflowWatchInput{WaitMS: 30_000}
	for {
		var out host.WorkflowWatchOutput
		must(t, errOf(invoke(t, rt, host.Request{Address: deskAt(key...), Method: host.WorkflowWatch}, &in, &out)))
		if len(out.Status.Waiting) > 0 {
			return out.Status
		}
		in.After = out.Version
	}
}

// exactCounts compares each actor's own count of keys and bytes with its rows. Its run tells the
// store the size of the rows that it overwrites.
func exactCounts(t *testing.T, h *actortest.Harness) {
	t.Helper()
	page, err := h.List(t.Context(), host.ListQuery{Limit: 1000})
	must(t, err)
	for _, st := range page.Actors {
		var keys, bytes int64
		for _, k := range h.Inspect(st.Type, st.Key...) {
			if keyspace.Kind(k.Key[0]) != keyspace.Expiry.Kind { // the index of keys that expire does not count
				keys++
				bytes += int64(len(k.Key) + k.Size)
			}
		}
		errorIf(t, st.Keys != keys || st.Bytes != bytes, "actor %s%q says that it has %d keys and %d bytes; it has %d and %d",
			st.Type, st.Key, st.Keys, st.Bytes, keys, bytes)
	}
}
