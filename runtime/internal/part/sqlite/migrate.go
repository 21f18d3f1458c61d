package sqlite

import (
	"errors"
	"log/slog"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime/internal/audit"
	"github.com/cairn-run/cairn/runtime/internal/kernel"
	"github.com/cairn-run/cairn/runtime/internal/kernel/attach"
	"github.com/cairn-run/cairn/sqlitevfs"
)

// migrations returns a type's migrations in the form of package sqlitevfs.
func migrations(b *host.Behavior) []sqlitevfs.Migration {
	ms := make([]sqlitevfs.Migration, len(b.Migrations))
	for i, m := range b.Migrations {
		ms[i] = sqlitevfs.Migration{Name: m.Name, SQL: m.SQL}
	}
	return ms
}

// A sqlSchema is an actor type's migrations.
type sqlSchema struct {
	migrations  []sqlitevfs.Migration
	fingerprint [16]byte
}

// noSchema is the schema of types without migrations.
var noSchema = &sqlSchema{fingerprint: sqlitevfs.Fingerprint(nil)}

// schemaOf returns the schema of a type.
func schemaOf(t *kernel.Type) *sqlSchema {
	if s := attach.Get[*sqlSchema](&t.Attached); s != nil {
		return s
	}
	return noSchema
}

// Declare implements kernel.Declarer.
func (*Part) Declare(t *kernel.Type) error {
	if len(t.Migrations) > 0 {
		ms := migrations(t.Behavior)
		attach.Make(&t.Attached,
			func() *sqlSchema { return &sqlSchema{migrations: ms, fingerprint: sqlitevfs.Fingerprint(ms)} })
	}
	return nil
}

// current reports whether a database has exactly the migrations. It compares hashes, and is cheap.
func (s *sqlSchema) current(m sqlitevfs.Metadata) bool {
	return int(m.Migrations) == len(s.migrations) && m.Fingerprint == s.fingerprint
}

// Stale implements kernel.Preparer: it reports whether the actor's database lacks the type's
// migrations. It costs types without migrations nothing, others one read of a key.
func (*Part) Stale(c *kernel.Core) (bool, error) {
	s := schemaOf(c.Actor.Type)
	if len(s.migrations) == 0 {
		return false, nil
	}
	m, _, err := sqlitevfs.ReadMetadata(writesReader{c.Rows})
	return err == nil && !s.current(m), err
}

// Prepare implements kernel.Preparer: it applies the migrations that the actor's database lacks.
func (*Part) Prepare(t *kernel.Turn) error {
	ms := schemaOf(t.Actor.Type).migrations
	if len(ms) == 0 {
		return nil
	}
	cause := t.Work
	if cause.Of != nil {
		cause = cause.Of // the work that wakes the actor
	}
	entry := audit.Of(cause.Ctx)
	if entry.Verb() != host.SQLMigrate {
		entry = nil
	}
	entry.Join(t)
	s, err := sqliteOf(t).write()
	if err != nil {
		return err
	}
	applied, err := s.session.Migrate(ms)
	switch {
	case errors.Is(err, sqlitevfs.ErrNewer):
		return host.Errorf(host.StateTooNew, "the database was written by newer code: %s", err)
	case err != nil:
		return err
	}
	entry.Output(&host.SQLMigrateOutput{Applied: append([]string{}, applied...)})
	if len(applied) > 0 {
		t.Logger().Debug("migrations of the database are applied", slog.Any("migrations", applied))
	}
	return nil
}
