package replay

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fxamacker/cbor/v2"

	"github.com/cairn-run/cairn/workflow/internal/journal"
)

// testTurn is a transaction over rows.
type testTurn struct {
	*rows
	now      time.Time
	sent     []Outgoing
	returned []Delivery
}

func (t *testTurn) Now() time.Time                            { return t.now }
func (t *testTurn) Value() any                                { return nil }
func (t *testTurn) Receive([]string, int) ([]Delivery, error) { return nil, nil }
func (t *testTurn) Return(m []Delivery) error                 { t.returned = append(t.returned, m...); return nil }
func (t *testTurn) Reply(*Delivery, []byte, *Failure) error   { return nil }
func (t *testTurn) Send(m *Outgoing) error                    { t.sent = append(t.sent, *m); return nil }

// A testRun writes histories by names.
type testRun struct {
	testing.TB
	*testTurn
	st *store
}

func newTestRun(t testing.TB) *testRun {
	r := &testRun{TB: t, testTurn: &testTurn{rows: newRows(), now: at(1000)}}
	must(t, errOf(start(r.testTurn, "order", "v1", CodecCBOR, []byte{0x01}, StartOptions{ID: [16]byte{1}})))
	must(t, putState(r, StateRunning))
	r.st = openStore(t, r.rows)
	return r
}

// place returns the location of a path such as serve~3/charge.
func (r *testRun) place(path string) journal.Location {
	r.Helper()
	var l journal.Location
	for part := range strings.SplitSeq(path, "/") {
		name, iteration, loop := strings.Cut(part, "~")
		i, _, err := r.st.names.Index(name)
		must(r, err)
		l = journal.ChildName(nil, l, i)
		if loop {
			n, err := strconv.Atoi(iteration)
			must(r, err)
			l = journal.ChildIteration(nil, l, i, uint32(n))
		}
	}
	return l
}

func (r *testRun) id(path string) EntryID { return entryID(r.place(path)) }

func (r *testRun) put(path string, e Entry) {
	r.Helper()
	putEntry(r, r.st, r.rows, r.place(path), e)
}

// meta puts an entry with metadata.
func (r *testRun) meta(path string, e Entry, m Metadata) {
	r.Helper()
	e.ID = r.st.newID()
	must(r, r.st.putMetadata(r, e.ID, &m))
	r.put(path, e)
}

// done is a step that ended as the seq-th.
func done(ordinal uint32, seq uint64) Entry {
	return Entry{Kind: KindStep, Status: Completed, Ordinal: ordinal, Seq: seq, Created: at(int64(10 * seq)),
		Ended: at(int64(10*seq) + 5), Output: cborNull}
}

func paths(t testing.TB, seq iter.Seq2[HistoryEntry, error]) (list []string) {
	t.Helper()
	for e, err := range seq {
		must(t, err)
		list = append(list, e.Path)
	}
	return list
}

// sample is a run with entries of many kinds.
func sample(t testing.TB) *testRun {
	r := newTestRun(t)
	r.put("charge", done(0, 1))
	failed := done(1, 2)
	failed.Status, failed.Output, failed.Failure = Exhausted, nil, &Failure{Message: "no"}
	r.meta("ship", failed, Metadata{Attempts: 4, LastAttempt: at(24), Failure: &Failure{Message: "no"}})
	secret := done(2, 3)
	secret.Sensitive, secret.Output, secret.Failure = true, []byte("\x66secret"), &Failure{Message: "m", Data: []byte("secret")}
	r.put("secret", secret)
	r.put("serve", Entry{Kind: KindLoop, Ordinal: 3, Created: at(40), Iteration: 3, State: []byte{0x03}})
	r.put("serve~3/charge", done(0, 4))
	r.put("serve~3/wait", Entry{Kind: KindReceive, Ordinal: 1, Created: at(60), Deadline: at(9000), Queues: []string{"orders"}})
	large := done(4, 5)
	large.Output = bytes.Repeat([]byte("x"), journal.InlineLimit+1)
	r.put("report", large)
	r.put("nap", Entry{Kind: KindSleep, Ordinal: 5, Created: at(70), Deadline: at(5000)})
	r.meta("flaky", Entry{Kind: KindStep, Ordinal: 6, Created: at(80)},
		Metadata{Attempts: 2, Due: at(3000), Failure: &Failure{Message: "again"}})
	r.put("kid", Entry{Kind: KindSpawn, Ordinal: 7, Created: at(90),
		Child: Destination{Type: "ship", Key: []string{"7"}}, Program: "ship", OnClose: closeTerminates})
	return r
}

func TestHistoryFilters(t *testing.T) {
	r := sample(t)
	for what, v := range map[string]struct {
		filter Filter
		want   []string
	}{
		"status":          {Filter{Statuses: []EntryStatus{Pending}}, []string{"serve", "serve~3/wait", "nap", "flaky", "kid"}},
		"kind and status": {Filter{Kinds: []Kind{KindStep}, Statuses: []EntryStatus{Exhausted}}, []string{"ship"}},
		"name":            {Filter{Name: "charge"}, []string{"charge", "serve~3/charge"}},
		"glob":            {Filter{Name: "?a*"}, []string{"serve~3/wait", "nap"}},
		"glob in between": {Filter{Name: "*e*r*"}, []string{"secret", "serve", "report"}},
		"under":           {Filter{Under: r.id("serve")}, []string{"serve", "serve~3/charge", "serve~3/wait"}},
		"under and after": {Filter{Under: r.id("serve"), After: r.id("serve~3/charge")}, []string{"serve~3/wait"}},
		"after the end":   {Filter{Under: r.id("serve"), After: r.id("nap")}, nil},
		"since":           {Filter{Since: at(80)}, []string{"flaky", "kid"}},
	} {
		got := paths(t, History(r, v.filter))
		want := slices.Clone(v.want)
		slices.SortFunc(want, func(a, b string) int { return bytes.Compare(r.place(a), r.place(b)) })
		errorIf(t, !slices.Equal(got, want), "%s: %v, want %v", what, got, want)
	}
	for _, f := range []Filter{{Under: "zz"}, {Under: "13"}, {After: "1"}} {
		var refused *ControlError
		for _, err := range History(r, f) {
			errorIf(t, !errors.As(err, &refused), "%+v: %v", f, err)
		}
		errorIf(t, refused == nil, "%+v is accepted", f)
	}
}

// The status and history of a run as testdata/history.txt shows them, without secrets and large
// payloads.
func TestHistoryShowsWhatIsRecorded(t *testing.T) {
	r := sample(t)
	st, err := ReadStatus(r)
	must(t, err)
	im, err := loadImage(r)
	errorIf(t, err != nil || st.Bytes != im.bytes ||
		st.Names != im.names.Len(), "%d bytes and %d names of %+v (%v)", st.Bytes, st.Names, im, err)
	var b bytes.Buffer
	lines := json.NewEncoder(&b)
	must(t, lines.Encode(st))
	var nap HistoryEntry
	for e, err := range History(r, Filter{}) {
		must(t, errors.Join(err, lines.Encode(e)))
		fmt.Fprintf(&b, "output %x state %x\n", e.Output, e.State)
		errorIf(t, e.Failure != nil && e.Failure.Data != nil, "a secret is shown: %q", e.Failure)
		if e.Path == "nap" {
			nap = e
		}
	}
	golden(t, "history.txt", b.Bytes())
	// It can be decoded from JSON and CBOR, which have words for kinds and statuses.
	for _, form := range []struct {
		encode func(any) ([]byte, error)
		decode func([]byte, any) error
	}{{json.Marshal, json.Unmarshal}, {cbor.Marshal, cbor.Unmarshal}} {
		var back HistoryEntry
		data, err := form.encode(nap)
		must(t, errors.Join(err, form.decode(data, &back)))
		if back.Kind != KindSleep || back.Status != Pending || !back.Deadline.Equal(nap.Deadline) ||
			!bytes.Contains(data, []byte("sleep")) {
			t.Errorf("%+v of %q", back, data)
		}
	}
	var k Kind
	var status EntryStatus
	none := []byte("dance")
	errorIf(t, k.UnmarshalText(none) == nil || status.UnmarshalText(none) == nil, "words that are none are accepted")
	errorIf(t, k.UnmarshalCBOR([]byte{1}) == nil || status.UnmarshalCBOR([]byte{1}) == nil, "numbers are accepted")
	for want, shown := range map[string]any{"1 bytes: ff": shownPayload([]byte{0xff}, CodecCBOR),
		"1 bytes: 01": shownPayload([]byte{1}, 3)} {
		errorIf(t, shown != want, "shown as %v, want %s", shown, want)
	}
}

func TestChangedRows(t *testing.T) {
	r := sample(t)
	before := r.All()
	r.put("charge", done(0, 1)) // as it was
	r.put("new", done(8, 9))
	must(t, r.st.drop(r, r.place("serve"), true))
	must(t, r.st.putMetadata(r, 2, &Metadata{Attempts: 3, Due: at(4000)})) // of flaky
	keys := [][]byte{{4, 0x15, 1}, []byte("?")}
	now := r.All()
	for k := range now {
		if was, there := before[k]; !there || was != now[k] {
			keys = append(keys, []byte(k))
		}
	}
	for k := range before {
		if _, there := now[k]; !there {
			keys = append(keys, []byte(k))
		}
	}
	d, err := Changed(r, keys)
	fatalIf(t, err != nil || !d.Status, "%+v, %v", d, err)
	var changed []string
	for _, e := range d.Entries {
		changed = append(changed, e.Path)
	}
	slices.Sort(changed)
	if !slices.Equal(changed, []string{"flaky", "new"}) || len(d.Removed) != 3 || !slices.Contains(d.Removed, r.id("serve~3/wait")) {
		t.Errorf("changed %v, removed %v", changed, d.Removed)
	}
	d, err = Changed(r, keys[:1])
	errorIf(t, err != nil || d.Status || d.Entries != nil, "%+v, %v", d, err)
}
