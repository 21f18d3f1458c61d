//go:build mattn

package main

import (
	"database/sql"

	_ "github.com/mattn/go-sqlite3"
)

// otherLibraries has the library in C. Both libraries register the name "sqlite3" and cannot do so
// in one program: it has to be linked with -ldflags "-X
// github.com/ncruces/go-sqlite3/driver.driverName=", as the Makefile does.
func otherLibraries() []library {
	return []library{{"files of mattn/go-sqlite3", func(path string) (*sql.DB, error) {
		return sql.Open("sqlite3", "file:"+path+"?_busy_timeout=10000&_journal_mode=WAL&_synchronous=FULL")
	}}}
}
