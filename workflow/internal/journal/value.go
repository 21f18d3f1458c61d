package journal

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

// Flags of an entry: the optional parts that follow, in the order of the bits. The first byte has
// the most frequent flags.
const (
	flagNoOutput  = 1 << iota // Output is nil, and absent
	FlagID                    // ID
	flagDeadline              // Deadline
	flagFailure               // Failure
	flagSensitive             // nothing follows
	flagIteration             // Iteration
	flagState                 // State
	FlagLarge                 // payloads may be references
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

// Optional fields of failures and messages have flags of their own.
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

// Payloads of an entry that can be large; a message's is PayloadMessages plus its number.
const (
	PayloadOutput = iota
	PayloadState
	PayloadFailure
	PayloadMessages
)

// A LargeRef stands for a payload in rows of its own.
type LargeRef struct {
	Payload int // which one of the entry
	Size    uint64
	Hash    keyspace.WorkflowHash
}

// findLarge returns the reference of a payload, nil if it has none.
func findLarge(refs []LargeRef, payload int) *LargeRef {
	for i := range refs {
		if refs[i].Payload == payload {
			return &refs[i]
		}
	}
	return nil
}

// AppendEntry appends the value of an entry. For payloads with a reference in e.Large it appends
// the reference.
func AppendEntry(dst []byte, e *Entry) ([]byte, error) {
	var flags uint64
	set := func(flag uint64, on bool) {
		if on {
			flags |= flag
		}
	}
	set(flagNoOutput, e.Output == nil && findLarge(e.Large, PayloadOutput) == nil)
	set(FlagID, e.ID != 0)
	set(flagDeadline, !e.Deadline.IsZero())
	set(flagFailure, e.Failure != nil)
	set(flagSensitive, e.Sensitive)
	set(flagIteration, e.Iteration != 0)
	set(flagState, e.State != nil || findLarge(e.Large, PayloadState) != nil)
	set(FlagLarge, len(e.Large) > 0)
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

	if e.Kind > KindLast || e.Status > StatusLast {
		return dst, fmt.Errorf("workflow: entry of kind %d and status %d cannot be written", e.Kind, e.Status)
	}
	dst = append(dst, Form2, 0, byte(e.Kind), byte(e.Status))
	dst = binary.AppendUvarint(dst, flags)
	dst = binary.AppendUvarint(dst, uint64(e.Ordinal))
	dst = binary.AppendUvarint(dst, e.Seq)
	created := Millis(e.Created)
	dst = binary.AppendUvarint(dst, uint64(created))
	var duration int64
	if timed {
		duration = Millis(e.Ended) - created
	}
	dst = binary.AppendUvarint(dst, uint64(duration))
	dst = append(dst, e.Codec)
	if flags&flagNoOutput == 0 {
		dst = appendPayload(dst, e.Output, e.Large, PayloadOutput)
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
		dst = AppendFailure(dst, e.Failure, e.Large)
	}
	if e.Iteration != 0 {
		dst = binary.AppendUvarint(dst, uint64(e.Iteration))
	}
	if flags&flagState != 0 {
		dst = appendPayload(dst, e.State, e.Large, PayloadState)
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
			dst = appendDelivery(dst, &e.Messages[i], e.Large, PayloadMessages+i)
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

// appendPayload appends a payload: its length and bytes, or, in an entry with FlagLarge, twice its
// length, plus one if a hash follows in place of the bytes.
func appendPayload(dst, b []byte, refs []LargeRef, payload int) []byte {
	if len(refs) == 0 {
		return appendBytes(dst, b)
	}
	if ref := findLarge(refs, payload); ref != nil {
		return append(binary.AppendUvarint(dst, ref.Size<<1|1), ref.Hash[:]...)
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

// AppendFailure appends a failure.
func AppendFailure(dst []byte, f *Failure, refs []LargeRef) []byte {
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
	if f.Data != nil || findLarge(refs, PayloadFailure) != nil {
		dst[at] |= failureData
		dst = appendPayload(dst, f.Data, refs, PayloadFailure)
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

func appendDelivery(dst []byte, m *Delivery, refs []LargeRef, payload int) []byte {
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

// DecodeEntry decodes the value of an entry of form 2 into an entry that is zero. Payloads alias
// value.
func DecodeEntry(e *Entry, value []byte) error {
	r := Decoder{What: "entry", B: value, Off: 2}
	kind, status := r.byte(), r.byte()
	flags := r.Uvarint()
	if r.Err != nil {
		return r.Err
	}
	if kind > byte(KindLast) || status > byte(StatusLast) || flags&^flagsKnown != 0 {
		return Newer("entry of kind %d, status %d and flags %#x", kind, status, flags)
	}
	e.Kind, e.Status = Kind(kind), EntryStatus(status)
	e.Ordinal = r.uint32()
	e.Seq = r.Uvarint()
	created := int64(r.Uvarint())
	e.Created = FromMillis(created)
	at := r.Off
	duration := int64(r.Uvarint())
	if e.Status.Over() || flags&flagEnded != 0 {
		e.Ended = FromMillis(created + duration)
	} else if duration != 0 {
		r.Fail(at, "duration of what is not over")
	}
	e.Codec = r.byte()
	refs := flags&FlagLarge != 0
	present := func(flag uint64, zero func() bool) {
		// A flagged field must not be zero, or two values would mean the same.
		if at := r.Off; flags&flag != 0 && zero() {
			r.Fail(at, "flagged, but nothing there")
		}
	}
	if flags&flagNoOutput == 0 {
		e.Output = r.payload(e, refs, PayloadOutput)
	}
	if flags&^flagNoOutput == 0 {
		return r.End()
	}
	present(FlagID, func() bool { e.ID = r.uint32(); return e.ID == 0 })
	present(flagDeadline,
		func() bool { e.Deadline = time.UnixMilli(int64(r.Uvarint())).UTC(); return e.Deadline.IsZero() })
	present(flagFailure, func() bool { e.Failure = r.Failure(e, refs); return false })
	e.Sensitive = flags&flagSensitive != 0
	present(flagIteration, func() bool { e.Iteration = r.uint32(); return e.Iteration == 0 })
	if flags&flagState != 0 {
		e.State = r.payload(e, refs, PayloadState)
	}
	present(flagWinner, func() bool { e.Winner = r.String(); return e.Winner == "" })
	present(flagQueues, func() bool { e.Queues = r.strings(); return len(e.Queues) == 0 })
	present(flagMessages, func() bool {
		n := r.Count()
		e.Messages = make([]Delivery, 0, min(n, 64))
		for i := 0; i < n && r.Err == nil; i++ {
			e.Messages = append(e.Messages, r.delivery(e, refs, PayloadMessages+i))
		}
		return n == 0
	})
	present(flagVersion,
		func() bool { e.Resolved, e.Latest = r.uint32(), r.uint32(); return e.Resolved == 0 && e.Latest == 0 })
	present(flagChild, func() bool {
		e.Child.Type, e.Child.Key, e.Program, e.OnClose = r.String(), r.strings(), r.String(), r.byte()
		return e.Child.Type == "" && len(e.Child.Key) == 0 && e.Program == "" && e.OnClose == 0
	})
	present(flagCount, func() bool { e.Count = r.uint32(); return e.Count == 0 })
	present(flagBranches, func() bool {
		n := r.Count()
		e.Branches = make([]uint32, 0, min(n, 64))
		for i := 0; i < n && r.Err == nil; i++ {
			e.Branches = append(e.Branches, r.uint32())
		}
		return n == 0
	})
	present(flagEnded, func() bool { return e.Ended.IsZero() || e.Status.Over() })
	present(flagOwed, func() bool { e.Owed = r.uint32(); return e.Owed == 0 })
	present(FlagLarge, func() bool { return len(e.Large) == 0 })
	return r.End()
}

// payload reads a payload: nil if it is a reference, which it adds to e.Large.
func (r *Decoder) payload(e *Entry, refs bool, which int) []byte {
	if !refs {
		return r.Bytes()
	}
	n := r.Uvarint()
	if n&1 == 0 {
		return r.Take(n >> 1)
	}
	ref := LargeRef{Payload: which, Size: n >> 1}
	if hash := r.Take(uint64(len(ref.Hash))); hash != nil {
		copy(ref.Hash[:], hash)
		e.Large = append(e.Large, ref)
	}
	return nil
}

func (r *Decoder) strings() []string {
	n := r.Count()
	list := make([]string, 0, min(n, 64))
	for i := 0; i < n && r.Err == nil; i++ {
		list = append(list, r.String())
	}
	if n == 0 {
		return nil
	}
	return list
}

// Failure reads a failure; e is nil where its data cannot be a reference.
func (r *Decoder) Failure(e *Entry, refs bool) *Failure {
	flags := r.byte()
	if r.Err == nil && flags&^failureKnown != 0 {
		r.Err = Newer("failure with flags %#x", flags)
	}
	var f Failure
	text := func(flag byte, s *string) {
		if flags&flag == 0 {
			return
		}
		at := r.Off
		if *s = r.String(); *s == "" {
			r.Fail(at, "flagged, but nothing there")
		}
	}
	text(failureType, &f.Type)
	text(failureCode, &f.Code)
	text(failureMessage, &f.Message)
	text(failureReason, &f.Reason)
	if flags&failureData != 0 {
		f.Data = r.payload(e, refs, PayloadFailure)
	}
	if flags&failureMetadata != 0 {
		f.Metadata = r.metadata()
	}
	text(failureOwn, &f.Own)
	return &f
}

// metadata reads the metadata of a failure, which are in the order of their keys.
func (r *Decoder) metadata() map[string]string {
	at, n, last := r.Off, r.Count(), ""
	if n == 0 {
		r.Fail(at, "flagged, but nothing there")
	}
	m := make(map[string]string, min(n, 64))
	for i := 0; i < n && r.Err == nil; i++ {
		at := r.Off
		key := r.String()
		if i > 0 && key <= last {
			r.Fail(at, "out of order")
		}
		m[key], last = r.String(), key
	}
	return m
}

func (r *Decoder) delivery(e *Entry, refs bool, which int) (m Delivery) {
	flags := r.byte()
	if r.Err == nil && flags&^deliveryKnown != 0 {
		r.Err = Newer("message with flags %#x", flags)
	}
	m.WantReply = flags&deliveryWantReply != 0
	m.Queue, m.ID, m.Sent = r.String(), r.Uvarint(), r.time()
	if flags&deliveryNoBody == 0 {
		m.Body = r.payload(e, refs, which)
	}
	return m
}

// A Peek is the part of an entry's value that can be read without decoding it.
type Peek struct {
	Status  EntryStatus
	Flags   uint64
	Ordinal uint32
	Seq     uint64
}

// PeekEntry reads the beginning of a value of form 2. ok is false for other forms and for invalid
// bytes; decoding returns the error of these.
func PeekEntry(value []byte) (p Peek, ok bool) {
	if len(value) < 4 || value[0] != Form2 || value[1] != 0 {
		return p, false
	}
	p.Status = EntryStatus(value[3])
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
	p.Flags, p.Ordinal, p.Seq = next(), uint32(next()), next()
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
	metaHeld
	metaKnown = 1<<iota - 1
)

// Flags of a Held.
const (
	heldDoubt = 1 << iota
	heldFailure
	heldKnown = 1<<iota - 1
)

// AppendMetadata appends the value of metadata.
func AppendMetadata(dst []byte, m *Metadata) []byte {
	dst = append(dst, Form2, 0)
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
		dst = AppendFailure(dst, m.Failure, nil)
	}
	if m.Progress != nil {
		dst[at] |= metaProgress
		dst = appendBytes(dst, m.Progress)
	}
	timed(metaUndone, m.Undone)
	if m.UndoFailure != nil {
		dst[at] |= metaUndoFailure
		dst = AppendFailure(dst, m.UndoFailure, nil)
	}
	if h := m.Held; h != nil {
		dst[at] |= metaHeld
		dst = append(dst, byte(h.Status), 0)
		if h.Doubt {
			dst[len(dst)-1] |= heldDoubt
		}
		if h.Failure != nil {
			dst[len(dst)-1] |= heldFailure
			return AppendFailure(dst, h.Failure, nil)
		}
		dst = appendBytes(dst, h.Output)
	}
	return dst
}

// DecodeMetadata decodes the value of metadata of form 2. Progress aliases value.
func DecodeMetadata(m *Metadata, value []byte) error {
	r := Decoder{What: "metadata", B: value, Off: 2}
	flags := r.byte()
	if r.Err == nil && flags&^metaKnown != 0 {
		return Newer("metadata with flags %#x", flags)
	}
	if flags&metaAttempts != 0 {
		at := r.Off
		if m.Attempts = r.uint32(); m.Attempts == 0 {
			r.Fail(at, "flagged, but nothing there")
		}
	}
	timed := func(flag byte, t *time.Time) {
		if flags&flag == 0 {
			return
		}
		at := r.Off
		if *t = time.UnixMilli(int64(r.Uvarint())).UTC(); t.IsZero() {
			r.Fail(at, "flagged, but nothing there")
		}
	}
	timed(metaLastAttempt, &m.LastAttempt)
	timed(metaDue, &m.Due)
	if flags&metaFailure != 0 {
		m.Failure = r.Failure(nil, false)
	}
	if flags&metaProgress != 0 {
		m.Progress = r.Bytes()
	}
	timed(metaUndone, &m.Undone)
	if flags&metaUndoFailure != 0 {
		m.UndoFailure = r.Failure(nil, false)
	}
	if flags&metaHeld != 0 {
		m.Held = r.held()
	}
	return r.End()
}

func (r *Decoder) held() *Held {
	at := r.Off
	status, flags := r.byte(), r.byte()
	if r.Err == nil && (!EntryStatus(status).Over() || status > byte(StatusLast) || flags&^heldKnown != 0) {
		r.Fail(at, "no end of a step")
	}
	h := &Held{Status: EntryStatus(status), Doubt: flags&heldDoubt != 0}
	if flags&heldFailure != 0 {
		h.Failure = r.Failure(nil, false)
	} else {
		h.Output = r.Bytes()
	}
	return h
}
