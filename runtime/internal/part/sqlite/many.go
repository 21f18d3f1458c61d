package sqlite

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime/internal/kernel"
	"github.com/cairn-run/cairn/runtime/internal/kernel/address"
	"github.com/cairn-run/cairn/sqlitevfs"
)

// The bounds of a query over many actors.
const (
	maxManyRows   = 10_000
	maxManyActors = 10_000
	maxManyTime   = 10 * time.Second
	maxActorTime  = 2 * time.Second // of the statement in one actor's database
	manyPage      = 64              // actors that are listed at once
)

// A manyQuery is the state of a query over many actors.
type manyQuery struct {
	p    *Part
	s    *kernel.Kernel
	t    *kernel.Type
	in   host.SQLInput
	list host.ListQuery
	page pages
	out  host.QueryManyOutput
	rows int // that the answer has
	size int // about how many bytes they have
	end  time.Time
	seen int // actors, with a database or without
}

// pages lists a page of actors, and sets the cursor after each of them, by its id.
type pages = func(q host.ListQuery, after map[string]string) (host.ListPage, error)

// QueryMany runs a statement on the databases of the actors that page lists: see host.Databases.
func QueryMany(ctx context.Context, s *kernel.Kernel, in *host.QueryManyInput,
	page pages) (host.QueryManyOutput, error) {
	t, err := s.StoredTypeOf(host.Address{Type: in.Type, Key: in.Prefix})
	if err != nil {
		return host.QueryManyOutput{}, err
	}
	if strings.TrimSpace(in.SQL) == "" {
		return host.QueryManyOutput{}, host.Errorf(host.InvalidArgument, "there is no SQL").With("field", "sql")
	}
	if in.Limit < 0 || in.Limit > maxManyRows {
		return host.QueryManyOutput{},
			host.Errorf(host.InvalidArgument, "limit %d is not between 1 and %d", in.Limit,
				maxManyRows).With("field", "limit")
	}
	q := manyQuery{
		p: SQLiteIn(s), s: s, t: t, page: page, end: time.Now().Add(maxManyTime),
		in: host.SQLInput{SQL: in.SQL, Limit: in.Limit},
		list: host.ListQuery{Type: in.Type, Prefix: in.Prefix, Where: in.Where, Sort: in.Sort,
			Cursor: in.Cursor, Limit: manyPage, Brief: true},
		out: host.QueryManyOutput{Columns: []host.SQLColumn{}, Actors: []host.ActorRows{}},
	}
	if q.in.Limit == 0 {
		q.in.Limit = defaultSQLRows
	}
	if len(in.Where) == 0 && in.Sort == "" {
		q.list.Sort = "key" // only a search has a cursor after each actor
	}
	for i, raw := range in.Args {
		var v any
		d := json.NewDecoder(bytes.NewReader(raw))
		d.UseNumber()
		if err := d.Decode(&v); err != nil {
			return host.QueryManyOutput{},
				host.Errorf(host.InvalidArgument, "argument %d is not JSON", i+1).
					With("field", "args["+strconv.Itoa(i)+"]")
		}
		q.in.Args = append(q.in.Args, v)
	}
	err = q.run(ctx)
	if err == nil && q.out.Read == 0 {
		err = q.check(ctx)
	}
	return q.out, err
}

// full reports whether the answer has no room for another actor.
func (q *manyQuery) full() bool {
	return q.rows >= q.in.Limit || q.size >= maxSQLBytes || q.seen >= maxManyActors || !time.Now().Before(q.end)
}

// run goes through the actors page by page. If an answer ends within a page, its cursor is the one
// after its last actor: to list the page again would repeat and skip actors, if some were destroyed
// or changed meanwhile.
func (q *manyQuery) run(ctx context.Context) error {
	for {
		after := make(map[string]string)
		page, err := q.page(q.list, after)
		if err != nil {
			return err
		}
		for _, a := range page.Actors {
			if q.full() && q.seen > 0 {
				q.out.Cursor = q.list.Cursor
				return nil
			}
			q.seen++
			if err := q.actor(ctx, a.Key); err != nil {
				return err
			}
			q.list.Cursor = after[a.ID]
		}
		if q.list.Cursor = page.Cursor; q.list.Cursor == "" || q.full() {
			q.out.Cursor = page.Cursor
			return nil
		}
	}
}

// actor adds the rows of one actor. If every actor would have an error of the statement, the query
// has it.
func (q *manyQuery) actor(ctx context.Context, key []string) error {
	out, ok, err := q.read(ctx, host.Address{Type: q.t.Type, Key: key})
	if !ok && err == nil {
		return nil
	}
	result := host.ActorRows{Key: key, Rows: [][]any{}}
	q.out.Read++
	if err != nil {
		e, known := errors.AsType[*host.Error](err)
		switch {
		case ctx.Err() != nil:
			return err
		case !known:
			err := q.s.StoreError(err)
			if e, known = errors.AsType[*host.Error](err); !known {
				return err
			}
		case q.out.Read == 1 && ofAll(e):
			return e
		}
		result.Error = e
		q.out.Actors = append(q.out.Actors, result)
		return nil
	}
	if len(out.Rows) == 0 {
		return nil
	}
	switch {
	case len(q.out.Columns) == 0:
		q.out.Columns = out.Columns
	case !slices.Equal(q.out.Columns, out.Columns):
		result.Columns = out.Columns
	}
	for i, row := range out.Rows {
		size := 16
		for _, v := range row {
			size += sizeOf(v)
		}
		if i > 0 && q.size+size > maxSQLBytes {
			out.Truncated = true
			break
		}
		result.Rows = append(result.Rows, row)
		q.size += size
		q.rows++
	}
	result.Truncated = out.Truncated
	q.out.Actors = append(q.out.Actors, result)
	return nil
}

// ofAll reports whether every database would give this error.
func ofAll(e *host.Error) bool {
	// whose name may be anything
	if strings.Contains(e.Message, "no such table: ") || strings.Contains(e.Message, "no such column: ") {
		return false
	}
	return e.Code == host.ReadOnly || e.Code == host.InvalidArgument && (e.Metadata["field"] == "args" ||
		strings.Contains(e.Message, "syntax error") ||
		strings.Contains(e.Message, "unrecognized token") || strings.Contains(e.Message, "incomplete input"))
}

// check runs the statement on an empty database instead of the actors', for the errors that every
// database has.
func (q *manyQuery) check(ctx context.Context) error {
	_, err := q.ask(ctx, host.Address{Type: q.t.Type}, noKeys{})
	e, known := errors.AsType[*host.Error](err)
	switch {
	case ctx.Err() != nil, known && ofAll(e):
		return err
	case writes(q.in.SQL): // to a table that is not there
		return sqlFault(sqlitevfs.ErrReadOnly)
	}
	return nil
}

// noKeys is the reader of an actor without a database.
type noKeys struct{}

// Get implements sqlitevfs.Reader.
func (noKeys) Get(dst, _ []byte) ([]byte, bool, error) { return dst, false, nil }

// Scan implements sqlitevfs.Reader.
func (noKeys) Scan(_, _ []byte, _ func(key, value []byte) bool) error { return nil }

// sqlToken matches a comment, a quoted text or name, a word, or one other character.
var sqlToken = regexp.MustCompile(`(?s)--[^\n]*|/\*.*?(?:\*/|$)|'[^']*'|"[^"]*"|` + "`[^`]*`" + `|\[[^\]]*\]|\w+|.`)

// writes reports whether one of the statements of a text that compiles is meant to write. SQLite
// looks for the tables first.
func writes(text string) bool {
	verb, depth, before := false, 0, "" // of the statement: WITH may have more before the verb
	for _, token := range sqlToken.FindAllString(text, -1) {
		switch token {
		case "(":
			depth++
		case ")":
			depth--
		case ";":
			verb, depth = false, 0
		}
		if verb || depth > 0 {
			continue
		}
		word := strings.ToUpper(token)
		if strings.TrimSpace(word) == "" || strings.HasPrefix(word, "--") || strings.HasPrefix(word, "/*") {
			continue
		}
		name := before == "WITH" || before == "RECURSIVE" || before == ","
		if before = word; name {
			continue
		}
		switch word {
		case "SELECT", "VALUES", "PRAGMA", "EXPLAIN":
			verb = true
		case "INSERT", "REPLACE", "UPDATE", "DELETE", "CREATE", "ALTER", "DROP", "ANALYZE", "VACUUM":
			return true
		}
	}
	return false
}

// sizeOf returns about how many bytes a value has in an answer.
func sizeOf(v any) int {
	switch v := v.(type) {
	case string:
		return len(v) + 3
	case encodedBytes:
		return len(v.Base64) + 14
	}
	return 12
}

// read runs the statement in a snapshot of an actor's database; false if it has none.
func (q *manyQuery) read(ctx context.Context, a host.Address) (out host.SQLOutput, ok bool, err error) {
	snap, _, err := q.s.Durable(ctx, a)
	if host.CodeOf(err) == host.NotFound {
		return out, false, nil // it was destroyed meanwhile
	}
	if err != nil {
		return out, false, err
	}
	defer snap.Close()
	r := SnapshotReader{snap}
	m, ok, err := sqlitevfs.ReadMetadata(r)
	if err != nil || !ok || m.Pages == 0 {
		return out, false, err
	}
	out, err = q.ask(ctx, a, r)
	return out, true, err
}

// ask runs the statement in the database that r reads.
func (q *manyQuery) ask(ctx context.Context, a host.Address, r sqlitevfs.Reader) (host.SQLOutput, error) {
	ctx, cancel := context.WithTimeout(ctx, min(maxActorTime, max(time.Until(q.end), time.Millisecond)))
	defer cancel()
	d := q.p.database(q.t, address.Format(a), q.s.LimitsOf(q.t, address.Append(nil, a)))
	defer d.Close()
	session := d.Read(ctx, r)
	defer session.Rollback()
	in := q.in
	in.Limit -= q.rows
	out, err := runSQL(ctx, session.DB(), host.JSON, &in)
	return out, sqlFault(err)
}
