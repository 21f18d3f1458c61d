package sqlitevfs

import (
	"bytes"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

// The tests here cut the power of a memory disk under Pebble with a few databases. They cut at
// random operations on files and keep 0, 50 or 100 % of the unsynced bytes. Then they check the
// rest.

// TestPowerLossLosesNothingAcknowledgedAndTearsNothing checks after each cut that SQLite finds the
// databases sound and that nothing acknowledged is missing. The rows, their index, the counts in a
// second table and a key outside the database must agree.
func TestPowerLossLosesNothingAcknowledgedAndTearsNothing(t *testing.T) {
	rounds, cuts := 2, 40
	if os.Getenv("CAIRN_LONG") != "" { // `make soak`
		rounds = 200
	}
	var total outcome
	var disk *vfs.MemFS
	for seed := range rounds {
		if seed%3 == 0 {
			disk = nil // begin anew; other rounds continue from the last cut of the round before
		}
		var o outcome
		o, disk = crashRound(t, disk, crashMode{seed: uint64(seed), cuts: cuts})
		total.add(o)
	}
	errorIf(t, len(total.faults) > 0, "%d faults, the first: %s", len(total.faults), fmt.Sprint(total.faults[:min(1, len(total.faults))]))
	for _, what := range []string{"VACUUM", "rollback", "large commit", "database alive after a cut"} {
		errorIf(t, total.did["cut"] < rounds*cuts || total.did[what] == 0, "the test did too little: %v", total.did)
	}
	t.Log(total.did)
}

// TestPowerLossTestSeesFaults is the negative control: stores that acknowledge unsynced commits,
// and stores that commit the key beside the database later.
func TestPowerLossTestSeesFaults(t *testing.T) {
	for _, c := range []struct {
		mode         crashMode
		sees, misses string
	}{
		{crashMode{seed: 1, cuts: 40, noSync: true}, "lost", "unsound torn"}, // the log keeps the order of batches
		{crashMode{seed: 2, cuts: 60, apart: true}, "torn", "unsound"},
	} {
		o, _ := crashRound(t, nil, c.mode)
		seen := 0
		for _, f := range o.faults {
			kind, _, _ := strings.Cut(f, ":")
			errorIf(t, strings.Contains(c.misses, kind), "%+v: %s", c.mode, f)
			if kind == c.sees {
				seen++
			}
		}
		errorIf(t, seen == 0, "%+v: nothing was %s in %d cuts: %v", c.mode, c.sees, o.did["cut"], o.faults)
	}
}

const crashDatabases = 2

// crashKeeps are the percents of unsynced bytes that cuts keep, in turn. 50 is rare, because Pebble
// tries every bit of a record whose checksum is wrong, which takes most of the test's time.
var crashKeeps = []int{0, 100, 0, 100, 50, 0, 100, 0, 100, 0}

type crashMode struct {
	seed   uint64
	cuts   int
	noSync bool // the store does not wait for the disk
	apart  bool // the store commits the key in a second batch
}

type outcome struct {
	did    map[string]int
	faults []string // each begins with its kind
}

func (o *outcome) add(p outcome) {
	for what, n := range p.did {
		o.count(what, n)
	}
	o.faults = append(o.faults, p.faults...)
}

func (o *outcome) count(what string, n int) {
	if o.did == nil {
		o.did = map[string]int{}
	}
	o.did[what] += n
}

// A cut is the disk that a loss of power leaves, and the least and the most commits that each
// database may have on it.
type cut struct {
	disk         *vfs.MemFS
	acked, begun [crashDatabases]uint64
}

// crashRound runs a walker for each database at full speed until enough cuts were taken, and
// returns the last disk.
func crashRound(t *testing.T, disk *vfs.MemFS, mode crashMode) (outcome, *vfs.MemFS) {
	t.Helper()
	if disk == nil {
		disk = vfs.NewCrashableMem()
	}
	walkers := make([]*walker, crashDatabases)
	for i := range walkers {
		walkers[i] = &walker{rnd: rand.New(rand.NewPCG(mode.seed, uint64(i)))}
	}
	p := &power{disk: disk, walkers: walkers, rnd: rand.New(rand.NewPCG(mode.seed, 99)), cuts: make(chan cut), mode: mode}
	db, err := openPebble(errorfs.Wrap(disk, p), false)
	must(t, err)
	for i, w := range walkers {
		w.store = &pebbleStore{db: db, prefix: byte(i)}
		w.open(t)
		w.store.mode = mode
	}

	var mu sync.Mutex
	var total outcome
	var last *vfs.MemFS
	var sound sync.Map
	var checkers, working sync.WaitGroup
	for range 2 {
		checkers.Go(func() {
			for c := range p.cuts {
				o := checkCut(t, &sound, c)
				mu.Lock()
				total.add(o)
				last = c.disk
				mu.Unlock()
			}
		})
	}
	p.on.Store(true)
	for _, w := range walkers {
		working.Go(func() {
			for p.on.Load() {
				w.step(t)
			}
		})
	}
	working.Wait()
	close(p.cuts)
	checkers.Wait()
	for _, w := range walkers {
		total.add(w.did)
		check(t, w.db.Close())
	}
	check(t, db.Close())
	return total, last
}

// power takes a cut before some of the operations that change a file. It is an [errorfs.Injector]
// that never fails.
type power struct {
	disk    *vfs.MemFS
	walkers []*walker
	mode    crashMode
	cuts    chan cut
	on      atomic.Bool

	mu    sync.Mutex
	rnd   *rand.Rand
	left  int // operations until the next cut
	taken int
}

func (p *power) String() string { return "power" }

func (p *power) MaybeError(op errorfs.Op) error {
	if !p.on.Load() || op.Kind.ReadOrWrite() != errorfs.OpIsWrite {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.left--; p.left > 0 || p.taken >= p.mode.cuts {
		return nil
	}
	p.left = 1 + p.rnd.IntN(24)
	var c cut
	for i, w := range p.walkers {
		c.acked[i] = w.acked.Load()
	}
	c.disk = p.disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: crashKeeps[p.taken%len(crashKeeps)], RNG: p.rnd})
	for i, w := range p.walkers {
		c.begun[i] = w.begun.Load()
	}
	p.cuts <- c // the disk stands still meanwhile, so the walkers do not run ahead of the checkers
	if p.taken++; p.taken == p.mode.cuts {
		p.on.Store(false)
	}
	return nil
}

// A walker makes random transactions on one database.
type walker struct {
	rnd          *rand.Rand
	store        *pebbleStore
	db           *DB
	sequence     uint64 // of the last commit
	rows         uint64 // after it
	begun, acked atomic.Uint64
	did          outcome
}

var crashSchema = []Migration{{Name: "1", SQL: `
	CREATE TABLE item (id INTEGER PRIMARY KEY, v BLOB NOT NULL);
	CREATE INDEX item_v ON item (v);
	CREATE TABLE head (sequence INTEGER NOT NULL, count INTEGER NOT NULL);
	INSERT INTO head VALUES (0, 0);`}}

// crashOptions have the smallest cache, and large transactions use only five pages of it, so they
// write pages before they commit.
func crashOptions() Options { return Options{CacheBytes: 64 << 10} }

func (w *walker) open(t *testing.T) {
	db, err := Open(t.Context(), w.store, crashSchema, crashOptions())
	must(t, err)
	w.db = db
	err = db.View(t.Context(), func(tx *sql.DB) error {
		return tx.QueryRow(`SELECT sequence, count FROM head`).Scan(&w.sequence, &w.rows)
	})
	must(t, err)
	w.begun.Store(w.sequence)
	w.acked.Store(w.sequence)
}

var errSecondThoughts = errors.New("second thoughts")

func (w *walker) step(t *testing.T) {
	next, rows := w.sequence+1, w.rows
	var fails, vacuums bool
	kind := "small commit"
	var script []func(tx *sql.DB) error
	insert := func(n int) {
		rows += uint64(n)
		script = append(script, func(tx *sql.DB) error { return insertItems(tx, n) })
	}
	exec := func(text string, args ...any) { script = append(script, runs(text, args...)) }
	switch k := w.rnd.IntN(100); {
	case k < 60:
		insert(1)
	case k < 72:
		exec(`PRAGMA cache_size = 5`)
		insert(100 + w.rnd.IntN(100))
		kind = "large commit"
	case k < 80: // all of it is rolled back, after some pages were written
		exec(`PRAGMA cache_size = 5`)
		insert(1 + w.rnd.IntN(200))
		fails = true
	case k < 86: // a part of it is rolled back
		script = append(script, func(tx *sql.DB) error {
			part, err := tx.Begin()
			if err != nil {
				return err
			}
			return errors.Join(insertItems(part, 1+w.rnd.IntN(150)), part.Rollback())
		})
		insert(2)
	case k < 90:
		exec(`UPDATE item SET v = randomblob(120) WHERE id % 3 = 0`)
	default:
		exec(`DELETE FROM item`)
		rows, vacuums = 0, w.rnd.IntN(2) == 0
	}
	exec(`UPDATE head SET sequence = ?, count = ?`, next, rows)
	if vacuums {
		exec(`VACUUM`)
	}
	if !fails {
		w.begun.Store(next)
	}
	w.store.state = state(next, rows)
	err := w.db.Update(t.Context(), func(tx *sql.DB) error {
		for _, f := range script {
			if err := f(tx); err != nil {
				return err
			}
		}
		if fails {
			return errSecondThoughts
		}
		return nil
	})
	switch {
	case fails && errors.Is(err, errSecondThoughts):
		w.did.count("rollback", 1)
		return
	case err != nil:
		t.Error(err)
		return
	}
	w.sequence, w.rows = next, rows
	w.acked.Store(next)
	w.did.count(kind, 1)
	if vacuums {
		w.did.count("VACUUM", 1)
	}
}

func insertItems(tx asker, n int) error {
	return errOf(tx.ExecContext(context.Background(),
		`INSERT INTO item (v) SELECT randomblob(120 + value % 40) FROM generate_series(1, ?)`, n))
}

func state(sequence, rows uint64) []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, sequence), rows)
}

// checkCut starts a store from the disk of a cut, as after a restart of the machine. It checks a
// copy of the keys, because Pebble's single reads are slow under the race detector. For the same
// reason it mostly opens the store read-only.
func checkCut(t *testing.T, sound *sync.Map, c cut) outcome {
	o := outcome{did: map[string]int{"cut": 1}}
	alive := (c.acked[0]+c.acked[1])%16 == 0
	db, err := openPebble(c.disk, !alive)
	if err != nil {
		o.faults = append(o.faults, "unsound: Pebble: "+err.Error())
		return o
	}
	defer db.Close()
	for i := range crashDatabases {
		found, err := checkDatabase(t, sound, db, i)
		switch {
		case err != nil:
			o.faults = append(o.faults, fmt.Sprintf("%v, database %d", err, i))
		case found.sequence < c.acked[i] || found.sequence > c.begun[i]:
			o.faults = append(o.faults,
				fmt.Sprintf("lost: commit %d of database %d, want %d to %d", found.sequence, i, c.acked[i], c.begun[i]))
		case alive: // continue on it
			w := &walker{rnd: rand.New(rand.NewPCG(found.sequence, found.rows)), store: &pebbleStore{db: db, prefix: byte(i)}}
			w.open(t)
			w.step(t)
			check(t, w.db.Close())
			o.count("database alive after a cut", 1)
		}
	}
	return o
}

type crashHead struct{ sequence, rows uint64 }

func (k keys) sum() (s [sha256.Size]byte) {
	h := sha256.New()
	for _, key := range slices.Sorted(maps.Keys(k)) {
		fmt.Fprintf(h, "%d %s %d ", len(key), key, len(k[key]))
		h.Write(k[key])
	}
	h.Sum(s[:0])
	return s
}

// checkDatabase returns the head of a database. The text of the error begins with the kind of the
// fault. sound are the heads of databases that were found sound, by the sum of all keys:
// consecutive cuts often leave the same.
func checkDatabase(t *testing.T, sound *sync.Map, db *pebble.DB, i int) (h crashHead, err error) {
	k := keys{}
	err = pebbleKeys{db, byte(i)}.Scan(nil, []byte{0xff}, func(key, value []byte) bool {
		k[string(key)] = bytes.Clone(value)
		return true
	})
	if err != nil {
		return h, fmt.Errorf("unsound: Pebble: %w", err)
	}
	sum := k.sum()
	if known, ok := sound.Load(sum); ok {
		return known.(crashHead), nil
	}
	defer func() {
		if err == nil {
			sound.Store(sum, h)
		}
	}()
	s, err := Open(t.Context(), &mapStore{keys: k}, nil, Options{})
	if err != nil {
		return h, fmt.Errorf("unsound: open: %w", err)
	}
	defer s.Close()
	var verdict string
	var rows, indexed uint64
	err = s.View(t.Context(), func(tx *sql.DB) error {
		return errors.Join(
			tx.QueryRow(`PRAGMA integrity_check`).Scan(&verdict),
			tx.QueryRow(`SELECT sequence, count, (SELECT count(*) FROM item NOT INDEXED), (SELECT count(v) FROM item INDEXED BY item_v WHERE v >= x'') FROM head`).
				Scan(&h.sequence, &h.rows, &rows, &indexed))
	})
	switch key := k[string(crashStateKey)]; {
	case err != nil || verdict != "ok":
		return h, fmt.Errorf("unsound: integrity_check says %q, %v", verdict, err)
	case rows != h.rows || indexed != h.rows:
		return h, fmt.Errorf("torn: %d rows, %d in the index, %d were counted", rows, indexed, h.rows)
	case h.sequence > 0 && !bytes.Equal(key, state(h.sequence, h.rows)):
		return h, fmt.Errorf("torn: the key is %x, of the database %x", key, state(h.sequence, h.rows))
	}
	return h, nil
}

// freshFiles is a file system that makes a new file where Pebble would use one of its logs again.
// For that, MemFS takes the lock of CrashClone twice, and hangs if a clone is made in between.
type freshFiles struct{ vfs.FS }

func (f freshFiles) ReuseForWrite(oldname, newname string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if err := f.Remove(oldname); err != nil {
		return nil, err
	}
	return f.Create(newname, category)
}

func openPebble(fs vfs.FS, readOnly bool) (*pebble.DB, error) {
	return pebble.Open("db", &pebble.Options{
		// flushes and compactions while it runs
		FS: freshFiles{fs}, ReadOnly: readOnly, MemTableSize: 128 << 10, L0CompactionThreshold: 2, CacheSize: 1 << 20,
		FormatMajorVersion: pebble.FormatWALSyncChunks, Logger: quiet{},
	})
}

// quiet is a [pebble.Logger] that panics on Pebble's fatal errors.
type quiet struct{}

func (quiet) Infof(string, ...any)           {}
func (quiet) Errorf(string, ...any)          {}
func (quiet) Fatalf(format string, a ...any) { panic(fmt.Sprintf(format, a...)) }

// A pebbleStore is a [Store] under one byte of a Pebble database. With each update it commits its
// own key.
type pebbleStore struct {
	db     *pebble.DB
	prefix byte
	mode   crashMode
	state  []byte
}

var crashStateKey = []byte{1}

func (s *pebbleStore) Snapshot(context.Context) (Snapshot, error) {
	sn := s.db.NewSnapshot()
	return pebbleSnapshot{pebbleKeys{sn, s.prefix}, sn}, nil
}

type pebbleSnapshot struct {
	pebbleKeys
	*pebble.Snapshot
}

func (s pebbleSnapshot) Get(dst, key []byte) ([]byte, bool, error) { return s.pebbleKeys.Get(dst, key) }

func (s *pebbleStore) Update(_ context.Context, f func(Writer) error) error {
	b := s.db.NewIndexedBatch()
	defer b.Close()
	if err := f(pebbleWriter{pebbleKeys{b, s.prefix}, b}); err != nil {
		return err
	}
	wait := pebble.Sync
	if s.mode.noSync {
		wait = pebble.NoSync
	}
	key := append([]byte{s.prefix}, crashStateKey...)
	if s.mode.apart {
		return errors.Join(b.Commit(wait), s.db.Set(key, s.state, wait))
	}
	return errors.Join(b.Set(key, s.state, nil), b.Commit(wait))
}

type pebbleKeys struct {
	r      pebble.Reader
	prefix byte
}

func (k pebbleKeys) key(key []byte) []byte { return append([]byte{k.prefix}, key...) }

func (k pebbleKeys) Get(dst, key []byte) ([]byte, bool, error) {
	value, closer, err := k.r.Get(k.key(key))
	if errors.Is(err, pebble.ErrNotFound) {
		return dst, false, nil
	}
	if err != nil {
		return dst, false, err
	}
	dst = append(dst, value...)
	return dst, true, closer.Close()
}

func (k pebbleKeys) Scan(start, end []byte, f func(key, value []byte) bool) error {
	it, err := k.r.NewIter(&pebble.IterOptions{LowerBound: k.key(start), UpperBound: k.key(end)})
	if err != nil {
		return err
	}
	for ok := it.First(); ok && f(it.Key()[1:], it.Value()); ok = it.Next() {
	}
	return errors.Join(it.Error(), it.Close())
}

type pebbleWriter struct {
	pebbleKeys
	b *pebble.Batch
}

func (w pebbleWriter) Put(key, value []byte, _ int) error { return w.b.Set(w.key(key), value, nil) }

func (w pebbleWriter) DeleteRange(start, end []byte) error {
	return w.b.DeleteRange(w.key(start), w.key(end), nil)
}

func (w pebbleWriter) Room() int64 { return math.MaxInt64 }
