package replay

import (
	"bytes"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/fxamacker/cbor/v2"

	"github.com/cairn-run/cairn/workflow/internal/journal"
)

// adopt turns records of form 1 into form 2 in memory, so that replay and display need only one form:
//
//   - A wait for messages called w has the records w:count, w:deadline and w:0, w:1 and so on; they become one receive w.
//   - A join or race has data of its branches; each branch gets an entry.
//   - An ended entry gets the number of a resolution: inner before outer, else in the order of keys, which within a scope is
//     the order in which names were first used.
//
// The rows themselves do not change. Numbers and new names are the same on each load until something is written. New writes
// get later numbers.
func (im *image) adopt() error {
	var added []record
	waits := map[string]*wait1{}
	var order []string
	for i := range im.records {
		rec := &im.records[i]
		if rec.form != journal.Form1 {
			continue
		}
		e, branches, err := rec.header1()
		if err != nil {
			return err
		}
		for _, b := range branches {
			branch, ok, err := im.branch1(rec, b)
			if err != nil {
				return err
			}
			if ok {
				added = append(added, branch)
			}
		}
		parent, name, part, ok := im.waitPart(rec, e)
		if !ok {
			continue
		}
		key := string(parent) + "\x00" + name
		w := waits[key]
		if w == nil {
			w = &wait1{parent: parent, name: name, count: -1}
			waits[key] = w
			order = append(order, key)
		}
		w.take(part, e)
		rec.loc = nil // replaced
	}
	for _, key := range order {
		w := waits[key]
		name, _, err := im.names.Index(w.name)
		if err != nil {
			return journal.Corrupt(journal.HistoryKey(nil, w.parent), err)
		}
		loc := journal.ChildName(nil, w.parent, name)
		added = append(added, record{im: im, loc: loc, form: journal.Form1, decoded: w.entry()})
	}
	im.records = slices.DeleteFunc(im.records, func(rec record) bool { return rec.loc == nil })
	for _, rec := range added {
		i, there := slices.BinarySearchFunc(im.records, rec.loc, func(rec record, loc journal.Location) int { return bytes.Compare(rec.loc, loc) })
		if !there { // else it was written since, in form 2
			im.records = slices.Insert(im.records, i, rec)
		}
	}
	im.resolve1()
	return nil
}

// header1 decodes a record of form 1, and returns what it says of branches.
func (rec *record) header1() (*Entry, []branch1, error) {
	key := journal.HistoryKey(nil, rec.loc)
	e, err := parseEntry1(rec.value)
	if err != nil {
		return nil, nil, journal.Corrupt(key, err)
	}
	if !bytes.Equal(e.loc, rec.loc) {
		return nil, nil, journal.Corrupt(key, &SyntaxError{What: "entry of form 1", Offset: 2, Reason: "is that of another location"})
	}
	if id := rec.im.ids1[e.id]; id != 0 {
		e.ID = id
		rec.im.facts1[id].complete(&e.Entry)
	}
	rec.decoded, rec.value = &e.Entry, nil
	return rec.decoded, e.branches, nil
}

// branch1 returns the record of a branch, which it adds to those of the container. ok is false if it is not over: then there is
// nothing to say of it.
func (im *image) branch1(container *record, b branch1) (rec record, ok bool, err error) {
	name, _, err := im.names.Index(b.name)
	if err != nil {
		return rec, false, journal.Corrupt(journal.HistoryKey(nil, container.loc), err)
	}
	container.decoded.Branches = append(container.decoded.Branches, name)
	if !b.status.Over() {
		return rec, false, nil
	}
	from := container.decoded
	e := &Entry{Kind: KindScope, Status: b.status, Created: from.Created, Ended: from.Ended}
	switch b.status {
	case Completed:
		if e.Output = b.output; e.Output == nil {
			e.Output = cborNull
		}
	case Failed:
		e.Failure = &Failure{Message: b.failure}
	case Canceled:
		e.Failure = &Failure{Message: b.failure, Reason: "canceled"}
	}
	return record{im: im, loc: journal.ChildName(nil, container.loc, name), form: journal.Form1, decoded: e}, true, nil
}

// A wait1 is a wait for messages, gathered from its parts.
type wait1 struct {
	parent   journal.Location
	name     string
	count    int // of messages; -1 if it is not recorded
	deadline *Entry
	messages map[int]*Entry
}

// waitPart reports whether a record is a part of a wait for messages, and of which: the part is what follows the colon.
func (im *image) waitPart(rec *record, e *Entry) (parent journal.Location, name, part string, ok bool) {
	if e.Kind != KindMessage && e.Kind != KindSleep {
		return nil, "", "", false
	}
	segments, err := rec.loc.Segments()
	if err != nil || len(segments) == 0 || segments[len(segments)-1].Loop {
		return nil, "", "", false
	}
	full := im.names.Name(segments[len(segments)-1].Name)
	colon := strings.LastIndexByte(full, ':')
	if colon <= 0 {
		return nil, "", "", false
	}
	name, part = full[:colon], full[colon+1:]
	if e.Kind == KindSleep {
		ok = part == "deadline"
	} else if ok = part == "count"; !ok {
		n, err := strconv.ParseUint(part, 10, 31)
		ok = err == nil && strconv.FormatUint(n, 10) == part
	}
	return journal.ParentOf(rec.loc), name, part, ok
}

func (w *wait1) take(part string, e *Entry) {
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
			w.messages = map[int]*Entry{}
		}
		i, _ := strconv.Atoi(part) // waitPart has checked it
		w.messages[i] = e
	}
}

// entry returns the receive that the wait is.
func (w *wait1) entry() *Entry {
	e := &Entry{Kind: KindReceive}
	if w.deadline != nil {
		e.Deadline = w.deadline.Deadline
	}
	for i := 0; w.messages[i] != nil; i++ {
		from := w.messages[i]
		m := Delivery{Queue: from.Queues[0], Body: from.Output}
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
		e.Status = Completed
	case w.deadline != nil && w.deadline.Status == Pending && w.count < 0:
		e.Status = Pending
	case w.deadline != nil && w.deadline.Status != Canceled:
		e.Status, e.Failure = TimedOut, &Failure{Message: "timed out", Reason: "timeout"}
	case w.count >= 0:
		e.Status = Completed
	}
	return e
}

// resolve1 numbers what is over among the records of form 1.
func (im *image) resolve1() {
	var seq uint64
	var open []*record
	end := func(rec *record) {
		if rec.form == journal.Form1 && rec.decoded.Status.Over() {
			seq++
			rec.decoded.Seq = seq
		}
	}
	for i := range im.records {
		rec := &im.records[i]
		for len(open) > 0 && !open[len(open)-1].loc.Encloses(rec.loc) {
			end(open[len(open)-1])
			open = open[:len(open)-1]
		}
		open = append(open, rec)
	}
	for i := len(open) - 1; i >= 0; i-- {
		end(open[i])
	}
}
