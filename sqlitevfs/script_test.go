package sqlitevfs

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// TestSessionScripts runs the scripts of testdata/scripts, each on a pool with one store; `go test
// ./sqlitevfs -run TestSessionScripts -rewrite` rewrites the results. A line with a result is
// printed with it, after an arrow. "run max-open=2" is on a pool with that option.
//
//	write a, read a       begin a session on the database "test"; "read a x" is one on the database x, "read a as b" one on the
//	                      snapshot of the session b
//	begin a x             begins the transaction x in the session a, begin-read-only does so too
//	a: SQL                runs SQL in a session or in a transaction
//	hold r a: SQL         reads the first of its rows, and "rest r" the others
//	commit a, rollback a  end a session or a transaction; what drop commits is refused by the store
//	exec: SQL             is a turn
//	discard, close x      close the connections of the database "test", and the database x
//	stats                 are the connections of the pool
//	again                 is another process
func TestSessionScripts(t *testing.T) {
	datadriven.Walk(t, "testdata/scripts", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			var o Options
			d.MaybeScanArgs(t, "max-open", &o.MaxOpen)
			s := &script{rig: newRig(t, o), turns: map[string]*turn{}, txs: map[string]*sql.Tx{},
				held: map[string]*sql.Rows{}, databases: map[string]*Database{}}
			defer func() {
				for _, x := range s.turns {
					x.Rollback()
				}
			}()
			var out strings.Builder
			for line := range strings.SplitSeq(d.Input, "\n") {
				if result := s.call(line); result != "" {
					fmt.Fprintf(&out, "%s -> %s\n", line, result)
				}
			}
			return out.String()
		})
	})
}

type script struct {
	*rig
	turns     map[string]*turn
	txs       map[string]*sql.Tx
	held      map[string]*sql.Rows
	databases map[string]*Database
}

// kindsOf names the variables of the package that match an error.
func kindsOf(err error) (kinds string) {
	for _, x := range []struct {
		error
		name string
	}{
		{ErrFull, "ErrFull"}, {ErrMemory, "ErrMemory"}, {ErrTooBig, "ErrTooBig"}, {ErrBusy, "ErrBusy"}, {ErrInterrupted, "ErrInterrupted"},
		{ErrReadOnly, "ErrReadOnly"}, {ErrClosed, "ErrClosed"}, {ErrOpenTransaction, "ErrOpenTransaction"}, {ErrRefused, "ErrRefused"},
		{ErrConstraint, "ErrConstraint"}, {ErrUnique, "ErrUnique"}, {ErrForeignKey, "ErrForeignKey"}, {ErrCorrupt, "ErrCorrupt"},
	} {
		if errors.Is(err, x.error) {
			kinds += " " + x.name
		}
	}
	return kinds
}

// call runs a line and returns its result.
func (s *script) call(line string) string {
	said := func(result string, err error) string {
		if err == nil {
			return result
		}
		return "error" + kindsOf(err) + ": " + err.Error()
	}
	if before, text, ok := strings.Cut(line, ": "); ok {
		words := strings.Fields(before)
		name := words[len(words)-1]
		if name == "exec" {
			return said("", s.tryExec(text))
		}
		var db asker = s.txs[name]
		if s.txs[name] == nil {
			db = s.turns[name].handle
		}
		if words[0] != "hold" {
			return said(answer(db, text))
		}
		rows, err := db.QueryContext(context.Background(), text)
		if s.held[words[1]] = rows; err == nil {
			rows.Next()
		}
		return said("", err)
	}
	f := append(strings.Fields(line), "", "", "")
	name := f[1]
	switch f[0] {
	case "write", "read":
		if before := s.turns[name]; before != nil {
			before.Rollback()
		}
	}
	switch f[0] {
	case "write":
		s.turns[name] = s.rig.write()
	case "read":
		from := Reader(s.store.snapshot())
		if f[2] == "as" {
			from = s.turns[f[3]].Session.r
		} else if f[2] != "" {
			before := s.db
			defer func() { s.db = before }()
			s.db = s.database(f[2])
		}
		s.turns[name] = s.readFrom(from)
	case "begin", "begin-read-only":
		tx, err := s.turns[name].BeginTx(context.Background(), &sql.TxOptions{ReadOnly: f[0] != "begin"})
		s.txs[f[2]] = tx
		return said("", err)
	case "commit", "drop":
		if tx := s.txs[name]; tx != nil {
			delete(s.txs, name)
			return said("", tx.Commit())
		}
		x := s.turns[name]
		changed, err := x.Session.Commit()
		switch {
		case err != nil && changed:
			err = fmt.Errorf("%w; pages were published", err)
		case err == nil && x.w != nil && f[0] == "commit":
			s.store.commit(x.w)
		}
		return said(map[bool]string{false: "nothing changed"}[changed], err)
	case "rollback":
		if tx := s.txs[name]; tx != nil {
			delete(s.txs, name)
			return said("", tx.Rollback())
		}
		return map[bool]string{true: "pages were published"}[s.turns[name].Rollback()]
	case "rest":
		return said(allOf(s.held[name]))
	case "discard":
		s.db.Discard()
	case "close":
		s.database(name).Close()
	case "stats":
		st := s.pool.Stats()
		return fmt.Sprintf("%d open, %d in use, %d opened, %d evicted, %d closed", st.Open, st.InUse, st.Opened, st.Evicted, st.Closed)
	case "again":
		s.rig = s.rig.again(Options{})
	default:
		s.t.Fatalf("no call %q", line)
	}
	return ""
}

// database returns the Database of a name: "test" is that of the turns.
func (s *script) database(name string) *Database {
	if name == "test" {
		return s.db
	}
	if s.databases[name] == nil {
		s.databases[name] = s.pool.Database(name)
	}
	return s.databases[name]
}
