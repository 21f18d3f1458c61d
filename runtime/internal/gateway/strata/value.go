package strata

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/kv"
)

// A client's value is a Value of Strata in its JSON form: "Null", {"Bool":true}, {"Int":1},
// {"Float":1.5}, {"String":"x"}, {"Bytes":base64}, {"Array":[values]} or {"Object":{name:value}}.
// Other JSON is a value, too, but the string "Null", and an object whose only member has one of
// these names, always have this meaning. It is stored as CBOR.

// The limits of values.
const (
	maxDepth = 128     // arrays and objects within each other
	maxValue = 1 << 20 // stored bytes
)

// The major types of CBOR: RFC 8949, section 3.1.
const (
	cborUint, cborNegative, cborBytes, cborText, cborArray, cborMap = 0 << 5, 1 << 5, 2 << 5, 3 << 5, 4 << 5, 5 << 5

	cborFalse, cborTrue, cborNull, cborDouble = 0xF4, 0xF5, 0xF6, 0xFB
)

func appendHead(dst []byte, major byte, n uint64) []byte {
	switch {
	case n < 24:
		return append(dst, major|byte(n))
	case n <= math.MaxUint8:
		return append(dst, major|24, byte(n))
	case n <= math.MaxUint16:
		return binary.BigEndian.AppendUint16(append(dst, major|25), uint16(n))
	case n <= math.MaxUint32:
		return binary.BigEndian.AppendUint32(append(dst, major|26), uint32(n))
	}
	return binary.BigEndian.AppendUint64(append(dst, major|27), n)
}

// A wrongValue is the error for a part of a value.
type wrongValue struct{ path, text string }

func (w *wrongValue) Error() string { return w.path + " " + w.text }

// maxStep and maxPath bound the names in an error's path to a part of a value, in bytes.
const (
	maxStep = 60
	maxPath = 200
)

// below adds a step to the path of a faulty part.
func below(step string, err error) error {
	w, is := err.(*wrongValue)
	if !is || len(w.path) >= maxPath {
		return err
	}
	if len(step) > maxStep {
		step = strings.ToValidUTF8(step[:maxStep], "") + "…"
	}
	w.path = step + w.path
	return err
}

func wrongf(format string, args ...any) error { return &wrongValue{text: fmt.Sprintf(format, args...)} }

// parseValue reads a client's value. The text must be JSON without duplicate members. member names
// it in errors.
func parseValue(text []byte, member string) (kv.Value, error) {
	if len(text) == 0 {
		return kv.Value{}, invalid(member, "is missing; null is one")
	}
	p := parser{text: text}
	err := p.survey()
	if err == nil {
		err = p.value()
	}
	if err != nil && err != errLong {
		err = below(member, err)
		return kv.Value{}, host.Errorf(host.InvalidArgument, "%s", err).With("field", member)
	}
	if len(p.out) > maxValue {
		return kv.Value{},
			host.OverLimit("bytes of the "+member+" as it is stored", maxValue, int64(len(p.out))).With("field", member)
	}
	return kv.Value{Encoding: host.EncodedTyped, Data: p.out}, nil
}

var errLong = errors.New("the value is too long")

func tooDeep() error { return wrongf("nests more than %d deep", maxDepth) }

// A parser reads valid JSON.
type parser struct {
	text   []byte
	at     int
	counts []uint32 // of elements or members of the next arrays and objects
	depth  int
	out    []byte
}

// survey counts the elements and members of all arrays and objects.
func (p *parser) survey() error {
	var open []int // arrays and objects around
	filled := true // something came after the last bracket
	for i := 0; i < len(p.text); i++ {
		switch c := p.text[i]; c {
		case ' ', '\t', '\r', '\n', ':':
			continue
		case '[', '{':
			p.fill(open, filled)
			if open = append(open, len(p.counts)); len(open) > 2*maxDepth { // each may have a tag
				return tooDeep()
			}
			if len(p.counts) > 2*maxValue {
				return wrongf("has too many arrays and objects")
			}
			p.counts = append(p.counts, 0)
			filled = false
			continue
		case ']', '}':
			open = open[:len(open)-1]
		case ',':
			p.counts[open[len(open)-1]]++
		default:
			p.fill(open, filled)
			if c == '"' {
				i = stringEnd(p.text, i) - 1
			}
		}
		filled = true
	}
	return nil
}

// fill counts the first element of the innermost array or object.
func (p *parser) fill(open []int, filled bool) {
	if !filled {
		p.counts[open[len(open)-1]]++
	}
}

// stringEnd returns the end of the string that begins at i.
func stringEnd(text []byte, i int) int {
	for i++; text[i] != '"'; i++ {
		if text[i] == '\\' {
			i++
		}
	}
	return i + 1
}

// next returns the first byte of the next token.
func (p *parser) next() byte {
	for strings.IndexByte(" \t\r\n,:", p.text[p.at]) >= 0 {
		p.at++
	}
	return p.text[p.at]
}

// token reads a string, a number or a word.
func (p *parser) token() []byte {
	first := p.next()
	start := p.at
	if first == '"' {
		p.at = stringEnd(p.text, p.at)
		return p.text[start:p.at]
	}
	for p.at < len(p.text) && strings.IndexByte(" \t\r\n,:]}", p.text[p.at]) < 0 {
		p.at++
	}
	return p.text[start:p.at]
}

// enter reads an opening bracket, and returns how many elements or members follow.
func (p *parser) enter() int {
	p.at++
	n := p.counts[0]
	p.counts = p.counts[1:]
	return int(n)
}

func (p *parser) leave() {
	p.next()
	p.at++
}

// value reads a value.
func (p *parser) value() error {
	if len(p.out) > maxValue {
		return errLong
	}
	switch p.next() {
	case '[':
		return p.array()
	case '{':
		return p.object(true)
	case '"':
		token := p.token()
		if string(token) == `"Null"` {
			p.out = append(p.out, cborNull)
			return nil
		}
		return p.string(token)
	}
	switch token := p.token(); token[0] {
	case 't':
		p.out = append(p.out, cborTrue)
	case 'f':
		p.out = append(p.out, cborFalse)
	case 'n':
		p.out = append(p.out, cborNull)
	default:
		if isInteger(token) {
			return p.integer(token)
		}
		return p.double(token)
	}
	return nil
}

func isInteger(token []byte) bool { return !bytes.ContainsAny(token, ".eE") }

func (p *parser) string(token []byte) error {
	s, ok := unquote(token)
	if !ok {
		return wrongf("is not Unicode: it has a surrogate without its partner")
	}
	p.out = append(appendHead(p.out, cborText, uint64(len(s))), s...)
	return nil
}

func (p *parser) integer(token []byte) error {
	n, err := strconv.ParseInt(string(token), 10, 64)
	switch {
	case err != nil:
		return wrongf("is %.40s, which is not an integer of 64 bits", token)
	case n < 0:
		p.out = appendHead(p.out, cborNegative, uint64(-1-n))
	default:
		p.out = appendHead(p.out, cborUint, uint64(n))
	}
	return nil
}

func (p *parser) double(token []byte) error {
	f, err := strconv.ParseFloat(string(token), 64)
	if err != nil {
		return wrongf("is %.40s, which is out of the range of a double", token)
	}
	p.out = binary.BigEndian.AppendUint64(append(p.out, cborDouble), math.Float64bits(f))
	return nil
}

func (p *parser) array() error {
	n := p.enter()
	if p.depth++; p.depth > maxDepth {
		return tooDeep()
	}
	p.out = appendHead(p.out, cborArray, uint64(n))
	for i := range n {
		if err := p.value(); err != nil {
			return below("["+strconv.Itoa(i)+"]", err)
		}
	}
	p.depth--
	p.leave()
	return nil
}

// object reads an object, which may be a tag with a value.
func (p *parser) object(tagged bool) error {
	n := p.enter()
	if p.depth++; p.depth > maxDepth {
		return tooDeep()
	}
	mark := len(p.out)
	p.out = appendHead(p.out, cborMap, uint64(n))
	for range n {
		p.next()
		name := p.token()
		if tagged && n == 1 && tags[string(name)] != nil {
			p.out = p.out[:mark]
			p.depth--
			if err := p.tagged(name); err != nil {
				return err
			}
			p.leave()
			return nil
		}
		if err := p.string(name); err != nil {
			return wrongf("has a name that is not Unicode")
		}
		if err := p.value(); err != nil {
			return below("."+string(name[1:len(name)-1]), err)
		}
	}
	p.depth--
	p.leave()
	return nil
}

// tags read the values after tags. The token is of a value that is no array and no object.
var tags = map[string]func(p *parser, token []byte) error{
	`"Null"`: func(p *parser, token []byte) error { return p.word(token, cborNull, "null") },
	`"Bool"`: func(p *parser, token []byte) error {
		if string(token) == "true" {
			return p.word(token, cborTrue, "true")
		}
		return p.word(token, cborFalse, "false")
	},
	`"Int"`: func(p *parser, token []byte) error {
		if !isNumber(token) || !isInteger(token) {
			return wrongf("is not an integer")
		}
		return p.integer(token)
	},
	`"Float"`: func(p *parser, token []byte) error {
		if !isNumber(token) {
			return wrongf("is not a number")
		}
		return p.double(token)
	},
	`"String"`: func(p *parser, token []byte) error {
		if token[0] != '"' {
			return wrongf("is not a string")
		}
		return p.string(token)
	},
	`"Bytes"`: func(p *parser, token []byte) error {
		s, ok := unquote(token)
		b, err := base64.StdEncoding.Strict().DecodeString(s)
		if !ok || err != nil {
			return wrongf("is not base64")
		}
		p.out = append(appendHead(p.out, cborBytes, uint64(len(b))), b...)
		return nil
	},
	`"Array"`:  func(*parser, []byte) error { return wrongf("is not an array") },
	`"Object"`: func(*parser, []byte) error { return wrongf("is not an object") },
}

func isNumber(token []byte) bool { return token[0] == '-' || '0' <= token[0] && token[0] <= '9' }

// word reads the only allowed word.
func (p *parser) word(token []byte, as byte, want string) error {
	if string(token) != want {
		return wrongf("is not what it says")
	}
	p.out = append(p.out, as)
	return nil
}

// tagged reads the value after a tag.
func (p *parser) tagged(tag []byte) (err error) {
	switch c := p.next(); {
	case c == '[' && string(tag) == `"Array"`:
		err = p.array()
	case c == '{' && string(tag) == `"Object"`:
		err = p.object(false)
	case c == '[', c == '{':
		err = tags[string(tag)](p, []byte{c}) // c is not a valid token for it
	default:
		err = tags[string(tag)](p, p.token())
	}
	return below("."+string(tag[1:len(tag)-1]), err)
}

// shown is a value in the form for clients.
type shown kv.Value

// MarshalJSON writes the value with its tags.
func (v shown) MarshalJSON() ([]byte, error) { return appendValue(nil, kv.Value(v)) }

// appendString appends a string of JSON.
func appendString(dst []byte, s string) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if e.Encode(s) != nil {
		return append(dst, `""`...) // strings can be written
	}
	return append(dst, bytes.TrimSuffix(b.Bytes(), []byte("\n"))...)
}
