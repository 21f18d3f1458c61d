package replay

import (
	"errors"
	"reflect"
	"testing"

	"github.com/cairn-run/cairn/workflow/internal/journal"
)

// history writes n entries: a loop of 100 iterations, with a join in each, and plain steps for the
// rest.
func history(t testing.TB, n int) *rows {
	j := newRows()
	st := openStore(t, j)
	for _, s := range []string{"loop", "join", "x", "y", "job"} {
		st.names.Index(s)
	}
	putEntry(t, st, j, loc(0), Entry{Kind: KindLoop, Created: at(0)})
	for i := 1; i < n; i++ {
		e := step([]byte{0x18, 0x2a})
		e.Ordinal, e.Seq = uint32(i), uint64(i)
		switch i % 4 {
		case 0:
			putEntry(t, st, j, loc(0, [2]int{0, i / 4}, 1), e)
		case 1:
			putEntry(t, st, j, loc(0, [2]int{0, i / 4}, 1, 2, 4), e)
		case 2:
			putEntry(t, st, j, loc(0, [2]int{0, i / 4}, 1, 3, 4), e)
		default:
			putEntry(t, st, j, loc(1+i), e)
		}
	}
	return j
}

func TestImageHasEveryField(t *testing.T) {
	j := newRows()
	want := fields{
		state: StateRunning, program: "order\x00s", version: "v2", input: []byte{1}, output: []byte{2}, published: []byte{3}, form: journal.Form2,
		failure: &Failure{Message: "no", Data: []byte{9}}, control: &control{"cancel", "because", at(2),
			42}, pause: &Pause{PausedDiverged, "this code did X", at(1), 2, at(5)},
		run: runRecord{
			ID: [16]byte{1}, Epoch: 2, Started: at(0), Ended: at(9), Boots: 3, SeqAtBoot: 4, Entered: 6, EnteredIn: 7, Codec: 5, Rewinds: 8, Seed: 9, Kept: true,
			Parent: &parentRef{To: Destination{Type: "order", Key: []string{"7"}}, Run: [16]byte{2}, Location: loc(3), Policy: 1},
		},
	}
	must(t, errors.Join(
		putState(j, want.state), putProgram(j, want.program, want.version), putInput(j, want.input), putOutput(j,
			want.output), putPublished(j, want.published),
		putFailure(j, want.failure), putRecord(j, &want.run), putControl(j, want.control), putPause(j, want.pause)))
	im, err := loadImage(j)
	must(t, err)
	f, err := loadFields(j)
	must(t, err)
	errorIf(t, !reflect.DeepEqual(*f, want) || !reflect.DeepEqual(im.fields, want), "%+v and %+v, want %+v", *f, im.fields, want)
}

func TestImageReadsOnceAndDecodesLazily(t *testing.T) {
	j := &counted{rows: history(t, 2000)}
	im, err := loadImage(j)
	must(t, err)
	errorIf(t, j.n != len(j.All()), "%d rows were read, there are %d", j.n, len(j.All()))
	for i := range im.records {
		fatalIf(t, im.records[i].decoded != nil, "decoded before it is asked for")
	}
	rec := im.find(loc(0))
	a, err := rec.decode()
	b, _ := rec.decode()
	errorIf(t, err != nil || a != b, "decoded twice (%v)", err)
	rec.release()
	_, err = rec.decode()
	errorIf(t, err == nil, "what was released is there")
}

// Invalid rows are errors: of the history, if they belong to it, and of the run as a whole.
func TestDamagedRows(t *testing.T) {
	for _, v := range []struct {
		what, key, value string
		history, newer   bool
	}{
		{"a key", "07 15 02 13", "02 00", true, false}, {"another family", "07 15 07 14", "02 00", false, false},
		{"an entry", "07 15 02 15 63", "05", true, false}, {"an entry that is cut off", "07 15 02 15 63", "02 00 00 02 00", true, false},
		{"a newer entry", "07 15 02 15 63", "03 00", true, true}, {"a name without those before it", "07 15 01 15 63", "78", true, false},
		{"metadata", "07 15 04 15 02", "09 00 00", true, true}, {"metadata that is cut off", "07 15 04 15 02", "02 00", true, false},
		{"a record", "07 15 03 15 07", "02 00 a0", false, false}, {"record fields", "07 15 03 15 06", "02 00 a1 18 63 01", false, true},
		{"a program", "07 15 03 15 04", "02 61", false, false},
	} {
		r := sample(t)
		r.Put(unhex(t, v.key), unhex(t, v.value))
		im, err := loadImage(r)
		for i := 0; err == nil && i < len(im.records); i++ {
			_, err = im.records[i].decode()
		}
		var bad *CorruptError
		errorIf(t, !errors.As(err, &bad) || v.newer != errors.Is(err, ErrNewer), "%s: %v", v.what, err)
		err = nil
		for _, e := range History(r, Filter{}) {
			err = errors.Join(err, e)
		}
		errorIf(t, v.history != errors.As(err, &bad), "%s: the history: %v", v.what, err)
	}
}

func benchmarkLoad(b *testing.B, n int, more func(im *image)) {
	j := history(b, n)
	b.ReportAllocs()
	for b.Loop() {
		im, err := loadImage(j)
		must(b, err)
		more(im)
	}
	b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "entries/s")
}

func BenchmarkLoad1000(b *testing.B)   { benchmarkLoad(b, 1000, func(*image) {}) }
func BenchmarkLoad100000(b *testing.B) { benchmarkLoad(b, 100_000, func(*image) {}) }
func BenchmarkLoadAndDecode1000(b *testing.B) {
	benchmarkLoad(b, 1000, func(im *image) {
		for i := range im.records {
			_, err := im.records[i].decode()
			must(b, err)
		}
	})
}
func BenchmarkChildren100000(b *testing.B) {
	benchmarkLoad(b, 100_000, func(im *image) { im.children(nil) })
}
