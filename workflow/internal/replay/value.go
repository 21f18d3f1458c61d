package replay

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/cairn-run/cairn/keyspace"
)

// Values of entries in form 2. docs/keyspace.md has the table of bytes.

// CodecCBOR is the Entry.Codec of payloads in CBOR.
const CodecCBOR uint8 = 0

// Flags of an entry: the optional parts that follow, in the order of the bits. The first byte has the most frequent flags.
const (
	flagNoOutput  = 1 << iota // Output is nil, and absent
	flagID                    // ID
	flagDeadline              // Deadline
	flagFailure               // Failure
	flagSensitive             // nothing follows
	flagIteration             // Iteration
	flagState                 // State
	flagLarge                 // payloads may be references
	flagWinner                // Winner
	flagQueues                // Queues
	flagMessages              // Messages
	flagVersion               // Resolved, Latest
	flagChild                 // Child, Program
	flagCount                 // Count
	flagBranches              // Branches
	flagEnded                 // Ended is set although the entry is not over
	flagOwed                  // Owed
	flagsKnown    = 1<<iota - 1
)

// What else could be nil has flags of its own.
const (
	failureType = 1 << iota
	failureCode
	failureMessage
	failureReason
	failureData
	failureMetadata
	failureOwn
	failureKnown = 1<<iota - 1
)

const (
	deliveryWantReply = 1 << iota
	deliveryNoBody
	deliveryKnown = 1<<iota - 1
)

// Payloads of an entry that can be large; a message's is payloadMessages plus its number.
const (
	payloadOutput = iota
	payloadState
	payloadFailure
	payloadMessages
)

// A largeRef stands for a payload that is in rows of its own.
type largeRef struct {
	payload int // which one of the entry
	size    uint64
	hash    keyspace.WorkflowHash
}

// find returns the reference of a payload, nil if it has none.
func findLarge(refs []largeRef, payload int) *largeRef {
	for i := range refs {
		if refs[i].payload == payload {
			return &refs[i]
		}
	}
	return nil
}

// appendEntry appends the value of an entry. Payloads with a reference in e.large are appended as that.
func appendEntry(dst []byte, e *Entry) ([]byte, error) {
	var flags uint64
	set := func(flag uint64, on bool) {
		if on {
			flags |= flag
		}
	}
	set(flagNoOutput, e.Output == nil && findLarge(e.large, payloadOutput) == nil)
	set(flagID, e.ID != 0)
	set(flagDeadline, !e.Deadline.IsZero())
	set(flagFailure, e.Failure != nil)
	set(flagSensitive, e.Sensitive)
	set(flagIteration, e.Iteration != 0)
	set(flagState, e.State != nil || findLarge(e.large, payloadState) != nil)
	set(flagLarge, len(e.large) > 0)
	set(flagWinner, e.Winner != "")
	set(flagQueues, len(e.Queues) > 0)
	set(flagMessages, len(e.Messages) > 0)
	set(flagVersion, e.Resolved != 0 || e.Latest != 0)
	set(flagChild, e.Program != "" || e.Child.Type != "" || len(e.Child.Key) > 0 || e.OnClose != 0)
	set(flagCount, e.Count != 0)
	set(flagBranches, len(e.Branches) > 0)
	timed := e.Status.Over() || !e.Ended.IsZero()
	set(flagEnded, timed && !e.Status.Over())
	set(flagOwed, e.Owed != 0)

	if e.Kind > kindLast || e.Status > statusLast {
		return dst, fmt.Errorf("workflow: entry of kind %d and status %d cannot be written", e.Kind, e.Status)
	}
	dst = append(dst, form2, 0, byte(e.Kind), byte(e.Status))
	dst = binary.AppendUvarint(dst, flags)
	dst = binary.AppendUvarint(dst, uint64(e.Ordinal))
	dst = binary.AppendUvarint(dst, e.Seq)
	created := millis(e.Created)
	dst = binary.AppendUvarint(dst, uint64(created))
	var duration int64
	if timed {
		duration = millis(e.Ended) - created
	}
	dst = binary.AppendUvarint(dst, uint64(duration))
	dst = append(dst, e.Codec)
	if flags&flagNoOutput == 0 {
		dst = appendPayload(dst, e.Output, e.large, payloadOutput)
	}
	if flags == 0 || flags == flagNoOutput {
		return dst, nil
	}
	if e.ID != 0 {
		dst = binary.AppendUvarint(dst, uint64(e.ID))
	}
	if flags&flagDeadline != 0 {
		dst = binary.AppendUvarint(dst, uint64(e.Deadline.UnixMilli()))
	}
	if e.Failure != nil {
		dst = appendFailure(dst, e.Failure, e.large)
	}
	if e.Iteration != 0 {
		dst = binary.AppendUvarint(dst, uint64(e.Iteration))
	}
	if flags&flagState != 0 {
		dst = appendPayload(dst, e.State, e.large, payloadState)
	}
	if e.Winner != "" {
		dst = appendString(dst, e.Winner)
	}
	if flags&flagQueues != 0 {
		dst = appendStrings(dst, e.Queues)
	}
	if flags&flagMessages != 0 {
		dst = binary.AppendUvarint(dst, uint64(len(e.Messages)))
		for i := range e.Messages {
			dst = appendDelivery(dst, &e.Messages[i], e.large, payloadMessages+i)
		}
	}
	if flags&flagVersion != 0 {
		dst = binary.AppendUvarint(dst, uint64(e.Resolved))
		dst = binary.AppendUvarint(dst, uint64(e.Latest))
	}
	if flags&flagChild != 0 {
		dst = appendString(dst, e.Child.Type)
		dst = appendStrings(dst, e.Child.Key)
		dst = append(appendString(dst, e.Program), e.OnClose)
	}
	if e.Count != 0 {
		dst = binary.AppendUvarint(dst, uint64(e.Count))
	}
	if flags&flagBranches != 0 {
		dst = binary.AppendUvarint(dst, uint64(len(e.Branches)))
		for _, name := range e.Branches {
			dst = binary.AppendUvarint(dst, uint64(name))
		}
	}
	if e.Owed != 0 {
		dst = binary.AppendUvarint(dst, uint64(e.Owed))
	}
	return dst, nil
}

// appendPayload appends a payload: its length and bytes, or, in an entry with flagLarge, twice its length, plus one if a
// hash follows in place of the bytes.
func appendPayload(dst, b []byte, refs []largeRef, payload int) []byte {
	if len(refs) == 0 {
		return appendBytes(dst, b)
	}
	if ref := findLarge(refs, payload); ref != nil {
		return append(binary.AppendUvarint(dst, ref.size<<1|1), ref.hash[:]...)
	}
	return append(binary.AppendUvarint(dst, uint64(len(b))<<1), b...)
}

func appendStrings(dst []byte, list []string) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(list)))
	for _, s := range list {
		dst = appendString(dst, s)
	}
	return dst
}

func appendFailure(dst []byte, f *Failure, refs []largeRef) []byte {
	at := len(dst)
	dst = append(dst, 0)
	text := func(flag byte, s string) {
		if s != "" {
			dst[at] |= flag
			dst = appendString(dst, s)
		}
	}
	text(failureType, f.Type)
	text(failureCode, f.Code)
	text(failureMessage, f.Message)
	text(failureReason, f.Reason)
	if f.Data != nil || findLarge(refs, payloadFailure) != nil {
		dst[at] |= failureData
		dst = appendPayload(dst, f.Data, refs, payloadFailure)
	}
	if len(f.Metadata) > 0 {
		dst[at] |= failureMetadata
		dst = binary.AppendUvarint(dst, uint64(len(f.Metadata)))
		for _, key := range slices.Sorted(maps.Keys(f.Metadata)) {
			dst = appendString(appendString(dst, key), f.Metadata[key])
		}
	}
	text(failureOwn, f.Own)
	return dst
}

func appendDelivery(dst []byte, m *Delivery, refs []largeRef, payload int) []byte {
	var flags byte
	if m.WantReply {
		flags |= deliveryWantReply
	}
	none := m.Body == nil && findLarge(refs, payload) == nil
	if none {
		flags |= deliveryNoBody
	}
	dst = append(dst, flags)
	dst = appendString(dst, m.Queue)
	dst = binary.AppendUvarint(dst, m.ID)
	dst = appendTime(dst, m.Sent)
	if !none {
		dst = appendPayload(dst, m.Body, refs, payload)
	}
	return dst
}

// decodeEntry takes the value of an entry apart, whichever its form. Payloads alias value. The key is for errors. An entry of
// form 1 has what its value says by itself; what its metadata adds is added by record.entry.
func decodeEntry(key, value []byte) (Entry, error) {
	var e Entry
	form, err := formOf("entry", value)
	if err == nil {
		if form == form1 {
			e, _, err = decodeEntry1(value)
		} else {
			err = decodeEntry2(&e, value)
		}
	}
	if err != nil {
		return Entry{}, corrupt(key, err)
	}
	return e, nil
}

func decodeEntry2(e *Entry, value []byte) error {
	r := reader{what: "entry", b: value, off: 2}
	kind, status := r.byte(), r.byte()
	flags := r.uvarint()
	if r.err != nil {
		return r.err
	}
	if kind > byte(kindLast) || status > byte(statusLast) || flags&^flagsKnown != 0 {
		return newer("entry of kind %d, status %d and flags %#x", kind, status, flags)
	}
	e.Kind, e.Status = Kind(kind), EntryStatus(status)
	e.Ordinal = r.uint32()
	e.Seq = r.uvarint()
	created := int64(r.uvarint())
	e.Created = fromMillis(created)
	at := r.off
	duration := int64(r.uvarint())
	if e.Status.Over() || flags&flagEnded != 0 {
		e.Ended = fromMillis(created + duration)
	} else if duration != 0 {
		r.fail(at, "duration of what is not over")
	}
	e.Codec = r.byte()
	refs := flags&flagLarge != 0
	present := func(flag uint64, zero func() bool) {
		// What is flagged says something, or two values would mean the same.
		if at := r.off; flags&flag != 0 && zero() {
			r.fail(at, "flagged, but nothing there")
		}
	}
	if flags&flagNoOutput == 0 {
		e.Output = r.payload(e, refs, payloadOutput)
	}
	if flags&^flagNoOutput == 0 {
		return r.end()
	}
	present(flagID, func() bool { e.ID = r.uint32(); return e.ID == 0 })
	present(flagDeadline, func() bool { e.Deadline = time.UnixMilli(int64(r.uvarint())).UTC(); return e.Deadline.IsZero() })
	present(flagFailure, func() bool { e.Failure = r.failure(e, refs); return false })
	e.Sensitive = flags&flagSensitive != 0
	present(flagIteration, func() bool { e.Iteration = r.uint32(); return e.Iteration == 0 })
	if flags&flagState != 0 {
		e.State = r.payload(e, refs, payloadState)
	}
	present(flagWinner, func() bool { e.Winner = r.string(); return e.Winner == "" })
	present(flagQueues, func() bool { e.Queues = r.strings(); return len(e.Queues) == 0 })
	present(flagMessages, func() bool {
		n := r.count()
		e.Messages = make([]Delivery, 0, min(n, 64))
		for i := 0; i < n && r.err == nil; i++ {
			e.Messages = append(e.Messages, r.delivery(e, refs, payloadMessages+i))
		}
		return n == 0
	})
	present(flagVersion, func() bool { e.Resolved, e.Latest = r.uint32(), r.uint32(); return e.Resolved == 0 && e.Latest == 0 })
	present(flagChild, func() bool {
		e.Child.Type, e.Child.Key, e.Program, e.OnClose = r.string(), r.strings(), r.string(), r.byte()
		return e.Child.Type == "" && len(e.Child.Key) == 0 && e.Program == "" && e.OnClose == 0
	})
	present(flagCount, func() bool { e.Count = r.uint32(); return e.Count == 0 })
	present(flagBranches, func() bool {
		n := r.count()
		e.Branches = make([]uint32, 0, min(n, 64))
		for i := 0; i < n && r.err == nil; i++ {
			e.Branches = append(e.Branches, r.uint32())
		}
		return n == 0
	})
	present(flagEnded, func() bool { return e.Ended.IsZero() || e.Status.Over() })
	present(flagOwed, func() bool { e.Owed = r.uint32(); return e.Owed == 0 })
	present(flagLarge, func() bool { return len(e.large) == 0 })
	return r.end()
}

// payload reads a payload: nil if it is a reference, which it adds to e.large.
func (r *reader) payload(e *Entry, refs bool, which int) []byte {
	if !refs {
		return r.bytes()
	}
	n := r.uvarint()
	if n&1 == 0 {
		return r.take(n >> 1)
	}
	ref := largeRef{payload: which, size: n >> 1}
	if hash := r.take(uint64(len(ref.hash))); hash != nil {
		copy(ref.hash[:], hash)
		e.large = append(e.large, ref)
	}
	return nil
}

func (r *reader) strings() []string {
	n := r.count()
	list := make([]string, 0, min(n, 64))
	for i := 0; i < n && r.err == nil; i++ {
		list = append(list, r.string())
	}
	if n == 0 {
		return nil
	}
	return list
}

// failure reads a failure; e is nil where its data cannot be a reference.
func (r *reader) failure(e *Entry, refs bool) *Failure {
	flags := r.byte()
	if r.err == nil && flags&^failureKnown != 0 {
		r.err = newer("failure with flags %#x", flags)
	}
	var f Failure
	text := func(flag byte, s *string) {
		if flags&flag == 0 {
			return
		}
		at := r.off
		if *s = r.string(); *s == "" {
			r.fail(at, "flagged, but nothing there")
		}
	}
	text(failureType, &f.Type)
	text(failureCode, &f.Code)
	text(failureMessage, &f.Message)
	text(failureReason, &f.Reason)
	if flags&failureData != 0 {
		f.Data = r.payload(e, refs, payloadFailure)
	}
	if flags&failureMetadata != 0 {
		f.Metadata = r.metadata()
	}
	text(failureOwn, &f.Own)
	return &f
}

// metadata reads the metadata of a failure, which are in the order of their keys.
func (r *reader) metadata() map[string]string {
	at, n, last := r.off, r.count(), ""
	if n == 0 {
		r.fail(at, "flagged, but nothing there")
	}
	m := make(map[string]string, min(n, 64))
	for i := 0; i < n && r.err == nil; i++ {
		at := r.off
		key := r.string()
		if i > 0 && key <= last {
			r.fail(at, "out of order")
		}
		m[key], last = r.string(), key
	}
	return m
}

func (r *reader) delivery(e *Entry, refs bool, which int) (m Delivery) {
	flags := r.byte()
	if r.err == nil && flags&^deliveryKnown != 0 {
		r.err = newer("message with flags %#x", flags)
	}
	m.WantReply = flags&deliveryWantReply != 0
	m.Queue, m.ID, m.Sent = r.string(), r.uvarint(), r.time()
	if flags&deliveryNoBody == 0 {
		m.Body = r.payload(e, refs, which)
	}
	return m
}

// A peek is what of an entry's value can be read without decoding it.
type peek struct {
	status  EntryStatus
	flags   uint64
	ordinal uint32
	seq     uint64
}

// peekEntry reads the beginning of a value of form 2. ok is false for other forms and for bytes that are no value, of which
// decoding will say more.
func peekEntry(value []byte) (p peek, ok bool) {
	if len(value) < 4 || value[0] != form2 || value[1] != 0 {
		return p, false
	}
	p.status = EntryStatus(value[3])
	at := 4
	next := func() uint64 {
		if at < len(value) && value[at] < 0x80 {
			at++
			return uint64(value[at-1])
		}
		v, n := binary.Uvarint(value[min(at, len(value)):])
		if n <= 0 {
			at = math.MaxInt32
			return 0
		}
		at += n
		return v
	}
	p.flags, p.ordinal, p.seq = next(), uint32(next()), next()
	return p, at <= len(value)
}

// Flags of metadata: which parts follow, in the order of the bits.
const (
	metaAttempts = 1 << iota
	metaLastAttempt
	metaDue
	metaFailure
	metaProgress
	metaUndone
	metaUndoFailure
	metaKnown = 1<<iota - 1
)

// appendMetadata appends the value of metadata.
func appendMetadata(dst []byte, m *Metadata) []byte {
	dst = append(dst, form2, 0)
	at := len(dst)
	dst = append(dst, 0)
	if m.Attempts != 0 {
		dst[at] |= metaAttempts
		dst = binary.AppendUvarint(dst, uint64(m.Attempts))
	}
	timed := func(flag byte, t time.Time) {
		if !t.IsZero() {
			dst[at] |= flag
			dst = binary.AppendUvarint(dst, uint64(t.UnixMilli()))
		}
	}
	timed(metaLastAttempt, m.LastAttempt)
	timed(metaDue, m.Due)
	if m.Failure != nil {
		dst[at] |= metaFailure
		dst = appendFailure(dst, m.Failure, nil)
	}
	if m.Progress != nil {
		dst[at] |= metaProgress
		dst = appendBytes(dst, m.Progress)
	}
	timed(metaUndone, m.Undone)
	if m.UndoFailure != nil {
		dst[at] |= metaUndoFailure
		dst = appendFailure(dst, m.UndoFailure, nil)
	}
	return dst
}

// decodeMetadata takes the value of metadata apart, whichever its form. Progress aliases value. The key is for errors.
func decodeMetadata(key, value []byte) (Metadata, error) {
	var m Metadata
	form, err := formOf("metadata", value)
	if err == nil {
		if form == form1 {
			var m1 metadata1
			m1, err = decodeMetadata1(value)
			m = m1.Metadata
		} else {
			err = decodeMetadata2(&m, value)
		}
	}
	if err != nil {
		return Metadata{}, corrupt(key, err)
	}
	return m, nil
}

func decodeMetadata2(m *Metadata, value []byte) error {
	r := reader{what: "metadata", b: value, off: 2}
	flags := r.byte()
	if r.err == nil && flags&^metaKnown != 0 {
		return newer("metadata with flags %#x", flags)
	}
	if flags&metaAttempts != 0 {
		at := r.off
		if m.Attempts = r.uint32(); m.Attempts == 0 {
			r.fail(at, "flagged, but nothing there")
		}
	}
	timed := func(flag byte, t *time.Time) {
		if flags&flag == 0 {
			return
		}
		at := r.off
		if *t = time.UnixMilli(int64(r.uvarint())).UTC(); t.IsZero() {
			r.fail(at, "flagged, but nothing there")
		}
	}
	timed(metaLastAttempt, &m.LastAttempt)
	timed(metaDue, &m.Due)
	if flags&metaFailure != 0 {
		m.Failure = r.failure(nil, false)
	}
	if flags&metaProgress != 0 {
		m.Progress = r.bytes()
	}
	timed(metaUndone, &m.Undone)
	if flags&metaUndoFailure != 0 {
		m.UndoFailure = r.failure(nil, false)
	}
	return r.end()
}
