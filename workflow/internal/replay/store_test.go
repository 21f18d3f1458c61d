package replay

import (
	"bytes"
	"errors"
	"maps"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/workflow/internal/journal"
)

func openStore(t testing.TB, j *rows) *store {
	t.Helper()
	im, err := loadImage(j)
	must(t, err)
	st, err := newStore(im, 0)
	must(t, err)
	return st
}

func putEntry(t testing.TB, st *store, j Journal, l journal.Location, e Entry) {
	t.Helper()
	_, err := st.put(j, l, &e)
	must(t, err)
}

func step(output []byte) Entry {
	return Entry{Kind: KindStep, Status: Completed, Seq: 1, Created: at(0), Ended: at(3), Output: output}
}

// Equal payloads have the same rows, which are read on demand. The model says when they are
// removed.
func TestLargePayloadsAreStoredOnce(t *testing.T) {
	j := newRows()
	st := openStore(t, j)
	large := bytes.Repeat([]byte("large "), 20_000) // two chunks
	putEntry(t, st, j, loc(0), step(large))
	message := Entry{Kind: KindReceive, Status: Completed, Messages: []Delivery{{Queue: "q", Body: []byte{1}}, {Queue: "q", Body: large}}}
	putEntry(t, st, j, loc(1), message)
	state := Entry{Kind: KindLoop, State: large, Output: large, Failure: &Failure{Data: large}}
	putEntry(t, st, j, loc(2), state)
	errorIf(t, count(j, 8) != 3, "%d rows, want a head and two chunks", count(j, 8))
	errorIf(t, message.Messages[1].Body == nil || state.State == nil, "the entry that was put lost its payloads")
	im, err := loadImage(j)
	must(t, err)
	for i := range 3 {
		rec := im.find(loc(i))
		header, err := rec.header()
		errorIf(t, err != nil || bytes.Equal(header.Output, large), "%d: fetched before it was asked for (%v)", i, err)
		e, err := rec.decode()
		must(t, err)
		for which := range journal.PayloadMessages + len(e.Messages) {
			b := payloadOf(e, which)
			errorIf(t, len(b) > 1 && !bytes.Equal(b, large), "payload %d of %d is another", which, i)
		}
	}
	// A payload that was not fetched stays when the entry is put again.
	im, err = loadImage(j)
	must(t, err)
	e, err := im.find(loc(0)).header()
	must(t, err)
	e.Ordinal = 5
	putEntry(t, openStore(t, j), j, loc(0), *e)
	im, err = loadImage(j)
	must(t, err)
	e, err = im.find(loc(0)).decode()
	errorIf(t, err != nil || !bytes.Equal(e.Output, large) || e.Ordinal != 5, "%v", err)
}

func TestPayloadsThatAreTooLarge(t *testing.T) {
	j := newRows()
	im, err := loadImage(j)
	must(t, err)
	st, err := newStore(im, 100_000)
	must(t, err)
	m := Entry{Kind: KindReceive, Messages: []Delivery{{Queue: "jobs", ID: 4, Body: make([]byte, 100_001)}}}
	_, err = st.put(j, loc(0), &m)
	var large *TooLargeError
	if !errors.Is(err, ErrTooLarge) || !errors.As(err, &large) || large.Size != 100_001 || large.Limit != 100_000 ||
		!strings.Contains(large.What, `"jobs"`) {
		t.Error(err)
	}
	err = st.putMetadata(j, 1, &Metadata{Progress: make([]byte, 100_001)})
	errorIf(t, !errors.Is(err, ErrTooLarge) || j.Changed(), "%v", err)
}

func TestLargePayloadsThatAreDamaged(t *testing.T) {
	large := bytes.Repeat([]byte("x"), 70_000)
	hash := journal.HashOf(large)
	for what, damage := range map[string]func(j *rows){
		"head missing": func(j *rows) { j.Delete(keyspace.WorkflowBlob.Append(nil, &hash, 0)) },
		"head garbage": func(j *rows) { j.Put(keyspace.WorkflowBlob.Append(nil, &hash, 0), []byte{2}) },
		"head unused":  func(j *rows) { j.Put(keyspace.WorkflowBlob.Append(nil, &hash, 0), []byte{2, 0, 0, 1}) },
		"head newer":   func(j *rows) { j.Put(keyspace.WorkflowBlob.Append(nil, &hash, 0), []byte{3, 0, 0, 1}) },
		"part missing": func(j *rows) { j.Delete(keyspace.WorkflowBlob.Append(nil, &hash, 2)) },
		"part another": func(j *rows) {
			j.Put(keyspace.WorkflowBlob.Append(nil, &hash, 1), bytes.Repeat([]byte("y"), journal.BlobChunk))
		},
		"parts too many": func(j *rows) { j.Put(keyspace.WorkflowBlob.Append(nil, &hash, 3), []byte("z")) },
	} {
		j := newRows()
		st := openStore(t, j)
		putEntry(t, st, j, loc(0), step(large))
		damage(j)
		if strings.HasPrefix(what, "part") {
			im, err := loadImage(j)
			must(t, err)
			_, err = im.find(loc(0)).decode()
			errorIf(t, !errors.As(err, new(*CorruptError)), "%s: %v", what, err)
			continue
		}
		ref := journal.LargeRef{Payload: journal.PayloadOutput, Size: 70_000, Hash: hash}
		_, err := st.put(j, loc(1), &Entry{Kind: KindStep, Status: Completed, Large: []journal.LargeRef{ref}})
		errorIf(t, !errors.As(err, new(*CorruptError)), "%s: %v", what, err)
	}
}

// modelStore is the expected content of the rows: entries by place, with metadata.
type modelStore map[string]modelEntry

type modelEntry struct {
	output   string
	metadata bool
}

// The store is compared with a model. Entries with and without metadata and large payloads are put,
// put again, and dropped: alone, with entries inside, and by iterations, in transactions that are
// sometimes undone. The rows must be those of the model: no metadata and no payload without
// references, and none missing.
func TestStoreAgainstAModel(t *testing.T) {
	seeds := uint64(2)
	if os.Getenv("CAIRN_LONG") != "" { // `make soak`
		seeds = 8
	}
	for seed := range seeds {
		random := rand.New(rand.NewPCG(seed, 7))
		j := newRows()
		model := modelStore{}
		st := openStore(t, j)
		place := func() journal.Location {
			all := []journal.Location{loc(0), loc(1), loc(2, 3), loc(2),
				loc(4, [2]int{4, random.IntN(5)}, random.IntN(3)), loc(4), loc(4, [2]int{4, random.IntN(5)})}
			return all[random.IntN(len(all))]
		}
		payload := func() []byte {
			large := []int{journal.BlobChunk, journal.BlobChunk + 1}[random.IntN(2)] // seldom: every check reads all of it
			size := []int{1, journal.InlineLimit, journal.InlineLimit + 1, journal.InlineLimit + 1, large}[random.IntN(5)]
			return bytes.Repeat([]byte{byte('a' + random.IntN(3))}, size)
		}
		drop := func(in func(l journal.Location) bool) {
			maps.DeleteFunc(model, func(k string, _ modelEntry) bool { return in(journal.Location(k)) })
		}
		for n := range 60 {
			if random.IntN(8) == 0 {
				st = openStore(t, j)
			}
			st.begin()
			was := maps.Clone(model)
			for range 1 + random.IntN(4) {
				switch random.IntN(8) {
				case 0:
					l, self := place(), random.IntN(2) == 0
					must(t, st.drop(j, l, self))
					drop(func(k journal.Location) bool { return l.Encloses(k) && (self || len(k) > len(l)) })
				case 1:
					from, to := uint32(random.IntN(5)), uint32(random.IntN(6))
					must(t, st.dropIterations(j, loc(4), 4, from, to))
					drop(func(k journal.Location) bool {
						s, _ := k.Segments()
						return len(s) > 1 && s[0].Name == 4 && s[1].Loop && s[1].Iteration >= from && s[1].Iteration < to
					})
				default:
					l := place()
					e := step(payload())
					if random.IntN(3) == 0 {
						e.ID = st.newID()
						must(t, st.putMetadata(j, e.ID, &Metadata{Attempts: 1}))
					}
					output := string(e.Output)
					putEntry(t, st, j, l, e)
					model[string(l)] = modelEntry{output, e.ID != 0}
				}
			}
			if random.IntN(4) == 0 {
				st.undone()
				j.Rollback()
				model = was
			}
			j.Commit()
			if n%3 == 2 {
				checkModel(t, seed, j, model)
			}
		}
	}
}

func checkModel(t *testing.T, seed uint64, j *rows, model modelStore) {
	t.Helper()
	im, err := loadImage(j)
	fatalIf(t, err != nil, "seed %d: %v", seed, err)
	fatalIf(t, len(im.records) != len(model), "seed %d: %d entries, want %d", seed, len(im.records), len(model))
	for i := range im.records {
		rec := &im.records[i]
		want := model[string(rec.loc)]
		e, err := rec.decode()
		if err != nil || string(e.Output) != want.output || (e.ID != 0) != want.metadata || want.metadata && im.metadata(e.ID) == nil {
			t.Fatalf("seed %d: %x: %v", seed, rec.loc, err)
		}
	}
	CheckRows(t, j)
}

func TestDropsWithoutOtherRowsReadNothing(t *testing.T) {
	j := newRows()
	st := openStore(t, j)
	e := step(make([]byte, journal.InlineLimit+1))
	e.ID = st.newID()
	must(t, st.putMetadata(j, e.ID, &Metadata{Attempts: 2}))
	putEntry(t, st, j, loc(9), e)
	for i := range 100 {
		putEntry(t, st, j, loc(0, [2]int{0, i}, 1), step([]byte{1}))
	}
	c := &counted{rows: j}
	must(t, st.dropIterations(c, loc(0), 0, 0, 90))
	must(t, st.drop(c, loc(0), false))
	errorIf(t, c.n != 0 || count(j, 2) != 1, "%d rows were read, %d are left", c.n, count(j, 2))
}

// A tripwire is a transaction whose n-th read or write fails.
type tripwire struct {
	*testTurn
	left int
}

var errTripped = errors.New("tripped")

func (w *tripwire) trip() error {
	if w.left--; w.left < 0 {
		return errTripped
	}
	return nil
}

func (w *tripwire) Get(key []byte) ([]byte, bool, error) {
	if err := w.trip(); err != nil {
		return nil, false, err
	}
	return w.rows.Get(key)
}

func (w *tripwire) Scan(start, end []byte, visit func(key, value []byte) error) error {
	if err := w.trip(); err != nil {
		return err
	}
	return w.rows.Scan(start, end, visit)
}

func (w *tripwire) Put(key, value []byte) error { return errors.Join(w.trip(), w.rows.Put(key, value)) }
func (w *tripwire) Delete(key []byte) error     { return errors.Join(w.trip(), w.rows.Delete(key)) }
func (w *tripwire) DeleteRange(start, end []byte) error {
	return errors.Join(w.trip(), w.rows.DeleteRange(start, end))
}

func errOf[T any](_ T, err error) error { return err }

// Errors of the journal are returned by all operations that read and write it.
func TestErrorsOfTheJournal(t *testing.T) {
	serve := NewFunction("order", func(ctx Context, _ int) (int, error) {
		return Loop(ctx, "serve", 0, func(it *Iter[int, int]) error {
			if it.Iteration() == 3 {
				return it.Break(3)
			}
			return errOf(Update(it, "large", func(*Tx) ([]byte, error) { return make([]byte, journal.InlineLimit+1), nil }))
		}, Keep(1), TrimEvery(1))
	}).Program()
	lookup := func(string) *Program { return serve }
	var rec *Recording
	for what, do := range map[string]func(r *testRun, turn Turn) error{
		"cancel":    func(r *testRun, turn Turn) error { return Cancel(turn, "enough") },
		"hold":      func(r *testRun, turn Turn) error { return Hold(turn, "wait") },
		"terminate": func(r *testRun, turn Turn) error { return Terminate(turn, "enough") },
		"destroyed": func(r *testRun, turn Turn) error { return Destroyed(turn) },
		"retry":     func(r *testRun, turn Turn) error { return RetryEntry(turn, r.id("ship")) },
		"rewind":    func(r *testRun, turn Turn) error { return Rewind(turn, r.id("secret")) },
		"import": func(r *testRun, turn Turn) error {
			return errOf(Import(turn, rec, StartOptions{Replace: true, UpTo: r.id("charge")})) // the name 0 of both
		},
		"start": func(r *testRun, turn Turn) error {
			return errOf(start(turn, "order", "v1", CodecCBOR, []byte{0x01}, StartOptions{Replace: true}))
		},
		"export": func(r *testRun, turn Turn) error { return errOf(Export(turn)) },
		"status": func(r *testRun, turn Turn) error { return errOf(ReadStatus(turn)) },
		"history": func(r *testRun, turn Turn) (err error) {
			for _, e := range History(turn, Filter{}) {
				err = errors.Join(err, e)
			}
			return err
		},
		"verify": func(r *testRun, turn Turn) error { return errOf(Verify(turn, lookup)) },
		"advance": func(r *testRun, turn Turn) error {
			run := Open(RunOptions{Programs: lookup})
			defer run.Close()
			return errOf(run.Advance(turn))
		},
	} {
		for n := 0; ; n++ {
			r := sample(t)
			switch rec = export(t, tree(t)); what {
			case "import", "start":
				must(t, putState(r, StateFailed))
			case "advance":
				r = newTestRun(t)
			}
			err := do(r, &tripwire{r.testTurn, n})
			if err == nil {
				errorIf(t, n == 0, "%s reads nothing", what)
				break
			}
			fatalIf(t, !errors.Is(err, errTripped), "%s, after %d: %v", what, n, err)
		}
	}
}

func BenchmarkStorePut(b *testing.B) {
	j := discard{}
	im, err := loadImage(newRows())
	must(b, err)
	st, err := newStore(im, 0)
	must(b, err)
	e := step([]byte{0x18, 0x2a})
	l := loc(0, [2]int{0, 300}, 1)
	b.ReportAllocs()
	for b.Loop() {
		_, err := st.put(j, l, &e)
		must(b, err)
	}
}

// discard is a journal that keeps nothing.
type discard struct{}

func (discard) Get([]byte) ([]byte, bool, error)                        { return nil, false, nil }
func (discard) Scan(_, _ []byte, _ func(key, value []byte) error) error { return nil }
func (discard) Put(_, _ []byte) error                                   { return nil }
func (discard) Delete([]byte) error                                     { return nil }
func (discard) DeleteRange(_, _ []byte) error                           { return nil }
