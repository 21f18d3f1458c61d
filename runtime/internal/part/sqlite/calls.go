package sqlite

import (
	"context"
	"database/sql"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/method"
	"github.com/cairn-run/cairn/runtime/internal/audit"
	"github.com/cairn-run/cairn/runtime/internal/call"
	"github.com/cairn-run/cairn/runtime/internal/kernel"
	"github.com/cairn-run/cairn/runtime/internal/kernel/address"
	"github.com/cairn-run/cairn/runtime/internal/kernel/fault"
	"github.com/cairn-run/cairn/runtime/internal/kernel/pace"
	"github.com/cairn-run/cairn/runtime/internal/kernel/park"
	"github.com/cairn-run/cairn/sqlitevfs"
)

// The bounds of an answer to sql.query and sql.exec.
const (
	defaultSQLRows = 1000
	maxSQLBytes    = 8 << 20
)

// Result codes of SQLite: a text does not compile, and the arguments are not as many as the
// parameters.
const (
	sqliteError = 1
	sqliteRange = 25
)

// maxLoggedSQL is how much of a statement the log shows, in bytes.
const maxLoggedSQL = 200

// Methods implements call.Server: the methods run SQL and manage databases, for operators and for
// callers that the type allows.
func (p *Part) Methods() []*call.Method {
	exec := call.Act(method.SQLExec, execSQL)
	exec.Pace, exec.Fault = new(pace.Average), sqlFault
	query := call.Ask(method.SQLQuery,
		func(r *call.Query, codec host.Codec, in *host.SQLInput) (host.SQLOutput, error) {
			out, err := runSQL(r, Query{r}.SQL(), codec, in)
			return out, sqlFault(err)
		})
	return []*call.Method{exec, query, call.Serve(method.SQLMigrate, p.migrateSQL),
		call.Serve(method.SQLStatus, p.statusSQL)}
}

// execSQL implements sql.exec.
func execSQL(c *kernel.Core, h *kernel.Turn, codec host.Codec, in *host.SQLInput) (host.SQLOutput, error) {
	a := c.Actor
	if n := len(in.Reason); n > park.MaxReason {
		return host.SQLOutput{}, host.OverLimit("bytes of the reason", park.MaxReason, int64(n)).With("field", "reason")
	}
	by := "operator"
	if a.Type.OpenSQL { // it may not be an operator, regardless of the reason it gives
		by = "caller"
		if p := a.Kernel.Pauses.Of(a.Key); p != nil {
			return host.SQLOutput{}, park.Refusal(a.Address, p)
		}
	} else if in.Reason == "" {
		return host.SQLOutput{},
			host.Errorf(host.InvalidArgument, "%s needs a reason, which is logged", host.SQLExec).
				With("field", "reason")
	}
	if in.Reason != "" {
		a.Kernel.Logger.LogAttrs(h, slog.LevelInfo, "SQL is run for a reason",
			a.Attrs(slog.String("by", by), slog.String("reason", in.Reason),
				slog.String("sql", shortened(in.SQL, maxLoggedSQL)))...)
	}
	return runSQL(h, h.Host.SQL(), codec, in)
}

// shortened returns the beginning of a text, whole characters of up to n bytes.
func shortened(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// sqlFault makes the error of a caller's SQL from SQLite's message, unless something else is wrong.
func sqlFault(err error) error {
	if err == nil || err == kernel.ErrAbandoned || errors.Is(err, sqlitevfs.ErrCorrupt) {
		return err
	}
	if host.CodeOf(err) == host.Internal {
		// or else it is logged under that id
		if e, id := fault.Public(err, []fault.Translator{(*Part)(nil)}); id == "" {
			return withSQLMember(e, err)
		}
		var said *sqlitevfs.Error
		text := err.Error() // of package database/sql, or of the driver's conversions
		if errors.As(err, &said) && said.Err == nil || strings.HasPrefix(text, "sql: ") ||
			strings.HasPrefix(text, "sqlite: ") {
			return withSQLMember(host.Errorf(host.InvalidArgument, "%s", sqlMessage(err)), err)
		}
	}
	return err
}

// withSQLMember adds to e which member of the input err is about: the text that does not compile,
// or the number of its arguments. An error of a statement that compiles is about neither.
func withSQLMember(e *host.Error, err error) *host.Error {
	said, _ := errors.AsType[*sqlitevfs.Error](err)
	switch {
	case said == nil || e.Code != host.InvalidArgument && e.Code != host.TooLarge:
	case said.Code == sqliteRange:
		return e.With("field", "args")
	case said.Code == sqliteError, e.Metadata["what"] == "SQL statement":
		return e.With("field", "sql")
	}
	return e
}

// runSQL runs statements and returns the rows of the last.
func runSQL(ctx context.Context, db *sql.DB, codec host.Codec, in *host.SQLInput) (host.SQLOutput, error) {
	out := host.SQLOutput{Columns: []host.SQLColumn{}, Rows: [][]any{}}
	limit := in.Limit
	switch {
	case strings.TrimSpace(in.SQL) == "":
		return out, host.Errorf(host.InvalidArgument, "there is no SQL").With("field", "sql")
	case len(in.Args) > sqlitevfs.MaxParameters:
		return out, host.OverLimit("args", sqlitevfs.MaxParameters, int64(len(in.Args))).With("field", "args")
	case limit == 0:
		limit = defaultSQLRows
	}
	args := make([]any, len(in.Args))
	for i, a := range in.Args {
		v, err := sqlArgument(a)
		if err != nil {
			return out, host.Errorf(host.InvalidArgument, "argument %d: %s", i+1, err).
				With("field", "args["+strconv.Itoa(i)+"]")
		}
		args[i] = v
	}
	ctx = sqlitevfs.Raw(ctx)
	var before, after int64
	if err := db.QueryRowContext(ctx, "SELECT total_changes()").Scan(&before); err != nil {
		return out, err
	}
	rows, err := db.QueryContext(ctx, in.SQL, args...)
	if err != nil {
		return out, err
	}
	defer rows.Close()
	if err := readRows(rows, codec, limit, &out); err != nil {
		return out, err
	}
	if err := rows.Close(); err != nil {
		return out, err
	}
	var last int64
	if err := db.QueryRowContext(ctx, "SELECT total_changes(), last_insert_rowid()").Scan(&after, &last); err != nil {
		return out, err
	}
	if out.Changes = after - before; out.Changes > 0 && inserts(in.SQL) {
		out.LastInsertID = last
	}
	return out, nil
}

// inserts reports whether statements may insert. SQLite remembers the last rowid of a connection,
// from any statement.
func inserts(text string) bool {
	text = strings.ToUpper(text)
	return strings.Contains(text, "INSERT") || strings.Contains(text, "REPLACE")
}

// readRows reads an answer up to its bounds.
func readRows(rows *sql.Rows, codec host.Codec, limit int, out *host.SQLOutput) error {
	columns, err := rows.ColumnTypes()
	if err != nil {
		return err
	}
	for _, c := range columns {
		out.Columns = append(out.Columns, host.SQLColumn{Name: c.Name(), Type: c.DatabaseTypeName()})
	}
	values, into := make([]any, len(columns)), make([]any, len(columns))
	for i := range values {
		into[i] = &values[i]
	}
	size := 0
	for rows.Next() {
		if len(out.Rows) == limit || size >= maxSQLBytes {
			out.Truncated = true
			return nil
		}
		if err := rows.Scan(into...); err != nil {
			return err
		}
		row := make([]any, len(values))
		for i, v := range values {
			var n int
			if row[i], n, err = sqlValue(v, codec); err != nil {
				return err
			}
			size += n
		}
		if size > maxSQLBytes {
			if len(out.Rows) == 0 {
				return host.OverLimit("bytes of a row", maxSQLBytes, int64(size))
			}
			out.Truncated = true
			return nil
		}
		out.Rows = append(out.Rows, row)
	}
	return rows.Err()
}

// encodedBytes is the form of bytes in inputs and outputs.
type encodedBytes struct {
	Base64 string `json:"base64"`
}

// sqlValue returns a value of SQLite in its form for an output, and about how many bytes it takes
// there.
func sqlValue(v any, codec host.Codec) (any, int, error) {
	switch v := v.(type) {
	case nil:
		return nil, 5, nil
	case int64:
		return v, 12, nil
	case float64:
		if codec == host.JSON && math.IsInf(v, 0) {
			if v < 0 {
				return json.Number("-9e999"), 8, nil // as SQLite writes it; numbers of JSON have no bound
			}
			return json.Number("9e999"), 8, nil
		}
		if codec == host.JSON && v == math.Trunc(v) {
			// Without a point or an exponent it would come back as an integer.
			if math.Abs(v) < 1e15 {
				return json.Number(strconv.FormatFloat(v, 'f', 1, 64)), 12, nil
			}
			return json.Number(strings.Replace(strconv.FormatFloat(v, 'e', -1, 64), "e+", "e", 1)), 12, nil
		}
		return v, 12, nil
	case string:
		if !utf8.ValidString(v) {
			v = strings.ToValidUTF8(v, "\uFFFD") // neither JSON nor CBOR has other text
		}
		return v, len(v) + 3, nil
	case []byte:
		return encodedBytes{base64.StdEncoding.EncodeToString(v)}, base64.StdEncoding.EncodedLen(len(v)) + 14, nil
	}
	return nil, 0, errors.New("sqlite: a column has a value of a kind that SQLite does not have")
}

// sqlArgument returns an argument of an input as a value of SQLite.
func sqlArgument(a any) (any, error) {
	switch a := a.(type) {
	case nil, string, bool, int64, []byte:
		return a, nil
	case uint64:
		if a > math.MaxInt64 {
			return nil, errors.New("the number is too large; SQLite has integers of 64 bits with a sign")
		}
		return int64(a), nil
	case float32:
		return sqlArgument(float64(a))
	case float64:
		if math.IsNaN(a) {
			return nil, errors.New("SQLite has no NaN")
		}
		return a, nil
	case json.Number:
		if n, err := strconv.ParseInt(a.String(), 10, 64); err == nil {
			return n, nil
		}
		if !strings.ContainsAny(a.String(), ".eE") {
			return nil, errors.New("the number is too large; SQLite has integers of 64 bits with a sign")
		}
		f, err := a.Float64()
		if err != nil {
			return nil, errors.New("the number is too large")
		}
		return f, nil
	case map[string]any:
		return sqlBytes(len(a), a["base64"])
	case map[any]any:
		return sqlBytes(len(a), a["base64"])
	}
	return nil, errWrongArgument
}

var errWrongArgument = errors.New(`it is a string, a number, true, false, null, or {"base64": "..."}`)

func sqlBytes(members int, text any) ([]byte, error) {
	s, ok := text.(string)
	if !ok || members != 1 {
		return nil, errWrongArgument
	}
	b, err := base64.StdEncoding.DecodeString(s)
	if err != nil {
		return nil, errors.New("it is not base64")
	}
	if b == nil {
		b = []byte{}
	}
	return b, nil
}

// migrateSQL implements sql.migrate.
func (p *Part) migrateSQL(s *kernel.Kernel, ctx context.Context, on kernel.Target,
	in *host.SQLMigrateInput) (host.SQLMigrateOutput, error) {
	out := host.SQLMigrateOutput{Applied: []string{}}
	before, err := sqlMetadata(ctx, s, on.Addr)
	if err != nil {
		return out, err
	}
	if in.DryRun {
		audit.Of(ctx).Drop()
		return p.tryMigrations(ctx, s, on)
	}
	if err := s.Pauses.Refuse(on.Addr); err != nil {
		return out, err
	}
	if err := s.Ask(ctx, on, kernel.Waking{}); err != nil {
		return out, err
	}
	after, err := sqlMetadata(ctx, s, on.Addr)
	if err != nil {
		return out, err
	}
	ms := schemaOf(on.Typ).migrations
	for i := int(before.Migrations); i < min(int(after.Migrations), len(ms)); i++ {
		out.Applied = append(out.Applied, ms[i].Name)
	}
	return out, nil
}

// tryMigrations applies the migrations that an actor's database lacks to a copy in memory of the
// pages that they change. The copy has the room that a turn of the actor has, in its write set and
// of its quota, and the trial has the time of a turn. So a migration that does not fit the turn
// fails in the trial.
func (p *Part) tryMigrations(ctx context.Context, s *kernel.Kernel,
	on kernel.Target) (out host.SQLMigrateOutput, err error) {
	out.Applied = []string{}
	ms := schemaOf(on.Typ).migrations
	if len(ms) == 0 {
		return out, nil
	}
	snap, _, err := s.Durable(ctx, on.Addr)
	if err != nil {
		return out, err
	}
	defer snap.Close()
	head, err := snap.Head()
	if err != nil {
		return out, s.StoreError(err)
	}
	limits := s.LimitsOf(on.Typ, address.Append(nil, on.Addr))
	d := p.database(on.Typ, address.Format(on.Addr)+" (trial)", limits)
	defer d.Close()
	room := limits.Storage
	turn, cancel := context.WithTimeoutCause(ctx, on.Typ.Base.TurnTimeout, errSlowTrial)
	defer cancel()
	scratch := sqlitevfs.Scratch(SnapshotReader{snap}, int64(room.MaxWriteSet))
	session := d.Write(turn, &trial{Writer: scratch, limits: *room, stored: head.Bytes})
	defer session.Rollback()
	applied, err := session.Migrate(ms)
	if err == nil {
		_, err = session.Commit() // SQLite writes most pages only then
	}
	failed, named := errors.AsType[*sqlitevfs.MigrationError](err)
	public, _ := s.PublicError(err)
	switch {
	case err == nil:
		out.Applied = append(out.Applied, applied...)
		return out, nil
	case public.Code == host.Overloaded: // that is no fault of the migration
		return out, public
	case named:
		out.Migration = failed.Name
	case len(applied) > 0:
		out.Migration = applied[len(applied)-1]
	}
	switch {
	case errors.Is(err, errSlowTrial):
		out.Error = fmt.Sprintf("it takes longer than a turn of the type may, %s", on.Typ.Base.TurnTimeout)
	case public.Code == host.TooLarge, public.Code == host.QuotaExceeded:
		out.Error = public.Message
	case named:
		out.Error = failed.Error()
	default:
		return out, s.StoreError(err)
	}
	return out, nil
}

// statusSQL implements sql.status.
func (*Part) statusSQL(s *kernel.Kernel, ctx context.Context, on kernel.Target,
	_ *method.None) (host.SQLStatusOutput, error) {
	m, err := sqlMetadata(ctx, s, on.Addr)
	if err != nil {
		return host.SQLStatusOutput{}, err
	}
	return schemaOf(on.Typ).status(m), nil
}

// status describes a database.
func (s *sqlSchema) status(m sqlitevfs.Metadata) host.SQLStatusOutput {
	out := host.SQLStatusOutput{
		Exists: m.Pages > 0, Bytes: int64(m.Pages) * sqlitevfs.PageSize, Sequence: m.Sequence, Migrations: int(m.Migrations),
	}
	out.Pending, _ = m.Pending(s.migrations) // a database that does not fit the list has none; sql.migrate says why
	return out
}

// sqlMetadata returns the metadata of an actor's database; zero if it has none.
func sqlMetadata(ctx context.Context, s *kernel.Kernel, addr host.Address) (sqlitevfs.Metadata, error) {
	snap, _, err := s.Durable(ctx, addr)
	if err != nil {
		return sqlitevfs.Metadata{}, err
	}
	defer snap.Close()
	m, _, err := sqlitevfs.ReadMetadata(SnapshotReader{snap})
	if err != nil {
		return m, s.StoreError(err)
	}
	return m, nil
}
