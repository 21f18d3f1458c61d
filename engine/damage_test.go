package engine

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/batchrepr"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// image is a disk as the end of a process left it, and what was acknowledged.
type image struct {
	disk *Disk
	want map[string]string // by key; all of one actor
	past map[Version]map[string]string
	log  *bytes.Buffer
}

// open opens a copy of the image.
func (m *image) open(t testing.TB, o Options) (*Store, *Disk, error) {
	o.Disk = m.disk.Crash(1, 100)
	m.log = new(bytes.Buffer)
	o.Logger = slog.New(slog.NewTextHandler(m.log, nil))
	s, err := Open(t.Context(), small(o))
	return s, o.Disk, err
}

func (m *image) names(t testing.TB) []string {
	names, err := m.disk.mem.List("store")
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// copy returns an image that can be changed.
func (m *image) copy() *image { return &image{disk: m.disk.Crash(1, 100), want: m.want, past: m.past} }

func (m *image) set(t testing.TB, name string, content []byte) {
	t.Helper()
	f, err := m.disk.mem.Create("store/"+name, vfs.WriteCategoryUnspecified)
	if err == nil {
		_, err = f.Write(bytes.Clone(content))
		err = errors.Join(err, f.Sync(), f.Close(), syncDir(m.disk.mem, "store"))
	}
	if err != nil {
		t.Fatal(err)
	}
}

func (m *image) remove(t testing.TB, name string) {
	t.Helper()
	if err := errors.Join(m.disk.mem.Remove("store/"+name), syncDir(m.disk.mem, "store")); err != nil {
		t.Fatal(err)
	}
}

// newImage returns what is on the disk while tables, three logs that are not flushed, and a manifest with edits are there:
// killed keeps what was not synced, a power cut does not.
func newImage(t testing.TB, killed bool) *image {
	o := small(Options{MemTableBytes: 64 << 10})
	s := mustOpen(t, o)
	sp := openSpace(t, s, 1)
	m := &image{want: map[string]string{}, past: map[Version]map[string]string{}}
	rnd := rand.New(rand.NewPCG(7, 7))
	write := func(n int) {
		for range n {
			key, value := fmt.Sprint(rnd.IntN(400)), make([]byte, 1500)
			for i := range value {
				value[i] = byte(rnd.Uint32())
			}
			m.want[key] = string(value)
			put(t, sp.Writes(), kv(key), m.want[key])
			m.past[commit(t, sp)] = maps.Clone(m.want)
		}
	}
	for range 3 {
		write(40)
		if err := s.db.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	newest := func() string { return slices.Max(logsOf(t, o.Disk)) }
	oldest := newest() // Pebble removes those before it in its own time
	hold := make(chan struct{})
	o.Disk.Fail(func(op, path string) error {
		if op == "create" && isTable(path) {
			<-hold
		}
		return nil
	})
	for range 2 {
		for i, last := 0, newest(); newest() == last; i++ {
			if i > 100 {
				t.Fatal("the log is not rotated")
			}
			write(1)
		}
	}
	write(9)
	percent := 0
	if killed {
		percent = 100
	}
	m.disk = o.Disk.Crash(1, percent)
	close(hold)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for _, log := range logsOf(t, m.disk) {
		if log < oldest {
			m.remove(t, log)
		}
	}
	return m
}

// outcome of opening a damaged image and reading everything.
type outcome struct {
	refused error
	read    error // the first error of a read
	lost    int   // keys that are wrong without a word
}

func (m *image) outcome(t testing.TB, o Options) outcome {
	s, disk, err := m.open(t, o)
	if err != nil {
		var d *DamageError // damage within a table shows only in an open store
		if !o.AcceptDataLoss && !(errors.As(err, &d) && isTable(d.File) && slices.Contains(m.names(t), d.File)) {
			m.unchanged(t, disk)
		}
		return outcome{refused: err}
	}
	defer s.Close()
	out := outcome{}
	sp, err := s.OpenSpace(testID(1))
	if err != nil {
		return outcome{read: err}
	}
	for key, want := range m.want {
		got, ok, err := sp.Writes().Get(kv(key))
		switch {
		case err != nil:
			out.read = err
			return out // Pebble looks for the bit that was flipped at each read, which takes a second
		case !ok || string(got.Value) != want:
			out.lost++
		}
	}
	return out
}

// unchanged checks that a start that was refused left all as it was.
func (m *image) unchanged(t testing.TB, disk *Disk) {
	t.Helper()
	after, _ := disk.mem.List("store")
	for _, name := range after {
		before, had := contents(t, m.disk, name)
		if now, _ := contents(t, disk, name); !had || !bytes.Equal(before, now) {
			t.Errorf("the refused Open changed %s; it was there before: %t", name, had)
		}
	}
	for _, name := range m.names(t) {
		if !slices.Contains(after, name) {
			t.Errorf("the refused Open removed %s", name)
		}
	}
}

// newLogImage returns a store killed with one log of several blocks, in a directory without a mark.
func newLogImage(t testing.TB) *image {
	o := small(Options{})
	s := mustOpen(t, o)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = mustOpen(t, o)
	sp := openSpace(t, s, 1)
	m := &image{want: map[string]string{}}
	rnd := rand.New(rand.NewPCG(8, 8))
	for i := range 60 {
		value := make([]byte, 1500)
		for j := range value {
			value[j] = byte(rnd.Uint32())
		}
		m.want[fmt.Sprint(i)] = string(value)
		put(t, sp.Writes(), kv(fmt.Sprint(i)), string(value))
		commit(t, sp)
	}
	m.disk = o.Disk.Crash(1, 100)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	m.remove(t, markName)
	return m
}

// holdAt holds up the n-th operation that changes a disk, and all after it, until release is closed. reached is closed when the
// first of them is there.
func holdAt(disk *Disk, n int64) (reached, release chan struct{}) {
	reached, release = make(chan struct{}), make(chan struct{})
	var operations atomic.Int64
	disk.Fail(func(op, _ string) error {
		switch op {
		case "write", "sync", "create", "remove", "rename":
			if at := operations.Add(1); at >= n {
				if at == n {
					close(reached)
				}
				<-release
			}
		}
		return nil
	})
	return reached, release
}

// removeMarkers removes the markers of a kind, or with "" all of them.
func (m *image) removeMarkers(t testing.TB, kind string) {
	t.Helper()
	for _, name := range m.names(t) {
		if strings.HasPrefix(name, "marker."+kind) {
			m.remove(t, name)
		}
	}
}

// forgedImage returns a store without marks whose log ends with a value that a tenant has made up, and that log.
func forgedImage(t testing.TB, value func(log uint64) string) (m *image, log string, content []byte) {
	t.Helper()
	o := small(Options{})
	s := mustOpen(t, o)
	sp := openSpace(t, s, 1)
	put(t, sp.Writes(), kv("small"), "1")
	commit(t, sp)
	log = logsOf(t, o.Disk)[0]
	_, num := kindOf(log)
	put(t, sp.Writes(), kv("a"), value(num))
	commit(t, sp)
	content, _ = contents(t, o.Disk, log)
	m = &image{disk: o.Disk.Crash(1, 100), want: map[string]string{"small": "1"}}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	m.remove(t, markName)
	return m, log, content
}

// seal writes the checksum of a record, which has its place in the first four bytes.
func seal(record []byte) []byte {
	sum := crc32.Checksum(record[6:], castagnoli)
	binary.LittleEndian.PutUint32(record, (sum>>15|sum<<17)+0xa282ead8)
	return record
}

// TestNoDamageOfAFileGoesUnnoticed changes one file of a store at a time, in every way, and opens the store: the damage
// has no effect, or Open refuses and names the file, or a read fails and names it. Without a mark the end of the newest log
// is not known, nor whether there was an older log.
func TestNoDamageOfAFileGoesUnnoticed(t *testing.T) {
	t.Run("with a mark", func(t *testing.T) {
		kinds, refused := damageEachFile(t, newImage(t, true), true)
		if kinds["log"] < 3 || kinds["sst"] == 0 || kinds["MANIFEST"] == 0 || refused < 20 {
			t.Errorf("files %v, %d refused", kinds, refused)
		}
	})
	t.Run("without a mark", func(t *testing.T) {
		m := newImage(t, true)
		m.remove(t, markName)
		kinds, refused := damageEachFile(t, m, false)
		if kinds["log"] < 3 || kinds["MANIFEST"] == 0 || refused < 20 {
			t.Errorf("files %v, %d refused", kinds, refused)
		}
	})
	t.Run("one log, without a mark", func(t *testing.T) {
		kinds, refused := damageEachFile(t, newLogImage(t), false)
		if kinds["log"] == 0 || refused < 10 {
			t.Errorf("files %v, %d refused", kinds, refused)
		}
	})
}

// damageEachFile returns how many files of a kind were damaged, and how many starts were refused. Without a mark it damages
// only logs and manifests.
func damageEachFile(t *testing.T, whole *image, marked bool) (kinds map[string]int, refused int) {
	if out := whole.outcome(t, Options{}); out != (outcome{}) {
		t.Fatalf("undamaged: %+v", out)
	}
	names := whole.names(t)
	kinds = map[string]int{}
	ways := map[string]int{}
	logs := logsOf(t, whole.disk)
	slices.Sort(logs)
	newest := logs[len(logs)-1]
	lastCommit := lastRecord(t, whole.disk, newest)
	// check opens a store whose file was changed up to an offset: -1 is all that follows.
	check := func(name, how string, m *image, changed int) {
		t.Helper()
		out := m.outcome(t, Options{})
		stem := name
		if strings.HasPrefix(name, "marker.") {
			stem = strings.Join(strings.SplitN(name, ".", 3)[:2], ".")
		}
		switch {
		case out.refused != nil:
			ways["refused"]++
			if !marked && isLog(name) && (how == "removed" || how == "emptied") {
				stem = ".log" // the one after the gap
			}
			if !errors.Is(out.refused, ErrDamaged) || !strings.Contains(out.refused.Error(), stem) {
				t.Errorf("%s %s: refused with %v", name, how, out.refused)
			}
			if !isLog(name) {
				break
			}
			if out := m.outcome(t, Options{AcceptDataLoss: true}); out.refused != nil || out.read != nil {
				t.Errorf("%s %s, accepted: %+v", name, how, out)
			}
		case out.read != nil:
			ways["read"]++
			if !strings.Contains(out.read.Error(), strings.TrimSuffix(stem, ".sst")) {
				t.Errorf("%s %s: a read fails with %v", name, how, out.read)
			}
		case !marked && name == newest && (changed < 0 || int64(changed) > lastCommit), !marked && name == logs[0] && (how == "removed" || how == "emptied"):
			ways["not known"]++
		case out.lost > 0:
			t.Errorf("%s %s: %d of %d keys are lost without a word", name, how, out.lost, len(m.want))
		default:
			ways["no effect"]++
		}
	}
	rnd := rand.New(rand.NewPCG(3, 4))
	for i, name := range names {
		content, ok := contents(t, whole.disk, name)
		if k, _ := kindOf(name); !ok || !marked && k != logFile && k != manifestFile {
			continue
		}
		kind := name[strings.LastIndexByte(name, '.')+1:]
		if a, _, ok := strings.Cut(name, "-"); ok {
			kind = a
		}
		kinds[kind]++
		change := func(how string, to []byte, changed int) {
			m := whole.copy()
			m.set(t, name, to)
			check(name, how, m, changed)
		}
		removed := whole.copy()
		removed.remove(t, name)
		check(name, "removed", removed, -1)
		if len(content) > 0 {
			change("emptied", nil, -1)
			change("zeroed", make([]byte, len(content)), -1)
		}
		rounds := 3
		if long() {
			rounds = 12
		}
		if kind == "sst" {
			rounds = 1 // for the same reason
		}
		for round := range min(rounds, len(content)) {
			at := rnd.IntN(len(content))
			if round == 0 {
				at /= 100 // in the first commit of a log
			}
			change(fmt.Sprintf("cut at %d", at), content[:at], -1)
			flipped := bytes.Clone(content)
			flipped[at] ^= 1 << rnd.IntN(8)
			change(fmt.Sprintf("flipped at %d", at), flipped, at+1)
			block := bytes.Clone(content)
			clear(block[at:min(at+4096, len(block))])
			change(fmt.Sprintf("zeroed at %d", at), block, at+4096)
		}
		for _, other := range names[i+1:] {
			if k, _ := kindOf(name); k == otherFile || !sameKind(name, other) || !marked {
				continue
			}
			b, _ := contents(t, whole.disk, other)
			m := whole.copy()
			m.set(t, name, b)
			m.set(t, other, content)
			if out := m.outcome(t, Options{}); out.lost > 0 {
				t.Errorf("%s and %s swapped: %d keys are lost without a word", name, other, out.lost)
			} else if out.refused != nil && !strings.Contains(out.refused.Error(), name) && !strings.Contains(out.refused.Error(), other) {
				t.Errorf("%s and %s swapped: %v", name, other, out.refused)
			}
		}
	}
	t.Log(kinds, ways)
	return kinds, ways["refused"]
}

// lastRecord returns where the last record of a log begins.
func lastRecord(t testing.TB, disk *Disk, name string) (last int64) {
	t.Helper()
	f, err := disk.mem.Open("store/" + name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	_, num := kindOf(name)
	if _, _, _, err := readRecords(f, num, func(_ []byte, offset int64) (bool, error) {
		last = offset
		return true, nil
	}); err != nil {
		t.Fatal(err)
	}
	return last
}

func sameKind(a, b string) bool {
	ka, _ := kindOf(a)
	kb, _ := kindOf(b)
	return ka == kb
}

// TestNewestLogSaysWhatOfItWasSynced flips bits of the newest log where a power cut left no mark beside it: each commit
// but the last is known to be whole by what the next one says.
func TestNewestLogSaysWhatOfItWasSynced(t *testing.T) {
	whole := newImage(t, false)
	if _, ok := contents(t, whole.disk, markName); ok {
		whole.remove(t, markName)
	}
	if out := whole.outcome(t, Options{}); out != (outcome{}) {
		t.Fatalf("undamaged: %+v", out)
	}
	name := slices.Max(logsOf(t, whole.disk))
	content, _ := contents(t, whole.disk, name)
	end := len(bytes.TrimRight(content, "\x00"))
	for at := 0; at < end; at += 379 {
		m := whole.copy()
		flipped := bytes.Clone(content)
		flipped[at] ^= 4
		m.set(t, name, flipped)
		out := m.outcome(t, Options{})
		var damage *DamageError
		switch {
		case out == (outcome{}): // in what a log that is used again held before
		case out.lost == 1 && out.refused == nil: // the last commit may be taken for a torn one
		case !errors.As(out.refused, &damage) || damage.File != name || damage.Offset > int64(at):
			t.Errorf("flipped at %d of %d: %+v", at, end, out)
		}
	}
}

func TestDamagedStoreOpensOnlyIfDataLossIsAccepted(t *testing.T) {
	whole := newImage(t, true)
	logs := logsOf(t, whole.disk)
	slices.Sort(logs)
	flip := func(name string) func(*image) {
		return func(m *image) {
			b, _ := contents(t, m.disk, name)
			end := len(bytes.TrimRight(b, "\x00"))
			_, num := kindOf(name)
			marks, _ := readMarks(m.disk.mem, "store/"+markName)
			for _, e := range marks {
				if e.kind == logFile && e.num == num {
					end = min(end, int(e.synced)) // behind it stands what a log that is used again held before
				}
			}
			b[end/2] ^= 1
			m.set(t, name, b)
		}
	}
	marker := func(kind string) func(*image) {
		return func(m *image) { m.removeMarkers(t, kind) }
	}
	for _, c := range []struct {
		name string
		do   func(*image)
		all  bool // nothing is lost
	}{
		{"flipped in the newest log", flip(logs[2]), false},
		{"flipped in the middle log", flip(logs[1]), false},
		{"middle log removed", func(m *image) { m.remove(t, logs[1]) }, false},
		{"oldest log removed", func(m *image) { m.remove(t, logs[0]) }, false},
		{"newest log removed", func(m *image) { m.remove(t, logs[2]) }, false},
		{"newest log emptied", func(m *image) { m.set(t, logs[2], nil) }, false},
		{"marker of the manifest removed", marker("manifest"), true},
		{"marker of the format removed", marker("format-version"), true},
		{"both markers removed", marker(""), true},
		{"options damaged", func(m *image) { m.set(t, "OPTIONS-000003", []byte("x")) }, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := whole.copy()
			c.do(m)
			_, disk, err := m.open(t, Options{})
			if !errors.Is(err, ErrDamaged) {
				t.Fatalf("opened: %v", err)
			}
			m.unchanged(t, disk)
			s, disk, err := m.open(t, Options{AcceptDataLoss: true})
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(m.log.String(), "damage is accepted") {
				t.Errorf("logged: %s", m.log)
			}
			for _, name := range logsOf(t, m.disk) {
				before, _ := contents(t, m.disk, name)
				if kept, ok := contents(t, disk, "damaged-1/"+name); !ok || !bytes.Equal(before, kept) {
					t.Errorf("%s is not kept as it was", name)
				}
			}
			check := func(s *Store) {
				t.Helper()
				sp := openSpace(t, s, 1)
				want := m.past[sp.Head().Version]
				if c.all && len(want) != len(m.want) {
					t.Fatalf("version %d, and nothing was lost", sp.Head().Version)
				}
				for key := range m.want {
					got, ok, err := sp.Writes().Get(kv(key))
					if value, had := want[key]; err != nil || ok != had || string(got.Value) != value {
						t.Fatalf("version %d, key %s: %v, %v", sp.Head().Version, key, ok, err)
					}
				}
			}
			check(s)
			checkRows(t, s)
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			// From then on it is a store like any other.
			s = openTest(t, Options{Disk: disk})
			check(s)
			sp := openSpace(t, s, 1)
			put(t, sp.Writes(), kv("more"), "x")
			commit(t, sp)
		})
	}
}

// TestStoreThatCannotBeSavedSaysSo damages what the state of the whole store depends on.
func TestStoreThatCannotBeSavedSaysSo(t *testing.T) {
	whole := newImage(t, true)
	refused := map[fileKind]int{}
	for _, name := range whole.names(t) {
		kind, _ := kindOf(name)
		if kind != manifestFile && kind != tableFile {
			continue
		}
		m := whole.copy()
		if kind == tableFile {
			m.remove(t, name)
		} else {
			b, _ := contents(t, m.disk, name)
			b[len(b)*2/3] ^= 1
			m.set(t, name, b)
		}
		out := m.outcome(t, Options{})
		if kind == tableFile && out == (outcome{}) {
			continue // a compaction had begun it
		}
		if refused[kind]++; !errors.Is(out.refused, ErrDamaged) {
			t.Errorf("%s: %+v", name, out)
		}
		// All rows of this small store are in a few tables, those without which no store can be used among them.
		if out := m.outcome(t, Options{AcceptDataLoss: true}); out.refused != nil && (!errors.Is(out.refused, ErrDamaged) || !strings.Contains(out.refused.Error(), name)) {
			t.Errorf("%s: %v", name, out.refused)
		}
		if !strings.Contains(m.log.String(), "accepted") {
			t.Errorf("%s: logged %s", name, m.log)
		}
	}
	if refused[tableFile] == 0 || refused[manifestFile] == 0 {
		t.Errorf("refused, by kind: %v", refused)
	}
}

// Damage of a manifest that leaves nothing to open is refused by the name of the manifest, although data loss is accepted.
func TestManifestThatCannotBeReadIsNamed(t *testing.T) {
	whole := newImage(t, true)
	name := current(t, whole)
	content, _ := contents(t, whole.disk, name)
	refused := 0
	for at := 0; at < len(content); at += int(stride(8)) {
		m := whole.copy()
		flipped := bytes.Clone(content)
		flipped[at] ^= 1
		m.set(t, name, flipped)
		out := m.outcome(t, Options{AcceptDataLoss: true})
		if out.refused == nil {
			continue
		}
		var damage *DamageError
		if refused++; !errors.As(out.refused, &damage) || damage.File != name {
			t.Fatalf("flipped at %d: %v", at, out.refused)
		}
	}
	if refused == 0 {
		t.Error("all were opened")
	}
}

// TestCrashDuringOpenIsNoDamage cuts the power before every operation of the Open that follows a crash.
func TestCrashDuringOpenIsNoDamage(t *testing.T) {
	whole := newImage(t, false)
	for n, done := int64(1), false; !done; n += stride(4) {
		o := small(Options{Disk: whole.disk.Crash(uint64(n), 50), MemTableBytes: 64 << 10})
		reached, release := holdAt(o.Disk, n)
		opened := make(chan *Store)
		go func() {
			s, err := Open(context.Background(), o)
			if err != nil {
				t.Error(err)
			}
			opened <- s
		}()
		var s *Store
		select {
		case <-reached:
		case s = <-opened:
			done = true
		}
		for _, percent := range []int{0, 50, 100} {
			m := &image{disk: o.Disk.Crash(uint64(n), percent), want: whole.want}
			if out := m.outcome(t, Options{}); out != (outcome{}) {
				t.Errorf("power cut at operation %d, %d%% of what was not synced kept: %v, %+v", n, percent, out.refused, out)
			}
		}
		close(release)
		if s == nil {
			s = <-opened
		}
		if s == nil {
			return
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestSyncWithinACommitIsNoDamage ends a process when a sync for an earlier commit has taken a part of a large one along.
func TestSyncWithinACommitIsNoDamage(t *testing.T) {
	o := small(Options{})
	s := mustOpen(t, o)
	sp := openSpace(t, s, 1)
	put(t, sp.Writes(), kv("small"), "1")
	commit(t, sp)
	want := map[string]string{"small": "1"}
	for i := range 4 {
		put(t, sp.Writes(), kv(fmt.Sprint(i)), strings.Repeat("x", 50<<10))
	}
	commit(t, sp)
	whole := &image{disk: o.Disk.Crash(1, 100), want: want}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	names := logsOf(t, whole.disk)
	slices.Sort(names)
	name, content, begin := "", []byte(nil), int64(0)
	for _, n := range names {
		b, _ := contents(t, whole.disk, n)
		f, err := whole.disk.mem.Open("store/" + n)
		if err != nil {
			t.Fatal(err)
		}
		_, num := kindOf(n)
		last := int64(0)
		end, _, _, err := readRecords(f, num, func(_ []byte, offset int64) (bool, error) {
			last = offset
			return true, nil
		})
		if end-last > 100<<10 {
			name, content, begin = n, b, last
		}
		if err := errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
	}
	if name == "" {
		t.Fatal("no large commit in a log")
	}
	_, num := kindOf(name)
	open := func(cut, synced int64) error {
		m := whole.copy()
		b := bytes.Clone(content)
		clear(b[cut:])
		m.set(t, name, b)
		var mark durableMark
		mark.start([]markEntry{{logFile, num, synced}})
		mark.keep(m.disk.mem, "store/"+markName)
		mark.stop()
		out := m.outcome(t, Options{})
		if out.refused == nil && (out.read != nil || out.lost > 0) {
			t.Errorf("cut at %d: %+v", cut, out)
		}
		return out.refused
	}
	first := begin - begin%recordBlock + recordBlock
	for cut := first; cut < begin+150<<10; cut += recordBlock {
		if err := open(cut, cut); err != nil {
			t.Errorf("synced up to %d, within the commit at %d: %v", cut, begin, err)
		}
		if err := open(cut+100, cut); err != nil {
			t.Errorf("synced up to %d, torn after it: %v", cut, err)
		}
		if err := open(cut-1000, cut); !errors.Is(err, ErrDamaged) {
			t.Errorf("synced up to %d, damaged at %d: %v", cut, cut-1000, err)
		}
	}
}

// A tenant may store what looks like a commit that says how far the log is synced: it does not make a torn commit damage.
func TestForgedMarkInAValueIsNoDamage(t *testing.T) {
	for _, marked := range []bool{true, false} {
		m, log, content := forgedImage(t, func(num uint64) string { return forgedMark(num) + strings.Repeat("x", 3000) })
		_, num := kindOf(log)
		torn := bytes.Clone(content)
		clear(torn[len(bytes.TrimRight(torn, "\x00"))-300:])
		m.set(t, log, torn)
		if marked { // as after a power cut, by which the mark is older
			var mark durableMark
			mark.start([]markEntry{{logFile, num, 0}})
			mark.keep(m.disk.mem, "store/"+markName)
			mark.stop()
		}
		if out := m.outcome(t, Options{}); out.refused != nil || out.read != nil || out.lost > 0 {
			t.Errorf("with a mark %t: %+v", marked, out)
		}
	}
}

// forgedMark returns the bytes of a record of a log, with a commit that says that a lot of the log is synced.
func forgedMark(num uint64) string {
	var b []byte
	for _, secret := range [][]byte{nil, make([]byte, len(markSecret{}))} {
		data := append([]byte{markTag}, secret...)
		data = binary.AppendUvarint(binary.AppendUvarint(data, num), 1<<40)
		batch := make([]byte, 12, 100) // sequence number and count
		batch[8] = 1
		batch = append(batch, byte(pebble.InternalKeyKindLogData), byte(len(data)))
		batch = append(batch, data...)
		record := make([]byte, 19, 150)
		binary.LittleEndian.PutUint16(record[4:], uint16(len(batch)))
		record[6] = 9 // a whole record, of which it is also known what was synced
		binary.LittleEndian.PutUint32(record[7:], uint32(num))
		b = append(b, seal(append(record, batch...))...)
	}
	return string(b)
}

// TestReadOfADamagedTableNamesItOnOneLine damages a block of values, which Open does not read. Each way to read a value that was
// there fails with a DamageError, in which and in the log the table and what Pebble says are on one line, as slog writes it.
func TestReadOfADamagedTableNamesItOnOneLine(t *testing.T) {
	for _, size := range []int{1500, 3 * ChunkSize / 2, 6 * ChunkSize} { // Pebble keeps all but the first chunk in blocks of values
		t.Run(fmt.Sprint(size), func(t *testing.T) { readDamagedTable(t, size) })
	}
}

func readDamagedTable(t *testing.T, length int) {
	o := small(Options{})
	s := mustOpen(t, o)
	sp := openSpace(t, s, 1)
	for i := range 40 {
		value := make([]byte, length)
		for j := range value {
			value[j] = byte(i*j + j>>8)
		}
		put(t, sp.Writes(), kv(fmt.Sprint(100+i)), string(value))
	}
	commit(t, sp)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = mustOpen(t, o) // which makes a table of the log
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	m := &image{disk: o.Disk.Crash(1, 100)}
	table, size := "", 0
	for _, name := range m.names(t) {
		if b, _ := contents(t, m.disk, name); isTable(name) && len(b) > size {
			table, size = name, len(b)
		}
	}
	b, _ := contents(t, m.disk, table)
	b[len(b)*3/4] ^= 0xff
	m.set(t, table, b)

	each := func(get func(key []byte) error) error {
		for i := range 40 {
			if err := get(kv(fmt.Sprint(100 + i))); err != nil {
				return err
			}
		}
		return nil
	}
	for _, c := range []struct {
		name string
		read func(*Space, *Snapshot) error
	}{
		{"Get", func(sp *Space, _ *Snapshot) error {
			return each(func(key []byte) error { _, _, err := sp.Writes().Get(key); return err })
		}},
		{"AppendValue", func(_ *Space, sn *Snapshot) error {
			return each(func(key []byte) error { _, _, err := sn.AppendValue(nil, key); return err })
		}},
		{"List", func(sp *Space, _ *Snapshot) error {
			_, err := sp.Writes().List(ListQuery{Limit: 100, MaxBytes: 16 << 20})
			return err
		}},
		{"List in reverse", func(_ *Space, sn *Snapshot) error {
			_, err := sn.List(ListQuery{Limit: 100, MaxBytes: 16 << 20, Reverse: true})
			return err
		}},
		{"Scan", func(_ *Space, sn *Snapshot) error {
			return sn.Scan(nil, nil, func(_, _ []byte) bool { return true })
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, _, err := m.open(t, Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			sp, err := s.OpenSpace(testID(1))
			if err != nil {
				t.Fatal(err)
			}
			defer sp.Close()
			sn := sp.Snapshot()
			defer sn.Close()
			one := func(what, text string) {
				t.Helper()
				if strings.Contains(text, "\n") || strings.Contains(text, "carrier") || strings.Count(text, table) != 1 || !strings.Contains(text, "mismatch") {
					t.Errorf("%s: %s", what, text)
				}
			}
			err = c.read(sp, sn)
			if d, ok := errors.AsType[*DamageError](err); !ok || d.File != table || !errors.Is(err, ErrDamaged) {
				t.Fatalf("read: %T %v", err, err)
			}
			one("the error", fmt.Sprintf("%+v", err))
			one("the store's", fmt.Sprintf("%+v", s.Err()))
			for _, line := range strings.Split(strings.TrimSpace(m.log.String()), "\n") {
				if strings.Contains(line, "ERROR") {
					one("the log", strings.ReplaceAll(line, `\n`, "\n"))
				}
			}
		})
	}
}

// TestBatchMarkReadsAnyBytes: damage and what a power cut leaves can look like the beginning of a commit that ends early.
func TestBatchMarkReadsAnyBytes(t *testing.T) {
	header := make([]byte, batchrepr.HeaderLen)
	log := byte(pebble.InternalKeyKindLogData)
	for _, rest := range [][]byte{nil, {0}, {byte(pebble.InternalKeyKindSet)}, {byte(pebble.InternalKeyKindSet), 1, 'k'},
		{log}, {log, 0xff}, {log, 0xff, 0xff, 0xff, 0xff}, {log, 200, 1}, {log, 1, markTag}} {
		if m, ok := batchMark(slices.Concat(header, rest)); ok {
			t.Errorf("%x has the mark %v", rest, m)
		}
	}
}
