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
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

// crashKeeps are the percents of what was not synced that cuts keep, in turn. Those of 50 are fewer, because Pebble tries every
// bit of a record whose checksum is wrong, which is most of the time that the test takes.
var crashKeeps = []int{0, 100, 0, 100, 50, 0, 100, 0, 100, 0}

// A cut is what a loss of power leaves, and the least and the most that each database may have on it.
type cut struct {
	disk         *vfs.MemFS
	acked, begun [2]uint64
}

// The test cuts the power of a memory disk under Pebble, in which two databases live, at random operations on files and with 0, 50 or
// 100 % of what was not synced kept. Of each cut it demands that SQLite finds the databases sound, that the rows, the index on them,
// the counts in a second table and a key outside the database agree, and that nothing is missing that was acknowledged.
func TestPowerLossLosesNothingAcknowledgedAndTearsNothing(t *testing.T) {
	rounds, cuts := 2, 40
	if os.Getenv("CAIRN_LONG") != "" { // `make soak`
		rounds = 200
	}
	did := map[string]int{}
	var disk *vfs.MemFS
	for seed := range rounds {
		if seed%3 == 0 { // from nothing; the others go on from what the last cut of the round before left
			disk = vfs.NewCrashableMem()
		}
		p := &power{disk: disk, rnd: rand.New(rand.NewPCG(uint64(seed), 99))}
		db, err := openPebble(errorfs.Wrap(disk, p), false)
		must(t, err)
		for i := range p.walkers {
			p.walkers[i] = &walker{t: t, rnd: rand.New(rand.NewPCG(uint64(seed), uint64(i))), did: did}
			p.walkers[i].open(&pebbleStore{db: db, prefix: byte(i)})
		}
		sound := map[[sha256.Size]byte]crashHead{}
		p.left.Store(1)
		for i, taken := 0, 0; taken < cuts; i++ {
			p.walkers[i%2].step()
			for _, c := range p.take() {
				checkCut(t, sound, c, did)
				taken++
				disk = c.disk
			}
		}
		p.left.Store(0)
		must(t, errors.Join(p.walkers[0].db.Close(), p.walkers[1].db.Close(), db.Close()))
	}
	for _, what := range []string{"VACUUM", "rollback", "large commit", "database alive after a cut"} {
		errorIf(t, did["cut"] < rounds*cuts || did[what] == 0, "the test did too little: %v", did)
	}
	t.Log(did)
}

// power takes a cut before some of the operations that change a file. It is an [errorfs.Injector] that never fails.
type power struct {
	disk    *vfs.MemFS
	walkers [2]*walker
	left    atomic.Int64 // operations until the next cut; 0 for none

	mu    sync.Mutex
	rnd   *rand.Rand
	cuts  []cut
	taken int
}

func (p *power) String() string { return "power" }

func (p *power) MaybeError(op errorfs.Op) error {
	if op.Kind.ReadOrWrite() != errorfs.OpIsWrite || p.left.Load() == 0 || p.left.Add(-1) > 0 {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.left.Store(1 + p.rnd.Int64N(24))
	var c cut
	for i, w := range p.walkers {
		c.acked[i] = w.acked.Load()
	}
	c.disk = p.disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: crashKeeps[p.taken%len(crashKeeps)], RNG: p.rnd})
	for i, w := range p.walkers {
		c.begun[i] = w.begun.Load()
	}
	p.cuts = append(p.cuts, c)
	p.taken++
	return nil
}

// take returns the cuts since it was last asked.
func (p *power) take() []cut {
	p.mu.Lock()
	defer p.mu.Unlock()
	cuts := p.cuts
	p.cuts = nil
	return cuts
}

// A walker makes random transactions on one database.
type walker struct {
	t            *testing.T
	rnd          *rand.Rand
	store        *pebbleStore
	db           *DB
	sequence     uint64 // of the last commit
	rows         uint64 // after it
	begun, acked atomic.Uint64
	did          map[string]int
}

var crashSchema = migrationsOf(`
	CREATE TABLE item (id INTEGER PRIMARY KEY, v BLOB NOT NULL);
	CREATE INDEX item_v ON item (v);
	CREATE TABLE head (sequence INTEGER NOT NULL, count INTEGER NOT NULL);
	INSERT INTO head VALUES (0, 0);`)

// open opens a database with the smallest cache. Large transactions make do with five pages, so that they write pages before they
// commit.
func (w *walker) open(store *pebbleStore) {
	db, err := Open(w.t.Context(), store, crashSchema, Options{CacheBytes: 64 << 10})
	must(w.t, err)
	w.store, w.db = store, db
	must(w.t, db.View(w.t.Context(), func(tx *sql.DB) error {
		return tx.QueryRow(`SELECT sequence, count FROM head`).Scan(&w.sequence, &w.rows)
	}))
	w.begun.Store(w.sequence)
	w.acked.Store(w.sequence)
}

func (w *walker) step() {
	next, rows := w.sequence+1, w.rows
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
	case k < 80: // all of it is rolled back, after some was written
		exec(`PRAGMA cache_size = 5`)
		insert(1 + w.rnd.IntN(200))
		kind = "rollback"
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
		rows = 0
		if w.rnd.IntN(2) == 0 {
			kind = "VACUUM"
		}
	}
	exec(`UPDATE head SET sequence = ?, count = ?`, next, rows)
	switch kind {
	case "VACUUM":
		exec(`VACUUM`)
	case "rollback":
		script = append(script, func(*sql.DB) error { return errPlain })
	}
	if kind != "rollback" {
		w.begun.Store(next)
	}
	w.store.state = state(next, rows)
	err := w.db.Update(w.t.Context(), func(tx *sql.DB) error {
		for _, f := range script {
			if err := f(tx); err != nil {
				return err
			}
		}
		return nil
	})
	w.did[kind]++
	if kind == "rollback" {
		wantErr(w.t, err, errPlain)
		return
	}
	must(w.t, err)
	w.sequence, w.rows = next, rows
	w.acked.Store(next)
}

func insertItems(tx asker, n int) error {
	return errOf(tx.ExecContext(context.Background(), `INSERT INTO item (v) SELECT randomblob(120 + value % 40) FROM generate_series(1, ?)`, n))
}

func state(sequence, rows uint64) []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, sequence), rows)
}

// checkCut starts a store from what a cut left, as after a restart of the machine. What is in it is checked in a copy of the
// keys, because Pebble is slow at single reads when it is built for the race detector, and mostly read-only for the same reason.
func checkCut(t *testing.T, sound map[[sha256.Size]byte]crashHead, c cut, did map[string]int) {
	did["cut"]++
	alive := (c.acked[0]+c.acked[1])%16 == 0
	db, err := openPebble(c.disk, !alive)
	must(t, err, "Pebble is not sound")
	defer func() { must(t, db.Close()) }()
	for i, acked := range c.acked {
		found, err := checkDatabase(t, sound, db, i)
		must(t, err, "database", i)
		fatalIf(t, found.sequence < acked || found.sequence > c.begun[i],
			"lost: commit %d of database %d, want %d to %d", found.sequence, i, acked, c.begun[i])
		if alive { // life goes on
			w := &walker{t: t, rnd: rand.New(rand.NewPCG(found.sequence, found.rows)), did: did}
			w.open(&pebbleStore{db: db, prefix: byte(i)})
			w.step()
			must(t, w.db.Close())
			did["database alive after a cut"]++
		}
	}
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

// checkDatabase returns what a database says of itself. sound are the heads of databases that were found sound, by the sum of all
// keys: consecutive cuts often leave the same.
func checkDatabase(t *testing.T, sound map[[sha256.Size]byte]crashHead, db *pebble.DB, i int) (h crashHead, err error) {
	k := keys{}
	must(t, pebbleKeys{db, byte(i)}.Scan(nil, []byte{0xff}, func(key, value []byte) bool {
		k[string(key)] = bytes.Clone(value)
		return true
	}))
	sum := k.sum()
	if h, ok := sound[sum]; ok {
		return h, nil
	}
	s, err := Open(t.Context(), &mapStore{keys: k}, nil, Options{})
	if err != nil {
		return h, err
	}
	defer s.Close()
	var verdict string
	var rows, indexed uint64
	err = s.View(t.Context(), func(tx *sql.DB) error {
		return errors.Join(
			tx.QueryRow(`PRAGMA integrity_check`).Scan(&verdict),
			tx.QueryRow(`SELECT sequence, count, (SELECT count(*) FROM item NOT INDEXED),
				(SELECT count(v) FROM item INDEXED BY item_v WHERE v >= x'') FROM head`).Scan(&h.sequence, &h.rows, &rows, &indexed))
	})
	switch key := k[string(crashStateKey)]; {
	case err != nil || verdict != "ok":
		return h, fmt.Errorf("unsound: integrity_check says %q, %v", verdict, err)
	case rows != h.rows || indexed != h.rows:
		return h, fmt.Errorf("torn: %d rows, %d in the index, %d were counted", rows, indexed, h.rows)
	case h.sequence > 0 && !bytes.Equal(key, state(h.sequence, h.rows)):
		return h, fmt.Errorf("torn: the key is %x, of the database %x", key, state(h.sequence, h.rows))
	}
	sound[sum] = h
	return h, nil
}

// freshFiles is a file system that makes a new file where Pebble would use one of its logs again: MemFS takes the lock of CrashClone twice
// for that, and hangs if a clone is asked for in between.
type freshFiles struct{ vfs.FS }

func (f freshFiles) ReuseForWrite(oldname, newname string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if err := f.Remove(oldname); err != nil {
		return nil, err
	}
	return f.Create(newname, category)
}

func openPebble(fs vfs.FS, readOnly bool) (*pebble.DB, error) {
	return pebble.Open("db", &pebble.Options{
		FS: freshFiles{fs}, ReadOnly: readOnly, MemTableSize: 128 << 10, L0CompactionThreshold: 2, CacheSize: 1 << 20, // flushes and compactions while it runs
		FormatMajorVersion: pebble.FormatWALSyncChunks, Logger: quiet{},
	})
}

// quiet is a [pebble.Logger] that panics on what Pebble thinks is fatal.
type quiet struct{}

func (quiet) Infof(string, ...any)           {}
func (quiet) Errorf(string, ...any)          {}
func (quiet) Fatalf(format string, a ...any) { panic(fmt.Sprintf(format, a...)) }

// A pebbleStore is a [Store] under one byte of a Pebble database. With each update it commits a key of its own.
type pebbleStore struct {
	db     *pebble.DB
	prefix byte
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
	key := append([]byte{s.prefix}, crashStateKey...)
	return errors.Join(b.Set(key, s.state, nil), b.Commit(pebble.Sync))
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
