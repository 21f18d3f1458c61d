package main

import (
	"database/sql"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"

	"github.com/cairn-run/cairn/actor"
)

// The table that all databases have, and its statements. A row takes some 120 bytes.
const (
	sqlSchema = "CREATE TABLE t(id INTEGER PRIMARY KEY, k TEXT, v INTEGER, body TEXT)"
	sqlInsert = "INSERT INTO t(k, v, body) VALUES(?, ?, ?)"
	sqlPoint  = "SELECT v, body FROM t WHERE id = ?"
	sqlScan   = "SELECT id, k, v, body FROM t"
)

// sqlTable is how many rows the large tables have, and smallTable those of the many databases.
const (
	sqlTable   = 100_000
	smallTable = 100
)

var sqlBody = strings.Repeat("a body of some length. ", 4)[:90]

// sqlArgs are the values of a row.
func sqlArgs(i int) (k string, v int, body string) {
	return "key-" + strconv.Itoa(i), i, sqlBody
}

// A shop is an actor with a table. The state is empty but for the turns that count.
type shop struct {
	N int64
}

var (
	shops     = actor.NewType[shop]("shop")
	shopNotes = actor.NewMap[string, []byte](shops, "notes", actor.MapConfig{})

	sqlInsertOne = actor.NewAction[int, actor.None](shops, "insert")   // one row
	sqlInsertN   = actor.NewAction[int, actor.None](shops, "insert-n") // so many, in one turn
	sqlMixed     = actor.NewAction[int, actor.None](shops, "mixed")    // five rows, the state, an entry of the store
	sqlState     = actor.NewAction[int, actor.None](shops, "state")    // the state alone
	sqlNote      = actor.NewAction[int, actor.None](shops, "note")     // the entry alone

	sqlPointN  = actor.NewQuery[int, int](shops, "point-n") // so many rows by random keys, in one query
	sqlPointAt = actor.NewQuery[int, int](shops, "point")   // the row with a key
	sqlScanAll = actor.NewQuery[actor.None, int](shops, "scan")
)

var sqlNoteValue = make([]byte, 64)

func shopDefinition() []actor.Definition {
	return []actor.Definition{actor.Define(shops,
		actor.Spec[shop]{
			Migrations: []actor.Migration{{Name: "001-table", SQL: sqlSchema}},
			Limits:     actor.Limits{WriteSetBytes: 256 << 20},
		},
		actor.On(sqlInsertOne, (*shop).insert), actor.On(sqlInsertN,
			(*shop).insertN), actor.On(sqlMixed, (*shop).mixed),
		actor.On(sqlState, (*shop).state), actor.On(sqlNote, (*shop).note),
		actor.OnQuery(sqlPointN, shop.pointN), actor.OnQuery(sqlPointAt,
			shop.pointAt), actor.OnQuery(sqlScanAll, shop.scan))}
}

func (*shop) insert(ctx *actor.Context, i int) (actor.None, error) {
	k, v, body := sqlArgs(i)
	_, err := ctx.SQL().ExecContext(ctx, sqlInsert, k, v, body)
	return actor.None{}, err
}

func (*shop) insertN(ctx *actor.Context, n int) (actor.None, error) {
	conn, err := ctx.SQL().Conn(ctx) // else each statement asks the pool for it; that of the file is of a transaction
	if err != nil {
		return actor.None{}, err
	}
	defer conn.Close()
	stmt, err := conn.PrepareContext(ctx, sqlInsert)
	if err != nil {
		return actor.None{}, err
	}
	defer stmt.Close()
	for i := range n {
		k, v, body := sqlArgs(i)
		if _, err := stmt.ExecContext(ctx, k, v, body); err != nil {
			return actor.None{}, err
		}
	}
	return actor.None{}, nil
}

func (s *shop) mixed(ctx *actor.Context, i int) (actor.None, error) {
	s.N++
	if err := shopNotes.Put(ctx, "note", sqlNoteValue); err != nil {
		return actor.None{}, err
	}
	for range mixedStatements {
		if _, err := s.insert(ctx, i); err != nil {
			return actor.None{}, err
		}
	}
	return actor.None{}, nil
}

// mixedStatements is how many statements a mixed turn runs.
const mixedStatements = 5

func (s *shop) state(*actor.Context, int) (actor.None, error) {
	s.N++
	return actor.None{}, nil
}

func (*shop) note(ctx *actor.Context, _ int) (actor.None, error) {
	return actor.None{}, shopNotes.Put(ctx, "note", sqlNoteValue)
}

func (shop) pointN(ctx *actor.ReadContext, n int) (sum int, err error) {
	stmt, err := ctx.SQL().PrepareContext(ctx, sqlPoint)
	if err != nil {
		return 0, err
	}
	defer stmt.Close()
	for range n {
		v, err := sqlPointOf(stmt.QueryRowContext(ctx, 1+rand.IntN(sqlTable)))
		if err != nil {
			return 0, err
		}
		sum += v
	}
	return sum, nil
}

func (shop) pointAt(ctx *actor.ReadContext, id int) (int, error) {
	return sqlPointOf(ctx.SQL().QueryRowContext(ctx, sqlPoint, id))
}

func sqlPointOf(row *sql.Row) (v int, err error) {
	var body string
	err = row.Scan(&v, &body)
	return v, err
}

func (shop) scan(ctx *actor.ReadContext, _ actor.None) (int, error) { return sqlScanOf(ctx.SQL()) }

// sqlScanOf reads all rows, and holds the table to their number.
func sqlScanOf(db *sql.DB) (n int, err error) {
	rows, err := db.Query(sqlScan)
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	for rows.Next() {
		var id, v int
		var k, body string
		if err := rows.Scan(&id, &k, &v, &body); err != nil {
			return 0, err
		}
		n++
	}
	if n != sqlTable {
		return 0, fmt.Errorf("%d rows were found", n)
	}
	return n, rows.Err()
}
