package sqlitevfs

import (
	"database/sql"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"
)

// A weekday is a type with its own stored form.
type weekday int

func (w weekday) Value() (driver.Value, error) {
	if w > 6 {
		return nil, errors.New("there is no such day")
	}
	return []string{"mo", "tu", "we", "th", "fr", "sa", "su"}[w], nil
}

func TestValuesAreStoredAsTheirKind(t *testing.T) {
	berlin := time.FixedZone("", 2*3600)
	seven := 7
	newRig(t, Options{}).turn(func(db handle) {
		for _, c := range []struct {
			in         any
			kind, text string
		}{
			{int64(math.MinInt64), "integer", "-9223372036854775808"},
			{7, "integer", "7"}, {int8(-7), "integer", "-7"}, {int16(7), "integer", "7"}, {int32(7), "integer", "7"},
			{uint(7), "integer", "7"}, {uint8(7), "integer", "7"}, {uint16(7), "integer", "7"}, {uint32(1 << 31), "integer", "2147483648"},
			{uint64(math.MaxInt64), "integer", "9223372036854775807"},
			{1.5, "real", "1.5"}, {float32(0.5), "real", "0.5"}, {math.NaN(), "null", ""}, {math.Inf(1), "real", "Inf"},
			{true, "integer", "1"}, {false, "integer", "0"},
			{"", "text", ""}, {"a\x00b", "text", "a\x00b"}, {"\xff", "text", "\xff"},
			{[]byte{}, "blob", ""}, {[]byte("x"), "blob", "x"}, {[]byte(nil), "null", ""}, {json.RawMessage(`{}`),
				"blob", "{}"}, {sql.RawBytes("x"), "blob", "x"},
			{nil, "null", ""}, {(*int)(nil), "null", ""}, {&seven, "integer", "7"}, {sql.NullString{}, "null",
				""}, {sql.Null[int64]{V: 3, Valid: true}, "integer", "3"},
			{weekday(2), "text", "we"},
			{time.Date(2026, 3, 1, 12, 30, 0, 5000, berlin), "text", "2026-03-01T12:30:00.000005000+02:00"},
			{time.Date(2026, 3, 1, 12, 30, 0, 0, time.UTC), "text", "2026-03-01T12:30:00.000000000Z"},
		} {
			var kind string
			var text []byte
			must(t, db.QueryRow("SELECT typeof(:v), :v", sql.Named("v", c.in)).Scan(&kind, &text), c.in)
			got := strings.Replace(string(text), "+Inf", "Inf", 1)
			errorIf(t, kind != c.kind || got != c.text, "%#v is stored as %s %q, want %s %q", c.in, kind, got, c.kind, c.text)
		}
		for in, says := range map[any]string{uint64(1 << 63): "high bit set", struct{}{}: "unsupported type", weekday(9): "no such day"} {
			wantError(t, errOf(db.Exec("SELECT ?", in)), nil, says)
		}
	})
}

func TestValuesAreReadAfterTheirDeclaredType(t *testing.T) {
	day := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	at := day.Add(12*time.Hour + 30*time.Minute + 15*time.Second)
	newRig(t, Options{}).turn(func(db handle) {
		for i, c := range []struct {
			declared, literal string
			want              any
		}{
			{"BOOLEAN", "1", true}, {"bool", "0", false}, {"BOOLEAN", "2", int64(2)}, {"BOOLEAN", "'t'", "t"}, {"BOOLEAN", "NULL", nil},
			{"INTEGER", "1", int64(1)}, {"TEXT", "'x'", "x"}, {"BLOB", "x'00ff'", []byte{0, 255}}, {"BLOB", "x''",
				[]byte{}}, {"REAL", "1", 1.0},
			{"", "x''", []byte{}}, {"", "''", ""}, {"VARCHAR(10)", "5", "5"},
			{"DATETIME", "'2026-03-01 12:30:15'", at}, {"TIMESTAMP", "'2026-03-01T12:30:15Z'", at}, {"timestamp(3)",
				"'2026-03-01 12:30:15.000'", at},
			{"DATETIME", "'2026-03-01 12:30:15.250'", at.Add(250 * time.Millisecond)}, {"DATETIME",
				"'2026-03-01T12:30:15.000000001Z'", at.Add(1)},
			{"DATETIME", "'2026-03-01 12:30'", at.Add(-15 * time.Second)}, {"DATE", "'2026-03-01'", day}, {"DATETIME", "'2026-03-01'", day},
			{"DATETIME", "'2026-03-01 12:30:15+02:00'", at.Add(-2 * time.Hour)}, {"DATETIME",
				"'2026-03-01 12:30:15 -01:30'", at.Add(90 * time.Minute)},
			{"DATETIME", "1772368215", at}, {"DATETIME", "-1", time.Unix(-1, 0).UTC()}, {"DATETIME", "'soon'",
				"soon"}, {"TIME", "'12:30:15'", "12:30:15"},
			{"DATETIME", "'2026-13-01'", "2026-13-01"}, {"DATETIME", "NULL", nil}, {"DATETIME", "2461100.5",
				2461100.5}, {"TEXT", "'2026-03-01'", "2026-03-01"},
		} {
			db.run(fmt.Sprintf("CREATE TABLE v%d (v %s); INSERT INTO v%d VALUES (%s)", i, c.declared, i, c.literal))
			var got any
			must(t, db.QueryRow(fmt.Sprintf("SELECT v FROM v%d", i)).Scan(&got), c.declared, c.literal)
			if at, ok := got.(time.Time); ok {
				got = at.UTC()
			}
			errorIf(t, !reflect.DeepEqual(got, c.want), "%s %s is read as %#v, want %#v", c.declared, c.literal, got, c.want)
		}
	})
}

func TestTimesKeepTheirInstantAndOffset(t *testing.T) {
	newRig(t, Options{}, "CREATE TABLE t (at TIMESTAMP)").turn(func(db handle) {
		for _, offset := range []int{0, 3600, -5400} {
			want := time.Date(2026, 7, 8, 9, 10, 11, 123456789, time.FixedZone("", offset))
			db.run("DELETE FROM t; INSERT INTO t VALUES (?), (?)", want, want.Add(2))
			var got time.Time
			must(t, db.QueryRow("SELECT at FROM t").Scan(&got))
			_, have := got.Zone()
			errorIf(t, !got.Equal(want) || have != offset, "stored %v, read %v", want, got)
			db.want("SELECT unixepoch(at) FROM t WHERE at < ?", fmt.Sprint(want.Unix()), want.Add(1)) // times of one offset sort as texts
		}
	})
}

func TestBlobsThatWereReadAreCopies(t *testing.T) {
	newRig(t, Options{}, "CREATE TABLE t (b); INSERT INTO t VALUES (x'0101'), (x''), (NULL), (x'0202')").turn(func(db handle) {
		rows, err := db.Query("SELECT b FROM t")
		must(t, err)
		var got []sql.RawBytes
		for rows.Next() {
			var b sql.RawBytes
			must(t, rows.Scan(&b))
			got = append(got, b)
		}
		db.run("UPDATE t SET b = x'ffff'")
		want := []sql.RawBytes{{1, 1}, {}, nil, {2, 2}}
		errorIf(t, !reflect.DeepEqual(got, want), "%#v, want %#v", got, want)
	})
}

func TestColumnTypesAreThoseOfTheSchema(t *testing.T) {
	newRig(t, Options{}).turn(func(db handle) {
		db.run(`CREATE TABLE t (id INTEGER PRIMARY KEY, a VARCHAR(20) NOT NULL, b bigint, c BLOB, d DOUBLE NOT NULL, e boolean, f DATETIME NOT NULL, g)`)
		rows, err := db.Query("SELECT id, a, b, c, d, e, f, g, 1 + 1 FROM t")
		must(t, err)
		defer rows.Close()
		types, err := rows.ColumnTypes()
		must(t, err)
		var got []string
		for _, c := range types {
			nullable, ok := c.Nullable()
			got = append(got, fmt.Sprintf("%s %s %v %v %v", c.Name(), c.DatabaseTypeName(), nullable, ok, c.ScanType()))
		}
		want := []string{
			"id INTEGER false true int64", "a VARCHAR false true string", "b BIGINT true true sql.NullInt64", "c BLOB true true []uint8",
			"d DOUBLE false true float64", "e BOOLEAN true true sql.NullBool", "f DATETIME false true time.Time", "g  true true interface {}",
			"1 + 1  true false interface {}",
		}
		errorIf(t, !reflect.DeepEqual(got, want),
			"got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	})
}

func FuzzTimes(f *testing.F) {
	for _, s := range []string{"2026-03-01", "2026-03-01 12:30", "2026-03-01T12:30:15.5+02:00", "2026-03-01 12:30:15 Z",
		"9999-99-99 99:99:99"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		at, ok := parseTime(s)
		if !ok {
			return
		}
		again, ok := parseTime(at.Format(time.RFC3339Nano))
		errorIf(t, !ok || !again.Equal(at), "%q is %v, and that is %v", s, at, again)
	})
}
