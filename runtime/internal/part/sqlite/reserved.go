package sqlite

import (
	"context"
	"database/sql"

	"github.com/cairn-run/cairn/runtime/internal/call"
	"github.com/cairn-run/cairn/runtime/internal/kernel"
	"github.com/cairn-run/cairn/runtime/internal/kernel/fault"
)

// WriteReserved runs f in a session that may use the reserved tables of the actor's database, and
// puts its changes into the write set of the turn. It is called while the turn is sealed, when the
// session of its handler has been committed. After an error the caller must roll the write set
// back.
func WriteReserved(t *kernel.Turn, f func(*sql.DB) error) error {
	b := DatabaseOf(&t.Core.Attached)
	d := b.Get(t.Actor)
	if d == nil {
		return fault.Unavailable("the actor was restarted")
	}
	w := &sqlTurn{Context: t, t: t, b: b, phase: sqlSeals}
	w.session = d.Write(context.Background(), w)
	w.session.AllowReserved()
	defer w.Drop()
	if err := f(w.session.DB()); err != nil {
		return err
	}
	changed, err := w.session.Commit()
	if changed && err == nil {
		b.published = t.Core.Rows.Version()
	}
	return err
}

// ReadReserved runs f in a session that may read the reserved tables of the actor's database, as of
// the query.
func ReadReserved(q *call.Query, f func(*sql.DB) error) error {
	s := newQuery(q)
	s.session.AllowReserved()
	defer s.End()
	return f(s.session.DB())
}
