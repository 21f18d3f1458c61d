package main

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"time"

	"github.com/cairn-run/cairn/runtime"
)

// The inserts whose bytes are counted: so many, one after the other in each of so many databases.
const (
	countedInserts   = 30_000
	countedDatabases = 100
)

// bytesWritten is what an insert of one row makes a process write.
type bytesWritten struct {
	log     float64 // of the commit to the log, as the store counts it; 0 for a file
	written float64 // handed to the system: log, flushes and compactions; log and checkpoints
	device  float64 // what the system has to write for that, in whole pages
}

// counted returns the bytes that f makes this process write, for each insert.
func counted(f func()) (c bytesWritten) {
	before := writtenSoFar()
	f()
	after := writtenSoFar()
	return bytesWritten{written: (after.written - before.written) / countedInserts,
		device: (after.device - before.device) / countedInserts}
}

func writtenSoFar() (c bytesWritten) {
	text, err := os.ReadFile("/proc/self/io")
	check(err)
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		fmt.Sscanf(lines.Text(), "wchar: %f", &c.written)
		fmt.Sscanf(lines.Text(), "write_bytes: %f", &c.device)
	}
	return c
}

// inserts runs the counted inserts, spread over the databases.
func inserts(insert func(database, i int)) {
	rateOnce(countedDatabases, countedDatabases, func(d int) {
		for i := range countedInserts / countedDatabases {
			insert(d, i)
		}
	})
}

func (b *bench) sqlBytes() bytesWritten {
	return once(b, "bytes of actors", func() (c bytesWritten) {
		b.shop(runtime.Options{}, func(s shopNode) {
			s.fill(countedDatabases, smallTable)
			log := gauge(s.Runtime, "cairn_store_commit_bytes_total")
			c = counted(func() {
				inserts(func(d, i int) { s.call(sqlInsertOne, shopKey(d), i) })
				time.Sleep(500 * time.Millisecond) // flushes and compactions go on
			})
			c.log = (gauge(s.Runtime, "cairn_store_commit_bytes_total") - log) / countedInserts
		})
		return c
	})
}

func (b *bench) fileBytes(l library) bytesWritten {
	return once(b, "bytes of "+l.name, func() (c bytesWritten) {
		b.files(func(dir string) {
			open := openFiles(l, dir, countedDatabases)
			for _, t := range open {
				fillFile(t.db, smallTable)
			}
			c = counted(func() {
				inserts(func(d, i int) { open[d].insert(i) })
				closeFiles(open)
			})
		})
		return c
	})
}
