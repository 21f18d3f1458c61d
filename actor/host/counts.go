package host

import (
	"encoding/binary"
	"fmt"
	"reflect"
	"strconv"
	"strings"
)

const (
	// CountedBytes is the least size of an input that CheckCounts checks. The memory of a shorter
	// one is bounded by its size.
	CountedBytes = 64 << 10
	// MaxLoose bounds the values of an input in keys, and in lists and objects without a limit of
	// their own, all together. An object counts as looseObject values, and so does each member of
	// an object beyond the number of members in its type.
	MaxLoose    = 1 << 20
	looseObject = 8
	// maxCountedDepth is more than the decoders of JSON and CBOR accept.
	maxCountedDepth = 10_000
)

// CheckCounts returns an error if a list is longer than its field allows, before the input is
// decoded: each element of two bytes may become a struct of hundreds. The limit is the tag max of
// the field in the type of v, into which the input will be decoded. The error is made by OverLimit
// and names the member. Malformed input is left to the decoder, which decodes nothing of it. A Raw
// is a copy of its bytes, so nothing in it is counted.
func CheckCounts(codec Codec, data []byte, v any) *Error {
	if len(data) < CountedBytes {
		return nil
	}
	c := counter{data: data}
	return c.check(codec, membersOf(reflect.TypeOf(v)))
}

// CheckLimits is CheckCounts for the type of an application: it counts only the lists whose fields
// have the tag max.
func CheckLimits(codec Codec, data []byte, v any) *Error {
	if len(data) < CountedBytes {
		return nil
	}
	m := membersOf(reflect.TypeOf(v))
	if !m.limited(make(map[*jsonMembers]bool)) {
		return nil
	}
	c := counter{data: data, limits: true}
	return c.check(codec, m)
}

// limited reports whether a field of a type, or of a type in it, has the tag max. seen has the
// types under inspection.
func (m *jsonMembers) limited(seen map[*jsonMembers]bool) bool {
	if m == nil || seen[m] {
		return false
	}
	seen[m] = true
	for name, inner := range m.fields {
		if m.max[name] > 0 || inner().limited(seen) {
			return true
		}
	}
	return m.items != nil && m.items().limited(seen)
}

// check counts the values of the input, and returns an error if some are over a limit.
func (c *counter) check(codec Codec, m *jsonMembers) *Error {
	if codec == JSON {
		c.json(m, 0, 0)
	} else {
		c.cbor(m, 0, 0)
	}
	if c.found == nil {
		return nil
	}
	path := strings.TrimPrefix(c.path, ".")
	what := path
	if c.loose > MaxLoose {
		what = "values in " + path
		if path == "" {
			what = "values in the input"
		}
	}
	e := OverLimit(what, c.found[0], c.found[1])
	if path != "" {
		e = e.With("field", path)
	}
	return e
}

// A counter goes through the encoding of a value that may be malformed.
type counter struct {
	data   []byte
	at     int
	limits bool // only lists with the tag max are counted
	loose  int64
	found  *[2]int64 // the limit that is exceeded, and the count
	path   string    // to the list that exceeds it
}

// within puts a step before the path.
func (c *counter) within(step string) {
	if len(c.path) < maxMemberPath {
		c.path = step + c.path
	}
}

// add counts values without a limit of their own, and reports whether they are within MaxLoose.
func (c *counter) add(n int64) bool {
	if c.limits {
		return true
	}
	if c.loose += n; c.loose > MaxLoose && c.found == nil {
		c.found = &[2]int64{MaxLoose, c.loose}
	}
	return c.found == nil
}

// element counts the next element of a list after n others, and reports whether it is within the
// limit.
func (c *counter) element(max, n int64) bool {
	if max == 0 {
		return c.add(1)
	}
	if n >= max {
		c.found = &[2]int64{max, n + c.rest()}
	}
	return c.found == nil
}

// rest returns the number of elements from here to the end of a JSON list; here is an element.
func (c *counter) rest() int64 {
	w := jsonWalk{data: c.data, at: c.at}
	for n, depth := int64(1), 0; ; {
		switch w.next() {
		case 0:
			return n
		case '"':
			w.text()
			continue
		case '[', '{':
			depth++
		case ']', '}':
			if depth == 0 {
				return n
			}
			depth--
		case ',':
			if depth == 0 {
				n++
			}
		}
		w.at++
	}
}

// field returns the jsonMembers of a member, and the tag max of its field. The decoder of JSON
// accepts names with other capitals too, before they are refused.
func (m *jsonMembers) field(name string) (*jsonMembers, int64) {
	if m == nil || m.fields == nil {
		return m.item(), 0
	}
	if f, known := m.fields[name]; known {
		return f(), m.max[name]
	}
	for other, f := range m.fields {
		if strings.EqualFold(other, name) {
			return f(), m.max[other]
		}
	}
	return nil, 0
}

// json counts the values in a JSON value, and reports whether to go on. max is its field's tag max.
func (c *counter) json(m *jsonMembers, max int64, depth int) bool {
	w := jsonWalk{data: c.data, at: c.at}
	first := w.next()
	if c.at = w.at; first == 0 || depth > maxCountedDepth {
		return false
	}
	if first != '[' && first != '{' {
		w.value(nil)
		ok := w.at > c.at
		c.at = w.at
		return ok
	}
	if m != nil && m.opaque {
		return c.skipJSON()
	}
	c.at++
	if first == '[' {
		return c.jsonList(m.item(), max, depth)
	}
	return c.jsonObject(m, depth)
}

func (c *counter) jsonList(items *jsonMembers, max int64, depth int) bool {
	for n := int64(0); ; {
		switch c.token() {
		case 0:
			return false
		case ']':
			c.at++
			return true
		case ',':
			c.at++
			continue
		}
		if !c.element(max, n) {
			return false
		}
		if !c.json(items, 0, depth+1) {
			c.within("[" + strconv.FormatInt(n, 10) + "]")
			return false
		}
		n++
	}
}

func (c *counter) jsonObject(m *jsonMembers, depth int) bool {
	known := m != nil && m.fields != nil
	if !known && !c.add(looseObject) {
		return false
	}
	for n := 0; ; n++ {
		switch c.token() {
		case '}':
			c.at++
			return true
		case ',':
			c.at++
			n--
			continue
		case '"':
		default:
			return false
		}
		if known && n >= len(m.fields) && !c.add(looseObject) {
			return false
		}
		w := jsonWalk{data: c.data, at: c.at}
		text := w.text()
		if len(text) < 2 {
			return false
		}
		name := unquote(text)
		c.at = w.at
		if c.token() != ':' || !known && !c.add(1) {
			return false
		}
		c.at++
		inner, max := m.field(string(name))
		if !c.json(inner, max, depth+1) {
			c.within("." + clipName(name))
			return false
		}
	}
}

// token returns the byte at which the next token begins, 0 at the end.
func (c *counter) token() byte {
	w := jsonWalk{data: c.data, at: c.at}
	first := w.next()
	c.at = w.at
	return first
}

// skipJSON skips a list or object with its content.
func (c *counter) skipJSON() bool {
	w := jsonWalk{data: c.data, at: c.at}
	for depth := 0; ; {
		switch w.next() {
		case 0:
			return false
		case '"':
			w.text()
			continue
		case '[', '{':
			depth++
		case ']', '}':
			depth--
		}
		w.at++
		if depth == 0 {
			c.at = w.at
			return true
		}
	}
}

// The major types of CBOR that have content: RFC 8949, section 3.1.
const (
	cborBytes = 2
	cborText  = 3
	cborArray = 4
	cborMap   = 5
	cborTag   = 6
)

// cborHead reads the head of an item of CBOR. Its number is the length of a text or list.
func (c *counter) cborHead() (major byte, n uint64, ok bool) {
	if c.at >= len(c.data) {
		return 0, 0, false
	}
	first := c.data[c.at]
	c.at++
	major, info := first>>5, first&31
	if info < 24 {
		return major, uint64(info), true
	}
	if info > 27 { // of indefinite length, which the decoder refuses
		return 0, 0, false
	}
	size := 1 << (info - 24)
	if size > len(c.data)-c.at {
		return 0, 0, false
	}
	var b [8]byte
	copy(b[8-size:], c.data[c.at:])
	c.at += size
	return major, binary.BigEndian.Uint64(b[:]), true
}

// cbor is json for an item of CBOR.
func (c *counter) cbor(m *jsonMembers, max int64, depth int) bool {
	major, n, ok := c.cborHead()
	for ok && major == cborTag {
		major, n, ok = c.cborHead()
	}
	if !ok || depth > maxCountedDepth || major >= cborBytes && major <= cborMap && n > uint64(len(c.data)-c.at) {
		return false
	}
	raw := m != nil && m.opaque
	switch major {
	case cborBytes, cborText:
		c.at += int(n)
	case cborArray:
		switch {
		case raw:
		case max > 0 && n > uint64(max):
			c.found = &[2]int64{max, int64(n)}
			return false
		case max == 0 && !c.add(int64(n)):
			return false
		}
		inner := m.item()
		for i := range n {
			if !c.cbor(inner, 0, depth+1) {
				c.within("[" + strconv.FormatUint(i, 10) + "]")
				return false
			}
		}
	case cborMap:
		switch known := m != nil && m.fields != nil; {
		case raw:
		case known && n > uint64(len(m.fields)) && !c.add(looseObject*(int64(n)-int64(len(m.fields)))):
			return false
		case !known && !c.add(looseObject+int64(n)):
			return false
		}
		for range n {
			start := c.at
			if !c.cbor(nil, 0, depth+1) {
				return false
			}
			name := cborName(c.data[start:c.at])
			inner, max := m, int64(0)
			if !raw {
				inner, max = m.field(name)
			}
			if !c.cbor(inner, max, depth+1) {
				c.within("." + clipName([]byte(name)))
				return false
			}
		}
	}
	return true
}

// cborName returns the text of a name, or a readable form of a name of another type.
func cborName(item []byte) string {
	c := counter{data: item}
	major, n, ok := c.cborHead()
	if ok && (major == cborText || major == cborBytes) && uint64(len(item)-c.at) == n {
		return string(item[c.at:])
	}
	return fmt.Sprintf("%.20x", item)
}
