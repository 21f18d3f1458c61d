package sqlitevfs

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
)

// inFile runs statements with the stock sqlite3 program and returns what it prints. The test is skipped without the program.
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

// change runs statements in a write session, each in one of its own, and commits.
func change(t *testing.T, k keys, text ...string) {
	t.Helper()
	d := newPool(t).Database(t.Name())
	defer d.Close()
	for _, text := range text {
		s := d.Write(t.Context(), k)
		must(t, errOf(s.DB().Exec(text)), text)
		must(t, errOf(s.Commit()), text)
	}
}

func export(t *testing.T, k keys) []byte {
	t.Helper()
	var b bytes.Buffer
	n, err := Export(t.Context(), &b, k)
	fatalIf(t, err != nil || n != int64(b.Len()), "exported %d, %d were written: %v", n, b.Len(), err)
	return b.Bytes()
}

func importFile(t *testing.T, k keys, file []byte) (Metadata, error) {
	t.Helper()
	d := newPool(t).Database(t.Name())
	defer d.Close()
	return d.Import(t.Context(), k, bytes.NewReader(file), 64<<20)
}

const fill = `INSERT INTO a (v) SELECT randomblob(300) FROM generate_series(1, 2000)`

func TestExportedFileIsOneThatStockSQLiteFindsSound(t *testing.T) {
	t.Parallel()
	k := keys{}
	steps := []string{
		``,
		`CREATE TABLE a (id INTEGER PRIMARY KEY, v); CREATE INDEX a_v ON a (v)`,
		fill,
		`UPDATE a SET v = randomblob(3000) WHERE id % 7 = 0`,
		`CREATE VIRTUAL TABLE f USING fts5 (t); INSERT INTO f VALUES ('some text'); CREATE VIRTUAL TABLE r USING rtree (id, a, b); INSERT INTO r VALUES (1, 2, 3)`,
		`DELETE FROM a WHERE id % 3 = 0`,
		`VACUUM`,
		`DELETE FROM a`,
		`VACUUM`,
	}
	for i, step := range steps {
		if step != "" {
			change(t, k, step)
		}
		b := export(t, k)
		pages := len(b) / PageSize
		m := metadata(t, k)
		errorIf(t, int(m.Pages) != pages && i > 0 || len(b)%PageSize != 0, "%q: %d bytes of %d pages", step, len(b), m.Pages)
		// SQLite believes the length in the header if the version for which it is valid is that of the last change.
		if header := binary.BigEndian.Uint32(b[28:]); int(header) != pages || !bytes.Equal(b[24:28], b[92:96]) {
			t.Errorf("%q: the header says %d pages as of change %x, the last change is %x; there are %d", step, header, b[92:96], b[24:28], pages)
		}
		file := filepath.Join(t.TempDir(), "export.sqlite")
		must(t, os.WriteFile(file, b, 0o600))
		same(t, inFile(t, file, "PRAGMA integrity_check", "PRAGMA journal_mode"), "ok\ndelete", step)
		if i == 4 {
			same(t, inFile(t, file, "SELECT count(*), (SELECT t FROM f WHERE f MATCH 'text') FROM a"), "2000|some text")
		}
		// And what stock SQLite writes into the file is read again after an import.
		inFile(t, file, "CREATE TABLE theirs AS SELECT 42 AS x")
		after, err := os.ReadFile(file)
		must(t, err)
		other := keys{}
		must(t, errOf(importFile(t, other, after)), step)
		same(t, query(t, other, `SELECT x FROM theirs`), "42", step)
	}
}

// Under SQLite's byte at 1 GiB lies a page that it never writes. A file with a hole anywhere else is not one.
func TestExportRefusesADatabaseWithHolesOrTooMuch(t *testing.T) {
	k := keys{}
	change(t, k, `CREATE TABLE a (id INTEGER PRIMARY KEY, v); `+fill)
	page := func(n uint32) string { return string(binary.BigEndian.AppendUint32([]byte{9, 1, 0}, n)) }
	m := metadata(t, k)
	tests := []struct {
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
		{"header", func(k keys) { b := bytes.Clone(k[page(0)]); b[31]++; k[page(0)] = b }, fmt.Sprintf("the header says %d pages, the metadata %d", m.Pages+1, m.Pages)},
		{"change", func(k keys) { b := bytes.Clone(k[page(0)]); b[27]++; k[page(0)] = b }, "number of pages is not valid"},
		{"not a database", func(k keys) { k[page(0)] = make([]byte, 4096) }, "not a SQLite database"},
		{"metadata", func(k keys) { k["\x09\x00\x00"] = []byte{7} }, "metadata"},
	}
	for _, test := range tests {
		damaged := keys{}
		for key, value := range k {
			damaged[key] = value
		}
		test.damage(damaged)
		_, err := Export(t.Context(), io.Discard, damaged)
		errorIf(t, !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), test.want),
			"%s: %v, want %s", test.name, err, test.want)
	}
}

func TestExportEndsWithItsContextAndItsWriter(t *testing.T) {
	k := keys{}
	change(t, k, `CREATE TABLE a (id INTEGER PRIMARY KEY, v); `+fill)
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("why")
	w := writerFunc(func(p []byte) (int, error) {
		cancel(why)
		return len(p), nil
	})
	n, err := Export(ctx, w, k)
	errorIf(t, !errors.Is(err, ErrInterrupted) || !errors.Is(err, why) || n == 0 || n > 1<<20, "%d bytes, %v", n, err)
	full := writerFunc(func(p []byte) (int, error) { return 100, why })
	if n, err := Export(t.Context(), full, k); err != why || n != 100 {
		t.Errorf("%d bytes, %v", n, err)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

func TestImportTakesFilesOfAnyPageSizeAndMode(t *testing.T) {
	t.Parallel()
	for _, size := range []int{512, 1024, 4096, 8192, 65536} {
		for _, mode := range []string{"delete", "wal"} {
			for _, reserved := range []int{0, 8, 12} {
				for _, vacuum := range []string{"none", "full"} {
					if reserved > 0 && vacuum != "none" || rand.IntN(2) == 0 && os.Getenv("CAIRN_LONG") == "" {
						continue
					}
					name := fmt.Sprintf("pages of %d, journal %s, %d reserved, auto_vacuum %s", size, mode, reserved, vacuum)
					file := filepath.Join(t.TempDir(), "import.sqlite")
					setup := []string{fmt.Sprintf("PRAGMA page_size=%d", size), "PRAGMA auto_vacuum=" + vacuum}
					if reserved > 0 {
						setup = append(setup, fmt.Sprintf(".filectrl reserve_bytes %d", reserved))
					}
					inFile(t, file, append(setup, "PRAGMA journal_mode="+mode,
						"CREATE TABLE a (id INTEGER PRIMARY KEY, v); CREATE INDEX a_v ON a (v); CREATE VIRTUAL TABLE f USING fts5 (t)",
						"INSERT INTO f VALUES ('some text'); INSERT INTO a (v) SELECT randomblob(100) FROM generate_series(1, 500)", "PRAGMA user_version=7")...)
					b, err := os.ReadFile(file)
					must(t, err)
					got := b[20]
					fatalIf(t, int(got) != reserved, "%s: the program made a file with %d reserved bytes", name, got)
					k := keys{"\x01": []byte("state"), "\x09\x00\x01": []byte("a foreign journal")}
					m, err := importFile(t, k, b)
					if reserved == 8 {
						// Pages with eight reserved bytes have checksums, says the library, and these have none.
						var fault *ImportError
						errorIf(t, !errors.As(err, &fault), "%s: %v", name, err)
						continue
					}
					if err != nil || m != metadata(t, k) || m.Sequence != 1 {
						t.Errorf("%s: %v, %+v", name, err, m)
						continue
					}
					same(t, query(t, k, `SELECT count(*) || ' ' || (SELECT t FROM f WHERE f MATCH 'text') || ' ' || (SELECT user_version FROM pragma_user_version) || ' ' || (SELECT * FROM pragma_integrity_check) FROM a`), "500 some text 7 ok", name)
					errorIf(t, string(k["\x01"]) != "state" || k["\x09\x00\x01"] != nil,
						"%s: keys beside the database were changed, or a foreign journal was left", name)
					change(t, k, `INSERT INTO a (v) VALUES (1)`)
					must(t, errOf(Export(t.Context(), io.Discard, k)), name)
				}
			}
		}
	}
}

func TestImportReplacesWhatIsThere(t *testing.T) {
	from := keys{}
	ms := migrationsOf(`CREATE TABLE a (x)`, `INSERT INTO a VALUES ('imported')`)
	must(t, errOf(migrate(t, from, ms)))
	file := export(t, from)

	k := keys{}
	change(t, k, `CREATE TABLE a (id INTEGER PRIMARY KEY, v); `+fill)
	d := newPool(t).Database("x")
	defer d.Close()
	read := func() (text string) {
		s := d.Read(t.Context(), k)
		defer s.Rollback()
		if err := s.DB().QueryRow(`SELECT CASE WHEN count(*) > 1 THEN 'many' ELSE min(x) END FROM (SELECT * FROM a) AS t (x)`).Scan(&text); err != nil {
			must(t, s.DB().QueryRow(`SELECT count(*) FROM a`).Scan(&text))
		}
		return text
	}
	write := d.Write(t.Context(), k)
	must(t, errOf(write.DB().Exec(`INSERT INTO a (v) VALUES (1)`)))
	wantErr(t, errOf(d.Import(t.Context(), k, bytes.NewReader(file), 1<<20)), ErrBusy)
	must(t, errOf(write.Commit()))
	same(t, read(), "2001")
	before := metadata(t, k)
	m, err := d.Import(t.Context(), k, bytes.NewReader(file), 1<<20)
	must(t, err)
	errorIf(t, m.Sequence != before.Sequence+1 || !m.Current(ms) || int(m.Pages) != len(file)/PageSize,
		"metadata %+v, was %+v", m, before)
	same(t, query(t, k, `SELECT x FROM a`), "imported")
	s := ended(t, d.Read(t.Context(), k))
	var x string
	err = s.DB().QueryRow(`SELECT x FROM a`).Scan(&x)
	errorIf(t, err != nil || x != "imported", "the connection that read before reads %q, %v", x, err)
	w := ended(t, d.Write(t.Context(), k))
	applied, err := w.Migrate(append(ms, Migration{Name: "0003", SQL: `INSERT INTO a VALUES ('more')`}))
	errorIf(t, err != nil || len(applied) != 1, "after the import %v were applied: %v", applied, err)
}

func TestImportRefusesWhatIsNoSoundDatabase(t *testing.T) {
	k := keys{}
	change(t, k, `CREATE TABLE a (id INTEGER PRIMARY KEY, v); CREATE INDEX a_v ON a (v); `+fill)
	good := export(t, k)
	patched := func(at int, with string) []byte {
		b := bytes.Clone(good)
		copy(b[at:], with)
		return b
	}
	flipped := func() []byte { // the key of an entry of the index, near the end of some leaf
		b := bytes.Clone(good)
		for p := PageSize; p < len(b); p += PageSize {
			if b[p] == 0x0a {
				b[p+PageSize-100] ^= 0xff
				return b
			}
		}
		t.Fatal("no leaf of an index")
		return nil
	}
	small := keys{}
	change(t, small, `CREATE TABLE a (x)`)
	tests := []struct {
		name, want string
		file       []byte
	}{
		{"empty", "it is empty", nil},
		{"short", "not a SQLite database, or it is encrypted", []byte("SQLite format 3\x00")},
		{"text", "not a SQLite database, or it is encrypted", []byte(strings.Repeat("hello ", 1000))},
		{"noise", "not a SQLite database, or it is encrypted", bytes.Repeat([]byte{0x5a, 0xc3, 0x77}, 5000)},
		{"page size", "pages of 1000 bytes", patched(16, "\x03\xe8")},
		{"version", "versions 3 and 3 of the file format", patched(18, "\x03\x03")},
		{"header", "its header is damaged", patched(21, "\x00")},
		{"cut short", "it is cut short: it has 10 of ", good[:10*PageSize]},
		{"cut in a page", "it is cut short", good[:len(good)-1]},
		{"zeros", "SQLite", patched(PageSize, string(make([]byte, 20*PageSize)))},
		{"index", "integrity_check says", flipped()},
		{"schema", "SQLite says", bytes.Replace(good, []byte("CREATE TABLE a"), []byte("CREATE TALBE a"), 1)},
	}
	for _, test := range tests {
		before := fmt.Sprint(small)
		_, err := importFile(t, small, test.file)
		var fault *ImportError
		errorIf(t, !errors.As(err, &fault) || !strings.Contains(err.Error(), test.want),
			"%s: %v, want %s", test.name, err, test.want)
		errorIf(t, fmt.Sprint(small) != before, "%s: it was refused and changed the database", test.name)
	}
	// Old versions of SQLite do not write the length into the header.
	old := keys{}
	must(t, errOf(importFile(t, old, patched(92, "\x00\x00\x00\x01\x00\x2d\xe2\x19"))))
	if again := export(t, old); len(again) != len(good) || !bytes.Equal(again[100:], good[100:]) {
		t.Error("without a length in the header it is another one after export")
	}
	// Bytes behind the database are none of it.
	longer := keys{}
	m, err := importFile(t, longer, append(bytes.Clone(good), "behind the end"...))
	errorIf(t, err != nil || int(m.Pages) != len(good)/PageSize, "with bytes behind: %+v, %v", m, err)
}

func TestImportIsBounded(t *testing.T) {
	t.Parallel()
	from := keys{}
	change(t, from, `CREATE TABLE a (id INTEGER PRIMARY KEY, v); `+fill)
	file := export(t, from)
	d := newPool(t).Database("x")
	defer d.Close()
	k := keys{}
	var fault *ImportError
	must(t, errOf(d.Import(t.Context(), k, bytes.NewReader(file), int64(len(file)))))
	if _, err := d.Import(t.Context(), k, bytes.NewReader(file), int64(len(file)-1)); !errors.As(err, &fault) || !strings.Contains(err.Error(), fmt.Sprintf("longer than %d bytes", len(file)-1)) {
		t.Errorf("a byte too long: %v", err)
	}
	endless := &counter{r: iotest.OneByteReader(strings.NewReader(strings.Repeat("x", 1<<20)))}
	_, err := d.Import(t.Context(), k, endless, 100_000)
	errorIf(t, !errors.As(err, &fault) || endless.n > 300_000, "an endless file: %v after %d bytes", err, endless.n)
	broken := errors.New("connection reset")
	_, err = d.Import(t.Context(), k, io.MultiReader(bytes.NewReader(file[:5000]), iotest.ErrReader(broken)), 1<<20)
	errorIf(t, !errors.Is(err, broken) || errors.As(err, &fault), "a reader that fails: %v", err)
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("why")
	cancel(why)
	_, err = d.Import(ctx, k, bytes.NewReader(file), 1<<20)
	errorIf(t, !errors.Is(err, ErrInterrupted) || !errors.Is(err, why), "after the context: %v", err)
	small := &narrow{keys: keys{}, room: 100_000}
	wantErr(t, errOf(d.Import(t.Context(), small, bytes.NewReader(file), 1<<20)), ErrFull)
	// Many small tables in pages of 512 bytes need eight times the room.
	tiny := filepath.Join(t.TempDir(), "tiny.sqlite")
	var text strings.Builder
	for i := range 200 {
		fmt.Fprintf(&text, "CREATE TABLE t%d (x);", i)
	}
	inFile(t, tiny, "PRAGMA page_size=512", text.String())
	b, err := os.ReadFile(tiny)
	must(t, err)
	if _, err := d.Import(t.Context(), k, bytes.NewReader(b), int64(len(b))); !errors.As(err, &fault) || !strings.Contains(err.Error(), "with pages of 4096 bytes it is longer") {
		t.Errorf("converted: %v", err)
	}
}

type counter struct {
	r io.Reader
	n int
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += n
	return n, err
}

// narrow is a writer with little room.
type narrow struct {
	keys
	room int64
}

func (n *narrow) Room() int64 { return n.room }

func (n *narrow) Put(key, value []byte, old int) error {
	if n.room -= int64(len(key) + len(value)); n.room < 0 {
		return fmt.Errorf("a quota of the test: %w", ErrFull)
	}
	return n.keys.Put(key, value, old)
}

func TestImportTakesATableOfThatNameForWhatItIs(t *testing.T) {
	for _, text := range []string{
		`CREATE TABLE cairn_migration (something TEXT)`,
		`CREATE TABLE cairn_migration (position INTEGER PRIMARY KEY, name TEXT, checksum TEXT); INSERT INTO cairn_migration VALUES (5, 'x', 'y')`,
		`CREATE VIEW cairn_migration AS SELECT 1`,
	} {
		file := filepath.Join(t.TempDir(), "x.sqlite")
		inFile(t, file, text)
		b, err := os.ReadFile(file)
		must(t, err)
		k := keys{}
		m, err := importFile(t, k, b)
		errorIf(t, err != nil || m.Migrations != 0, "%s: %v, %+v", text, err, m)
		var fault *MigrationError
		_, err = migrate(t, k, migrationsOf(`CREATE TABLE a (x)`))
		errorIf(t, !errors.As(err, &fault), "%s: migrate: %v", text, err)
	}
}

// An index on an expression that needs more memory than a connection may have, which SQLite computes when it checks the file.
// Not parallel: it looks at the memory of the process.
func TestImportThatRunsOutOfMemoryGivesItBack(t *testing.T) {
	k := keys{}
	change(t, k, `CREATE TABLE a (x)`, `INSERT INTO a VALUES (1)`, `CREATE INDEX i ON a (CASE x WHEN 1 THEN 1 ELSE length(hex(zeroblob(48000000))) END)`)
	file := export(t, k)
	one, zero := []byte{2, 9}, []byte{2, 8} // the header of a row with the constant 1, and with 0
	file = bytes.ReplaceAll(file, one, zero)

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
	for range 20 {
		wantError(t, errOf(importFile(t, keys{}, file)), ErrMemory, "")
	}
	got := resident()
	errorIf(t, got > before+150<<20, "the process grew from %d to %d MiB", before>>20, got>>20)
}

func FuzzImportNeverPanicsAndTakesOnlySoundFiles(f *testing.F) {
	k := keys{}
	pool, err := NewPool(Options{})
	must(f, err)
	f.Cleanup(func() { pool.Close() })
	d := pool.Database("seed")
	s := d.Write(context.Background(), k)
	must(f, errOf(s.DB().Exec(`CREATE TABLE a (id INTEGER PRIMARY KEY, v UNIQUE); INSERT INTO a (v) VALUES ('x'), (1.5), (randomblob(5000))`)))
	must(f, errOf(s.Commit()))
	var b bytes.Buffer
	must(f, errOf(Export(context.Background(), &b, k)))
	f.Add(b.Bytes(), 0, byte(0))
	f.Add(b.Bytes(), 16, byte(2))
	f.Add(b.Bytes(), 20, byte(8))
	f.Add(b.Bytes(), 18, byte(2))
	f.Fuzz(func(t *testing.T, file []byte, at int, value byte) {
		if len(file) > 0 {
			file = bytes.Clone(file) // the fuzzer's must not be changed
			file[uint(at)%uint(len(file))] = value
		}
		to := keys{}
		d := pool.Database("fuzz")
		defer d.Close()
		if _, err := d.Import(t.Context(), to, bytes.NewReader(file), 1<<20); err != nil {
			return
		}
		s := d.Read(t.Context(), to)
		defer s.Rollback()
		var sound string
		err := s.DB().QueryRow(`PRAGMA integrity_check`).Scan(&sound)
		errorIf(t, err != nil || sound != "ok", "it was taken, and integrity_check says %q, %v", sound, err)
		must(t, errOf(Export(t.Context(), io.Discard, to)))
	})
}
