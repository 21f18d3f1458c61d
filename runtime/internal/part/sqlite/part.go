// Package sqlite is the part for the SQLite database: a turn is a transaction of it, and pages are
// keys.
package sqlite

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/runtime/internal/call"
	"github.com/cairn-run/cairn/runtime/internal/kernel"
	"github.com/cairn-run/cairn/runtime/internal/kernel/fault"
	"github.com/cairn-run/cairn/runtime/internal/kernel/limit"
	"github.com/cairn-run/cairn/runtime/internal/kernel/options"
	"github.com/cairn-run/cairn/sqlitevfs"
)

// Options configure the pool of connections.
type Options = sqlitevfs.Options

// The defaults of SQLOptions for one connection, in bytes.
const (
	DefaultConnMemory = sqlitevfs.DefaultConnMemory
	DefaultConnCache  = sqlitevfs.DefaultCacheBytes
	DefaultTemporary  = sqlitevfs.DefaultTemporary
)

// Part is the part for the SQLite database.
type Part struct {
	options  Options
	imported func(*kernel.Turn) error
	Pool     *sqlitevfs.Pool // opens the connections of the actors' databases
}

var _ interface {
	kernel.Checker
	kernel.Limiter
	kernel.Declarer
	kernel.Opener
	call.Server
	kernel.Meter
	kernel.Preparer
} = (*Part)(nil)

// New makes the part with a bound for its connections. imported is called in the turn that replaces
// a database.
func New(o Options, imported func(*kernel.Turn) error) *Part {
	return &Part{options: o, imported: imported}
}

// Name implements kernel.Part.
func (*Part) Name() string { return "sqlite" }

// SQLiteIn returns the part of a node.
func SQLiteIn(s *kernel.Kernel) *Part { return kernel.PartOf[*Part](s) }

// Check implements kernel.Checker.
func (*Part) Check(o *options.Options) error {
	var faults []error
	for _, b := range o.Behaviors {
		if err := sqlitevfs.ValidateMigrations(migrations(b)); err != nil {
			faults = append(faults, fmt.Errorf("sqlite: migrations of actor type %q: %w", b.Type, err))
		}
	}
	return errors.Join(faults...)
}

// CheckLimits implements kernel.Limiter.
func (*Part) CheckLimits(l host.Limits) error {
	for _, n := range []struct {
		name               string
		value, least, most int64
	}{
		// the node's options go before it
		{"sql_memory_bytes", l.SQLMemoryBytes, sqlitevfs.MinConnMemory, math.MaxInt64},
		{"sql_temporary_bytes", l.SQLTemporaryBytes, sqlitevfs.MinTemporary, math.MaxInt64},
		{"sql_turn_bytes", l.SQLTurnBytes, sqlitevfs.MinTurnBytes, engine.MaxWriteSetCap},
		{"sql_value_bytes", int64(l.SQLValueBytes), sqlitevfs.MinLength, sqlitevfs.MaxLength},
	} {
		if n.value > n.most {
			return &limit.Error{Name: n.name,
				Reason: fmt.Sprintf("is %d; the most is %d", n.value, n.most), Limit: n.most, Actual: n.value}
		}
		if n.value != 0 && n.value < n.least {
			return &limit.Error{Name: n.name,
				Reason: fmt.Sprintf("is %d; it must be %d or more", n.value, n.least), Limit: n.least, Actual: n.value}
		}
	}
	return nil
}

// sqlLimits returns the limits of an actor's database.
func sqlLimits(l *limit.Set) sqlitevfs.Limits {
	return sqlitevfs.Limits{ConnMemory: l.SQLMemoryBytes, Temporary: l.SQLTemporaryBytes,
		TurnBytes: l.SQLTurnBytes, MaxLength: l.SQLValueBytes}
}

// Open implements kernel.Opener.
func (p *Part) Open(s *kernel.Kernel) (err error) {
	o := p.options
	if o.Logger == nil {
		o.Logger = s.Logger
	}
	if p.Pool, err = sqlitevfs.NewPool(o); err != nil {
		return fmt.Errorf("sqlite: Options.SQL: %w", err)
	}
	return nil
}

// Close implements kernel.Opener. It closes the connections and waits a short time until none is in
// use. Only a query or an abandoned handler can have one now: its statements are interrupted, but a
// handler that keeps rows open cannot be ended.
func (p *Part) Close(s *kernel.Kernel) error {
	closed := make(chan error, 1)
	go func() { closed <- p.Pool.Close() }()
	timer := time.NewTimer(s.Options.TurnGrace)
	defer timer.Stop()
	select {
	case err := <-closed:
		if err != nil {
			s.Logger.Error("close SQL connections", "error", err)
		}
		return nil
	case <-timer.C:
		return errors.New("sqlite: SQL statements of handlers that ignore their deadline are left behind")
	}
}

// Collectors implements kernel.Meter.
func (p *Part) Collectors(*kernel.Kernel) []prometheus.Collector {
	gauge := func(name, help string, f func(sqlitevfs.Stats) float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help},
			func() float64 { return f(p.Pool.Stats()) })
	}
	total := func(name, help string, f func(sqlitevfs.Stats) float64) prometheus.Collector {
		return prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help},
			func() float64 { return f(p.Pool.Stats()) })
	}
	return []prometheus.Collector{
		gauge("cairn_sql_connections", "Open connections to databases of actors.",
			func(s sqlitevfs.Stats) float64 { return float64(s.Open) }),
		gauge("cairn_sql_connections_used", "Those of them that a turn or query uses right now.",
			func(s sqlitevfs.Stats) float64 { return float64(s.InUse) }),
		gauge("cairn_sql_bytes", "Estimated memory of open connections.",
			func(s sqlitevfs.Stats) float64 { return float64(s.Bytes) }),
		total("cairn_sql_opened_total", "Connections opened.",
			func(s sqlitevfs.Stats) float64 { return float64(s.Opened) }),
		total("cairn_sql_evictions_total", "Connections closed to make room for others.",
			func(s sqlitevfs.Stats) float64 { return float64(s.Evicted) }),
	}
}

// Translate implements fault.Translator.
func (*Part) Translate(err error) (e *host.Error, id string) {
	var (
		passed    *sqlitevfs.LimitError
		migration *sqlitevfs.MigrationError
	)
	switch {
	case errors.As(err, &passed):
		return host.OverLimit(passed.What, passed.Limit, passed.Actual), ""
	case errors.Is(err, sqlitevfs.ErrBusy): // before ErrFull, which SQLite makes of a shared bound
		return host.Errorf(host.Overloaded, "too many databases are in use at once").Retry(), ""
	case errors.Is(err, sqlitevfs.ErrFull):
		return host.Errorf(host.QuotaExceeded, "the actor's database cannot grow: its storage quota is used up"), ""
	case errors.Is(err, sqlitevfs.ErrReadOnly):
		return host.Errorf(host.ReadOnly, "a query cannot change anything"), ""
	case errors.Is(err, sqlitevfs.ErrRefused), errors.Is(err, sqlitevfs.ErrOpenTransaction):
		return host.Errorf(host.FailedPrecondition, "%s", sqlMessage(err)), ""
	case errors.Is(err, sqlitevfs.ErrClosed):
		return host.Errorf(host.FailedPrecondition, "a database handle was used after the end of its turn or query"), ""
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return nil, "" // which says more than the error that it caused
	case errors.Is(err, sqlitevfs.ErrInterrupted):
		return host.Errorf(host.Canceled, "the call was canceled"), ""
	case errors.As(err, &migration):
		id = fault.NewID()
		return host.Errorf(host.Internal,
			"the migration %q of the actor's database failed (error %s); the node's log has the cause", migration.Name, id).
			With("error_id", id).With("migration", migration.Name), id
	}
	return nil, ""
}

// sqlMessage is the message of SQLite, or else the text of the error.
func sqlMessage(err error) string {
	if e, ok := errors.AsType[*sqlitevfs.Error](err); ok && e.Message != "" {
		return e.Message
	}
	return err.Error()
}
