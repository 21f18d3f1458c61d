package node

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/runtime/internal/kernel/fault"
	"github.com/cairn-run/cairn/runtime/internal/part/sqlite"
	"github.com/cairn-run/cairn/runtime/internal/survey"
)

// wantDamage checks the error that callers get for damaged data: it names no file and is not
// retryable.
func wantDamage(t *testing.T, err error, code host.Code) (id string) {
	t.Helper()
	e := wantCode(t, err, code)
	errorIf(t, e.Retryable || e.Metadata["reason"] != host.ReasonDamaged || e.Metadata["error_id"] == "" ||
		strings.Contains(e.Message, ".sst"),
		"%v %v, retryable %t", e, e.Metadata, e.Retryable)
	return e.Metadata["error_id"]
}

// breakTables flips a byte of each text in the tables of a store, and returns the names of the
// tables.
func (g *stage) breakTables(texts ...string) (names []string) {
	g.t.Helper()
	tables, err := filepath.Glob(filepath.Join(g.dir, "*.sst"))
	g.ok(err)
	for _, text := range texts {
		for _, table := range tables {
			b, err := os.ReadFile(table)
			g.ok(err)
			if i := bytes.Index(b, []byte(text)); i >= 0 {
				b[i] ^= 0xff
				g.ok(os.WriteFile(table, b, 0o600))
				names = append(names, filepath.Base(table))
			}
		}
	}
	fatalIf(g.t, len(names) != len(texts), "the texts are in the tables %q", names)
	return names
}

// TestDamageReachesCallersAsSuch damages blocks of a table that the start does not read: of an
// actor's keys, of another's database and of a third's state, which then does not wake.
func TestDamageReachesCallersAsSuch(t *testing.T) {
	t.Parallel()
	g := newStage(t, nil)
	g.dir = t.TempDir()
	g.restart()
	text := func() string { // it is not compressed
		b := make([]byte, 30_000)
		rand.Read(b)
		return hex.EncodeToString(b)
	}
	key, page, state := text(), text(), text()
	g.must("key", func(_ *puppet, h host.Turn) error {
		return h.KVPut([]byte("k"), []byte(key), host.EncodedBytes, time.Time{})
	})
	g.must("page", note(page))
	g.must("state", func(p *puppet, _ host.Turn) error { p.s.Log = []string{state}; return nil })
	g.restart() // it makes a table of the log
	g.stop()
	tables := g.breakTables(key[30_000:30_020], page[30_000:30_020], state[30_000:30_020])
	g.log.Reset()
	g.start()

	put := func(_ *puppet, h host.Turn) error {
		return h.KVPut([]byte("k"), []byte("new"), host.EncodedBytes, time.Time{})
	}
	get := func(_ *puppet, h host.Turn) error { _, _, err := h.KVGet([]byte("k")); return err }
	_, inspected := g.Inspect(t.Context(), pAddr("key"), host.InspectQuery{ValueBytes: 10})
	faults := []struct {
		err   error
		code  host.Code
		table int
	}{
		{g.do("key", get), host.Unavailable, 0},
		{g.look("key", func(_ *puppetState, r host.Reader) error { _, _, err := r.KVGet([]byte("k")); return err }), host.Unavailable, 0},
		{inspected, host.Unavailable, 0},
		{g.do("page", func(_ *puppet, h host.Turn) error { _, err := bodies(h); return err }), host.Unavailable, 1},
		{g.look("page", func(_ *puppetState, r host.Reader) error { _, err := bodies(r); return err }), host.Unavailable, 1},
		{g.verb("page", host.SQLQuery, host.SQLInput{SQL: "SELECT * FROM note"}, nil), host.Unavailable, 1},
		{g.do("state", add(1)), host.ActorFailed, 2},
		{g.do("state", add(1)), host.ActorFailed, 2},
	}
	ids := make([]string, len(faults))
	for i, f := range faults {
		ids[i] = wantDamage(t, f.err, f.code)
	}
	if _, err := survey.StoredKeys(g.store, g.Kernel.Options.Namespace, pAddr("key"),
		host.InspectQuery{ValueBytes: 10}); !errors.Is(err, engine.ErrDamaged) || !strings.Contains(err.Error(), tables[0]) {
		t.Errorf("without a node: %v", err)
	}
	errorIf(t, ids[6] != ids[7], "the failed actor has the errors %s and %s", ids[6], ids[7])
	// The store takes no more writes, as after any error of the disk.
	e := wantCode(t, g.do("key", put), host.Unavailable)
	errorIf(t, e.Metadata["reason"] != "read_only", "%v %v", e, e.Metadata)
	f := g.status("state").Failure
	errorIf(t, f == nil || !strings.Contains(f.Reason, tables[2]) || strings.Contains(f.Public, ".sst") || f.ErrorID != ids[6], "%+v", f)
	g.ok(g.Close(t.Context()))
	if err := g.store.Close(); !errors.Is(err, engine.ErrDamaged) {
		t.Error(err)
	}
	g.Node = nil
	lines := strings.Split(strings.TrimSpace(g.log.String()), "\n")
	for i, id := range ids {
		first := slices.IndexFunc(lines, func(line string) bool { return strings.Contains(line, "error_id="+id) })
		errorIf(t, first < 0 || !strings.Contains(lines[first], tables[faults[i].table]) ||
			!strings.Contains(lines[first], "checksum mismatch"),
			"the log does not name the table of error %d, %s", i, id)
	}
	for _, line := range lines {
		errorIf(t, strings.Contains(line, `\n`) || strings.Contains(line, "carrier") || !strings.HasPrefix(line, "time="),
			"logged: %.500s", line)
	}
}

// A row that the engine did not write is damage, too, and a migration that reads it is not at
// fault.
func TestDamageIsSaidWhateverCameAcrossIt(t *testing.T) {
	t.Parallel()
	for _, err := range []error{
		&engine.CorruptError{Reason: "a chunk of the value is missing"},
		&engine.DamageError{File: "000005.sst", Reason: "checksum mismatch"},
	} {
		e, id := fault.Public(err, []fault.Translator{(*sqlite.Part)(nil)})
		errorIf(t, wantDamage(t, e, host.Unavailable) != id, "%v", id)
	}
}
