package runtime

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	hostaudit "github.com/cairn-run/cairn/actor/host/audit"
	hosttrace "github.com/cairn-run/cairn/actor/host/trace"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/runtime/internal/audit"
	"github.com/cairn-run/cairn/runtime/internal/offline"
	"github.com/cairn-run/cairn/runtime/internal/part/kv"
	"github.com/cairn-run/cairn/runtime/internal/part/run"
	"github.com/cairn-run/cairn/runtime/internal/part/sqlite"
	"github.com/cairn-run/cairn/runtime/internal/part/trace"
	"github.com/cairn-run/cairn/runtime/internal/survey"
)

// An Offline reads the data of a stopped node, regardless of its actor types. It runs no actor.
// Only opening the store, ControlRun and RebuildIndex change the data. No node can open the data
// meanwhile.
type Offline struct {
	// Namespace selects the namespace; Inspect sets "default".
	Namespace string
	store     *engine.Store
}

// Inspect opens the data of a stopped node. It returns an error if a node is running on it, or if
// there is no data.
func Inspect(ctx context.Context, dir string) (*Offline, error) {
	if _, err := os.Stat(filepath.Join(dir, "store")); errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("runtime: there is no node's data in %s; see %s", dir, directoryPage)
	}
	options := Options{Dir: dir}
	budget, _ := options.memoryBudget()
	options.divideMemory(budget)
	s, err := openStore(ctx, &options)
	if err != nil {
		return nil, err
	}
	return &Offline{Namespace: "default", store: s}, nil
}

// Close closes the data.
func (o *Offline) Close() error { return o.store.Close() }

// Inspect reads an actor's raw keyspace.
func (o *Offline) Inspect(_ context.Context, a host.Address, q host.InspectQuery) (host.InspectPage, error) {
	return survey.StoredKeys(o.store, o.Namespace, a, q)
}

// ExportSQL writes an actor's SQLite database as a plain file. The error code is NotFound if there
// is no such actor or if it has no database.
func (o *Offline) ExportSQL(ctx context.Context, a host.Address, w io.Writer) error {
	return sqlite.StoredSQL(ctx, o.store, o.Namespace, a, w)
}

// Read answers a method that reads an actor's key-value store: kv.get, kv.get_many, kv.list,
// kv.count, kv.branches or kv.render. An actor that does not exist has no entries. It also answers
// trace.read.
func (o *Offline) Read(ctx context.Context, r *host.Request) (host.Reply, error) {
	if r.Method == host.TraceRead {
		return trace.StoredReply(ctx, o.store, o.Namespace, r)
	}
	return kv.StoredReply(o.store, o.Namespace, r, time.Now())
}

// QueryMany runs a read-only statement on the databases of many actors. The error code is
// UnknownType if there are no actors of the type.
func (o *Offline) QueryMany(ctx context.Context, in *host.QueryManyInput) (host.QueryManyOutput, error) {
	return offline.QueryStored(ctx, o.store, o.Namespace, in)
}

// TraceDocument returns spans of an actor and their parents as an OTLP document in JSON, and the
// cursor of the next page. The error code is NotFound if there is no such actor.
func (o *Offline) TraceDocument(ctx context.Context, a host.Address, in *hosttrace.ReadInput) ([]byte, string, error) {
	return trace.StoredDocument(ctx, o.store, o.Namespace, a, in)
}

// Lookup describes an actor. The error code is NotFound if there is none.
func (o *Offline) Lookup(_ context.Context, a host.Address) (host.Status, error) {
	return offline.StoredStatus(o.store, o.Namespace, a)
}

// Audit returns a page of the audit log.
func (o *Offline) Audit(_ context.Context, q hostaudit.Query) (hostaudit.Page, error) {
	return audit.Read(o.store, o.Namespace, q)
}

// Runs pages through the workflow runs that are paused or have failed.
func (o *Offline) Runs(_ context.Context, q host.RunQuery) (host.RunPage, error) {
	return run.StoredRuns(o.store, o.Namespace, q)
}

// CountRuns counts the workflow runs that are paused or have failed, by type, state and reason.
func (o *Offline) CountRuns(context.Context) (host.RunCounts, error) {
	counts, err := run.StoredRunCounts(o.store, o.Namespace, nil)
	return host.RunCounts{Counts: counts}, err
}

// ControlRun pauses or terminates an actor's workflow run: c.Verb is host.WorkflowPause or
// host.WorkflowTerminate. Use it for a run that ends the process of its node at each start. It
// makes the same commit as on a node, and returns when that is durable. A parent and children are
// notified when a node runs again. The error code is NotFound if there is no such actor or it has
// no run, FailedPrecondition if the run is over or is not c.Run, and InvalidArgument for another
// verb.
func (o *Offline) ControlRun(ctx context.Context, a host.Address, c host.RunControl) error {
	return offline.ControlStoredRun(ctx, o.store, o.Namespace, a, c)
}

// List pages through actors, in the order of the query or else of type and key. Conditions on the
// state find only paused actors.
func (o *Offline) List(_ context.Context, q host.ListQuery) (host.ListPage, error) {
	return offline.StoredList(o.store, o.Namespace, q)
}

// CheckIndex compares the index of actors with the rows of all actors. It calls fault for each row
// of the index that is missing or belongs to no actor, and returns the number of rows. If an
// earlier release wrote the data and no node of this one has run on it, built is false and nothing
// is compared.
func (o *Offline) CheckIndex(ctx context.Context, fault func(row string, missing bool)) (rows int,
	built bool, err error) {
	if built, err = o.store.ListingBuilt(); err != nil || !built {
		return 0, false, err
	}
	rows, err = o.store.CheckListing(ctx, fault)
	return rows, true, err
}

// RebuildIndex builds the index of actors anew, and returns how many actors it read.
func (o *Offline) RebuildIndex(ctx context.Context) (actors int, err error) {
	if err := o.store.ResetListing(); err != nil {
		return 0, err
	}
	actors, _, err = o.store.BuildListing(ctx)
	return actors, err
}
