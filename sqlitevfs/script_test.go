package sqlitevfs

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// TestSQLScripts runs the scripts of testdata/scripts, each on a database of its own; `go test ./sqlitevfs -run TestSQLScripts
// -rewrite` writes the results anew. "write a" and "read a" begin a session, "begin a x" a transaction in it, and "a: SELECT 1"
// runs a text in either. "commit", "rollback" and "drop" end it; what is dropped was committed, and the store refused it.
// "exec: SQL" is a turn. "discard" closes the connections, and "again" is another process.
func TestSQLScripts(t *testing.T) {
	datadriven.Walk(t, "testdata/scripts", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			s := &script{rig: newRig(t, Options{}), sessions: map[string]*Session{}, writers: map[string]*mapWriter{}, txs: map[string]*sql.Tx{}}
			defer func() {
				for _, x := range s.sessions {
					x.Rollback()
				}
			}()
			var out strings.Builder
			for line := range strings.SplitSeq(d.Input, "\n") {
				if result := s.call(line); result != "" {
					fmt.Fprintf(&out, "%s\n    %s\n", line, result)
				}
			}
			return out.String()
		})
	})
}

type script struct {
	*rig
	sessions map[string]*Session
	writers  map[string]*mapWriter
	txs      map[string]*sql.Tx
}

// call runs a line and returns its result.
func (s *script) call(line string) string {
	said := func(result string, err error) string {
		if err != nil {
			return "error: " + err.Error()
		}
		return result
	}
	if name, text, ok := strings.Cut(line, ": "); ok {
		switch {
		case name == "exec":
			return said("", s.try(context.Background(), func(db *sql.DB) error { return errOf(db.Exec(text)) }))
		case s.txs[name] != nil:
			return said(answer(s.txs[name], text))
		}
		return said(answer(s.sessions[name].DB(), text))
	}
	f := append(strings.Fields(line), "", "")
	name := f[1]
	switch f[0] {
	case "write", "read":
		if before := s.sessions[name]; before != nil {
			before.Rollback()
		}
	}
	switch f[0] {
	case "write":
		s.writers[name] = s.writer()
		s.sessions[name] = s.db.Write(context.Background(), s.writers[name])
	case "read":
		s.sessions[name] = s.db.Read(context.Background(), s.store.snapshot())
	case "begin", "begin-read-only":
		tx, err := s.sessions[name].DB().BeginTx(context.Background(), &sql.TxOptions{ReadOnly: f[0] != "begin"})
		s.txs[f[2]] = tx
		return said("", err)
	case "commit", "drop":
		if tx := s.txs[name]; tx != nil {
			delete(s.txs, name)
			return said("", tx.Commit())
		}
		changed, err := s.sessions[name].Commit()
		if err == nil && s.writers[name] != nil && f[0] == "commit" {
			s.store.commit(s.writers[name])
		}
		return said(map[bool]string{false: "nothing changed"}[changed], err)
	case "rollback":
		if tx := s.txs[name]; tx != nil {
			delete(s.txs, name)
			return said("", tx.Rollback())
		}
		return map[bool]string{true: "pages were published"}[s.sessions[name].Rollback()]
	case "discard":
		s.db.Discard()
	case "again":
		s.pool = newTestPool(s.t, Options{})
		s.db = s.pool.Database("again")
		s.db.EnableDecimal()
	default:
		s.t.Fatalf("no call %q", line)
	}
	return ""
}
