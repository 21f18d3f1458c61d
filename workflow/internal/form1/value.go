// Package form1 reads histories that another engine wrote: BARE, with payloads in CBOR. It never
// writes them. docs/keyspace.md says how each kind is understood.
package form1

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

// null is the result of an operation that ended and returned nothing.
var null = []byte{0xF6}

// Status words of metadata.
const (
	metaPending = iota
	metaRunning
	metaCompleted
	metaFailed
	metaExhausted
	metaLast = metaExhausted
)

// Metadata has more fields than metadata of form 2.
type Metadata struct {
	journal.Metadata
	Number             uint32 // set by the caller, instead of the id
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

// optional returns nil if the value is absent, and a non-nil slice if it is empty.
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

// A branch is the data of one branch in a join or race.
type branch struct {
	name    string
	status  journal.EntryStatus
	output  []byte
	failure string
}

// An entry is a decoded entry with the data that has no field in journal.Entry.
type entry struct {
	journal.Entry
	id       string
	loc      journal.Location
	branches []branch
}

// DecodeEntry decodes an entry and returns the data of its own value. Adopt adds the data of its
// metadata and of other entries. Payloads alias value.
func DecodeEntry(value []byte) (journal.Entry, error) {
	e, err := parse(value)
	return e.Entry, err
}

func parse(value []byte) (e entry, err error) {
	form, err := journal.FormOf("entry", value)
	if err != nil {
		return e, err
	}
	if form != journal.Form1 {
		return e, &journal.SyntaxError{What: "entry of form 1", Offset: 0, Reason: fmt.Sprintf("is of form %d", form)}
	}
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
	e.Kind = journal.Kind(r.tag(uint64(journal.KindVersion), "kind"))
	switch e.Kind {
	case journal.KindStep:
		e.Output = r.optional()
		if text := r.optional(); text != nil {
			e.Failure = &journal.Failure{Message: string(text)}
		}
		if e.Output != nil {
			e.Status, e.Failure = journal.Completed, nil
		}
	case journal.KindLoop:
		e.State, e.Iteration = nonNil(r.Bytes()), r.uint32()
		if e.Output = r.optional(); e.Output != nil {
			e.Status = journal.Completed
		}
	case journal.KindSleep:
		e.Deadline = r.time()
		e.Status = [...]journal.EntryStatus{journal.Pending, journal.Completed,
			journal.Canceled}[min(r.tag(2, "sleep state"), 2)]
	case journal.KindMessage:
		name, data := r.String(), nonNil(r.Bytes())
		e.Status, e.Output, e.Queues = journal.Completed, data, []string{name}
		if m, ok := decodeMessage(name, data); ok {
			e.Messages = []journal.Delivery{m}
		}
	case journal.KindCheckpoint:
		e.Status, e.Program = journal.Completed, r.String()
	case journal.KindJoin:
		e.branches = r.branches()
		e.join()
	case journal.KindRace:
		winner, won := "", r.present()
		if won {
			winner = r.String()
		}
		e.branches = r.branches()
		if won {
			e.race(winner)
		}
	case journal.KindRemoved:
		e.Status, e.Resolved = journal.Completed, uint32(kindOf(r.String()))
		if r.present() {
			e.Program = r.String()
		}
	case journal.KindVersion:
		e.Status, e.Resolved, e.Latest = journal.Completed, r.uint32(), r.uint32()
	}
	return e, r.End()
}

func nonNil(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

func (r *bare) branches() (list []branch) {
	for n := r.Count(); n > 0 && r.Err == nil; n-- {
		b := branch{name: r.String()}
		// Pending and running mean the same here: not over.
		b.status = [...]journal.EntryStatus{journal.Pending, journal.Pending, journal.Completed,
			journal.Failed, journal.Canceled}[min(r.tag(4, "branch status"), 4)]
		b.output = r.optional()
		b.failure = string(r.optional())
		list = append(list, b)
	}
	return list
}

// join derives the result of a join from its branches.
func (e *entry) join() {
	e.Count = uint32(len(e.branches))
	e.Status = journal.Completed
	for _, b := range e.branches {
		switch b.status {
		case journal.Completed:
		case journal.Failed:
			if e.Failure == nil {
				e.Failure = &journal.Failure{Message: "branch " + strconv.Quote(b.name) + ": " + b.failure}
			}
		default:
			e.Status, e.Failure = journal.Pending, nil
			return
		}
	}
	if e.Failure != nil {
		e.Status = journal.Failed
		return
	}
	e.Output = null
}

// race derives the result of a won race from its branches.
func (e *entry) race(winner string) {
	e.Status, e.Winner, e.Count, e.Output = journal.Completed, winner, uint32(len(e.branches)), null
	for _, b := range e.branches {
		if b.name == winner && b.output != nil {
			e.Output = b.output
		}
	}
}

// kindOf returns the kind of a word in form 1.
func kindOf(word string) journal.Kind {
	switch word {
	case "loop":
		return journal.KindLoop
	case "sleep":
		return journal.KindSleep
	case "message":
		return journal.KindMessage
	case "rollback_checkpoint":
		return journal.KindCheckpoint
	case "join":
		return journal.KindJoin
	case "race":
		return journal.KindRace
	case "removed":
		return journal.KindRemoved
	case "version_check":
		return journal.KindVersion
	}
	return journal.KindStep
}

// decodeMessage decodes the map with the data of a message. ok is false for other data, such as the
// count of a wait.
func decodeMessage(name string, data []byte) (m journal.Delivery, ok bool) {
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
	m.ID = messageID(fields.ID)
	return m, true
}

// messageID returns the id of a message: a number, or a number in a string. For other strings it is
// 0.
func messageID(raw []byte) uint64 {
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

// DecodeMetadata decodes metadata.
func DecodeMetadata(value []byte) (m Metadata, err error) {
	form, err := journal.FormOf("metadata", value)
	if err != nil {
		return m, err
	}
	if form != journal.Form1 {
		return m, &journal.SyntaxError{What: "metadata", Offset: 0,
			Reason: fmt.Sprintf("form %d under an id of form 1", form)}
	}
	r := bare{journal.Decoder{What: "metadata of form 1", B: value, Off: 2}}
	m.status = byte(r.tag(metaLast, "status"))
	if text := r.optional(); text != nil {
		m.Failure = &journal.Failure{Message: string(text)}
	}
	m.Attempts, m.LastAttempt, m.created = r.uint32(), r.time(), r.time()
	m.completed, m.Undone = r.optionalTime(), r.optionalTime()
	if text := r.optional(); text != nil {
		m.UndoFailure = &journal.Failure{Message: string(text)}
	}
	return m, r.End()
}

// complete adds the data of the metadata to an entry. If the metadata says completed, the entry is,
// even without a result: form 1 stores none for a function that returns nothing.
func (m *Metadata) complete(e *journal.Entry) {
	e.Created = m.created
	switch {
	case e.Kind != journal.KindStep && e.Kind != journal.KindLoop:
		// Entries of other kinds say themselves whether they are over.
	case m.status == metaCompleted:
		e.Status, e.Failure = journal.Completed, nil
		if e.Output == nil {
			e.Output = null
		}
	case m.status == metaExhausted:
		e.Status, e.Output = journal.Exhausted, nil
		if e.Failure == nil {
			e.Failure = m.Failure
		}
		if e.Failure == nil {
			e.Failure = &journal.Failure{Message: "exhausted"}
		}
	case e.Status == journal.Pending:
		// It failed, and would have been tried again. The delay was not stored, but follows from
		// the attempts.
		e.Failure = nil
		if m.status == metaFailed {
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

// DecodeFailure reads the error of a run: a CBOR map with its name, message, stack and more.
func DecodeFailure(value []byte) (*journal.Failure, error) {
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
	return &journal.Failure{Type: row.Name, Message: row.Message}, nil
}
