package replay

import (
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/fxamacker/cbor/v2"

	"github.com/cairn-run/cairn/keyspace/tuple"
	"github.com/cairn-run/cairn/workflow/internal/journal"
)

// Values of form 1: BARE, with payloads in CBOR, as another engine writes them. They are read and never written.
// docs/keyspace.md says how each kind is understood.

// cborNull is what stands for the result of something that ended and returned nothing.
var cborNull = []byte{0xF6}

// Status words of metadata in form 1.
const (
	meta1Pending = iota
	meta1Running
	meta1Completed
	meta1Failed
	meta1Exhausted
	meta1Last = meta1Exhausted
)

// metadata1 is metadata of form 1, which knows more of its entry than ours does.
type metadata1 struct {
	Metadata
	status             byte
	created, completed time.Time
}

// bare reads BARE: integers of fixed size are little-endian, tags and lengths are uvarints.
type bare struct{ journal.Decoder }

func (r *bare) uint32() uint32 {
	if b := r.Take(4); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

func (r *bare) uint64() uint64 {
	if b := r.Take(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

// tag reads the number of an alternative, up to last.
func (r *bare) tag(last uint64, what string) uint64 {
	at := r.Off
	v := r.Uvarint()
	if r.Err == nil && v > last {
		r.Fail(at, "unknown "+what+" "+strconv.FormatUint(v, 10))
	}
	return v
}

func (r *bare) present() bool { return r.tag(1, "presence") == 1 }

// optional returns nil for what is absent, and no nil for what is there but empty.
func (r *bare) optional() []byte {
	if !r.present() {
		return nil
	}
	if b := r.Bytes(); b != nil {
		return b
	}
	return []byte{}
}

func (r *bare) optionalTime() time.Time {
	if !r.present() {
		return time.Time{}
	}
	return r.time()
}

func (r *bare) time() time.Time {
	at := r.Off
	v := r.uint64()
	if v > math.MaxInt64 {
		r.Fail(at, "time out of range")
		return time.Time{}
	}
	return journal.FromMillis(int64(v))
}

// A branch1 is what a join or race of form 1 says of one of its branches.
type branch1 struct {
	name    string
	status  EntryStatus
	output  []byte
	failure string
}

// An entry1 is an entry of form 1 with what has no place in an Entry.
type entry1 struct {
	Entry
	id       string
	loc      journal.Location
	branches []branch1
}

// decodeEntry1 takes an entry of form 1 apart and returns its id too. Payloads alias value.
func decodeEntry1(value []byte) (Entry, string, error) {
	e, err := parseEntry1(value)
	return e.Entry, e.id, err
}

func parseEntry1(value []byte) (e entry1, err error) {
	r := bare{journal.Decoder{What: "entry of form 1", B: value, Off: 2}}
	e.id = r.String()
	for n := r.Count(); n > 0 && r.Err == nil; n-- {
		if r.tag(1, "segment") == 0 {
			e.loc = tuple.AppendUint(e.loc, uint64(r.uint32()))
			continue
		}
		name, iteration := r.uint32(), r.uint32()
		e.loc = journal.ChildIteration(nil, e.loc, name, iteration)
	}
	e.Kind = Kind(r.tag(uint64(KindVersion), "kind"))
	switch e.Kind {
	case KindStep:
		e.Output = r.optional()
		if text := r.optional(); text != nil {
			e.Failure = &Failure{Message: string(text)}
		}
		if e.Output != nil {
			e.Status, e.Failure = Completed, nil
		}
	case KindLoop:
		e.State, e.Iteration = nonNil(r.Bytes()), r.uint32()
		if e.Output = r.optional(); e.Output != nil {
			e.Status = Completed
		}
	case KindSleep:
		e.Deadline = r.time()
		e.Status = [...]EntryStatus{Pending, Completed, Canceled}[min(r.tag(2, "sleep state"), 2)]
	case KindMessage:
		name, data := r.String(), nonNil(r.Bytes())
		e.Status, e.Output, e.Queues = Completed, data, []string{name}
		if m, ok := decodeMessage1(name, data); ok {
			e.Messages = []Delivery{m}
		}
	case KindCheckpoint:
		e.Status, e.Program = Completed, r.String()
	case KindJoin:
		e.branches = r.branches()
		e.join()
	case KindRace:
		winner, won := "", r.present()
		if won {
			winner = r.String()
		}
		e.branches = r.branches()
		if won {
			e.race(winner)
		}
	case KindRemoved:
		e.Status, e.Resolved = Completed, uint32(kindOf1(r.String()))
		if r.present() {
			e.Program = r.String()
		}
	case KindVersion:
		e.Status, e.Resolved, e.Latest = Completed, r.uint32(), r.uint32()
	}
	return e, r.End()
}

func nonNil(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

func (r *bare) branches() (list []branch1) {
	for n := r.Count(); n > 0 && r.Err == nil; n-- {
		b := branch1{name: r.String()}
		// Pending and running mean the same here: not over.
		b.status = [...]EntryStatus{Pending, Pending, Completed, Failed, Canceled}[min(r.tag(4, "branch status"), 4)]
		b.output = r.optional()
		b.failure = string(r.optional())
		list = append(list, b)
	}
	return list
}

// join derives the result of a join from its branches.
func (e *entry1) join() {
	e.Count = uint32(len(e.branches))
	e.Status = Completed
	for _, b := range e.branches {
		switch b.status {
		case Completed:
		case Failed:
			if e.Failure == nil {
				e.Failure = &Failure{Message: "branch " + strconv.Quote(b.name) + ": " + b.failure}
			}
		default:
			e.Status, e.Failure = Pending, nil
			return
		}
	}
	if e.Failure != nil {
		e.Status = Failed
		return
	}
	e.Output = cborNull
}

// race derives the result of a won race from its branches.
func (e *entry1) race(winner string) {
	e.Status, e.Winner, e.Count, e.Output = Completed, winner, uint32(len(e.branches)), cborNull
	for _, b := range e.branches {
		if b.name == winner && b.output != nil {
			e.Output = b.output
		}
	}
}

// kindOf1 returns the kind that form 1 has a word for.
func kindOf1(word string) Kind {
	switch word {
	case "loop":
		return KindLoop
	case "sleep":
		return KindSleep
	case "message":
		return KindMessage
	case "rollback_checkpoint":
		return KindCheckpoint
	case "join":
		return KindJoin
	case "race":
		return KindRace
	case "removed":
		return KindRemoved
	case "version_check":
		return KindVersion
	}
	return KindStep
}

// decodeMessage1 reads the map that is the data of a message. Other data, such as the count of a wait, is none.
func decodeMessage1(name string, data []byte) (m Delivery, ok bool) {
	if len(data) == 0 || data[0]>>5 != 5 {
		return m, false
	}
	var fields struct {
		ID        cbor.RawMessage `cbor:"id"`
		Name      string          `cbor:"name"`
		Body      cbor.RawMessage `cbor:"body"`
		CreatedAt float64         `cbor:"createdAt"`
	}
	if err := cbor.Unmarshal(data, &fields); err != nil || fields.Body == nil {
		return m, false
	}
	m.Queue, m.Body = fields.Name, fields.Body
	if m.Queue == "" {
		m.Queue = name
	}
	if ms := fields.CreatedAt; ms >= 1 && ms < 1<<53 {
		m.Sent = journal.FromMillis(int64(ms))
	}
	m.ID = messageID1(fields.ID)
	return m, true
}

// messageID1 returns the id of a message, which is a number, a number in a string, or a string, for which it is 0.
func messageID1(raw []byte) uint64 {
	var number uint64
	if cbor.Unmarshal(raw, &number) == nil {
		return number
	}
	var float float64
	if cbor.Unmarshal(raw, &float) == nil && float >= 0 && float < 1<<53 {
		return uint64(float)
	}
	var text string
	if cbor.Unmarshal(raw, &text) == nil {
		if n, err := strconv.ParseUint(text, 10, 64); err == nil {
			return n
		}
	}
	return 0
}

func decodeMetadata1(value []byte) (m metadata1, err error) {
	form, err := journal.FormOf("metadata", value)
	if err != nil {
		return m, err
	}
	if form != journal.Form1 {
		return m, &SyntaxError{What: "metadata", Offset: 0, Reason: fmt.Sprintf("form %d under an id of form 1", form)}
	}
	r := bare{journal.Decoder{What: "metadata of form 1", B: value, Off: 2}}
	m.status = byte(r.tag(meta1Last, "status"))
	if text := r.optional(); text != nil {
		m.Failure = &Failure{Message: string(text)}
	}
	m.Attempts, m.LastAttempt, m.created = r.uint32(), r.time(), r.time()
	m.completed, m.Undone = r.optionalTime(), r.optionalTime()
	if text := r.optional(); text != nil {
		m.UndoFailure = &Failure{Message: string(text)}
	}
	return m, r.End()
}

// complete adds to an entry what only its metadata knows. An entry that metadata calls completed is that, whether it has a
// result or not: form 1 stores none for a function that returns nothing.
func (m *metadata1) complete(e *Entry) {
	e.Created = m.created
	switch {
	case e.Kind != KindStep && e.Kind != KindLoop:
		// Other kinds know themselves whether they are over.
	case m.status == meta1Completed:
		e.Status, e.Failure = Completed, nil
		if e.Output == nil {
			e.Output = cborNull
		}
	case m.status == meta1Exhausted:
		e.Status, e.Output = Exhausted, nil
		if e.Failure == nil {
			e.Failure = m.Failure
		}
		if e.Failure == nil {
			e.Failure = &Failure{Message: "exhausted"}
		}
	case e.Status == Pending:
		// It failed, and would have been tried again, after a delay that was not stored but follows from the attempts.
		e.Failure = nil
		if m.status == meta1Failed {
			m.Due = m.LastAttempt.Add(min(100*time.Millisecond<<min(m.Attempts, 16), 30*time.Second))
		}
	}
	if e.Status.Over() {
		e.Ended = m.completed
		if e.Ended.IsZero() {
			e.Ended = m.LastAttempt
		}
	}
}

// decodeFailure1 reads the error of a run: a CBOR map with its name, message, stack and more.
func decodeFailure1(value []byte) (*Failure, error) {
	var row struct {
		Name    string `cbor:"name"`
		Message string `cbor:"message"`
	}
	if err := cbor.Unmarshal(value, &row); err != nil {
		return nil, err
	}
	if row.Name == "Error" {
		row.Name = ""
	}
	return &Failure{Type: row.Name, Message: row.Message}, nil
}

// decodeEntry takes the value of an entry apart, whichever its form. Payloads alias value. The key is for errors. An entry of
// form 1 has what its value says by itself; what its metadata adds is added by record.entry.
func decodeEntry(key, value []byte) (Entry, error) {
	var e Entry
	form, err := journal.FormOf("entry", value)
	if err == nil {
		if form == journal.Form1 {
			e, _, err = decodeEntry1(value)
		} else {
			err = journal.DecodeEntry(&e, value)
		}
	}
	if err != nil {
		return Entry{}, journal.Corrupt(key, err)
	}
	return e, nil
}

// decodeMetadata takes the value of metadata apart, whichever its form. Progress aliases value. The key is for errors.
func decodeMetadata(key, value []byte) (Metadata, error) {
	var m Metadata
	form, err := journal.FormOf("metadata", value)
	if err == nil {
		if form == journal.Form1 {
			var m1 metadata1
			m1, err = decodeMetadata1(value)
			m = m1.Metadata
		} else {
			err = journal.DecodeMetadata(&m, value)
		}
	}
	if err != nil {
		return Metadata{}, journal.Corrupt(key, err)
	}
	return m, nil
}
