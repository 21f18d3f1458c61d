package traffic

import (
	"context"
	"database/sql"
	"embed"

	"github.com/cairn-run/cairn/actor"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

// migrations are the schema of an airport's database: its departures, one row each.
var migrations = actor.MustReadMigrations(migrationFiles, "migrations/*.sql")

// record adds a departure to the airport's table. It is part of the turn: a flight is in the table
// if and only if it is in the statistics.
func record(ctx *actor.Context, f Flight) error {
	_, err := ctx.SQL().ExecContext(ctx, `INSERT INTO flight (number, date, destination, distance, delay) VALUES (?, ?, ?, ?, ?)`,
		sql.NullInt64{Int64: f.Number, Valid: f.Number != 0}, f.Date, f.Destination, f.Distance, f.Delay)
	return err
}

// dateForm is the form of Flight.Date, for package time.
const dateForm = "2006-01-02T15:04:05"

// worst answers from the table what the statistics in the state do not tell.
func (a Airport) worst(ctx *actor.ReadContext, q WorstQuery) (WorstReport, error) {
	if q.Limit < 0 || q.Limit > MaxWorst || q.LeastFlights < 0 {
		return WorstReport{}, actor.Errorf(actor.InvalidArgument, "limit %d is not between 0 and %d, or least_flights %d is negative", q.Limit, MaxWorst, q.LeastFlights)
	}
	if q.Limit == 0 {
		q.Limit = 5
	}
	db := ctx.SQL()
	hours, err := groups(ctx, db, q, `
		SELECT printf('%02d:00', hour), count(*), sum(delay), count(*) FILTER (WHERE delay > ?1)
		FROM flight WHERE date <> '' GROUP BY hour HAVING count(*) >= ?2 ORDER BY avg(delay) DESC, hour LIMIT ?3`)
	if err != nil {
		return WorstReport{}, err
	}
	routes, err := groups(ctx, db, q, `
		SELECT destination, count(*), sum(delay), count(*) FILTER (WHERE delay > ?1)
		FROM flight GROUP BY destination HAVING count(*) >= ?2 ORDER BY avg(delay) DESC, destination LIMIT ?3`)
	if err != nil {
		return WorstReport{}, err
	}
	return WorstReport{Airport: ctx.Key()[0], Hours: hours, Routes: routes}, nil
}

func groups(ctx context.Context, db *sql.DB, q WorstQuery, query string) ([]Group, error) {
	rows, err := db.QueryContext(ctx, query, LateAfter, max(q.LeastFlights, 1), q.Limit)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	found := []Group{}
	for rows.Next() {
		var g Group
		if err := rows.Scan(&g.Name, &g.Flights, &g.TotalDelay, &g.Late); err != nil {
			return nil, err
		}
		g.MeanDelay = round(float64(g.TotalDelay)/float64(g.Flights), 2)
		found = append(found, g)
	}
	return found, rows.Err()
}
