package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/ncruces/go-sqlite3"

	"github.com/cairn-run/cairn/actor/host"
)

// A sqlFake answers the methods of SQL with a real database in memory, which all actors share.
type sqlFake struct {
	t       *testing.T
	db      *sqlite3.Conn
	inputs  []string // "query: SQL" or "exec (reason): SQL"
	status  host.SQLStatusOutput
	migrate func(a host.Address, dry bool) (host.SQLMigrateOutput, error)
	// running, if set, is told when a statement begins and may keep it waiting.
	running func(context.Context, string)
}

// newSQLFake makes a fake node with a database. cell/acme/eu is an actor of it.
func newSQLFake(t *testing.T, setup string) (*fakeNode, *sqlFake) {
	t.Helper()
	db, err := sqlite3.Open(":memory:")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	if err := db.Exec(setup); err != nil {
		t.Fatal(err)
	}
	s := &sqlFake{t: t, db: db, status: host.SQLStatusOutput{Exists: true, Bytes: 12288, Sequence: 1700, Migrations: 2}}
	n := newFakeNode()
	n.respond(map[string]any{
		host.SQLQuery:  func(r host.Request) (any, error) { return s.run(r) },
		host.SQLExec:   func(r host.Request) (any, error) { return s.run(r) },
		host.SQLStatus: func(host.Request) (any, error) { return s.status, nil },
		host.SQLMigrate: func(r host.Request) (any, error) {
			var in host.SQLMigrateInput
			if err := json.Unmarshal(r.Input, &in); err != nil {
				return nil, err
			}
			return s.migrate(r.Address, in.DryRun)
		},
	})
	n.wait = func(ctx context.Context, r host.Request) {
		if s.running != nil && (r.Method == host.SQLQuery || r.Method == host.SQLExec) {
			s.running(ctx, string(r.Input))
		}
	}
	return n, s
}

// run runs statements the way a node does, as far as the command can tell.
func (s *sqlFake) run(r host.Request) (any, error) {
	var in host.SQLInput
	d := json.NewDecoder(bytes.NewReader(r.Input))
	d.UseNumber()
	if err := d.Decode(&in); err != nil {
		return nil, host.Errorf(host.InvalidArgument, "%v", err)
	}
	line := "query: " + in.SQL
	if r.Method == host.SQLExec {
		line = "exec (" + in.Reason + "): " + in.SQL
	}
	s.inputs = append(s.inputs, line)
	out := host.SQLOutput{Columns: []host.SQLColumn{}, Rows: [][]any{}}
	before := s.db.TotalChanges()
	for rest := in.SQL; strings.TrimSpace(rest) != ""; {
		stmt, tail, err := s.db.Prepare(rest)
		if err != nil {
			return nil, invalidSQL(err)
		}
		rest = tail
		if stmt == nil {
			continue
		}
		if err := s.step(r.Method, stmt, &in, &out); err != nil {
			stmt.Close()
			return nil, err
		}
		stmt.Close()
	}
	out.Changes = s.db.TotalChanges() - before
	if r.Method == host.SQLExec && out.Changes > 0 {
		out.LastInsertID = s.db.LastInsertRowID()
	}
	return out, nil
}

func (s *sqlFake) step(method string, stmt *sqlite3.Stmt, in *host.SQLInput, out *host.SQLOutput) error {
	if method == host.SQLQuery && !stmt.ReadOnly() {
		return host.Errorf(host.ReadOnly, "attempt to write a readonly database")
	}
	for i := range min(stmt.BindCount(), len(in.Args)) {
		var err error
		switch v := in.Args[i].(type) {
		case nil:
			err = stmt.BindNull(i + 1)
		case string:
			err = stmt.BindText(i+1, v)
		case json.Number:
			if n, e := v.Int64(); e == nil {
				err = stmt.BindInt64(i+1, n)
			} else {
				f, _ := v.Float64()
				err = stmt.BindFloat(i+1, f)
			}
		case map[string]any:
			var blob []byte
			if blob, err = base64.StdEncoding.DecodeString(v["base64"].(string)); err == nil {
				err = stmt.BindBlob(i+1, blob)
			}
		}
		if err != nil {
			return err
		}
	}
	if stmt.ColumnCount() > 0 {
		out.Columns, out.Rows, out.Truncated = []host.SQLColumn{}, [][]any{}, false
	}
	for i := range stmt.ColumnCount() {
		out.Columns = append(out.Columns, host.SQLColumn{Name: stmt.ColumnName(i)})
	}
	for stmt.Step() {
		if len(out.Rows) == in.Limit {
			out.Truncated = true
			break
		}
		var row []any
		for i := range stmt.ColumnCount() {
			switch stmt.ColumnType(i) {
			case sqlite3.NULL:
				row = append(row, nil)
			case sqlite3.INTEGER:
				row = append(row, stmt.ColumnInt64(i))
			case sqlite3.FLOAT:
				row = append(row, stmt.ColumnFloat(i))
			case sqlite3.TEXT:
				row = append(row, stmt.ColumnText(i))
			case sqlite3.BLOB:
				row = append(row, map[string][]byte{"base64": stmt.ColumnBlob(i, nil)})
			}
		}
		out.Rows = append(out.Rows, row)
	}
	if err := stmt.Err(); err != nil {
		return invalidSQL(err)
	}
	return nil
}

func invalidSQL(err error) error { return host.Errorf(host.InvalidArgument, "%v", err) }

// ExportSQL and ImportSQL make the fake node one that has databases. What was imported is exported.
func (n *fakeNode) ExportSQL(_ context.Context, a host.Address, w io.Writer) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, err := n.find(a); err != nil {
		return err
	}
	if n.database == nil {
		return host.Errorf(host.NotFound, "%s has no database", formatAddress(a.Type, a.Key))
	}
	if bytes.HasPrefix(n.database, []byte("broken")) {
		w.Write(make([]byte, 1<<20))
		return errors.New("a page is missing")
	}
	_, err := w.Write(n.database)
	return err
}

func (n *fakeNode) ImportSQL(_ context.Context, a host.Address, file io.Reader, reason string) (host.SQLStatusOutput, error) {
	b, err := io.ReadAll(file)
	if err != nil {
		return host.SQLStatusOutput{}, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.database, n.imported = b, formatAddress(a.Type, a.Key)+": "+reason
	return host.SQLStatusOutput{Exists: true, Bytes: int64(len(b)), Sequence: 1}, nil
}
