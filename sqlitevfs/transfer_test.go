package sqlitevfs

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
)

// inFile runs statements with the stock sqlite3 program and returns its output. It skips the test
// if the program is missing.
func inFile(t *testing.T, file string, text ...string) string {
	t.Helper()
	program, err := exec.LookPath("sqlite3")
	if err != nil {
		t.Skip("the sqlite3 program is not there")
	}
	out, err := exec.Command(program, append([]string{"-batch", "-init", os.DevNull, file}, text...)...).CombinedOutput()
	fatalIf(t, err != nil, "sqlite3: %v: %s", err, out)
	return strings.TrimSpace(string(out))
}

// stock returns a file made by the sqlite3 program with statements.
func stock(t *testing.T, text ...string) []byte {
	t.Helper()
	file := filepath.Join(t.TempDir(), "stock.sqlite")
	inFile(t, file, text...)
	b, err := os.ReadFile(file)
	must(t, err)
	return b
}

func (r *rig) export() []byte {
	r.t.Helper()
	var b bytes.Buffer
	n, err := Export(r.t.Context(), &b, r.store.snapshot())
	fatalIf(r.t, err != nil || n != int64(b.Len()), "exported %d, %d were written: %v", n, b.Len(), err)
	return b.Bytes()
}

// load imports a file and commits.
func (r *rig) load(file []byte) (m Metadata, err error) {
	return m, r.store.Update(r.t.Context(), func(w Writer) error {
		m, err = r.db.Import(r.t.Context(), w, bytes.NewReader(file), 64<<20)
		return err
	})
}

// wantImportError fails unless a file was refused with an error that contains a text.
func wantImportError(t *testing.T, err error, says string, where ...any) {
	t.Helper()
	fault, ok := errors.AsType[*ImportError](err)
	errorIf(t, !ok || !strings.Contains(fault.Error(), says), "%v: %v, want %s", where, err, says)
}

const (
	tableA = `CREATE TABLE a (id INTEGER PRIMARY KEY, v); CREATE INDEX a_v ON a (v)`
	fill   = `INSERT INTO a (v) SELECT randomblob(300) FROM generate_series(1, 1000)`
)

func TestExportedFileIsOneThatStockSQLiteFindsSound(t *testing.T) {
	t.Parallel()
	r := newRig(t, Options{})
	for i, step := range []string{
		``,
		tableA + ";" + fill,
		`UPDATE a SET v = randomblob(3000) WHERE id % 7 = 0`,
		`CREATE VIRTUAL TABLE f USING fts5 (t); INSERT INTO f VALUES ('some text'); CREATE VIRTUAL TABLE r USING rtree (id, a, b); INSERT INTO r VALUES (1, 2, 3)`,
		`DELETE FROM a WHERE id % 3 = 0`,
		`VACUUM`,
		`DELETE FROM a; VACUUM`,
	} {
		r.exec(step)
		b := r.export()
		pages := len(b) / PageSize
		m := r.meta()
		errorIf(t, int(m.Pages) != pages && i > 0 || len(b)%PageSize != 0, "%q: %d bytes of %d pages", step, len(b), m.Pages)
		// SQLite trusts the length in the header if its version counter equals that of the last
		// change.
		header := binary.BigEndian.Uint32(b[28:])
		errorIf(t, int(header) != pages || !bytes.Equal(b[24:28], b[92:96]),
			"%q: the header says %d pages as of change %x, the last change is %x; there are %d", step, header, b[92:96], b[24:28], pages)
		file := filepath.Join(t.TempDir(), "export.sqlite")
		must(t, os.WriteFile(file, b, 0o600))
		same(t, inFile(t, file, "PRAGMA integrity_check", "PRAGMA journal_mode"), "ok\ndelete", step)
		if i == 3 {
			same(t, inFile(t, file, "SELECT count(*), (SELECT t FROM f WHERE f MATCH 'text') FROM a"), "1000|some text")
		}
		// And changes by stock SQLite are in the file after an import.
		inFile(t, file, "CREATE TABLE theirs AS SELECT 42 AS x")
		after, err := os.ReadFile(file)
		must(t, err)
		other := newRig(t, Options{})
		must(t, errOf(other.load(after)), step)
		other.sound(`SELECT x FROM theirs`, "42")
	}
}

// The page with SQLite's lock byte at 1 GiB is never written. A file with a hole anywhere else is
// damaged.
func TestExportRefusesADatabaseWithHolesOrTooMuch(t *testing.T) {
	r := newRig(t, Options{}, tableA+";"+fill) // in one turn, so there are no patches
	page := func(n uint32) string { return string(binary.BigEndian.AppendUint32([]byte{9, 1, 0}, n)) }
	m := r.meta()
	for _, test := range []struct {
		name   string
		damage func(keys)
		want   string
	}{
		{"first", func(k keys) { delete(k, page(0)) }, "page 0 is missing, 1 is there"},
		{"middle", func(k keys) { delete(k, page(70)) }, "page 70 is missing, 71 is there"},
		{"at the edge of a part", func(k keys) { delete(k, page(64)) }, "page 64 is missing, 65 is there"},
		{"last", func(k keys) { delete(k, page(m.Pages-1)) }, fmt.Sprintf("page %d of %d is missing", m.Pages-1, m.Pages)},
		{"short", func(k keys) { k[page(3)] = k[page(3)][:4000] }, "page 3 has 4000 bytes, want 4096"},
		{"more", func(k keys) { k[page(m.Pages)] = k[page(1)] }, "beyond the end"},
		{"header", func(k keys) { b := bytes.Clone(k[page(0)]); b[31]++; k[page(0)] = b },
			fmt.Sprintf("the header says %d pages, the metadata %d", m.Pages+1, m.Pages)},
		{"change", func(k keys) { b := bytes.Clone(k[page(0)]); b[27]++; k[page(0)] = b }, "number of pages is not valid"},
		{"not a database", func(k keys) { k[page(0)] = make([]byte, 4096) }, "not a SQLite database"},
		{"metadata", func(k keys) { k["\x09\x00\x00"] = []byte{7} }, "metadata"},
	} {
		damaged := maps.Clone(r.store.keys)
		test.damage(damaged)
		wantError(t, errOf(Export(t.Context(), io.Discard, damaged)), ErrCorrupt, test.want)
	}
}

func TestExportEndsWithItsContextAndItsWriter(t *testing.T) {
	r := newRig(t, Options{}, tableA, fill)
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("why")
	w := writerFunc(func(p []byte) (int, error) { cancel(why); return len(p), nil })
	n, err := Export(ctx, w, r.store.snapshot())
	errorIf(t, !errors.Is(err, ErrInterrupted) || !errors.Is(err, why) || n == 0 || n > 1<<20, "%d bytes, %v", n, err)
	n, err = Export(t.Context(), writerFunc(func([]byte) (int, error) { return 100, why }), r.store.snapshot())
	errorIf(t, err != why || n != 100, "%d bytes, %v", n, err)
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

func TestImportTakesFilesOfAnyPageSizeAndMode(t *testing.T) {
	t.Parallel()
	for i := range 5 * 2 * 4 {
		size, mode := []int{512, 1024, 4096, 8192, 65536}[i%5], []string{"delete", "wal"}[i/5%2]
		reserved, vacuum := []int{0, 0, 8, 12}[i/10], []string{"none", "full", "none", "none"}[i/10]
		if rand.IntN(3) > 0 && os.Getenv("CAIRN_LONG") == "" {
			continue
		}
		name := fmt.Sprintf("pages of %d, journal %s, %d reserved, auto_vacuum %s", size, mode, reserved, vacuum)
		setup := []string{fmt.Sprintf("PRAGMA page_size=%d", size), "PRAGMA auto_vacuum=" + vacuum}
		if reserved > 0 {
			setup = append(setup, fmt.Sprintf(".filectrl reserve_bytes %d", reserved))
		}
		b := stock(t, append(setup, "PRAGMA journal_mode="+mode, tableA, "CREATE VIRTUAL TABLE f USING fts5 (t)",
			"INSERT INTO f VALUES ('some text'); INSERT INTO a (v) SELECT randomblob(100) FROM generate_series(1, 500)", "PRAGMA user_version=7")...)
		same(t, int(b[20]), reserved, name, "the program made a file with other reserved bytes")
		r := newRig(t, Options{})
		r.store.keys = keys{"\x01": []byte("state"), "\x09\x00\x01": []byte("a foreign journal")}
		m, err := r.load(b)
		if reserved == 8 { // for the library, pages with eight reserved bytes have checksums, and these have none
			wantImportError(t, err, "", name)
			continue
		}
		must(t, err, name)
		errorIf(t, m != r.meta() || m.Sequence != 1, "%s: %+v", name, m)
		r.sound(`SELECT count(*), (SELECT t FROM f WHERE f MATCH 'text'), (SELECT user_version FROM pragma_user_version) FROM a`, "500|some text|7")
		errorIf(t, string(r.store.keys["\x01"]) != "state" || r.store.keys["\x09\x00\x01"] != nil,
			"%s: keys beside the database were changed, or a foreign journal was left", name)
		r.exec(`INSERT INTO a (v) VALUES (1)`)
		r.export()
	}
}

func TestImportReplacesWhatIsThere(t *testing.T) {
	ms := migrationsOf(`CREATE TABLE a (x)`, `INSERT INTO a VALUES ('imported')`)
	from, r := newRig(t, Options{}), newRig(t, Options{}, tableA, fill)
	must(t, errOf(from.migrate(ms)))
	file := from.export()
	x := r.write()
	x.run(`INSERT INTO a (v) VALUES (1)`)
	wantErr(t, errOf(r.load(file)), ErrBusy)
	must(t, x.commit())
	r.sound(`SELECT count(*) FROM a`, "1001")
	before := r.meta()
	m, err := r.load(file)
	must(t, err)
	errorIf(t, m.Sequence != before.Sequence+1 || !m.Current(ms) || int(m.Pages) != len(file)/PageSize,
		"metadata %+v, was %+v", m, before)
	r.sound(`SELECT x FROM a`, "imported") // on the connection that read before
	applied, err := r.migrate(append(ms, Migration{Name: "0003", SQL: `INSERT INTO a VALUES ('more')`}))
	errorIf(t, err != nil || len(applied) != 1, "after the import %v were applied: %v", applied, err)
}

func TestImportRefusesWhatIsNoSoundDatabase(t *testing.T) {
	good := newRig(t, Options{}, tableA, fill).export()
	with := func(at int, text string) []byte {
		b := bytes.Clone(good)
		copy(b[at:], text)
		return b
	}
	flipped := bytes.Clone(good) // the key of an entry of the index, near the end of some leaf
	for p := PageSize; p < len(good); p += PageSize {
		if good[p] == 0x0a {
			flipped[p+PageSize-100] ^= 0xff
			break
		}
	}
	r := newRig(t, Options{}, `CREATE TABLE a (x)`)
	before := fmt.Sprint(r.store.keys)
	for _, test := range []struct {
		name, says string
		file       []byte
	}{
		{"empty", "it is empty", nil},
		{"short", "not a SQLite database, or it is encrypted", []byte("SQLite format 3\x00")},
		{"text", "not a SQLite database, or it is encrypted", []byte(strings.Repeat("hello ", 1000))},
		{"noise", "not a SQLite database, or it is encrypted", bytes.Repeat([]byte{0x5a, 0xc3, 0x77}, 5000)},
		{"page size", "pages of 1000 bytes", with(16, "\x03\xe8")},
		{"version", "versions 3 and 3 of the file format", with(18, "\x03\x03")},
		{"header", "its header is damaged", with(21, "\x00")},
		{"cut short", "it is cut short: it has 10 of ", good[:10*PageSize]},
		{"cut in a page", "it is cut short", good[:len(good)-1]},
		{"zeros", "SQLite", with(PageSize, string(make([]byte, 20*PageSize)))},
		{"index", "integrity_check says", flipped},
		{"schema", "SQLite says", bytes.Replace(good, []byte("CREATE TABLE a"), []byte("CREATE TALBE a"), 1)},
	} {
		wantImportError(t, errOf(r.load(test.file)), test.says, test.name)
		errorIf(t, fmt.Sprint(r.store.keys) != before, "%s: it was refused and changed the database", test.name)
	}
	// Old versions of SQLite do not write the length into the header. Bytes after the database do
	// not belong to it.
	for name, file := range map[string][]byte{
		"without a length in the header": with(92,
			"\x00\x00\x00\x01\x00\x2d\xe2\x19"), "longer": append(bytes.Clone(good), "behind the end"...),
	} {
		must(t, errOf(r.load(file)), name)
		again := r.export()
		errorIf(t, !bytes.Equal(again[100:], good[100:]), "%s: it is another one after export", name)
	}
}

func TestImportIsBounded(t *testing.T) {
	t.Parallel()
	file := newRig(t, Options{}, tableA, fill).export()
	r := newRig(t, Options{})
	load := func(ctx context.Context, room int64, file io.Reader, limit int64) error {
		w := r.store.writer()
		w.room = room
		return errOf(r.db.Import(ctx, w, file, limit))
	}
	size, why := int64(len(file)), errors.New("why")
	must(t, load(t.Context(), size+1<<20, bytes.NewReader(file), size))
	wantErr(t, load(t.Context(), 100_000, bytes.NewReader(file), 4<<20), ErrFull)
	wantImportError(t, load(t.Context(), 1<<30, bytes.NewReader(file), size-1), fmt.Sprintf("longer than %d bytes", size-1))
	endless := strings.NewReader(strings.Repeat("x", 4<<20))
	wantImportError(t, load(t.Context(), 1<<30, iotest.OneByteReader(endless), 100_000), "longer")
	errorIf(t, 4<<20-endless.Len() > 300_000, "%d bytes of an endless file are left", endless.Len())
	err := load(t.Context(), 1<<30, io.MultiReader(bytes.NewReader(file[:5000]), iotest.ErrReader(why)), 4<<20)
	_, refused := errors.AsType[*ImportError](err)
	errorIf(t, !errors.Is(err, why) || refused, "a reader that fails: %v", err)
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	err = load(ctx, 1<<30, bytes.NewReader(file), 4<<20)
	errorIf(t, !errors.Is(err, ErrInterrupted) || !errors.Is(err, why), "after the context: %v", err)
	// Many small tables in pages of 512 bytes need eight times the room.
	var text strings.Builder
	for i := range 200 {
		fmt.Fprintf(&text, "CREATE TABLE t%d (x);", i)
	}
	b := stock(t, "PRAGMA page_size=512", text.String())
	wantImportError(t, load(t.Context(), 1<<30, bytes.NewReader(b), int64(len(b))), "with pages of 4096 bytes it is longer")
}

func TestImportTakesATableOfThatNameForWhatItIs(t *testing.T) {
	for _, text := range []string{
		`CREATE TABLE cairn_migration (position INTEGER PRIMARY KEY, name TEXT, checksum TEXT); INSERT INTO cairn_migration VALUES (5, 'x', 'y')`,
		`CREATE VIEW cairn_migration AS SELECT 1`,
	} {
		r := newRig(t, Options{})
		m, err := r.load(stock(t, text))
		errorIf(t, err != nil || m.Migrations != 0, "%s: %v, %+v", text, err, m)
		wantMigrationError(t, errOf(r.migrate(migrationsOf(`CREATE TABLE a (x)`))), "", text)
	}
}

// An index on an expression that needs more memory than a connection may have. SQLite computes it
// when it checks the file. Not parallel: it reads the memory of the process.
func TestImportThatRunsOutOfMemoryGivesItBack(t *testing.T) {
	r := newRig(t, Options{},
		`CREATE TABLE a (x); INSERT INTO a VALUES (1); CREATE INDEX i ON a (CASE x WHEN 1 THEN 1 ELSE length(hex(zeroblob(48000000))) END)`)
	one, zero := []byte{2, 9}, []byte{2, 8} // the header of a row with the constant 1, and with 0
	file := bytes.ReplaceAll(r.export(), one, zero)
	resident := func() (bytes int) {
		b, err := os.ReadFile("/proc/self/statm")
		if err != nil {
			t.Skip("there is no /proc to read the memory from")
		}
		var size, pages int
		must(t, errOf(fmt.Sscan(string(b), &size, &pages)))
		return pages * os.Getpagesize()
	}
	before := resident()
	for range 5 {
		wantError(t, errOf(newRig(t, Options{}).load(file)), ErrMemory, "")
	}
	got := resident()
	errorIf(t, got > before+150<<20, "the process grew from %d to %d MiB", before>>20, got>>20)
}

func FuzzImportNeverPanicsAndTakesOnlySoundFiles(f *testing.F) {
	r := newRig(f, Options{},
		`CREATE TABLE a (id INTEGER PRIMARY KEY, v UNIQUE); INSERT INTO a (v) VALUES ('x'), (1.5), (randomblob(5000))`)
	b := r.export()
	f.Add(b, 0, byte(0))
	f.Add(b, 16, byte(2))
	f.Add(b, 20, byte(8))
	f.Add(b, 18, byte(2))
	f.Fuzz(func(t *testing.T, file []byte, at int, value byte) {
		if len(file) > 0 {
			file = bytes.Clone(file) // the fuzzer's slice must not be changed
			file[uint(at)%uint(len(file))] = value
		}
		r := (&rig{t: t, store: &mapStore{keys: keys{}}, pool: r.pool}).open("fuzz")
		defer r.db.Close()
		if _, err := r.load(file); err == nil {
			r.sound()
			r.export()
		}
	})
}
