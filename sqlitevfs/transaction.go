package sqlitevfs

import (
	"context"
	"database/sql/driver"
	"errors"
	"strconv"
	"strings"

	"github.com/ncruces/go-sqlite3"
)

// A transaction of the user is a savepoint in the session's own. Savepoints are a stack:
//
//  1. Each has a native savepoint named after its place in the stack, so the user's names, which
//     may repeat, do not matter to SQLite.
//  2. Committing one that is not the innermost is an error, unless all above it are SAVEPOINTs of
//     SQL, which it commits too.
//  3. Rolling one back rolls back all above it; later calls on them fail.
//  4. A session with one left open cannot be committed.
type transaction struct {
	kind     class  // of its beginning: runOrdinary is BeginTx, runBegin SQL's BEGIN, runSavepoint SQL's SAVEPOINT
	name     string // of a SAVEPOINT
	readOnly bool
	deferred bool // foreign keys were already violated when it began
	over     bool

	l *link // of BeginTx
}

var errTransactionOver = errors.New("sqlite: the transaction is over: one that was begun before it was rolled back")

func sqlFault(text string) error { return &Error{Code: int(sqlite3.ERROR), Message: text} }

// push opens a savepoint.
func (s *Session) push(c *conn, t *transaction) error {
	s.settle()
	violated, err := c.violated()
	if err != nil {
		return err
	}
	if err := c.command("SAVEPOINT " + savepointName(len(s.tx))); err != nil {
		return err
	}
	t.deferred = violated
	s.tx = append(s.tx, t)
	return nil
}

// merge commits the transactions from place i on into those below.
func (s *Session) merge(c *conn, i int) error {
	s.settle()
	if i == 0 && !s.tx[0].deferred {
		// SQLite would commit here, and check the deferred keys. It does not do so for a savepoint
		// in a transaction.
		if violated, err := c.violated(); err != nil {
			return err
		} else if violated {
			return &Error{Code: int(sqlite3.CONSTRAINT_FOREIGNKEY), Message: "FOREIGN KEY constraint failed"}
		}
	}
	if err := c.command("RELEASE " + savepointName(i)); err != nil {
		return err
	}
	s.forget(i)
	return nil
}

// undo undoes the changes since place i of the stack, and keeps the savepoint there if keep is
// true.
func (s *Session) undo(c *conn, i int, keep bool) error {
	s.settle()
	if err := c.command("ROLLBACK TO " + savepointName(i)); err != nil {
		return err
	}
	if keep {
		s.forget(i + 1)
		return nil
	}
	if err := c.command("RELEASE " + savepointName(i)); err != nil {
		return err
	}
	s.forget(i)
	return nil
}

// forget removes the transactions from place i on.
func (s *Session) forget(i int) {
	for _, t := range s.tx[i:] {
		t.over = true
	}
	clear(s.tx[i:])
	s.tx = s.tx[:i]
}

func savepointName(i int) string { return "cairn_" + strconv.Itoa(i+1) }

// violated reports whether a foreign key is violated that is checked at the end of the transaction.
func (c *conn) violated() (bool, error) {
	n, _, err := c.db.Status(sqlite3.DBSTATUS_DEFERRED_FKS, false)
	return n != 0, err
}

// control runs a statement for the session: SQL's transaction commands.
func (s *Session) control(ctx context.Context, c *conn, st *statement) error {
	if err := s.controlled(c, st); err != nil {
		return s.wrap(ctx, err, st.text)
	}
	return nil
}

func (s *Session) controlled(c *conn, st *statement) error {
	switch st.class {
	case runBegin:
		if len(s.tx) > 0 {
			return sqlFault("cannot start a transaction within a transaction")
		}
		return s.push(c, &transaction{kind: runBegin})
	case runCommit:
		if err := s.endable("commit"); err != nil {
			return err
		}
		return s.merge(c, 0)
	case runRollback:
		if err := s.endable("rollback"); err != nil {
			return err
		}
		return s.undo(c, 0, false)
	case runSavepoint:
		return s.push(c, &transaction{kind: runSavepoint, name: st.name})
	case runRelease, runRollbackTo:
		i := s.find(st.name)
		if i < 0 {
			return sqlFault("no such savepoint: " + st.name)
		}
		if st.class == runRelease {
			return s.merge(c, i)
		}
		return s.undo(c, i, true)
	case runForeignKeys:
		if len(s.tx) == 0 { // else it has no effect, as always in a transaction
			return c.setForeignKeys(st.name == "on")
		}
	}
	return nil
}

// endable returns an error if there is no transaction for SQL's COMMIT or ROLLBACK to end.
func (s *Session) endable(word string) error {
	if len(s.tx) == 0 {
		return sqlFault("cannot " + word + " - no transaction is active")
	}
	for _, t := range s.tx {
		if t.kind == runOrdinary {
			return sqlFault("cannot " + word + " - the transaction was begun by BeginTx: use its Commit or Rollback")
		}
	}
	return nil
}

// find returns the place of the innermost SAVEPOINT of a name that was set in the innermost
// transaction, or -1.
func (s *Session) find(name string) int {
	for i := len(s.tx) - 1; i >= 0 && s.tx[i].kind == runSavepoint; i-- {
		if strings.EqualFold(s.tx[i].name, name) {
			return i
		}
	}
	return -1
}

// Begin implements driver.Conn.
func (l *link) Begin() (driver.Tx, error) {
	return l.BeginTx(context.Background(), driver.TxOptions{})
}

// BeginTx implements driver.ConnBeginTx. It accepts all levels of isolation: a session has no
// concurrent transactions.
func (l *link) BeginTx(ctx context.Context, o driver.TxOptions) (_ driver.Tx, err error) {
	c, err := l.s.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer l.s.leave()
	defer l.s.guard(&err)
	t := &transaction{readOnly: o.ReadOnly, l: l}
	if err := l.s.push(c, t); err != nil {
		return nil, l.s.wrap(ctx, err, "")
	}
	l.tx = t
	return t, nil
}

// Commit implements driver.Tx. If it fails the transaction is rolled back, because database/sql
// allows no second try. But if another transaction begun in it is still open, nothing changes.
func (t *transaction) Commit() error {
	return t.end(func(s *Session, c *conn, i int) error {
		for _, above := range s.tx[i+1:] {
			if above.kind != runSavepoint {
				return errors.New("sqlite: a transaction cannot be committed before the one that was begun in it")
			}
		}
		err := s.merge(c, i)
		if err != nil && !c.db.GetAutocommit() {
			err = errors.Join(err, s.undo(c, i, false))
		}
		return err
	})
}

// Rollback implements driver.Tx.
func (t *transaction) Rollback() error {
	err := t.end(func(s *Session, c *conn, i int) error { return s.undo(c, i, false) })
	if errors.Is(err, errTransactionOver) {
		return nil
	}
	return err
}

func (t *transaction) end(f func(s *Session, c *conn, place int) error) (err error) {
	s := t.l.s
	c, err := s.enter(cleanup)
	if err != nil {
		return err
	}
	defer s.leave()
	defer s.guard(&err)
	t.l.tx = nil
	for i := range s.tx {
		if s.tx[i] == t {
			if err := f(s, c, i); err != nil {
				return s.wrap(context.Background(), err, "")
			}
			return nil
		}
	}
	return errTransactionOver
}
