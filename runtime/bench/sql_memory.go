package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/cairn-run/cairn/runtime"
)

// openDatabases is how many databases are held open at once, and manyDatabases how many if there is
// time for it.
const (
	openDatabases = 2_000
	manyDatabases = 10_000
)

// perDatabase is what an open database takes of the resident memory of a process: one that was
// asked, and one that was written to as well. That is the same for a file; an actor has a
// connection for each.
type perDatabase struct{ asked, written float64 }

// databases returns what one of n open databases takes of another process that holds them: those of
// actors, or those of a library.
func (b *bench) databases(what string, n int) perDatabase {
	return once(b, fmt.Sprint("databases ", what, n), func() (p perDatabase) {
		holder := exec.Command(os.Args[0])
		holder.Env = append(os.Environ(), fmt.Sprintf("%s=sql %d %s", asHolder, n, what))
		holder.Stderr = os.Stderr
		out, err := holder.Output()
		check(err)
		_, err = fmt.Sscan(string(out), &p.asked, &p.written)
		check(err)
		return p
	})
}

// warmDatabases are open before anything is measured; fewer in tests.
var warmDatabases = 64

// holdDatabases is the program as a holder of databases.
func holdDatabases(what string) {
	count, name, _ := strings.Cut(what, " ")
	n, err := strconv.Atoi(count)
	check(err)
	dir, err := os.MkdirTemp("", "cairn-bench-")
	check(err)
	defer os.RemoveAll(dir)
	b := &bench{dir: dir}
	for _, l := range append(otherLibraries(), sameLibrary) {
		if l.name == name {
			b.holdFiles(l, n)
			return
		}
	}
	b.holdShops(n)
}

// measured prints the resident memory that open and then write add for each of n databases.
func measured(n int, open, write func(i int)) {
	for i := range warmDatabases {
		open(i)
		write(i)
	}
	before := settled()
	for i := range n {
		open(warmDatabases + i)
	}
	asked := settled()
	for i := range n {
		write(warmDatabases + i)
	}
	written := settled()
	fmt.Println(float64(asked-before)/float64(n), float64(written-before)/float64(n))
}

func settled() int {
	debug.FreeOSMemory()
	return resident()
}

// holdShops fills the databases in a first run of the node, so that what the store keeps in memory
// of new rows is gone.
func (b *bench) holdShops(n int) {
	o := runtime.Options{Dir: filepath.Join(b.dir, "node"), IdleTimeout: time.Hour}
	b.shop(o, func(s shopNode) { s.fill(warmDatabases+n, smallTable) })
	o.SQL = runtime.SQLOptions{MaxOpen: 3 * n, MaxMemory: 64 << 30, IdleTime: time.Hour}
	b.shop(o, func(s shopNode) {
		measured(n, func(i int) { s.point(shopKey(i), 1) }, func(i int) { s.call(sqlInsertOne, shopKey(i), i) })
	})
}

func (b *bench) holdFiles(l library, n int) {
	all := affordable(3*(warmDatabases+n))/3 - warmDatabases // each has three files
	open := make([]fileTable, 0, warmDatabases+all)
	path := func(i int) string { return filepath.Join(b.dir, strconv.Itoa(i)) }
	for i := range warmDatabases + all {
		db := l.must(path(i))
		_, err := db.Exec(sqlSchema)
		check(err)
		fillFile(db, smallTable)
		check(db.Close())
	}
	measured(all, func(i int) {
		db := l.must(path(i))
		_, err := sqlPointOf(db.QueryRow(sqlPoint, 1))
		check(err)
		open = append(open, fileTable{db, inserter(db)})
	}, func(i int) { open[i].insert(i) })
	closeFiles(open)
}
