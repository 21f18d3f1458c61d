package sqlitevfs

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/cairn-run/cairn/keyspace"
)

func TestPatchGolden(t *testing.T) {
	var was, now page
	now[3], now[8], now[24], now[PageSize-1] = 1, 2, 3, 4
	runs, ok := appendRuns(nil, &was, &now, maxPatches)
	want := []byte{
		0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0,
		0, 3, 0, 1, 3, 0, 0, 0, 0, 0, 0, 0,
		1, 255, 0, 1, 0, 0, 0, 0, 0, 0, 0, 4,
	}
	fatalIf(t, !ok || !bytes.Equal(runs, want), "runs %x, %v, want %x", runs, ok, want)
	l := patches{{page: 7, runs: runs}}
	m := Metadata{Pages: 8, Sequence: 1}
	b := m.appendWith(nil, l)
	head := append(m.append(nil), 0, 0, 0, 7, 0, byte(len(runs)))
	head[0] = 2
	fatalIf(t, !bytes.Equal(b, append(head, runs...)), "metadata with a patch is %x", b)
	if got, err := parseMetadata(b); err != nil || got != m {
		t.Fatalf("%+v, %v", got, err)
	}
	got, err := parsePatches(nil, b[metadataSize:], m.Pages)
	fatalIf(t, err != nil || len(got) != 1 || got[0].page != 7 || !bytes.Equal(got[0].runs, runs) || got.size() != len(b)-metadataSize,
		"%+v, %v", got, err)
	got.apply(7, was[:])
	fatalIf(t, was != now, "the patch does not make the page")
}

func TestParsePatchesRefuses(t *testing.T) {
	run := func(at, n byte) []byte { return append([]byte{0, at, 0, n}, make([]byte, int(n)*word)...) }
	one := func(page byte, runs ...[]byte) []byte {
		all := slices.Concat(runs...)
		return append([]byte{0, 0, 0, page, byte(len(all) >> 8), byte(len(all))}, all...)
	}
	l, err := parsePatches(nil, slices.Concat(one(1, run(0, 2), run(3, 1)), one(2, run(200, 1))), 3)
	fatalIf(t, err != nil || len(l) != 2, "%v, %v", l, err)
	good := one(1, run(0, 1))
	for name, b := range map[string][]byte{
		"cut head":          good[:5],
		"cut runs":          good[:len(good)-1],
		"no runs":           one(1),
		"page out of range": one(3, run(0, 1)),
		"the same page":     slices.Concat(good, good),
		"wrong order":       slices.Concat(one(2, run(0, 1)), good),
		"an empty run":      append([]byte{0, 0, 0, 1, 0, 12}, make([]byte, 12)...),
		"runs that touch":   one(1, run(0, 2), run(2, 1)),
		"runs out of order": one(1, run(9, 1), run(2, 1)),
		"a run too long":    one(1, run(0, 1), []byte{0, 9, 0, 9, 1, 2, 3, 4, 5, 6, 7, 8}),
		"beyond the page":   one(1, []byte{1, 255, 0, 2}, make([]byte, 2*word)),
	} {
		l, err := parsePatches(nil, b, 3)
		errorIf(t, !errors.Is(err, ErrCorrupt), "%s: %v, %v", name, l, err)
	}
	for name, b := range map[string][]byte{
		"patches in format 1":   append(Metadata{Pages: 3}.append(nil), good...),
		"nothing in format 2":   append([]byte{formatPatched}, Metadata{}.append(nil)[1:]...),
		"format 2 is cut short": {formatPatched, 0, 0},
		"an unknown format":     append([]byte{3}, Metadata{}.append(nil)[1:]...),
	} {
		wantErr(t, errOf(parseMetadata(b)), ErrCorrupt, name)
	}
}

// FuzzMetadata takes the value of the metadata, with the patches.
func FuzzMetadata(f *testing.F) {
	patched := func(pages uint32, patches ...byte) []byte {
		b := append(Metadata{Pages: pages, Sequence: 1 << 40, Migrations: 3}.append(nil), patches...)
		b[0] = formatPatched
		return b
	}
	f.Add([]byte{})
	f.Add(Metadata{Pages: 300, Sequence: 1 << 40, Migrations: 3}.append(nil))
	f.Add(patched(2, 0, 0, 0, 1, 0, 12, 0, 0, 0, 1, 1, 2, 3, 4, 5, 6, 7, 8))
	f.Add(patched(9, 0, 0, 0, 0, 0, 12, 1, 255, 0, 1, 1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 9))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := parseMetadata(b)
		var l patches
		if err == nil {
			l, err = parsePatches(nil, b[metadataSize:], m.Pages)
		}
		if err != nil {
			wantErr(t, err, ErrCorrupt)
			return
		}
		again := m.appendWith(nil, l)
		fatalIf(t, !bytes.Equal(again, b), "%x came back as %x", b, again)
		var p page
		for i := range l {
			l[i].apply(p[:])
		}
	})
}

// patches returns the patches that are committed.
func (r *rig) patches() patches {
	r.t.Helper()
	m, value, err := readMetadata(r.store.snapshot(), nil)
	fatalIf(r.t, err != nil || value == nil, "%v, %v", value, err)
	l, err := parsePatches(nil, value[metadataSize:], m.Pages)
	must(r.t, err)
	return l
}

// TestSmallCommitsPutPatches inserts rows one by one. Each reader, on an open connection or a new
// one, has them all, and so do an export and the next write connection. Old snapshots keep their
// patches.
func TestSmallCommitsPutPatches(t *testing.T) {
	r := newRig(t, Options{}, "CREATE TABLE t(id INTEGER PRIMARY KEY, k TEXT UNIQUE, body TEXT)")
	pages, whole, seen := string(keyspace.SQLiteChunk.Prefix(nil, keyspace.SQLiteMain)), 0, 0
	const rows, query = 300, "SELECT count(*), count(DISTINCT k), max(id), sum(id) FROM t"
	want := func(rows int) string { return fmt.Sprintf("%d|%d|%d|%d", rows, rows, rows, rows*(rows+1)/2) }
	var old []*mapReader
	for i := range rows {
		if i%97 == 50 {
			r.db.Discard() // a new connection does not know the stored pages
		}
		before := r.store.snapshot()
		r.exec("INSERT INTO t(k, body) VALUES(?, ?)", fmt.Sprintf("key %06d", i), strings.Repeat("b", 90))
		old = append(old, r.store.snapshot())
		for key, v := range old[i].keys {
			if strings.HasPrefix(key, pages) && !bytes.Equal(before.keys[key], v) {
				whole++
			}
		}
		l := r.patches()
		if len(l) > 0 {
			seen++
		}
		fatalIf(t, l.size() > maxPatches ||
			r.meta().Sequence != uint64(i+2), "%d bytes of patches, sequence %d", l.size(), r.meta().Sequence)
		if i%17 == 0 {
			for _, r := range []*rig{r, r.on(r.store.writer())} {
				r.sound(query, want(i+1))
			}
		}
	}
	// A commit puts a page of the table and one of the index without patches.
	errorIf(t, whole > rows*2/3 || seen < rows/2, "%d pages were put for %d rows, and %d commits had patches", whole, rows, seen)
	for _, i := range rand.New(rand.NewPCG(3, 4)).Perm(rows)[:40] {
		x := r.readFrom(old[i])
		x.want(query, want(i+1))
		x.Rollback()
	}
	other := newRig(t, Options{})
	must(t, errOf(other.load(r.export())))
	other.sound(query, want(rows))
}

// TestAFullActorGetsNoPatches has room only for existing pages.
func TestAFullActorGetsNoPatches(t *testing.T) {
	r := newRig(t, Options{}, "CREATE TABLE t(id INTEGER PRIMARY KEY, body TEXT)")
	for range 20 {
		r.exec("INSERT INTO t(body) VALUES('some text')")
	}
	fatalIf(t, len(r.patches()) == 0, "there are no patches")
	x := r.in(0)
	x.run("DELETE FROM t WHERE id < 11")
	must(t, x.commit())
	errorIf(t, len(r.patches()) != 0, "there are %d patches", len(r.patches()))
	r.sound("SELECT count(*) FROM t", "10")
}

// TestPatchesEndWithTheirPages frees pages that have patches.
func TestPatchesEndWithTheirPages(t *testing.T) {
	r := newRig(t, Options{}, "CREATE TABLE keep(id INTEGER PRIMARY KEY, body TEXT)",
		"CREATE TABLE gone(id INTEGER PRIMARY KEY, body TEXT)")
	for range 5 {
		r.exec("INSERT INTO keep(body) VALUES('text')")
		r.exec("INSERT INTO gone(body) VALUES('text')")
	}
	l := r.patches()
	fatalIf(t, len(l) == 0 || l[len(l)-1].page != r.meta().Pages-1, "patches %+v of %d pages", l, r.meta().Pages)
	r.exec("DROP TABLE gone")
	r.exec("VACUUM")
	same(t, r.meta().Pages, 2)
	l = r.patches()
	fatalIf(t, len(l) > 0 && l[len(l)-1].page > 1, "patches %+v of 2 pages", l)
	r.exec("CREATE TABLE again(id INTEGER PRIMARY KEY, body TEXT)")
	r.exec("INSERT INTO again(body) VALUES('text')")
	r.sound("SELECT (SELECT count(*) FROM keep), (SELECT count(*) FROM again)", "5|1")
}

// TestManyPatchesAreBounded changes a few bytes in many pages, in turn.
func TestManyPatchesAreBounded(t *testing.T) {
	r := newRig(t, Options{})
	for i := range 8 {
		r.exec(fmt.Sprintf("CREATE TABLE t%d(id INTEGER PRIMARY KEY, body TEXT)", i))
	}
	most := 0
	for i := range 400 {
		r.exec(fmt.Sprintf("INSERT INTO t%d(body) VALUES(?)", i*i%8%keptImages), strings.Repeat("y", 20+i*37%400))
		most = max(most, r.patches().size())
		fatalIf(t, most > maxPatches, "%d bytes of patches", most)
	}
	errorIf(t, most < maxPatches/2, "there were never more than %d bytes of patches", most)
	r.sound("SELECT (SELECT count(*) FROM t0)+(SELECT count(*) FROM t1)+(SELECT count(*) FROM t2)+(SELECT count(*) FROM t3)", "400")
}

func BenchmarkAppendRuns(b *testing.B) {
	var was, now page
	now[4] = 1
	for i := 2000; i < 2130; i++ {
		now[i] = 7
	}
	var dst []byte
	for b.Loop() {
		dst, _ = appendRuns(dst[:0], &was, &now, maxPatches)
	}
}

// numberedPages returns a reader of pages that begin with their number.
func numberedPages(n uint32) *mapReader {
	r := &mapReader{keys: map[string][]byte{}}
	for i := range n {
		b := make([]byte, PageSize)
		binary.BigEndian.PutUint32(b, i)
		r.keys[string(keyspace.SQLiteChunk.Append(nil, keyspace.SQLiteMain, i))] = b
	}
	return r
}

func TestPagesInARowAreReadAhead(t *testing.T) {
	for _, c := range []struct {
		name        string
		next        func(i uint32) uint32
		count       uint32
		gets, scans int // at most
	}{
		{"in a row", func(i uint32) uint32 { return i }, 1000, 4, 20},
		{"every second", func(i uint32) uint32 { return 2 * i }, 500, 4, 20},
		{"backwards", func(i uint32) uint32 { return 999 - i }, 1000, 1000, 0},
		{"far apart", func(i uint32) uint32 { return i * 379 % 1000 }, 1000, 1000, 0},
		{"in a row, and a page far away between", func(i uint32) uint32 {
			if i%50 == 49 {
				return 999
			}
			return i - i/50
		}, 900, 60, 50},
	} {
		r := numberedPages(1000)
		f := &file{stop: new(stopper), buffers: new(buffers)}
		f.begin(r, nil, Metadata{Pages: 1000}, 10)
		p := make([]byte, PageSize)
		for i := range c.count {
			n := c.next(i)
			must(t, errOf(f.ReadAt(p, int64(n)*PageSize)), c.name)
			same(t, binary.BigEndian.Uint32(p), n)
		}
		errorIf(t, r.gets > c.gets || r.scans > c.scans,
			"%s: %d lookups and %d scans, want at most %d and %d", c.name, r.gets, r.scans, c.gets, c.scans)
		same(t, errOf(f.ReadAt(p, 1000*PageSize)), io.EOF)
		f.finish()
		errorIf(t, f.ahead != (readAhead{}), "%s: what was read is kept after the session", c.name)
	}
}

// TestFileMatchesItsModel writes, cuts, reads and publishes at random, over a Writer that checks
// its calls, and over a Scratch of it.
func TestFileMatchesItsModel(t *testing.T) {
	under := &mapWriter{mapReader: mapReader{keys: keys{}}, room: 1 << 40}
	fileMatchesItsModel(t, under, func() int { return len(under.keys) })
	before := fmt.Sprint(under.keys)
	scratch := Scratch(under, 16<<20)
	must(t, scratch.DeleteRange([]byte{0}, []byte{0xff}))
	fileMatchesItsModel(t, scratch, func() (n int) {
		must(t, scratch.Scan([]byte{0}, []byte{0xff}, func(_, _ []byte) bool { n++; return true }))
		return n
	})
	same(t, fmt.Sprint(under.keys), before, "a Scratch changed its reader")
}

func fileMatchesItsModel(t *testing.T, w Writer, count func() int) {
	rnd := rand.New(rand.NewPCG(3, 4))
	f := &file{stop: new(stopper), buffers: new(buffers), limit: 1 << 40, write: true}
	var meta Metadata
	length := -1
	var committed, model []uint32 // the numbers that begin the pages
	serial := uint32(1)
	for range 400 {
		f.begin(w, w, meta, length)
		model = append([]uint32(nil), committed...)
		for range rnd.IntN(30) {
			switch rnd.IntN(5) {
			case 0, 1, 2:
				n := rnd.IntN(len(model) + 4)
				b := make([]byte, PageSize)
				serial++
				binary.BigEndian.PutUint32(b, serial)
				must(t, errOf(f.WriteAt(b, int64(n)*PageSize)))
				for len(model) <= n {
					model = append(model, 0)
				}
				model[n] = serial
			case 3:
				n := rnd.IntN(len(model) + 1)
				if rnd.IntN(3) == 0 && n < len(model) {
					must(t, f.Truncate(int64(n)*PageSize))
					model = model[:n]
				}
			default:
				checkFile(t, f, model)
			}
		}
		if rnd.IntN(3) > 0 {
			f.committing = true
			must(t, f.SyncSuper(""))
			must(t, f.CommitPhaseTwo())
			committed, meta, length = model, f.meta, f.metaLength
			fatalIf(t, int(meta.Pages) != len(model), "%d pages are published, want %d", meta.Pages, len(model))
			checkFile(t, f, model)
		}
		f.finish()
		keys := len(committed)
		if length >= 0 {
			keys++
		}
		same(t, count(), keys, len(committed))
	}
}

func checkFile(t *testing.T, f *file, model []uint32) {
	t.Helper()
	size, _ := f.Size()
	fatalIf(t, size != int64(len(model))*PageSize, "size %d, want %d pages", size, len(model))
	p := make([]byte, PageSize)
	for n, want := range model {
		must(t, errOf(f.ReadAt(p, int64(n)*PageSize)))
		same(t, binary.BigEndian.Uint32(p), want, n)
	}
}

// SQLite does not write pages that a transaction adds and frees again, which leaves holes.
func TestHolesOfATransactionArePublishedAsZeros(t *testing.T) {
	r := newRig(t, Options{}, "CREATE TABLE t (v); CREATE TABLE u (v)")
	for i := range 5 {
		r.exec(fmt.Sprintf("INSERT INTO t VALUES (zeroblob(%d)); INSERT INTO u VALUES (zeroblob(10000)); DELETE FROM t", 100000*(i+1)))
		same(t, len(r.store.keys), int(r.meta().Pages)+1)
		r.sound()
	}
}

// The page with SQLite's lock byte at 1 GiB is never written. These databases are two pages longer.
const beyondLock = lockPage + 2

// madeUp is a database that makes up its pages: each begins with its number.
type madeUp struct {
	page    page
	without uint32
}

func (m *madeUp) Get(dst, _ []byte) ([]byte, bool, error) {
	return Metadata{Pages: beyondLock, Sequence: 1}.append(dst), true, nil
}

func (m *madeUp) Scan(start, end []byte, f func(key, value []byte) bool) error {
	from, to := binary.BigEndian.Uint32(start[3:]), uint32(beyondLock)
	if len(end) == len(start) {
		to = min(to, binary.BigEndian.Uint32(end[3:]))
	}
	key := make([]byte, 0, pageKeySize)
	for n := from; n < to; n++ {
		m.page = page{}
		binary.BigEndian.PutUint32(m.page[:], n)
		if n == 0 {
			copy(m.page[:], emptyFile())
			binary.BigEndian.PutUint32(m.page[headerPages:], beyondLock)
		}
		if n != m.without && !f(keyspace.SQLiteChunk.Append(key, keyspace.SQLiteMain, n), m.page[:]) {
			break
		}
	}
	return nil
}

func TestExportHasAPageOfZerosForTheOneThatSQLiteNeverWrites(t *testing.T) {
	for _, without := range []uint32{lockPage, beyondLock} { // absent, and present with any content
		next := uint32(0)
		n, err := Export(context.Background(), writerFunc(func(p []byte) (int, error) {
			for b := p; len(b) > 0; b = b[PageSize:] {
				want := next
				if want == lockPage {
					want = 0 // zeros
				}
				got := binary.BigEndian.Uint32(b)
				fatalIf(t, next > 0 && got != want, "page %d begins with %d", next, got)
				next++
			}
			return len(p), nil
		}), &madeUp{without: without})
		errorIf(t, err != nil || n != beyondLock*PageSize || next != beyondLock, "%d bytes, %d pages: %v", n, next, err)
	}
}

// keyCounter is a Writer that counts the pages and remembers the last ones.
type keyCounter struct {
	Writer
	pages int
	last  []uint32
}

func (c *keyCounter) Put(key, _ []byte, _ int) error {
	if len(key) == pageKeySize {
		c.pages++
		if n := binary.BigEndian.Uint32(key[3:]); n >= lockPage-1 {
			c.last = append(c.last, n)
		}
	}
	return nil
}

func (c *keyCounter) DeleteRange(_, _ []byte) error { return nil }

func TestPageThatSQLiteNeverWritesIsNotStored(t *testing.T) {
	m := &image{temporary{size: beyondLock * PageSize}}
	chunk := make([]byte, chunkSize)
	for range beyondLock*PageSize/chunkSize + 1 {
		m.chunks = append(m.chunks, chunk)
	}
	var c keyCounter
	must(t, putImage(context.Background(), &c, m, Metadata{Pages: beyondLock}))
	want := []uint32{lockPage - 1, lockPage + 1}
	errorIf(t, c.pages != beyondLock-1 || !slices.Equal(c.last, want), "an import put %d pages, the last are %v", c.pages, c.last)

	c = keyCounter{}
	f := &file{w: &c, buffers: new(buffers)}
	must(t, f.fill(lockPage-1, beyondLock))
	errorIf(t, !slices.Equal(c.last, want), "a file that grows got the pages %v", c.last)
}

func TestMetadataGolden(t *testing.T) {
	m := Metadata{Pages: 300, Sequence: 1<<40 + 7, Migrations: 2, Fingerprint: [16]byte{0xaa, 15: 0xbb}}
	want := append([]byte{1, 0, 0, 1, 44, 0, 0, 1, 0, 0, 0, 0, 7, 0, 0, 0, 2, 0xaa}, append(make([]byte, 14), 0xbb)...)
	got := m.append(nil)
	fatalIf(t, !bytes.Equal(got, want), "encoded %x, want %x", got, want)
	back, err := parseMetadata(got)
	errorIf(t, err != nil || back != m, "%+v came back as %+v, %v", m, back, err)
	for n := range got {
		wantErr(t, errOf(parseMetadata(got[:n])), ErrCorrupt, n)
	}
	wantErr(t, errOf(parseMetadata(append(got, 0))), ErrCorrupt)
}
