package main

// compared is a measurement of actors' databases and the same of files.
func compared(r row, files func(*bench, library) float64) row {
	r.name = "SQL: " + r.name
	for _, l := range append([]library{sameLibrary}, otherLibraries()...) {
		name := "SQL:   beside " + l.name
		if r.raw == nil {
			r.name += " / " + l.name
			r.raw = func(b *bench) float64 { return files(b, l) }
			continue
		}
		r.more = append(r.more, twin{name, func(b *bench) float64 { return files(b, l) }})
	}
	return r
}

func sqlRows() []row {
	rows := []row{
		compared(row{name: "1-row durable insert, one actor, p50", target: "at most 1.2",
			latency: true, ours: (*bench).sqlInsert},
			(*bench).fileInsert),
		compared(row{name: "1-row durable insert, no actor, sqlitevfs on the engine, p50",
			latency: true, ours: (*bench).engineInsert},
			(*bench).fileInsert),
		compared(row{name: "1-row durable inserts, 200 actors at once", target: "at least 2.5",
			ours: func(b *bench) float64 { return b.sqlInserts(200) }},
			func(b *bench, l library) float64 { return b.fileInserts(l, 200) }),
		compared(row{name: "5 inserts, state and KV in one turn, or 5 commits and 2 turns",
			target: "at least 3", ours: (*bench).sqlMixed},
			(*bench).fileMixed),
		{name: "SQL: 5 inserts, state and KV in one turn / 7 turns", ours: (*bench).sqlMixed,
			raw: (*bench).sqlMixedApart},
		compared(row{name: "point SELECT by key, 1,000 in a query", target: "at least 0.8",
			ours: func(b *bench) float64 { return b.sqlPoints(1000) }}, (*bench).filePoints),
		compared(row{name: "point SELECT by key, one in a query",
			ours: func(b *bench) float64 { return b.sqlPoints(1) }},
			(*bench).filePoints),
		compared(row{name: "100,000 rows inserted in one turn", target: "at least 1.0",
			ours: (*bench).sqlBulk}, (*bench).fileBulk),
		compared(row{name: "rows of a full scan of 100,000", target: "at least 0.8", ours: (*bench).sqlScans},
			func(b *bench, l library) float64 { return b.fileScans(l, false) }),
		compared(row{name: "rows of a full scan on a new connection, sqlitevfs on the engine",
			ours: (*bench).engineScansCold},
			func(b *bench, l library) float64 { return b.fileScans(l, true) }),
		compared(row{name: "new actor, table, first durable row, p50", target: "at most 0.5",
			latency: true, ours: (*bench).sqlCreates},
			(*bench).fileCreates),
		compared(row{name: "open a database and read a row, sqlitevfs on the engine, p50",
			target: "at most 150 us", latency: true,
			ours: (*bench).engineOpens}, (*bench).fileOpens),
		compared(row{name: "ask an awake actor whose database is closed, p50", target: "at most 150 us", latency: true,
			ours: func(b *bench) float64 { return b.sqlReopens(fewShops) }}, (*bench).fileOpens),
		compared(row{name: "wake a sleeping actor and read a row, p50", latency: true,
			ours: (*bench).sqlWakes}, (*bench).fileOpens),
		compared(row{name: "resident memory of a database that was asked, 2,000 of them", bytes: true,
			ours: func(b *bench) float64 { return b.databases("actors", openDatabases).asked }},
			func(b *bench, l library) float64 { return b.databases(l.name, openDatabases).asked }),
		compared(row{name: "resident memory of a database that was asked and written to, 2,000 of them", bytes: true,
			ours: func(b *bench) float64 { return b.databases("actors", openDatabases).written }},
			func(b *bench, l library) float64 { return b.databases(l.name, openDatabases).written }),
		{name: "SQL: resident memory of 10,000 databases that were asked",
			target: "at most 4294967296 B", bytes: true, long: true,
			ours: func(b *bench) float64 { return manyDatabases * b.databases("actors", manyDatabases).asked }},
		{name: "SQL: resident memory of 10,000 databases that were asked and written to", bytes: true, long: true,
			ours: func(b *bench) float64 { return manyDatabases * b.databases("actors", manyDatabases).written }},
		{name: "SQL: bytes of a 1-row insert in the log", bytes: true,
			ours: func(b *bench) float64 { return b.sqlBytes().log }},
		compared(row{name: "bytes written for a 1-row insert, all in all", bytes: true,
			ours: func(b *bench) float64 { return b.sqlBytes().written }},
			func(b *bench, l library) float64 { return b.fileBytes(l).written }),
		compared(row{name: "bytes written for a 1-row insert, in pages of the system", bytes: true,
			ours: func(b *bench) float64 { return b.sqlBytes().device }},
			func(b *bench, l library) float64 { return b.fileBytes(l).device }),
	}
	return rows
}
