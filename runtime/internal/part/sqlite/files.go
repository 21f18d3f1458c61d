package sqlite

import (
	"context"
	"errors"
	"io"
	"log/slog"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/runtime/internal/audit"
	"github.com/cairn-run/cairn/runtime/internal/kernel"
	"github.com/cairn-run/cairn/runtime/internal/kernel/address"
	"github.com/cairn-run/cairn/runtime/internal/kernel/fault"
	"github.com/cairn-run/cairn/runtime/internal/kernel/park"
	"github.com/cairn-run/cairn/sqlitevfs"
)

// ExportStored implements host.Databases.ExportSQL. The snapshot that it writes from stays open
// until the writer has taken it all.
func ExportStored(ctx context.Context, s *kernel.Kernel, addr host.Address, w io.Writer) error {
	if _, err := s.StoredTypeOf(addr); err != nil {
		return err
	}
	snap, _, err := s.Durable(ctx, addr)
	if err != nil {
		return err
	}
	defer snap.Close()
	return exportError(s, exportSQL(ctx, snap, addr, w))
}

// exportError makes the public error of an export, except errors of the writer.
func exportError(s *kernel.Kernel, err error) error {
	if sink, ok := errors.AsType[*sinkError](err); ok {
		return sink.err
	}
	if err != nil {
		return s.StoreError(err)
	}
	return nil
}

// StoredSQL writes the database of an actor from a store; no node need run on it. Its errors are
// for operators.
func StoredSQL(ctx context.Context, store *engine.Store, namespace string, addr host.Address, w io.Writer) error {
	id, ok, err := store.Lookup(engine.Identity{Namespace: namespace, Type: addr.Type, Key: addr.Key})
	if err == nil && !ok {
		err = fault.NotFound(addr)
	}
	if err != nil {
		return err
	}
	snap := store.Snapshot(id)
	defer snap.Close()
	err = exportSQL(ctx, snap, addr, w)
	if sink, ok := errors.AsType[*sinkError](err); ok {
		return sink.err
	}
	return err
}

func exportSQL(ctx context.Context, snap *engine.Snapshot, addr host.Address, w io.Writer) error {
	r := SnapshotReader{snap}
	m, ok, err := sqlitevfs.ReadMetadata(r)
	if err != nil {
		return err
	}
	if !ok || m.Pages == 0 {
		return host.Errorf(host.NotFound, "actor %s has no database", address.Format(addr)).
			With("actor", address.Format(addr))
	}
	_, err = sqlitevfs.Export(ctx, sink{w}, r)
	return err
}

// A sink marks the errors of a writer as such.
type sink struct{ w io.Writer }

// Write implements io.Writer.
func (s sink) Write(p []byte) (int, error) {
	n, err := s.w.Write(p)
	if err != nil {
		err = &sinkError{err}
	}
	return n, err
}

type sinkError struct{ err error }

// Error implements error.
func (e *sinkError) Error() string { return e.err.Error() }

// Unwrap returns the cause.
func (e *sinkError) Unwrap() error { return e.err }

// ImportSQL implements host.Databases.ImportSQL. The file is read before the actor's turn begins,
// so that a slow reader delays no caller. The actor is loaded anew afterwards, because its caches
// of its rows are wrong.
func (p *Part) ImportSQL(ctx context.Context, s *kernel.Kernel, addr host.Address, file io.Reader,
	reason string) (host.SQLStatusOutput, error) {
	var out host.SQLStatusOutput
	t, err := s.TypeOf(addr)
	if err != nil {
		return out, err
	}
	from := kernel.CallerOf(ctx)
	switch {
	case reason == "":
		return out, host.Errorf(host.InvalidArgument, "the import of a database needs a reason, which is logged")
	case len(reason) > park.MaxReason:
		return out, host.OverLimit("bytes of the reason", park.MaxReason, int64(len(reason))).With("field", "reason")
	case from == nil && s.Draining.Load():
		return out, fault.Unavailable("the node is shutting down")
	}
	limit := int64(s.LimitsOf(t, address.Append(nil, addr)).Storage.MaxWriteSet)
	if f, ok := file.(interface{ Len() int }); ok && int64(f.Len()) > limit {
		return out, host.OverLimit("bytes of the file", limit, int64(f.Len())) // before the client sends it
	}
	counted := &counter{r: file}
	spooled, err := p.Pool.ReadFile(counted, limit)
	switch {
	case counted.n > limit:
		return out, host.OverLimit("bytes of the file", limit, counted.n)
	case errors.Is(err, sqlitevfs.ErrBusy):
		return out, host.Errorf(host.Overloaded,
			"other imports and large sorts take the memory that this file needs").Retry()
	case errors.Is(err, sqlitevfs.ErrFull):
		return out, s.StoreError(err)
	case err != nil:
		return out, host.Errorf(host.InvalidArgument, "the file cannot be read: %s", err)
	}
	defer spooled.Close()
	ctx, entry := audit.LogOf(s).
		Begin(ctx, "sql.import", audit.JSON(map[string]any{"reason": reason, "bytes": counted.n}), from)
	b := kernel.NewProcedure("sql.import", func(c *kernel.Core, w *kernel.Work) error {
		err := c.System(w, "sql.import", func(h *kernel.Turn) (err error) {
			entry.Join(h)
			if out, err = p.replace(h, spooled); err != nil {
				return err
			}
			if err := p.imported(h); err != nil {
				return err
			}
			entry.Output(&out)
			attrs := c.Actor.Attrs(slog.String("reason", reason), slog.Int64("bytes", counted.n))
			h.Then(func() {
				s.Logger.LogAttrs(s.Life, slog.LevelInfo, "a database was imported", attrs...)
			})
			return nil
		})
		if err == nil {
			c.Broken = true // once it is committed
			// before: no query of the imported data may find a connection that knows the old data
			DatabaseOf(&c.Attached).Close(c)
		}
		return err
	})
	b.Operates = true
	_, err = s.CallTurn(ctx, t, &host.Request{Address: addr}, from, host.SpanOf(ctx),
		kernel.Call{Method: -1, Builtin: b}, false)
	if err != nil {
		return host.SQLStatusOutput{}, err
	}
	return out, nil
}

// A counter counts the bytes that are read.
type counter struct {
	r io.Reader
	n int64
}

// Read implements io.Reader.
func (c *counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}

// replace replaces the actor's database, and brings it to the type's migrations.
func (p *Part) replace(t *kernel.Turn, file *sqlitevfs.File) (host.SQLStatusOutput, error) {
	c := t.Core
	b := DatabaseOf(&c.Attached)
	d := b.Get(t.Actor)
	if d == nil {
		return host.SQLStatusOutput{}, fault.Unavailable("the actor was restarted")
	}
	w := &sqlTurn{Context: t, t: t, b: b}
	b.published = c.Rows.Version() // even if it fails half way
	m, err := d.ImportFile(w, w, file)
	if unfit, ok := errors.AsType[*sqlitevfs.ImportError](err); ok {
		return host.SQLStatusOutput{}, host.Errorf(host.InvalidArgument, "%s", unfit)
	}
	if err != nil {
		return host.SQLStatusOutput{}, err
	}
	s := schemaOf(t.Actor.Type)
	if len(s.migrations) > 0 && !s.current(m) {
		err := p.Prepare(t)
		if failed, ok := errors.AsType[*sqlitevfs.MigrationError](err); ok {
			return host.SQLStatusOutput{},
				host.Errorf(host.InvalidArgument, "the file cannot be migrated to the schema of the code: %s", failed)
		}
		if err != nil {
			return host.SQLStatusOutput{}, err
		}
		m.Sequence++
		m.Migrations, m.Fingerprint = uint32(len(s.migrations)), s.fingerprint
	}
	return s.status(m), nil
}
