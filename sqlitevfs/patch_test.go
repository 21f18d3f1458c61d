package sqlitevfs

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/cairn-run/cairn/keyspace"
)

func TestPatchGolden(t *testing.T) {
	t.Parallel()
	var was, now page
	now[3], now[8], now[24], now[PageSize-1] = 1, 2, 3, 4
	runs, ok := appendRuns(nil, &was, &now, maxPatches)
	want := []byte{
		0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0,
		0, 3, 0, 1, 3, 0, 0, 0, 0, 0, 0, 0,
		1, 255, 0, 1, 0, 0, 0, 0, 0, 0, 0, 4,
	}
	if !ok || !bytes.Equal(runs, want) {
		t.Fatalf("runs %x, %v, want %x", runs, ok, want)
	}
	l := patches{{page: 7, runs: runs}}
	m := Metadata{Pages: 8, Sequence: 1}
	b := m.appendWith(nil, l)
	head := append(m.append(nil), 0, 0, 0, 7, 0, byte(len(runs)))
	head[0] = 2
	if !bytes.Equal(b, append(head, runs...)) {
		t.Fatalf("metadata with a patch is %x", b)
	}
	if got, err := parseMetadata(b); err != nil || got != m {
		t.Fatalf("%+v, %v", got, err)
	}
	got, err := parsePatches(nil, b[metadataSize:], m.Pages)
	if err != nil || len(got) != 1 || got[0].page != 7 || !bytes.Equal(got[0].runs, runs) || got.size() != len(b)-metadataSize {
		t.Fatalf("%+v, %v", got, err)
	}
	if got.apply(7, was[:]); was != now {
		t.Fatal("the patch does not make the page")
	}
}

func TestRunsLeadFromOnePageToAnother(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(1, 2))
	large := 0
	for range 3000 {
		var was, now page
		for i := range was {
			was[i] = byte(rnd.Uint32())
		}
		now = was
		for range rnd.IntN(12) {
			at := rnd.IntN(PageSize)
			for i := at; i < min(at+rnd.IntN(300), PageSize); i++ {
				now[i] = byte(rnd.Uint32())
			}
		}
		limit := rnd.IntN(PageSize)
		runs, ok := appendRuns([]byte("before"), &was, &now, limit)
		if !strings.HasPrefix(string(runs), "before") || len(runs)-6 > limit {
			t.Fatalf("%d bytes of runs, limit %d", len(runs)-6, limit)
		}
		if !ok {
			large++
			continue
		}
		if err := checkRuns(runs[6:]); err != nil {
			t.Fatal(err)
		}
		p := patch{runs: runs[6:]}
		if p.apply(was[:]); was != now {
			t.Fatal("the runs lead elsewhere")
		}
	}
	if large == 0 {
		t.Error("no limit was ever reached")
	}
}

func TestParsePatchesRefuses(t *testing.T) {
	t.Parallel()
	run := func(at, n byte) []byte { return append([]byte{0, at, 0, n}, make([]byte, int(n)*word)...) }
	one := func(page byte, runs ...[]byte) []byte {
		all := slices.Concat(runs...)
		return append([]byte{0, 0, 0, page, byte(len(all) >> 8), byte(len(all))}, all...)
	}
	if l, err := parsePatches(nil, slices.Concat(one(1, run(0, 2), run(3, 1)), one(2, run(200, 1))), 3); err != nil || len(l) != 2 {
		t.Fatalf("%v, %v", l, err)
	}
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
		if l, err := parsePatches(nil, b, 3); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %v, %v", name, l, err)
		}
	}
	for name, b := range map[string][]byte{
		"patches in format 1":   append(Metadata{Pages: 3}.append(nil), good...),
		"nothing in format 2":   append([]byte{formatPatched}, Metadata{}.append(nil)[1:]...),
		"format 2 is cut short": {formatPatched, 0, 0},
		"an unknown format":     append([]byte{3}, Metadata{}.append(nil)[1:]...),
	} {
		if _, err := parseMetadata(b); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzParsePatches(f *testing.F) {
	f.Add([]byte{}, uint32(1))
	f.Add([]byte{0, 0, 0, 1, 0, 12, 0, 0, 0, 1, 1, 2, 3, 4, 5, 6, 7, 8}, uint32(2))
	f.Add([]byte{0, 0, 0, 0, 0, 12, 1, 255, 0, 1, 1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 9}, uint32(9))
	f.Fuzz(func(t *testing.T, b []byte, pages uint32) {
		l, err := parsePatches(nil, b, pages)
		if err != nil {
			if !errors.Is(err, ErrCorrupt) {
				t.Fatal(err)
			}
			return
		}
		if again := l.append(nil); !bytes.Equal(again, b) {
			t.Fatalf("%x came back as %x", b, again)
		}
		var p page
		for i := range l {
			l[i].apply(p[:])
		}
	})
}

// TestPatchesStayInOrder compares a list of patches with a map.
func TestPatchesStayInOrder(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(5, 6))
	var l patches
	want := map[uint32]string{}
	for range 5000 {
		n := uint32(rnd.IntN(9))
		switch k := rnd.IntN(20); {
		case k < 11:
			runs := strings.Repeat(string(rune('a'+rnd.IntN(26))), 1+rnd.IntN(40))
			l.set(n, []byte(runs))
			want[n] = runs
		case k < 19:
			l.remove(n)
			delete(want, n)
		default:
			l.cut(n)
			for at := range want {
				if at >= n {
					delete(want, at)
				}
			}
		}
		if len(l) != len(want) {
			t.Fatalf("%d patches, want %d", len(l), len(want))
		}
		for i := range l {
			if string(l[i].runs) != want[l[i].page] || i > 0 && l[i-1].page >= l[i].page {
				t.Fatalf("%+v, want %v", l, want)
			}
		}
	}
}

func TestStoredKeepsThePagesUsedLast(t *testing.T) {
	t.Parallel()
	var s stored
	var b [keptImages + 2]page
	for i := range keptImages {
		if gone := s.add(uint32(i), &b[i]); gone != nil {
			t.Fatal("a page had to go")
		}
	}
	s.find(0)
	if gone := s.add(100, &b[keptImages]); gone != &b[1] || s.find(1) != nil || s.find(0) != &b[0] {
		t.Fatal("another page had to go than the one that was used least recently")
	}
	s.remove(2, 100, new(buffers))
	if s.find(2) != nil || s.find(100) != &b[keptImages] || s.find(0) != &b[0] {
		t.Fatal("other pages were removed")
	}
	if gone := s.add(100, &b[keptImages+1]); gone != &b[keptImages] || s.find(100) != &b[keptImages+1] {
		t.Fatal("a page is there twice")
	}
	if gone := s.add(7, &b[1]); gone != nil {
		t.Fatal("a page had to go although there was room")
	}
}

// patched returns what a store has of a database beside its pages.
func patched(t *testing.T, r Reader) (Metadata, patches) {
	t.Helper()
	m, value, err := readMetadata(r, nil)
	if err != nil || value == nil {
		t.Fatalf("%v, %v", value, err)
	}
	l, err := parsePatches(nil, value[metadataSize:], m.Pages)
	if err != nil {
		t.Fatal(err)
	}
	return m, l
}

// pagesPut returns how many pages a writer has that a reader has not, or others of.
func pagesPut(w *mapWriter, before *mapReader) (n int) {
	start := string(keyspace.SQLiteChunk.Prefix(nil, keyspace.SQLiteMain))
	for key, v := range w.keys {
		if old, ok := before.keys[key]; strings.HasPrefix(key, start) && (!ok || !bytes.Equal(old, v)) {
			n++
		}
	}
	return n
}

// TestSmallCommitsPutPatches inserts rows one by one. Each reader, on a connection that was open before or not, and an export
// has them all, and so has the next write connection.
func TestSmallCommitsPutPatches(t *testing.T) {
	t.Parallel()
	r := newRig(t, Options{})
	r.exec("CREATE TABLE t(id INTEGER PRIMARY KEY, k TEXT UNIQUE, body TEXT)")
	body := strings.Repeat("b", 90)
	whole, seen := 0, 0
	const rows = 300
	for i := range rows {
		if i%97 == 50 {
			r.db.Discard() // a new connection does not know what is stored
		}
		before := r.store.snapshot()
		w := r.writer()
		s := r.db.Write(context.Background(), w)
		run(t, s.DB(), "INSERT INTO t(k, body) VALUES(?, ?)", fmt.Sprintf("key %06d", i), body)
		if _, err := s.Commit(); err != nil {
			t.Fatal(err)
		}
		r.store.commit(w)
		whole += pagesPut(w, before)
		m, l := patched(t, r.store.snapshot())
		if len(l) > 0 {
			seen++
		}
		if l.size() > maxPatches || m.Sequence != uint64(i+2) {
			t.Fatalf("%d bytes of patches, sequence %d", l.size(), m.Sequence)
		}
		if i%17 == 0 {
			want := fmt.Sprintf("%d|%d,ok", i+1, i+1)
			r.view(func(db *sql.DB) {
				wantText(t, ask(t, db, "SELECT count(*), count(DISTINCT k) FROM t")+","+ask(t, db, "PRAGMA integrity_check"), want)
			})
			fresh := r.pool.Database("another")
			s := fresh.Read(context.Background(), r.store.snapshot())
			wantText(t, ask(t, s.DB(), "SELECT count(*), count(DISTINCT k) FROM t")+","+ask(t, s.DB(), "PRAGMA integrity_check"), want)
			s.Rollback()
			fresh.Close()
		}
	}
	// A commit puts a page of the table and one of the index without patches.
	if whole > rows*2/3 || seen < rows/2 {
		t.Errorf("%d pages were put for %d rows, and %d commits had patches", whole, rows, seen)
	}
	t.Logf("%d pages were put for %d rows, and %d commits had patches", whole, rows, seen)
	var file bytes.Buffer
	if _, err := Export(context.Background(), &file, r.store.snapshot()); err != nil {
		t.Fatal(err)
	}
	other := newRig(t, Options{})
	w := other.writer()
	if _, err := other.db.Import(context.Background(), w, &file, 1<<30); err != nil {
		t.Fatal(err)
	}
	other.store.commit(w)
	other.view(func(db *sql.DB) {
		wantText(t, ask(t, db, "SELECT count(*), count(DISTINCT k), max(id) FROM t"), fmt.Sprintf("%d|%d|%d", rows, rows, rows))
	})
}

// TestASnapshotKeepsItsPatches reads old snapshots after later commits have put the pages.
func TestASnapshotKeepsItsPatches(t *testing.T) {
	t.Parallel()
	r := newRig(t, Options{})
	r.exec("CREATE TABLE t(id INTEGER PRIMARY KEY, body TEXT)")
	var old []*mapReader
	for i := range 40 {
		r.exec("INSERT INTO t(body) VALUES(?)", strings.Repeat("x", 40+i))
		old = append(old, r.store.snapshot())
	}
	for _, i := range rand.New(rand.NewPCG(3, 4)).Perm(len(old)) {
		s := r.db.Read(context.Background(), old[i])
		wantText(t, ask(t, s.DB(), "SELECT count(*), sum(length(body)) FROM t"), fmt.Sprintf("%d|%d", i+1, 40*(i+1)+i*(i+1)/2))
		s.Rollback()
	}
}

// TestAFullActorGetsNoPatches has room for nothing but what is there already.
func TestAFullActorGetsNoPatches(t *testing.T) {
	t.Parallel()
	r := newRig(t, Options{})
	r.exec("CREATE TABLE t(id INTEGER PRIMARY KEY, body TEXT)")
	for range 20 {
		r.exec("INSERT INTO t(body) VALUES('some text')")
	}
	if _, l := patched(t, r.store.snapshot()); len(l) == 0 {
		t.Fatal("there are no patches")
	}
	for id := range 10 {
		w := r.store.writer()
		w.room = 0
		s := r.db.Write(context.Background(), w)
		run(t, s.DB(), "DELETE FROM t WHERE id = ?", id+1)
		if _, err := s.Commit(); err != nil {
			t.Fatal(err)
		}
		r.store.commit(w)
		if _, l := patched(t, r.store.snapshot()); len(l) != 0 {
			t.Errorf("there are %d patches", len(l))
		}
	}
	r.view(func(db *sql.DB) { wantText(t, ask(t, db, "SELECT count(*) FROM t"), "10") })
}

// TestPatchesEndWithTheirPages frees pages that have patches.
func TestPatchesEndWithTheirPages(t *testing.T) {
	t.Parallel()
	r := newRig(t, Options{})
	r.exec("CREATE TABLE keep(id INTEGER PRIMARY KEY, body TEXT)")
	r.exec("CREATE TABLE gone(id INTEGER PRIMARY KEY, body TEXT)")
	for range 5 {
		r.exec("INSERT INTO keep(body) VALUES('text')")
		r.exec("INSERT INTO gone(body) VALUES('text')")
	}
	if m, l := patched(t, r.store.snapshot()); len(l) == 0 || l[len(l)-1].page != m.Pages-1 {
		t.Fatalf("patches %+v of %d pages", l, m.Pages)
	}
	r.exec("DROP TABLE gone")
	r.exec("VACUUM")
	if m, _ := patched(t, r.store.snapshot()); m.Pages != 2 {
		t.Errorf("there are %d pages", m.Pages)
	}
	r.exec("CREATE TABLE again(id INTEGER PRIMARY KEY, body TEXT)")
	r.exec("INSERT INTO again(body) VALUES('text')")
	r.view(func(db *sql.DB) {
		wantText(t, ask(t, db, "SELECT (SELECT count(*) FROM keep), (SELECT count(*) FROM again)")+ask(t, db, "PRAGMA integrity_check"), "5|1ok")
	})
}

// TestManyPatchesAreBounded changes little in many pages, in turn.
func TestManyPatchesAreBounded(t *testing.T) {
	t.Parallel()
	r := newRig(t, Options{})
	for i := range 8 {
		r.exec(fmt.Sprintf("CREATE TABLE t%d(id INTEGER PRIMARY KEY, body TEXT)", i))
	}
	most := 0
	for i := range 400 {
		r.exec(fmt.Sprintf("INSERT INTO t%d(body) VALUES(?)", i*i%8%keptImages), strings.Repeat("y", 20+i*37%400))
		_, l := patched(t, r.store.snapshot())
		if most = max(most, l.size()); most > maxPatches {
			t.Fatalf("%d bytes of patches", most)
		}
	}
	if most < maxPatches/2 {
		t.Errorf("there were never more than %d bytes of patches", most)
	}
	r.view(func(db *sql.DB) {
		wantText(t, ask(t, db, "SELECT (SELECT count(*) FROM t0)+(SELECT count(*) FROM t1)+(SELECT count(*) FROM t2)+(SELECT count(*) FROM t3)")+
			ask(t, db, "PRAGMA integrity_check"), "400ok")
	})
}

// TestADamagedPatchIsCorruption refuses metadata whose patches are not whole.
func TestADamagedPatchIsCorruption(t *testing.T) {
	t.Parallel()
	r := newRig(t, Options{})
	r.exec("CREATE TABLE t(id INTEGER PRIMARY KEY)")
	r.exec("INSERT INTO t VALUES(1)")
	r.exec("INSERT INTO t VALUES(2)")
	w := r.writer()
	key := string(keyspace.SQLiteMetadata.Append(nil, keyspace.SQLiteMain))
	v := w.keys[key]
	if v[0] != formatPatched {
		t.Fatalf("there is no patch in %x", v)
	}
	w.keys[key] = v[:len(v)-1]
	r.store.commit(w)
	r.db.Discard()
	s := r.db.Read(context.Background(), r.store.snapshot())
	_, err := s.DB().Exec("SELECT 1")
	wantError(t, err, ErrCorrupt, "patch")
	s.Rollback()
	_, err = Export(context.Background(), &bytes.Buffer{}, r.store.snapshot())
	wantError(t, err, ErrCorrupt, "patch")
}

// TestBindingsAreNotSeenByTheNextRun leaves an argument out after a run that had it.
func TestBindingsAreNotSeenByTheNextRun(t *testing.T) {
	t.Parallel()
	r := newRig(t, Options{})
	r.turn(func(db *sql.DB) {
		for _, n := range []int{10, keptBound + 1, 20} {
			wantText(t, ask(t, db, "SELECT length(?), ?", strings.Repeat("a", n), "b"), fmt.Sprintf("%d|b", n))
			if got, err := answer(db, "SELECT length(?), ?", "a"); err == nil {
				t.Errorf("with an argument too few the answer is %s", got)
			}
		}
	})
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
