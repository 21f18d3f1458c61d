package engine

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"log/slog"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/batchrepr"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/atomicfs"
)

// image is a disk after the end of a process, with the rows that were acknowledged.
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
	names, err := memoryOf(m.disk).List("store")
	must(t, err)
	return names
}

// copy returns an image that can be changed.
func (m *image) copy() *image { return &image{disk: m.disk.Crash(1, 100), want: m.want, past: m.past} }

func (m *image) set(t testing.TB, name string, content []byte) {
	t.Helper()
	f, err := memoryOf(m.disk).Create("store/"+name, vfs.WriteCategoryUnspecified)
	if err == nil {
		_, err = f.Write(bytes.Clone(content))
		err = errors.Join(err, f.Sync(), f.Close(), syncDir(memoryOf(m.disk), "store"))
	}
	must(t, err)
}

// with returns a copy of the image in which a file was changed.
func (m *image) with(t testing.TB, name string, change func([]byte) []byte) *image {
	t.Helper()
	b, _ := contents(t, m.disk, name)
	c := m.copy()
	c.set(t, name, change(b))
	return c
}

func flip(at int, bits byte) func([]byte) []byte {
	return func(b []byte) []byte { b[at] ^= bits; return b }
}

// mark writes a mark with the synced bytes of a log.
func (m *image) mark(log uint64, synced int64) {
	var mark durableMark
	mark.start([]markEntry{{logFile, log, synced}})
	mark.keep(memoryOf(m.disk), "store/"+markName)
	mark.stop()
}

// noise returns a value that does not compress.
func noise(rnd *rand.Rand, n int) string {
	value := make([]byte, n)
	for i := range value {
		value[i] = byte(rnd.Uint32())
	}
	return string(value)
}

// wantDamage fails unless an error is the damage of a file, at an offset up to most.
func wantDamage(t testing.TB, err error, file string, most int, where ...any) {
	t.Helper()
	d, ok := errors.AsType[*DamageError](err)
	errorIf(t, !ok || !errors.Is(err, ErrDamaged) || d.File != file ||
		d.Offset > int64(most), "%v: %v, want damage of %s", where, err, file)
}

func (m *image) remove(t testing.TB, name string) {
	t.Helper()
	must(t, errors.Join(memoryOf(m.disk).Remove("store/"+name), syncDir(memoryOf(m.disk), "store")))
}

// newImage returns a disk with tables, three logs that are not flushed, and a manifest with edits.
// killed keeps unsynced bytes; a power cut does not.
func newImage(t testing.TB, killed bool) *image {
	o := small(Options{MemTableBytes: 64 << 10})
	r := newRig(t, o)
	m := &image{want: map[string]string{}, past: map[Version]map[string]string{}}
	rnd := rand.New(rand.NewPCG(7, 7))
	write := func(n int) {
		for range n {
			key := fmt.Sprint(rnd.IntN(400))
			m.want[key] = noise(rnd, 1500)
			version := r.put(kv(key), m.want[key])
			m.past[version] = maps.Clone(m.want)
		}
	}
	for range 3 {
		write(40)
		must(t, databaseOf(r.Store).Flush())
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
			fatalIf(t, i > 100, "the log is not rotated")
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
	must(t, r.Close())
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
	lost    int   // keys that are wrong without an error
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
			return out // Pebble searches for the flipped bit at each read, which takes a second
		case !ok || string(got.Value) != want:
			out.lost++
		}
	}
	return out
}

// unchanged checks that a start that was refused changed no file.
func (m *image) unchanged(t testing.TB, disk *Disk) {
	t.Helper()
	after, _ := memoryOf(disk).List("store")
	for _, name := range after {
		before, had := contents(t, m.disk, name)
		now, _ := contents(t, disk, name)
		errorIf(t, !had || !bytes.Equal(before, now), "the refused Open changed %s; it was there before: %t", name, had)
	}
	for _, name := range m.names(t) {
		errorIf(t, !slices.Contains(after, name), "the refused Open removed %s", name)
	}
}

// newLogImage returns a store killed with one log of several blocks, in a directory without a mark.
func newLogImage(t testing.TB) *image {
	r := newRig(t, Options{})
	r.again()
	m := &image{want: map[string]string{}}
	rnd := rand.New(rand.NewPCG(8, 8))
	for i := range 60 {
		m.want[fmt.Sprint(i)] = noise(rnd, 1500)
		r.put(kv(fmt.Sprint(i)), m.want[fmt.Sprint(i)])
	}
	m.disk = r.o.Disk.Crash(1, 100)
	must(t, r.Close())
	m.remove(t, markName)
	return m
}

// eachChange calls f before each operation that changes a disk, with its number, until stop
// returns.
func eachChange(disk *Disk, f func(n int)) (stop func()) {
	var mu sync.Mutex
	operations, stopped := 0, false
	disk.Fail(func(op, _ string) error {
		if slices.Contains([]string{"write", "sync", "create", "remove", "rename"}, op) {
			mu.Lock()
			defer mu.Unlock()
			if operations++; !stopped {
				f(operations)
			}
		}
		return nil
	})
	return func() {
		disk.Fail(nil)
		mu.Lock()
		defer mu.Unlock()
		stopped = true
	}
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

// seal writes the checksum of a record, which has its place in the first four bytes.
func seal(record []byte) []byte {
	sum := crc32.Checksum(record[6:], castagnoli)
	binary.LittleEndian.PutUint32(record, (sum>>15|sum<<17)+0xa282ead8)
	return record
}

// TestNoDamageOfAFileGoesUnnoticed changes one file of a store at a time, in every way, and opens
// the store: the damage has no effect, or Open refuses and names the file, or a read fails and
// names it. Without a mark the end of the newest log is not known, nor whether there was an older
// log.
func TestNoDamageOfAFileGoesUnnoticed(t *testing.T) {
	t.Run("with a mark", func(t *testing.T) {
		kinds, refused := damageEachFile(t, newImage(t, true), true)
		errorIf(t, kinds["log"] < 3 || kinds["sst"] == 0 || kinds["MANIFEST"] == 0 || refused < 20, "files %v, %d refused", kinds, refused)
	})
	t.Run("without a mark", func(t *testing.T) {
		m := newImage(t, true)
		m.remove(t, markName)
		kinds, refused := damageEachFile(t, m, false)
		errorIf(t, kinds["log"] < 3 || kinds["MANIFEST"] == 0 || refused < 8, "files %v, %d refused", kinds, refused)
	})
	t.Run("one log, without a mark", func(t *testing.T) {
		kinds, refused := damageEachFile(t, newLogImage(t), false)
		errorIf(t, kinds["log"] == 0 || refused < 2, "files %v, %d refused", kinds, refused)
	})
}

// damageEachFile returns how many files of a kind were damaged, and how many starts were refused.
// Without a mark it damages only logs and manifests.
func damageEachFile(t *testing.T, whole *image, marked bool) (kinds map[string]int, refused int) {
	same(t, whole.outcome(t, Options{}), (outcome{}))
	names := whole.names(t)
	kinds = map[string]int{}
	logs := logsOf(t, whole.disk)
	slices.Sort(logs)
	newest := logs[len(logs)-1]
	lastCommit, _ := lastRecord(t, whole.disk, newest)
	// check opens a store whose file was changed up to an offset: -1 is all that follows.
	check := func(name, how string, m *image, changed int) {
		t.Helper()
		out := m.outcome(t, Options{})
		stem, gone := name, how == "removed" || how == "emptied"
		if strings.HasPrefix(name, "marker.") {
			stem = strings.Join(strings.SplitN(name, ".", 3)[:2], ".")
		}
		unknown := !marked && (name == newest && (changed < 0 || int64(changed) > lastCommit) || name == logs[0] && gone)
		switch {
		case out.refused != nil:
			refused++
			if !marked && isLog(name) && gone {
				stem = ".log" // the one after the gap
			}
			named := func(err error) bool { return errors.Is(err, ErrDamaged) && strings.Contains(err.Error(), stem) }
			errorIf(t, !named(out.refused), "%s %s: refused with %v", name, how, out.refused)
			out := m.outcome(t, Options{AcceptDataLoss: true})
			if isLog(name) {
				errorIf(t, out.refused != nil || out.read != nil, "%s %s, accepted: %+v", name, how, out)
			} else { // the whole store depends on some tables, and on the manifest
				errorIf(t, out.refused != nil && !named(out.refused), "%s %s, accepted: %+v", name, how, out)
				errorIf(t, how == "removed" && !strings.Contains(m.log.String(), "accepted"), "%s %s: logged %s", name, how, m.log)
			}
		case out.read != nil:
			errorIf(t, !strings.Contains(out.read.Error(), strings.TrimSuffix(stem, ".sst")),
				"%s %s: a read fails with %v", name, how, out.read)
		default:
			errorIf(t, !unknown && out.lost > 0, "%s %s: %d of %d keys are lost without a word", name, how, out.lost, len(m.want))
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
		rounds := map[string]int{"MANIFEST": 4}[kind] + 1
		if long() && kind != "sst" { // for the same reason
			rounds = 12
		}
		for round := range min(rounds, len(content)) {
			at := rnd.IntN(len(content))
			if (round+kinds[kind])%2 == 1 {
				at /= 100 // in the first commit of a log
			}
			way := rnd.IntN(3) // the long form damages each place in all of the ways
			if way == 0 || long() {
				change(fmt.Sprintf("cut at %d", at), content[:at], -1)
			}
			if way == 1 || long() {
				change(fmt.Sprintf("flipped at %d", at), flip(at, 1<<rnd.IntN(8))(bytes.Clone(content)), at+1)
			}
			if way == 2 || long() {
				block := bytes.Clone(content)
				clear(block[at:min(at+4096, len(block))])
				change(fmt.Sprintf("zeroed at %d", at), block, at+4096)
			}
		}
		for _, other := range names[i+1:] {
			k, _ := kindOf(name)
			if to, _ := kindOf(other); k == otherFile || k != to || !marked || stride(2) > 1 {
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
	return kinds, refused
}

// lastRecord returns where the last record of a log begins, and where it ends.
func lastRecord(t testing.TB, disk *Disk, name string) (last, end int64) {
	t.Helper()
	f, err := memoryOf(disk).Open("store/" + name)
	must(t, err)
	defer f.Close()
	_, num := kindOf(name)
	end, _, _, err = readRecords(f, num, func(_ []byte, offset int64) (bool, error) {
		last = offset
		return true, nil
	})
	must(t, err)
	return last, end
}

// TestNewestLogSaysWhatOfItWasSynced flips bits of the newest log where a power cut left no mark
// beside it. Each commit except the last is known to be whole from the next one.
func TestNewestLogSaysWhatOfItWasSynced(t *testing.T) {
	whole := newImage(t, false)
	if _, ok := contents(t, whole.disk, markName); ok {
		whole.remove(t, markName)
	}
	same(t, whole.outcome(t, Options{}), (outcome{}))
	name := slices.Max(logsOf(t, whole.disk))
	content, _ := contents(t, whole.disk, name)
	end := len(bytes.TrimRight(content, "\x00"))
	for at := 0; at < end; at += 379 * int(stride(8)) {
		out := whole.with(t, name, flip(at, 4)).outcome(t, Options{})
		switch {
		case out == (outcome{}): // in the old content of a log that is used again
		case out.lost == 1 && out.refused == nil: // the last commit may be taken for a torn one
		default:
			wantDamage(t, out.refused, name, at, at, end)
		}
	}
}

func TestDamagedStoreOpensOnlyIfDataLossIsAccepted(t *testing.T) {
	whole := newImage(t, true)
	logs := logsOf(t, whole.disk)
	slices.Sort(logs)
	flip := func(name string) func(*image) {
		last, _ := lastRecord(t, whole.disk, name)
		return func(m *image) { *m = *m.with(t, name, flip(int(last/2), 1)) }
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
		{"a manifest begun, and its marker removed", func(m *image) {
			m.set(t, "MANIFEST-000900", []byte{1, 2, 3})
			m.removeMarkers(t, "manifest")
		}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := whole.copy()
			c.do(m)
			_, disk, err := m.open(t, Options{})
			fatalIf(t, !errors.Is(err, ErrDamaged), "opened: %v", err)
			m.unchanged(t, disk)
			s, disk, err := m.open(t, Options{AcceptDataLoss: true})
			must(t, err)
			errorIf(t, !strings.Contains(m.log.String(), "damage is accepted"), "logged: %s", m.log)
			for _, name := range logsOf(t, m.disk) {
				before, _ := contents(t, m.disk, name)
				kept, ok := contents(t, disk, "damaged-1/"+name)
				errorIf(t, !ok || !bytes.Equal(before, kept), "%s is not kept as it was", name)
			}
			for range 2 { // from then on it is a store like any other
				checkRows(t, s)
				sp := openSpace(t, s, 1)
				want := m.past[sp.Head().Version]
				fatalIf(t, c.all && len(want) != len(m.want), "version %d, and nothing was lost", sp.Head().Version)
				for key := range m.want {
					got, ok, err := sp.Writes().Get(kv(key))
					value, had := want[key]
					fatalIf(t, err != nil || ok != had || string(got.Value) != value, "key %s: %v, %v", key, ok, err)
				}
				must(t, s.Close())
				s = openTest(t, Options{Disk: disk})
			}
			putCommit(t, openSpace(t, s, 1), kv("more"), "x")
		})
	}
}

// TestCrashDuringOpenIsNoDamage cuts the power before every operation of the Open that follows a
// crash.
func TestCrashDuringOpenIsNoDamage(t *testing.T) {
	whole := newImage(t, false)
	for seed := range seeds(1) {
		o := small(Options{Disk: whole.disk.Crash(seed, 50), MemTableBytes: 64 << 10})
		cuts, next := map[string]*Disk{}, 1
		stop := eachChange(o.Disk, func(n int) {
			if n < next {
				return
			}
			next += int(stride(32))
			for i, percent := range []int{0, 50, 100} {
				cuts[fmt.Sprintf("at operation %d, %d%% of what was not synced kept, draw %d", n, percent,
					i)] = o.Disk.Crash(uint64(5*n+i), percent)
			}
		})
		must(t, mustOpen(t, o).Close())
		stop()
		fatalIf(t, len(cuts) < 6, "only %d cuts", len(cuts))
		for where, disk := range cuts {
			m := &image{disk: disk, want: whole.want}
			same(t, m.outcome(t, Options{}), (outcome{}), "power cut", where)
		}
	}
}

// TestSyncWithinACommitIsNoDamage ends a process after a sync for an earlier commit that also
// synced part of a large one.
func TestSyncWithinACommitIsNoDamage(t *testing.T) {
	r := newRig(t, Options{MemTableBytes: 1 << 20}) // the large commit fits into it
	r.put(kv("small"), "1")
	for i := range 4 {
		put(t, r.w, kv(fmt.Sprint(i)), strings.Repeat("x", 50<<10))
	}
	r.commit()
	whole := &image{disk: r.o.Disk.Crash(1, 100), want: map[string]string{"small": "1"}}
	must(t, r.Close())
	logs := logsOf(t, whole.disk)
	at := slices.IndexFunc(logs, func(name string) bool {
		begin, end := lastRecord(t, whole.disk, name)
		return end-begin > 100<<10
	})
	fatalIf(t, at < 0, "no large commit in a log")
	begin, _ := lastRecord(t, whole.disk, logs[at])
	_, num := kindOf(logs[at])
	open := func(cut, synced int64) error {
		m := whole.with(t, logs[at], func(b []byte) []byte { clear(b[cut:]); return b })
		m.mark(num, synced)
		out := m.outcome(t, Options{})
		errorIf(t, out.refused == nil && (out.read != nil || out.lost > 0), "cut at %d: %+v", cut, out)
		return out.refused
	}
	first, step := begin-begin%recordBlock+recordBlock, int64(recordBlock)
	if !long() { // one of the blocks, because Pebble tries every bit of one that is torn
		step *= 5
	}
	for cut := first + (stride(4)-1)*recordBlock; cut < begin+150<<10; cut += step {
		must(t, open(cut, cut), cut, begin)
		must(t, open(cut+100, cut), cut)
		wantErr(t, open(cut-1000, cut), ErrDamaged, cut, cut-1000)
	}
}

// TestWhatATenantForgesIsNoDamage writes a value and a key of a tenant that look in part like the
// log or the manifest. The marks beside them are older, as after a power cut, or missing.
func TestWhatATenantForgesIsNoDamage(t *testing.T) {
	header := make([]byte, 19) // of a record, too often to try each
	binary.LittleEndian.PutUint16(header[4:], 25000)
	header[6] = 9
	for name, c := range map[string]struct {
		value func(log uint64) string
		spoil func(log []byte)
	}{
		"a commit that says how far the log is synced, in one that is torn": {
			func(log uint64) string { return forgedMark(log) + strings.Repeat("x", 3000) },
			func(log []byte) { clear(log[len(bytes.TrimRight(log, "\x00"))-300:]) },
		},
		"beginnings of records": {
			func(log uint64) string {
				binary.LittleEndian.PutUint32(header[7:], uint32(log))
				return strings.Repeat(string(header), 6000)
			},
			func(log []byte) { log[bytes.Index(log, header)+20] ^= 1 },
		},
	} {
		r := newRig(t, Options{})
		r.put(kv("small"), "1")
		log := logsOf(t, r.o.Disk)[0]
		_, num := kindOf(log)
		r.put(kv("a"), c.value(num))
		m := &image{disk: r.o.Disk.Crash(1, 100), want: map[string]string{"small": "1"}}
		must(t, r.Close())
		m.remove(t, markName)
		m = m.with(t, log, func(b []byte) []byte { c.spoil(b); return b })
		same(t, m.outcome(t, Options{}), (outcome{}), name)
		m.mark(num, 0)
		same(t, m.outcome(t, Options{}), (outcome{}), name, "with a mark")
	}
	edit := []byte{3, 100, 4, 100} // next file number, last sequence number
	record := binary.LittleEndian.AppendUint16(make([]byte, 4), uint16(len(edit)))
	record = seal(append(append(record, 1), edit...)) // a whole record
	m := newImage(t, false)
	m = m.with(t, current(t, m), func(b []byte) []byte { // the first page of the edit did not reach the disk
		return slices.Concat(b, make([]byte, 500), record, make([]byte, 100))
	})
	same(t, m.outcome(t, Options{}), (outcome{}), "an edit")
	m.remove(t, markName)
	same(t, m.outcome(t, Options{}), (outcome{}), "an edit, without a mark")
}

// forgedMark returns the bytes of a record of a log, with a commit that says that a lot of the log
// is synced.
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
		record[6] = 9 // a whole record, of a log that says what is synced
		binary.LittleEndian.PutUint32(record[7:], uint32(num))
		b = append(b, seal(append(record, batch...))...)
	}
	return string(b)
}

// TestReadOfADamagedTableNamesItOnOneLine damages a block of values, which Open does not read. Each
// way to read such a value fails with a DamageError. The error and the log have the table and
// Pebble's text on one line, as slog writes it.
func TestReadOfADamagedTableNamesItOnOneLine(t *testing.T) {
	all := ListQuery{Limit: 100, MaxBytes: 16 << 20}
	back := all
	back.Reverse = true
	for _, length := range []int{1500, 3 * ChunkSize / 2, 6 * ChunkSize} { // Pebble keeps all but the first chunk in blocks of values
		m, table, keys := damagedTable(t, length)
		each := func(get func(key []byte) error) (err error) {
			for i := 0; err == nil && i < keys; i++ {
				err = get(kv(fmt.Sprint(100 + i)))
			}
			return err
		}
		for name, read := range map[string]func(*Space, *Snapshot) error{
			"Get": func(sp *Space, _ *Snapshot) error {
				return each(func(key []byte) error { return errOf3(sp.Writes().Get(key)) })
			},
			"AppendValue": func(_ *Space, sn *Snapshot) error {
				return each(func(key []byte) error { return errOf3(sn.AppendValue(nil, key)) })
			},
			"List":            func(sp *Space, _ *Snapshot) error { return errOf(sp.Writes().List(all)) },
			"List in reverse": func(_ *Space, sn *Snapshot) error { return errOf(sn.List(back)) },
			"Scan":            func(_ *Space, sn *Snapshot) error { return sn.Scan(nil, nil, func(_, _ []byte) bool { return true }) },
		} {
			s, _, err := m.open(t, Options{})
			must(t, err)
			sp := openSpace(t, s, 1)
			sn := sp.Snapshot()
			err = read(sp, sn)
			wantDamage(t, err, table, math.MaxInt, name)
			texts := []string{fmt.Sprintf("%+v", err), fmt.Sprintf("%+v", s.Err())}
			for line := range strings.SplitSeq(strings.TrimSpace(m.log.String()), "\n") {
				if strings.Contains(line, "ERROR") {
					texts = append(texts, strings.ReplaceAll(line, `\n`, "\n"))
				}
			}
			for _, text := range texts {
				one := strings.Count(text, table) == 1 && !strings.Contains(text, "\n")
				errorIf(t, !one || strings.Contains(text, "carrier") || !strings.Contains(text, "mismatch"), "%s: %s", name, text)
			}
			must(t, sn.Close())
			s.Close()
		}
	}
}

// damagedTable returns a store with a damaged table that holds so many values of a length.
func damagedTable(t *testing.T, length int) (m *image, table string, keys int) {
	r := newRig(t, Options{})
	keys = max(12, 60_000/length)
	for i := range keys {
		value := make([]byte, length)
		for j := range value {
			value[j] = byte(i*j + j>>8)
		}
		put(t, r.w, kv(fmt.Sprint(100+i)), string(value))
	}
	r.commit()
	r.again() // which makes a table of the log
	must(t, r.Close())
	m = &image{disk: r.o.Disk.Crash(1, 100)}
	size := 0
	for _, name := range m.names(t) {
		if b, _ := contents(t, m.disk, name); isTable(name) && len(b) > size {
			table, size = name, len(b)
		}
	}
	return m.with(t, table, flip(size*3/4, 0xff)), table, keys
}

// TestBatchMarkReadsAnyBytes: damage, or the disk after a power cut, can look like the beginning of
// a commit that ends early.
func TestBatchMarkReadsAnyBytes(t *testing.T) {
	header := make([]byte, batchrepr.HeaderLen)
	log := byte(pebble.InternalKeyKindLogData)
	for _, rest := range [][]byte{nil, {0}, {byte(pebble.InternalKeyKindSet)}, {byte(pebble.InternalKeyKindSet), 1, 'k'},
		{log}, {log, 0xff}, {log, 0xff, 0xff, 0xff, 0xff}, {log, 200, 1}, {log, 1, markTag}} {
		m, ok := batchMark(slices.Concat(header, rest))
		errorIf(t, ok, "%x has the mark %v", rest, m)
	}
}

// TestPowerCutsAreNoDamage cuts the power at a random operation of a store, again and again, in
// sessions that open it, write little, much or nothing, flush, and close.
func TestPowerCutsAreNoDamage(t *testing.T) {
	for seed := range seeds(2) {
		powerCuts(t, seed)
	}
}

func powerCuts(t *testing.T, seed uint64) {
	rnd := rand.New(rand.NewPCG(seed, 1))
	o := small(Options{MemTableBytes: 64 << 10})
	if rnd.IntN(4) == 0 {
		o.Durability = NoSync
	}
	var acked atomic.Uint64 // the disk that the last cut left has that
	sessions := 8
	if long() {
		sessions = 12
	}
	for session := range sessions {
		limit := 1 + rnd.IntN([]int{30, 150, 1000}[rnd.IntN(3)])
		commits, size, flushes := rnd.IntN(60), []int{10, 3000, 60000}[rnd.IntN(3)], rnd.IntN(3)
		percent, cutSeed := []int{0, 30, 60, 100}[rnd.IntN(4)], rnd.Uint64()
		var next *Disk // the disk after the session's power cut
		before := uint64(0)
		cut := func() { before, next = acked.Load(), o.Disk.Crash(cutSeed, percent) }
		stop := eachChange(o.Disk, func(n int) {
			if n == limit {
				cut()
			}
		})
		s, err := Open(t.Context(), o)
		fatalIf(t, err != nil, "seed %d, session %d: %v", seed, session, err)
		checkRows(t, s)
		sp := openSpace(t, s, 1)
		v := uint64(sp.Head().Version)
		fatalIf(t, o.Durability == Sync &&
			v < acked.Load(), "seed %d, session %d: version %d, and %d was acknowledged", seed, session, v, acked.Load())
		for range commits {
			put(t, sp.Writes(), kv(strconv.Itoa(rnd.IntN(50))), strings.Repeat("v", rnd.IntN(size)))
			v := uint64(sp.Head().Version) + 1
			told := make(chan struct{})
			must(t, errOf(sp.Commit(func(err error) {
				check(t, err)
				acked.Store(v)
				close(told)
			})))
			if rnd.IntN(3) == 0 {
				<-told
			}
			if flushes > 0 && rnd.IntN(20) == 0 {
				must(t, databaseOf(s).Flush())
			}
		}
		must(t, s.Close())
		stop()
		if next == nil {
			cut()
		}
		acked.Store(before)
		o.Disk = next
	}
}

func current(t testing.TB, m *image) string {
	t.Helper()
	name, err := atomicfs.ReadMarker(memoryOf(m.disk), "store", "manifest")
	must(t, err)
	return name
}

// A directory may have a number as its name: a file that is missing in it is no damaged table.
func TestNumberOfADirectoryIsNoTable(t *testing.T) {
	missing := &fs.PathError{Op: "open", Path: "/srv/20261122/store/LOCK", Err: fs.ErrNotExist}
	same(t, damaged(missing), error(missing))
	table := &fs.PathError{Op: "open", Path: "/srv/20261122/store/000005.sst", Err: fs.ErrNotExist}
	var damage *DamageError
	err := damaged(table)
	errorIf(t, !errors.As(err, &damage) || damage.File != "000005.sst", "%v", err)
}
