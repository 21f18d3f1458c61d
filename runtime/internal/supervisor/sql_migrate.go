package supervisor

import (
	"errors"
	"log/slog"

	"github.com/cairn-run/cairn/actor/host"
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

// current reports that a database has the type's migrations and no others. It compares hashes, and is cheap.
func (t *actorType) current(m sqlitevfs.Metadata) bool {
	return int(m.Migrations) == len(t.migrations) && m.Fingerprint == t.fingerprint
}

// unmigrated reports that the actor's database is not as the type's migrations make it. It costs types without migrations
// nothing, others the reading of one key.
func (c *core) unmigrated() (bool, error) {
	t := c.a.typ
	if len(t.migrations) == 0 {
		return false, nil
	}
	m, _, err := sqlitevfs.ReadMetadata(writesReader{c.ws})
	return err == nil && !t.current(m), err
}

// migrate applies what migrations the actor's database lacks, in the turn.
func (t *turn) migrate() error {
	if len(t.a.typ.migrations) == 0 {
		return nil
	}
	s, err := t.sqlSession()
	if err != nil {
		return err
	}
	applied, err := s.session.Migrate(t.a.typ.migrations)
	switch {
	case errors.Is(err, sqlitevfs.ErrNewer):
		return host.Errorf(host.StateTooNew, "the database was written by newer code: %s", err)
	case err != nil:
		return err
	}
	if len(applied) > 0 {
		t.Logger().Debug("migrations of the database are applied", slog.Any("migrations", applied))
	}
	return nil
}

// rouse runs what runs when an actor wakes: the migration of its database if that is stale, and the wake hook. The
// migration is a turn of its own, in one commit with what follows, and it is undone if the hook fails: the data of an
// actor that does not run stays as the code left it that last ran.
func (c *core) rouse(w *work, stale bool) error {
	if !stale {
		return c.wakeHook(w)
	}
	before := c.mark()
	c.rising = true
	_, err := c.internal(&work{job: waking{}, traceparent: w.traceparent, chain: w.chain, of: w}, "migrate", (*turn).migrate)
	if err == nil {
		err = c.wakeHook(w)
	}
	c.rising = false
	if err != nil && !c.gone() {
		c.undo(before)
	}
	return err
}
