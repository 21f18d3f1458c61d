package traces

import (
	"math"
	"unicode/utf8"
)

// decoder reads bytes that may be damaged. After a fault, bad is true and it returns only zeros.
type decoder struct {
	b   string
	bad bool
}

func (d *decoder) fail() {
	d.b, d.bad = "", true
}

func (d *decoder) byte() byte {
	if len(d.b) == 0 {
		d.fail()
		return 0
	}
	c := d.b[0]
	d.b = d.b[1:]
	return c
}

func (d *decoder) uvarint() uint64 {
	var n uint64
	for i := 0; i < len(d.b) && i < 10; i++ {
		c := d.b[i]
		if i == 9 && c > 1 {
			break
		}
		n |= uint64(c&0x7F) << (7 * i)
		if c < 0x80 {
			d.b = d.b[i+1:]
			return n
		}
	}
	d.fail()
	return 0
}

func (d *decoder) varint() int64 {
	u := d.uvarint()
	return int64(u>>1) ^ -int64(u&1)
}

// take returns the next n bytes.
func (d *decoder) take(n uint64) string {
	if n > uint64(len(d.b)) {
		d.fail()
		return ""
	}
	s := d.b[:n]
	d.b = d.b[n:]
	return s
}

// count returns the length of a list whose elements have at least the given bytes each.
func (d *decoder) count(limit, bytes int) int {
	n := d.uvarint()
	if n > uint64(limit) || n*uint64(bytes) > uint64(len(d.b)) {
		d.fail()
		return 0
	}
	return int(n)
}

func (d *decoder) number() uint32 {
	n := d.uvarint()
	if n > math.MaxUint32 {
		d.fail()
		return 0
	}
	return uint32(n)
}

func (d *decoder) id() (id SpanID) {
	copy(id[:], d.take(8))
	return id
}

func (d *decoder) trace() (id TraceID) {
	copy(id[:], d.take(16))
	return id
}

// text returns the next n bytes if they are valid text.
func (d *decoder) text(n uint64) string {
	if n > MaxString {
		d.fail()
		return ""
	}
	s := d.take(n)
	if !utf8.ValidString(s) {
		d.fail()
		return ""
	}
	return s
}

// packed reads a value that is not a list, as Value.appendPacked writes it.
func (d *decoder) packed() Value {
	v := Value{kind: Type(d.byte())}
	d.rest(&v)
	return v
}

func (d *decoder) rest(v *Value) {
	switch v.kind {
	case TypeNone:
	case TypeString:
		v.text = d.text(d.uvarint())
	case TypeBytes:
		n := d.uvarint()
		if n > MaxString {
			d.fail()
		}
		v.text = d.take(n)
	case TypeInt:
		v.bits = uint64(d.varint())
	case TypeFloat:
		for _, c := range []byte(d.take(8)) {
			v.bits = v.bits<<8 | uint64(c)
		}
	case TypeBool:
		v.bits = uint64(d.byte() & 1)
	default:
		d.fail()
	}
}

// chunk is a chunk whose header and texts are decoded.
type chunk struct {
	header
	b       string // bytes after the header
	texts   string
	offsets []uint32
}

// openChunk decodes the table of texts. body is the bytes after the header; the chunk keeps it.
func openChunk(h header, body string) (*chunk, error) {
	if int64(h.texts) > int64(len(body)) {
		return nil, errChunk
	}
	c := &chunk{header: h, b: body, texts: body[:h.texts]}
	c.offsets = make([]uint32, 0, min(len(c.texts)/4, int(h.count)*2))
	for at := 0; at < len(c.texts); {
		n := int(c.texts[at])
		if n > tableText || at+1+n > len(c.texts) || !utf8.ValidString(c.texts[at+1:at+1+n]) {
			return nil, errChunk
		}
		c.offsets = append(c.offsets, uint32(at))
		at += 1 + n
	}
	return c, nil
}

// text reads a text by its number, or inline.
func (c *chunk) text(d *decoder) string {
	n := d.uvarint()
	switch {
	case n == 0:
		return d.text(d.uvarint())
	case n > uint64(len(c.offsets)):
		d.fail()
		return ""
	}
	at := c.offsets[n-1]
	return c.texts[at+1 : at+1+uint32(c.texts[at])]
}

// record is the members of a span that every selection needs, and the position of the others.
type record struct {
	identity
	parent     SpanID
	flags      byte
	kind       Kind
	status     Status
	start, end int64
	at, bytes  uint32 // of the rest, in the chunk
}

// records reads the records of a chunk in their order. It does not decode names and lists.
type records struct {
	decoder
	c      *chunk
	recent recent
	base   int64
	left   uint32
}

func (c *chunk) records() records {
	return records{decoder: decoder{b: c.b[len(c.texts):]}, c: c, left: c.count}
}

// next reads a record. It returns false at the end of the chunk, or at a fault, which err returns.
func (r *records) next(out *record) bool {
	if r.left == 0 || r.bad {
		return false
	}
	r.left--
	n := r.uvarint()
	d := decoder{b: r.take(n)}
	if r.bad || n == 0 {
		r.fail()
		return false
	}
	flags, bits := d.byte(), d.byte()
	out.flags, out.kind, out.status = flags, Kind(bits>>3&7), Status(bits>>6)
	if place := bits & 7; place > 0 {
		out.trace = r.recent.traces[place-1]
	} else {
		out.trace = d.trace()
		r.recent.addTrace(out.trace)
	}
	places := d.byte()
	out.span = r.span(&d, places&15)
	out.parent = SpanID{}
	if flags&hasParent != 0 {
		out.parent = r.span(&d, places>>4)
	}
	out.start = r.base + d.varint()
	r.base = out.start
	out.end = 0
	if flags&isPartial == 0 {
		out.end = out.start + d.varint()
	}
	if d.bad || out.kind > Consumer || out.status > Error {
		r.fail()
		return false
	}
	out.at, out.bytes = uint32(len(r.c.b)-len(r.b)-len(d.b)), uint32(len(d.b))
	return true
}

func (r *records) span(d *decoder, place byte) SpanID {
	if place > 0 {
		return r.recent.spans[place-1]
	}
	id := d.id()
	r.recent.addSpan(id)
	return id
}

// err returns the fault of the chunk. All records must have been read.
func (r *records) err() error {
	if r.bad || r.left > 0 || len(r.b) > 0 {
		return errChunk
	}
	return nil
}

// name returns the name of a record.
func (c *chunk) name(r *record) (string, error) {
	d := decoder{b: c.b[r.at : r.at+r.bytes]}
	name := c.text(&d)
	if d.bad {
		return "", errChunk
	}
	return name, nil
}

// span decodes a record completely. from is the number of its first event.
func (c *chunk) span(r *record) (s Span, from int, err error) {
	d := decoder{b: c.b[r.at : r.at+r.bytes]}
	s = Span{TraceID: r.trace, SpanID: r.span, Parent: r.parent, RemoteParent: r.flags&hasRemoteParent != 0,
		Sampled: r.flags&isSampled != 0, Partial: r.flags&isPartial != 0, Kind: r.kind, Status: r.status, Start: r.start, End: r.end}
	s.Name = c.text(&d)
	if r.flags&hasAttributes != 0 {
		s.Attributes = c.attributes(&d)
	}
	if r.flags&hasEvents != 0 {
		from = int(min(d.uvarint(), MaxEvents))
		s.Events = make([]Event, d.count(MaxEvents, 4))
		for i := range s.Events {
			e := &s.Events[i]
			e.Name, e.Time = c.text(&d), s.Start+d.varint()
			e.Attributes, e.DroppedAttributes = c.attributes(&d), d.number()
		}
	}
	if r.flags&hasLinks != 0 {
		s.Links = make([]Link, d.count(MaxLinks, 27))
		for i := range s.Links {
			l := &s.Links[i]
			bits := d.byte()
			l.Sampled, l.Remote = bits&1 != 0, bits&2 != 0
			l.TraceID, l.SpanID = d.trace(), d.id()
			l.Attributes, l.DroppedAttributes = c.attributes(&d), d.number()
		}
	}
	if r.flags&hasMore != 0 {
		s.Scope.Name, s.Scope.Version, s.Message = c.text(&d), c.text(&d), c.text(&d)
		s.DroppedAttributes, s.DroppedEvents, s.DroppedLinks = d.number(), d.number(), d.number()
		if len(d.b) > 0 {
			s.Scope.SchemaURL, s.Scope.Attributes = c.text(&d), c.attributes(&d)
		}
	}
	if d.bad || len(d.b) > 0 {
		return Span{}, 0, errChunk
	}
	return s, from, nil
}

func (c *chunk) attributes(d *decoder) []Attribute {
	n := d.count(MaxAttributes, 2)
	if n == 0 {
		return nil
	}
	list := make([]Attribute, n)
	for i := range list {
		a := &list[i]
		a.Key = c.text(d)
		a.Value.kind = Type(d.byte())
		switch a.Value.kind {
		case TypeString:
			a.Value.text = c.text(d)
		case TypeList:
			n := d.uvarint()
			if n > MaxString {
				d.fail()
			}
			a.Value.text = d.take(n)
			for rest := a.Value.text; len(rest) > 0; {
				_, n := unpack(rest)
				if n == 0 {
					d.fail()
					break
				}
				rest = rest[n:]
			}
		default:
			d.rest(&a.Value)
		}
	}
	return list
}
