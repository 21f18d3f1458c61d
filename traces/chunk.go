package traces

import (
	"encoding/binary"
	"errors"
	"math"
)

const (
	// MaxChunk is the most bytes that a chunk can have.
	MaxChunk = 96 << 10

	chunkFormat = 1
	headerBytes = 1 + 4*8 + 4*4
	tableText   = 64 // bytes of the longest text that is kept in the table of a chunk
)

var errChunk = errors.New("traces: the chunk does not decode")

// header is the part of a chunk that a reader decodes without the spans.
//
// The bytes of a chunk are:
//
//	 0  format: 1
//	 1  u64 incarnation of the actor that wrote it
//	 9  i64 time of the flush
//	17  i64 lowest start of a span
//	25  i64 highest end of a span; of a partial record that is the flush
//	33  u32 records
//	37  u32 of these, partial records
//	41  u32 spans that were dropped before it
//	45  u32 bytes of the texts that follow: each its length and its bytes
//	    records: each its length, the members that every span has, and the rest
type header struct {
	incarnation     uint64
	written         int64
	first, last     int64
	count, partials uint32
	dropped         uint32
	texts           uint32
}

func (h *header) append(dst []byte) []byte {
	dst = append(dst, chunkFormat)
	dst = binary.BigEndian.AppendUint64(dst, h.incarnation)
	for _, t := range [...]int64{h.written, h.first, h.last} {
		dst = binary.BigEndian.AppendUint64(dst, uint64(t))
	}
	for _, n := range [...]uint32{h.count, h.partials, h.dropped, h.texts} {
		dst = binary.BigEndian.AppendUint32(dst, n)
	}
	return dst
}

func parseHeader[B ~string | ~[]byte](b B) (h header, err error) {
	if len(b) < headerBytes || b[0] != chunkFormat {
		return header{}, errChunk
	}
	var fixed [headerBytes]byte
	copy(fixed[:], b)
	at := 1
	u64 := func() uint64 { at += 8; return binary.BigEndian.Uint64(fixed[at-8:]) }
	u32 := func() uint32 { at += 4; return binary.BigEndian.Uint32(fixed[at-4:]) }
	h = header{incarnation: u64(), written: int64(u64()), first: int64(u64()), last: int64(u64()),
		count: u32(), partials: u32(), dropped: u32(), texts: u32()}
	if int64(h.texts) > int64(len(b)-headerBytes) {
		return header{}, errChunk
	}
	return h, nil
}

// Flags of a record.
const (
	isPartial = 1 << iota
	hasParent
	hasRemoteParent
	isSampled
	hasAttributes
	hasEvents
	hasLinks
	hasMore // scope, message, dropped counts
)

// recent holds the ids that records of a chunk refer to by their place. A parent ends after its
// children, so most ids are in a chunk twice or more.
type recent struct {
	spans      [15]SpanID
	traces     [7]TraceID
	span, next uint8 // places of the next new ids
}

// spanPlace returns the place of an id, counted from 1. For a new id it adds the id and returns 0.
func (r *recent) spanPlace(id SpanID) byte {
	for i := range r.spans {
		if r.spans[i] == id {
			return byte(i + 1)
		}
	}
	r.addSpan(id)
	return 0
}

func (r *recent) addSpan(id SpanID) {
	r.spans[r.span] = id
	r.span = (r.span + 1) % uint8(len(r.spans))
}

func (r *recent) tracePlace(id TraceID) byte {
	for i := range r.traces {
		if r.traces[i] == id {
			return byte(i + 1)
		}
	}
	r.addTrace(id)
	return 0
}

func (r *recent) addTrace(id TraceID) {
	r.traces[r.next] = id
	r.next = (r.next + 1) % uint8(len(r.traces))
}

// encoder appends spans to a chunk.
type encoder struct {
	bucket          int64 // start of the hour, Unix s
	first, last     int64
	count, partials uint32
	texts           []byte
	offsets         []uint32    // of the texts
	slots           [256]uint32 // by hash: number of a text, counted from 1
	records         []byte
	recent          recent
	base            int64 // start of the last span
	one             []byte
}

// reset empties the encoder and keeps its memory.
func (e *encoder) reset(bucket int64) {
	*e = encoder{bucket: bucket, first: math.MaxInt64, last: math.MinInt64,
		texts: e.texts[:0], offsets: e.offsets[:0], records: e.records[:0], one: e.one[:0]}
}

// size returns the bytes of the chunk so far.
func (e *encoder) size() int { return headerBytes + len(e.texts) + len(e.records) }

// add appends a span, whose events begin with number from. It returns false, and changes nothing,
// if the chunk has no room.
func (e *encoder) add(s *Span, from int) bool {
	texts, offsets, places, base := len(e.texts), len(e.offsets), e.recent, e.base
	e.one = e.appendRecord(e.one[:0], s, from)
	if e.size()+len(e.one)+3 > MaxChunk {
		e.texts, e.offsets, e.recent, e.base = e.texts[:texts], e.offsets[:offsets], places, base
		return false
	}
	e.records = append(binary.AppendUvarint(e.records, uint64(len(e.one))), e.one...)
	e.count++
	e.first = min(e.first, s.Start)
	e.last = max(e.last, s.Start, s.End) // times of users' spans may go backwards
	if s.End == 0 {
		e.partials++
	}
	return true
}

// appendRecord appends a record, or the first part of a record that fits in no chunk. A record is:
//
//	flags; a byte with the place of the trace id (3 bits), kind (3) and status (2); the trace id, if its place is 0
//	a byte with the places of span id (4 bits) and parent (4); span id and parent, if their places are 0
//	start, since the start of the record before; duration, unless the record is partial
//	name; attributes: count, and of each key, type, value
//	events: number of the first one, count, and of each name, time since the start, attributes, dropped attributes
//	links: count, and of each flags, trace id, span id, attributes, dropped attributes
//	scope name and version, message of the status, dropped attributes, events and links; schema URL and attributes of the
//	scope, if it has any of them
//
// Numbers are varints, signed where they can be negative. A text is its number in the table, or 0,
// length and bytes. Members whose flag is not set are left out.
func (e *encoder) appendRecord(b []byte, s *Span, from int) []byte {
	var flags byte
	set := func(flag byte, on bool) {
		if on {
			flags |= flag
		}
	}
	attributes, droppedAttributes := s.Attributes, s.DroppedAttributes
	attributes = head(attributes, MaxAttributes, &droppedAttributes)
	events, droppedEvents := s.Events, s.DroppedEvents
	events = head(events, MaxEvents, &droppedEvents)
	links, droppedLinks := s.Links, s.DroppedLinks
	links = head(links, MaxLinks, &droppedLinks)
	from = min(from, len(events))
	events = events[from:]
	more := !s.Scope.isZero() || s.Message != "" || droppedAttributes|droppedEvents|droppedLinks != 0

	set(isPartial, s.End == 0)
	set(hasParent, s.Parent != SpanID{})
	set(hasRemoteParent, s.RemoteParent)
	set(isSampled, s.Sampled)
	set(hasAttributes, len(attributes) > 0)
	set(hasEvents, len(events) > 0 || from > 0)
	set(hasLinks, len(links) > 0)
	set(hasMore, more)

	trace := e.recent.tracePlace(s.TraceID)
	b = append(b, flags, trace|byte(min(s.Kind, Consumer))<<3|byte(min(s.Status, Error))<<6)
	if trace == 0 {
		b = append(b, s.TraceID[:]...)
	}
	at := len(b)
	b = append(b, e.recent.spanPlace(s.SpanID))
	if b[at] == 0 {
		b = append(b, s.SpanID[:]...)
	}
	if flags&hasParent != 0 {
		parent := e.recent.spanPlace(s.Parent)
		b[at] |= parent << 4
		if parent == 0 {
			b = append(b, s.Parent[:]...)
		}
	}
	b = binary.AppendVarint(b, s.Start-e.base)
	e.base = s.Start
	if s.End != 0 {
		b = binary.AppendVarint(b, s.End-s.Start)
	}
	b = e.appendText(b, s.Name)

	if flags&hasAttributes != 0 {
		b = e.appendAttributes(b, attributes)
	}
	if flags&hasEvents != 0 {
		b = binary.AppendUvarint(binary.AppendUvarint(b, uint64(from)), uint64(len(events)))
		for i := range events {
			if len(b) > MaxChunk {
				return b
			}
			v := &events[i]
			dropped := v.DroppedAttributes
			list := head(v.Attributes, MaxAttributes, &dropped)
			b = binary.AppendVarint(e.appendText(b, v.Name), v.Time-s.Start)
			b = binary.AppendUvarint(e.appendAttributes(b, list), uint64(dropped))
		}
	}
	if flags&hasLinks != 0 {
		b = binary.AppendUvarint(b, uint64(len(links)))
		for i := range links {
			if len(b) > MaxChunk {
				return b
			}
			l := &links[i]
			dropped := l.DroppedAttributes
			list := head(l.Attributes, MaxAttributes, &dropped)
			var bits byte
			if l.Sampled {
				bits |= 1
			}
			if l.Remote {
				bits |= 2
			}
			b = append(append(append(b, bits), l.TraceID[:]...), l.SpanID[:]...)
			b = binary.AppendUvarint(e.appendAttributes(b, list), uint64(dropped))
		}
	}
	if more {
		b = e.appendText(e.appendText(e.appendText(b, s.Scope.Name), s.Scope.Version), s.Message)
		for _, n := range [...]uint32{droppedAttributes, droppedEvents, droppedLinks} {
			b = binary.AppendUvarint(b, uint64(n))
		}
		if s.Scope.SchemaURL != "" || len(s.Scope.Attributes) > 0 {
			b = e.appendAttributes(e.appendText(b, s.Scope.SchemaURL),
				head(s.Scope.Attributes, MaxAttributes, new(uint32)))
		}
	}
	return b
}

func (e *encoder) appendAttributes(b []byte, list []Attribute) []byte {
	b = binary.AppendUvarint(b, uint64(len(list)))
	for i := range list {
		if len(b) > MaxChunk {
			return b
		}
		a := &list[i]
		b = e.appendText(b, a.Key)
		switch a.Value.kind {
		case TypeString:
			b = e.appendText(append(b, byte(TypeString)), a.Value.text)
		case TypeList:
			b = append(b, byte(TypeList))
			b = append(binary.AppendUvarint(b, uint64(len(a.Value.text))), a.Value.text...)
		default:
			b = a.Value.appendPacked(b)
		}
	}
	return b
}

// appendText appends a text: its number in the table, counted from 1, or 0 and the text itself.
func (e *encoder) appendText(b []byte, s string) []byte {
	if len(s) > tableText {
		s = clean(s)
	}
	if len(s) > tableText {
		b = append(b, 0)
		return append(binary.AppendUvarint(b, uint64(len(s))), s...)
	}
	n, slot := e.find(s)
	if n == 0 {
		if valid := clean(s); valid != s {
			return e.appendText(b, valid)
		}
		e.offsets = append(e.offsets, uint32(len(e.texts)))
		e.texts = append(append(e.texts, byte(len(s))), s...)
		n = uint32(len(e.offsets))
		e.slots[slot] = n
	}
	return binary.AppendUvarint(b, uint64(n))
}

// find returns the number of a text in the table, or 0, and its slot. A text whose slot another
// text has taken is not found, and gets a second number: the chunk is then longer, but not wrong.
func (e *encoder) find(s string) (n uint32, slot uint8) {
	h := uint32(2166136261)
	for i := range len(s) {
		h = (h ^ uint32(s[i])) * 16777619
	}
	slot = uint8(h ^ h>>8 ^ h>>16)
	n = e.slots[slot]
	if n == 0 || int(n) > len(e.offsets) {
		return 0, slot
	}
	at := int(e.offsets[n-1])
	if int(e.texts[at]) != len(s) || string(e.texts[at+1:at+1+len(s)]) != s {
		return 0, slot
	}
	return n, slot
}

// seal returns the bytes of the chunk. The caller sets the header's members for the flush.
func (e *encoder) seal() sealed {
	h := header{first: e.first, last: e.last, count: e.count, partials: e.partials, texts: uint32(len(e.texts))}
	b := h.append(make([]byte, 0, e.size()))
	return sealed{bucket: e.bucket, header: h, bytes: append(append(b, e.texts...), e.records...)}
}

// sealed is a chunk to which no span can be added. Readers use header, and only the rest of bytes
// after the header.
type sealed struct {
	bucket int64
	header header
	bytes  []byte
}

// stamp writes the header with the members that the flush determines.
func (c *sealed) stamp(incarnation uint64, now int64, dropped uint32) {
	c.header.incarnation, c.header.written, c.header.dropped = incarnation, now, dropped
	if c.header.partials > 0 {
		c.header.last = max(c.header.last, now)
	}
	c.header.append(c.bytes[:0])
}

// shrink halves the lists of a span until the span fits into an empty chunk, and counts the dropped
// elements.
func shrink(e *encoder, s Span, from int) bool {
	for {
		if e.add(&s, from) {
			return true
		}
		n := len(s.Attributes) + len(s.Events) + len(s.Links) + len(s.Scope.Attributes)
		if n == 0 {
			return false
		}
		s.Attributes = head(s.Attributes, min(len(s.Attributes), MaxAttributes)/2, &s.DroppedAttributes)
		s.Events = head(s.Events, min(len(s.Events), MaxEvents)/2, &s.DroppedEvents)
		s.Links = head(s.Links, min(len(s.Links), MaxLinks)/2, &s.DroppedLinks)
		s.Scope.Attributes = head(s.Scope.Attributes, min(len(s.Scope.Attributes), MaxAttributes)/2, new(uint32))
	}
}
