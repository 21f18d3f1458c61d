package form1

import (
	"bytes"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/fxamacker/cbor/v2"

	"github.com/cairn-run/cairn/workflow/internal/journal"
)

// A Record is an entry and its place.
type Record struct {
	Loc   journal.Location
	Value []byte         // the stored value; nil in a record of Adopt
	Entry *journal.Entry // in form 2; nil in a record for Adopt
}

// Adopt turns the records of a history into form 2 in memory, so that replay and display need only
// one form:
//
//   - A wait for messages called w has the records w:count, w:deadline and w:0, w:1 and so on; they
//     become one receive w.
//   - A join or race has data of its branches; each branch gets an entry.
//   - An ended entry gets the number of a resolution: inner before outer, else in the order of
//     keys, which within a scope is the order in which names were first used.
//
// Records are in the order of places, one for each; stored ones take precedence over derived ones.
// Numbers do not depend on later rows in form 2. about has the metadata by the ids of entries. New
// names are added to names. Until something is written, numbers and new names are always the same.
func Adopt(rows []Record, about map[string]*Metadata, names *journal.Names) ([]Record, error) {
	h := history{names: names, waits: make(map[string]*wait)}
	for _, row := range rows {
		if err := h.take(row, about); err != nil {
			return nil, err
		}
	}
	for _, w := range h.order {
		if err := h.add(w.parent, w.name, w.entry()); err != nil {
			return nil, err
		}
	}
	h.records = append(h.records, h.derived...) // at the same place, stored records take precedence
	slices.SortStableFunc(h.records, func(a, b Record) int { return bytes.Compare(a.Loc, b.Loc) })
	h.records = slices.CompactFunc(h.records, func(a, b Record) bool { return bytes.Equal(a.Loc, b.Loc) })
	h.resolve()
	return h.records, nil
}

// A history is the result of Adopt so far.
type history struct {
	names   *journal.Names
	records []Record
	derived []Record // from parts of other records: branches, then waits
	waits   map[string]*wait
	order   []*wait
}

// take adds one row: an entry with its branches, or a part of a wait.
func (h *history) take(row Record, about map[string]*Metadata) error {
	key := journal.HistoryKey(nil, row.Loc)
	e, err := parse(row.Value)
	if err != nil {
		return journal.Corrupt(key, err)
	}
	if !bytes.Equal(e.loc, row.Loc) {
		return journal.Corrupt(key,
			&journal.SyntaxError{What: "entry of form 1", Offset: 2, Reason: "is that of another location"})
	}
	if m := about[e.id]; m != nil {
		e.ID = m.Number
		m.complete(&e.Entry)
	}
	for _, b := range e.branches {
		if err := h.branch(row.Loc, &e.Entry, b); err != nil {
			return err
		}
	}
	parent, name, part, ok := h.part(row.Loc, e.Kind)
	if !ok {
		h.records = append(h.records, Record{Loc: row.Loc, Entry: &e.Entry})
		return nil
	}
	of := string(parent) + "\x00" + name
	w := h.waits[of]
	if w == nil {
		w = &wait{parent: parent, name: name, count: -1}
		h.waits[of] = w
		h.order = append(h.order, w)
	}
	w.take(part, &e.Entry)
	return nil
}

// add adds an entry for which there is no row.
func (h *history) add(parent journal.Location, name string, e *journal.Entry) error {
	index, _, err := h.names.Index(name)
	if err != nil {
		return journal.Corrupt(journal.HistoryKey(nil, parent), err)
	}
	h.derived = append(h.derived, Record{Loc: journal.ChildName(nil, parent, index), Entry: e})
	return nil
}

// branch adds a branch to those of its container. A branch that is not over gets no entry.
func (h *history) branch(loc journal.Location, container *journal.Entry, b branch) error {
	name, _, err := h.names.Index(b.name)
	if err != nil {
		return journal.Corrupt(journal.HistoryKey(nil, loc), err)
	}
	container.Branches = append(container.Branches, name)
	e := &journal.Entry{Kind: journal.KindScope, Status: b.status, Created: container.Created, Ended: container.Ended}
	switch b.status {
	case journal.Completed:
		if e.Output = b.output; e.Output == nil {
			e.Output = null
		}
	case journal.Failed:
		e.Failure = &journal.Failure{Message: b.failure}
	case journal.Canceled:
		e.Failure = &journal.Failure{Message: b.failure, Reason: "canceled"}
	default:
		return nil
	}
	return h.add(loc, b.name, e)
}

// A wait is a wait for messages, gathered from its parts.
type wait struct {
	parent   journal.Location
	name     string
	count    int // of messages; -1 if it is not recorded
	deadline *journal.Entry
	messages map[int]*journal.Entry
}

// part reports whether an entry is a part of a wait for messages, and returns the wait and the
// part: the text after the colon.
func (h *history) part(loc journal.Location, kind journal.Kind) (parent journal.Location, name, part string, ok bool) {
	if kind != journal.KindMessage && kind != journal.KindSleep {
		return nil, "", "", false
	}
	segments, err := loc.Segments()
	if err != nil || len(segments) == 0 || segments[len(segments)-1].Loop {
		return nil, "", "", false
	}
	full := h.names.Name(segments[len(segments)-1].Name)
	colon := strings.LastIndexByte(full, ':')
	if colon <= 0 {
		return nil, "", "", false
	}
	name, part = full[:colon], full[colon+1:]
	if kind == journal.KindSleep {
		ok = part == "deadline"
	} else if ok = part == "count"; !ok {
		n, err := strconv.ParseUint(part, 10, 31)
		ok = err == nil && strconv.FormatUint(n, 10) == part
	}
	return journal.ParentOf(loc), name, part, ok
}

func (w *wait) take(part string, e *journal.Entry) {
	switch part {
	case "deadline":
		w.deadline = e
	case "count":
		var n float64
		if cbor.Unmarshal(e.Output, &n) == nil && n >= 0 && n <= math.MaxInt32 {
			w.count = int(n)
		}
	default:
		if w.messages == nil {
			w.messages = map[int]*journal.Entry{}
		}
		i, _ := strconv.Atoi(part) // part has checked it
		w.messages[i] = e
	}
}

// entry returns the receive for the wait.
func (w *wait) entry() *journal.Entry {
	e := &journal.Entry{Kind: journal.KindReceive}
	if w.deadline != nil {
		e.Deadline = w.deadline.Deadline
	}
	for i := 0; w.messages[i] != nil; i++ {
		from := w.messages[i]
		m := journal.Delivery{Queue: from.Queues[0], Body: from.Output}
		if len(from.Messages) > 0 {
			m = from.Messages[0]
		}
		e.Messages = append(e.Messages, m)
		if !slices.Contains(e.Queues, m.Queue) {
			e.Queues = append(e.Queues, m.Queue)
		}
	}
	switch {
	case len(e.Messages) > 0:
		e.Status = journal.Completed
	case w.deadline != nil && w.deadline.Status == journal.Pending && w.count < 0:
		e.Status = journal.Pending
	case w.deadline != nil && w.deadline.Status != journal.Canceled:
		e.Status, e.Failure = journal.TimedOut, &journal.Failure{Message: "timed out", Reason: "timeout"}
	case w.count >= 0:
		e.Status = journal.Completed
	}
	return e
}

// resolve numbers the entries that are over.
func (h *history) resolve() {
	var seq uint64
	var open []Record
	end := func() {
		if last := open[len(open)-1]; last.Entry.Status.Over() {
			seq++
			last.Entry.Seq = seq
		}
		open = open[:len(open)-1]
	}
	for _, rec := range h.records {
		for len(open) > 0 && !open[len(open)-1].Loc.Encloses(rec.Loc) {
			end()
		}
		open = append(open, rec)
	}
	for len(open) > 0 {
		end()
	}
}
