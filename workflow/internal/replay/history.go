package replay

import (
	"bytes"
	"encoding/json"
	"errors"
	"iter"
	"slices"
	"strconv"
	"time"

	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/workflow/internal/journal"
)

// A Filter selects entries of a history. An entry must match every field; the zero value matches
// all entries.
type Filter struct {
	// Under selects the subtree of an entry, including the entry; "" for all.
	Under EntryID
	// After is the entry after which to begin, in the order of History; "" for the beginning.
	After EntryID
	// Kinds and Statuses list the kinds and statuses to return; empty for all.
	Kinds    []Kind
	Statuses []EntryStatus
	// Name is a pattern for the name of the entry itself: * stands for any text, ? for any one
	// character. "" is all.
	Name string
	// Since and Before bound the time at which the entry began; zero for no bound.
	Since, Before time.Time
}

// A HistoryEntry is an entry of a history in the form for programs and people.
type HistoryEntry struct {
	ID      EntryID     `json:"id"`
	Path    string      `json:"path"` // of names; for people
	Kind    Kind        `json:"kind"`
	Status  EntryStatus `json:"status"`
	Ordinal uint32      `json:"ordinal"`
	Seq     uint64      `json:"seq,omitempty"`
	Created time.Time   `json:"created,omitzero"`
	Ended   time.Time   `json:"ended,omitzero"`
	// Output is the result, and State the state with which the iteration of a loop began, as Codec
	// encodes them: 0 is CBOR. Large payloads are stored elsewhere and nil here; Large is their
	// size in bytes. Payloads of Sensitive entries are nil as well.
	Output []byte `json:"-" cbor:"output,omitempty"`
	State  []byte `json:"-" cbor:"state,omitempty"`
	// OutputJSON and StateJSON are Output and State in JSON, after Show.
	OutputJSON json.RawMessage `json:"output,omitempty" cbor:"-"`
	StateJSON  json.RawMessage `json:"state,omitempty" cbor:"-"`
	Codec      uint8           `json:"codec,omitempty"`
	Large      uint64          `json:"large,omitempty"`
	Sensitive  bool            `json:"sensitive,omitempty"`
	Failure    *Failure        `json:"failure,omitempty"`

	Deadline  time.Time    `json:"deadline,omitzero"`
	Iteration uint32       `json:"iteration,omitempty"`
	Winner    string       `json:"winner,omitempty"`
	Queues    []string     `json:"queues,omitempty"`
	Messages  int          `json:"messages,omitempty"` // how many were received
	Resolved  uint32       `json:"resolved,omitempty"`
	Latest    uint32       `json:"latest,omitempty"`
	Child     *Destination `json:"child,omitempty"`
	Program   string       `json:"program,omitempty"`
	Branches  int          `json:"branches,omitempty"`

	// The executions of a step; zero for a step that succeeded at once.
	Attempts    uint32    `json:"attempts,omitempty"`
	LastAttempt time.Time `json:"lastAttempt,omitzero"`
	Due         time.Time `json:"due,omitzero"`
	LastFailure *Failure  `json:"lastFailure,omitempty"`
	// Undone is the time at which its undo handler ended.
	Undone      time.Time `json:"undone,omitzero"`
	UndoFailure *Failure  `json:"undoFailure,omitempty"`

	Bytes int `json:"bytes"` // of the key and value of its row
}

// History returns the entries of a run as they are read, in the order of their places: each entry
// before the entries inside it.
func History(r Reader, f Filter) iter.Seq2[HistoryEntry, error] {
	return func(yield func(HistoryEntry, error) bool) {
		under, err := f.Under.location()
		if err == nil {
			var after journal.Location
			if after, err = f.After.location(); err == nil {
				err = f.each(r, under, after, func(e HistoryEntry) bool { return yield(e, nil) })
			}
		}
		if err != nil && !errors.Is(err, errStop) {
			yield(HistoryEntry{}, err)
		}
	}
}

// each calls visit with the entries that meet the filter. It returns errStop once visit returns
// false.
func (f *Filter) each(r Reader, under, after journal.Location, visit func(HistoryEntry) bool) error {
	w := walk{r: r}
	for e, err := range w.entries(under, after) {
		if err != nil {
			return err
		}
		if len(f.Statuses) > 0 && e.peeks && !slices.Contains(f.Statuses, e.peeked) ||
			f.Name != "" && !glob(f.Name, w.lastName(e.loc)) {
			continue
		}
		entry, err := e.decode()
		if err != nil {
			return err
		}
		if len(f.Kinds) > 0 && !slices.Contains(f.Kinds, entry.Kind) ||
			len(f.Statuses) > 0 && !slices.Contains(f.Statuses, entry.Status) ||
			!f.Since.IsZero() && entry.Created.Before(f.Since) ||
			!f.Before.IsZero() && !entry.Created.Before(f.Before) {
			continue
		}
		shown, err := w.show(e, entry)
		if err != nil {
			return err
		}
		if !visit(shown) {
			return errStop
		}
	}
	return nil
}

// A walk iterates over the history of a run without an image of it.
type walk struct {
	r     Reader
	names *journal.Names
}

// A walked is the current entry of a walk. It is valid until the next one.
type walked struct {
	r      Reader
	loc    journal.Location
	size   int // of its row
	peeks  bool
	peeked EntryStatus
	value  []byte
	rec    *record // if it comes from an image
}

// errForm1 ends the scan of a walk that met form 1.
var errForm1 = errors.New("form 1")

// entries returns the entries under a location, itself included, that come after another one.
// Entries of form 1 can only be read together, so at the first of them it continues over an image.
func (w *walk) entries(under, after journal.Location) iter.Seq2[*walked, error] {
	return func(yield func(*walked, error) bool) {
		var err error
		if w.names, err = journal.LoadNames(w.r); err != nil {
			yield(nil, err)
			return
		}
		start := journal.HistoryKey(nil, under)
		if after != nil {
			if next := append(journal.HistoryKey(nil, after), 0); bytes.Compare(next, start) > 0 {
				start = next
			}
		}
		last := after
		err = w.r.Scan(start, journal.HistoryEnd(nil, under), func(key, value []byte) error {
			e := walked{r: w.r, loc: journal.Location(key[len(journal.HistoryPrefix):]),
				size: len(key) + len(value), value: value}
			form, err := journal.FormOf("entry", value)
			switch {
			case err != nil:
				return journal.Corrupt(key, err)
			case form == journal.Form1:
				return errForm1
			}
			if _, err := e.loc.Segments(); err != nil {
				return journal.Corrupt(key, err)
			}
			p, ok := journal.PeekEntry(value)
			e.peeks, e.peeked = ok, p.Status
			last = append(last[:0:0], e.loc...)
			if !yield(&e, nil) {
				return errStop
			}
			return nil
		})
		if errors.Is(err, errForm1) {
			err = w.adopted(under, last, yield)
		}
		if err != nil && !errors.Is(err, errStop) {
			yield(nil, err)
		}
	}
}

// adopted continues entries over an image.
func (w *walk) adopted(under, after journal.Location, yield func(*walked, error) bool) error {
	im, err := loadImage(w.r)
	if err != nil {
		return err
	}
	w.names = im.names
	records := im.under(under)
	for i := range records {
		rec := &records[i]
		if after != nil && bytes.Compare(rec.loc, after) <= 0 {
			continue
		}
		e := walked{r: w.r, loc: rec.loc, size: len(journal.HistoryPrefix) + len(rec.loc) + len(rec.value), rec: rec}
		if entry, err := rec.header(); err != nil {
			return err
		} else {
			e.peeks, e.peeked = true, entry.Status
		}
		if !yield(&e, nil) {
			return errStop
		}
	}
	return nil
}

// decode returns the entry. Its payloads are valid until the next step of the walk.
func (e *walked) decode() (*Entry, error) {
	if e.rec != nil {
		return e.rec.header()
	}
	entry, err := decodeEntry(journal.HistoryKey(nil, e.loc), e.value)
	return &entry, err
}

// metadata returns the metadata of the entry, nil if it has none.
func (e *walked) metadata(entry *Entry) (*Metadata, error) {
	if entry.ID == 0 {
		return nil, nil
	}
	if e.rec != nil {
		return e.rec.im.metadata(entry.ID), nil
	}
	key := journal.MetadataKey(nil, entry.ID)
	value, ok, err := e.r.Get(key)
	if err != nil || !ok {
		return nil, err
	}
	m, err := decodeMetadata(key, value)
	return &m, err
}

// show returns an entry in the form for programs and people. It shares no memory with the walk.
func (w *walk) show(e *walked, entry *Entry) (HistoryEntry, error) {
	h := HistoryEntry{
		ID: entryID(e.loc), Path: w.names.Path(e.loc), Kind: entry.Kind, Status: entry.Status, Ordinal: entry.Ordinal, Seq: entry.Seq,
		Created: entry.Created, Ended: entry.Ended, Codec: entry.Codec, Sensitive: entry.Sensitive, Failure: shownFailure(entry.Failure, entry.Sensitive),
		Deadline: entry.Deadline, Iteration: entry.Iteration, Winner: entry.Winner, Queues: entry.Queues, Messages: len(entry.Messages),
		Resolved: entry.Resolved, Latest: entry.Latest, Program: entry.Program, Branches: max(int(entry.Count), len(entry.Branches)), Bytes: e.size,
	}
	if entry.Child.Type != "" {
		child := entry.Child
		h.Child = &child
	}
	for i := range entry.Large {
		h.Large += entry.Large[i].Size
	}
	if !entry.Sensitive {
		h.Output, h.State = bytes.Clone(entry.Output), bytes.Clone(entry.State)
	}
	m, err := e.metadata(entry)
	if m != nil {
		h.Attempts, h.LastAttempt, h.Due = m.Attempts, m.LastAttempt, m.Due
		if !container(entry.Kind) { // otherwise it is of steps inside that are deleted
			h.Undone = m.Undone
		}
		h.LastFailure, h.UndoFailure = shownFailure(m.Failure, entry.Sensitive),
			shownFailure(m.UndoFailure, entry.Sensitive)
	}
	return h, err
}

// shownFailure copies a failure, without the data if its entry is sensitive.
func shownFailure(f *Failure, sensitive bool) *Failure {
	if f == nil {
		return nil
	}
	shown := *f
	if shown.Data = bytes.Clone(f.Data); sensitive {
		shown.Data, shown.Metadata = nil, nil
	}
	return &shown
}

// lastName returns the name of an entry itself. For an iteration that is the name of the loop.
func (w *walk) lastName(loc journal.Location) string {
	segments, err := loc.Segments()
	if err != nil || len(segments) == 0 {
		return ""
	}
	return w.names.Name(segments[len(segments)-1].Name)
}

// glob reports whether a text matches a pattern of * and ?.
func glob(pattern, text string) bool {
	p, t := []rune(pattern), []rune(text)
	star, from := -1, 0 // the last star, and the place in t from which it was tried last
	i, j := 0, 0
	for j < len(t) {
		switch {
		case i < len(p) && p[i] == '*':
			star, from = i, j
			i++
		case i < len(p) && (p[i] == '?' || p[i] == t[j]):
			i, j = i+1, j+1
		case star >= 0:
			from++
			i, j = star+1, from
		default:
			return false
		}
	}
	for i < len(p) && p[i] == '*' {
		i++
	}
	return i == len(p)
}

func quoteID(id EntryID) string { return strconv.Quote(string(id)) }

// A Delta is a change of a history.
type Delta struct {
	// Entries are the new and the changed entries, in the order of History; Removed are the ids of
	// the removed ones.
	Entries []HistoryEntry `json:"entries,omitempty"`
	Removed []EntryID      `json:"removed,omitempty"`
	// Status is set if the result of ReadStatus may have changed.
	Status bool `json:"status,omitempty"`
}

// Changed returns the change of the history after rows with these keys were written or removed. It
// ignores keys of other kinds. Rows of form 1 are shown one by one, without the data that other
// rows add to them.
func Changed(r Reader, keys [][]byte) (Delta, error) {
	var d Delta
	w := walk{r: r}
	var err error
	if w.names, err = journal.LoadNames(r); err != nil {
		return d, err
	}
	places := map[string]bool{}
	metadata := map[uint32]bool{}
	for _, key := range keys {
		if keyspace.KindWorkflow.Check(key) != nil {
			continue
		}
		d.Status = true
		if keyspace.WorkflowHistory.Has(key) {
			places[string(key[len(journal.HistoryPrefix):])] = true
		} else if number, err := keyspace.WorkflowMetadata.Parse(key); err == nil {
			metadata[number] = true
		}
	}
	if len(metadata) > 0 {
		// A row of metadata does not name its entry.
		start, end := keyspace.WorkflowHistory.Range()
		err := r.Scan(start, end, func(key, value []byte) error {
			if p, ok := journal.PeekEntry(value); !ok || p.Flags&journal.FlagID == 0 {
				return nil
			}
			e, err := decodeEntry(key, value)
			if err == nil && metadata[e.ID] {
				places[string(key[len(journal.HistoryPrefix):])] = true
			}
			return err
		})
		if err != nil {
			return d, err
		}
	}
	sorted := make([]string, 0, len(places))
	for place := range places {
		sorted = append(sorted, place)
	}
	slices.Sort(sorted)
	for _, place := range sorted {
		loc := journal.Location(place)
		key := journal.HistoryKey(nil, loc)
		value, ok, err := r.Get(key)
		if err != nil {
			return d, err
		}
		if !ok {
			d.Removed = append(d.Removed, entryID(loc))
			continue
		}
		entry, err := decodeEntry(key, value)
		if err != nil {
			return d, err
		}
		shown, err := w.show(&walked{r: r, loc: loc, size: len(key) + len(value), value: value}, &entry)
		if err != nil {
			return d, err
		}
		d.Entries = append(d.Entries, shown)
	}
	return d, nil
}
