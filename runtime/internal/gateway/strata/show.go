package strata

import (
	"encoding/base64"
	"encoding/binary"
	"math"
	"strconv"
	"unicode/utf8"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/kv"
	"github.com/cairn-run/cairn/runtime/internal/part/kv/value"
)

// appendValue appends a stored value with its tags.
func appendValue(dst []byte, v kv.Value) ([]byte, error) {
	switch v.Encoding {
	case host.EncodedTyped, host.EncodedCBOR:
		r := reader{data: v.Data}
		if out, ok := r.value(dst, value.MaxDepth); ok && len(r.data) == 0 {
			return out, nil
		}
	case host.EncodedBytes:
		return appendBytes(dst, v.Data), nil
	}
	// Values of other interfaces are shown by their JSON.
	text, err := value.Value{Encoding: v.Encoding, Data: v.Data}.AppendJSON(nil)
	if err != nil {
		return nil, host.Errorf(host.Internal, "a stored value %s", err)
	}
	p := parser{text: text}
	return p.show(dst), nil
}

func appendBytes(dst, b []byte) []byte {
	return append(base64.StdEncoding.AppendEncode(append(dst, `{"Bytes":"`...), b), `"}`...)
}

// appendDouble appends a double in a form that only a double has. JSON has no NaN, which only other
// interfaces can store.
func appendDouble(dst []byte, f float64) []byte {
	dst = append(dst, `{"Float":`...)
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return append(strconv.AppendQuote(dst, strconv.FormatFloat(f, 'g', -1, 64)), '}')
	}
	start := len(dst)
	dst = strconv.AppendFloat(dst, f, 'g', -1, 64)
	if isInteger(dst[start:]) {
		dst = append(dst, ".0"...)
	}
	return append(dst, '}')
}

// show appends JSON with tags.
func (p *parser) show(dst []byte) []byte {
	switch p.next() {
	case '[':
		p.at++
		dst = append(dst, `{"Array":[`...)
		for first := true; p.next() != ']'; first = false {
			if !first {
				dst = append(dst, ',')
			}
			dst = p.show(dst)
		}
		p.at++
		return append(dst, "]}"...)
	case '{':
		p.at++
		dst = append(dst, `{"Object":{`...)
		for first := true; p.next() != '}'; first = false {
			if !first {
				dst = append(dst, ',')
			}
			dst = append(append(dst, p.token()...), ':')
			dst = p.show(dst)
		}
		p.at++
		return append(dst, "}}"...)
	}
	token, tag := p.token(), ""
	switch {
	case token[0] == 'n':
		return append(dst, `"Null"`...)
	case token[0] == '"':
		tag = `{"String":`
	case token[0] == 't' || token[0] == 'f':
		tag = `{"Bool":`
	case isInteger(token):
		tag = `{"Int":`
	default:
		tag = `{"Float":`
	}
	return append(append(append(dst, tag...), token...), '}')
}

// A reader reads CBOR in the forms that this package writes, and other simple forms.
type reader struct{ data []byte }

// head reads the head of an item; false means another form.
func (r *reader) head() (major, info byte, n uint64, ok bool) {
	if len(r.data) == 0 {
		return 0, 0, 0, false
	}
	major, info = r.data[0]&0xE0, r.data[0]&0x1F
	r.data = r.data[1:]
	if info < 24 {
		return major, info, uint64(info), true
	}
	if info > 27 {
		return 0, 0, 0, false
	}
	var b [8]byte
	size := 1 << (info - 24)
	if len(r.data) < size {
		return 0, 0, 0, false
	}
	copy(b[8-size:], r.data)
	r.data = r.data[size:]
	return major, info, binary.BigEndian.Uint64(b[:]), true
}

// bytes reads n bytes.
func (r *reader) bytes(n uint64) ([]byte, bool) {
	if n > uint64(len(r.data)) {
		return nil, false
	}
	b := r.data[:n]
	r.data = r.data[n:]
	return b, true
}

// text reads a string, and appends it as JSON.
func (r *reader) text(dst []byte, n uint64) ([]byte, bool) {
	b, ok := r.bytes(n)
	if !ok || !utf8.Valid(b) {
		return dst, false
	}
	return appendString(dst, string(b)), true
}

// value appends an item with its tags; false means another form.
func (r *reader) value(dst []byte, depth int) ([]byte, bool) {
	major, info, n, ok := r.head()
	if !ok || depth == 0 {
		return dst, false
	}
	switch major {
	case cborUint:
		return append(strconv.AppendUint(append(dst, `{"Int":`...), n, 10), '}'), true
	case cborNegative:
		if n > math.MaxInt64 {
			return dst, false
		}
		return append(strconv.AppendInt(append(dst, `{"Int":`...), -1-int64(n), 10), '}'), true
	case cborBytes:
		b, ok := r.bytes(n)
		return appendBytes(dst, b), ok
	case cborText:
		dst, ok := r.text(append(dst, `{"String":`...), n)
		return append(dst, '}'), ok
	case cborArray, cborMap:
		if n > uint64(len(r.data)) {
			return dst, false
		}
		return r.all(dst, major, int(n), depth-1)
	}
	switch info {
	case cborFalse & 0x1F:
		return append(dst, `{"Bool":false}`...), major == 7<<5
	case cborTrue & 0x1F:
		return append(dst, `{"Bool":true}`...), major == 7<<5
	case cborNull & 0x1F:
		return append(dst, `"Null"`...), major == 7<<5
	case 25:
		return appendDouble(dst, half(uint16(n))), major == 7<<5
	case 26:
		return appendDouble(dst, float64(math.Float32frombits(uint32(n)))), major == 7<<5
	case cborDouble & 0x1F:
		return appendDouble(dst, math.Float64frombits(n)), major == 7<<5
	}
	return dst, false
}

// half decodes a float of 16 bits: RFC 8949, appendix D.
func half(b uint16) float64 {
	exponent, mantissa := int(b>>10&0x1F), float64(b&0x3FF)
	f := math.Ldexp(mantissa+1024, exponent-25)
	switch {
	case exponent == 0:
		f = math.Ldexp(mantissa, -24)
	case exponent == 31 && mantissa == 0:
		f = math.Inf(1)
	case exponent == 31:
		return math.NaN()
	}
	if b>>15 == 1 {
		return -f
	}
	return f
}

// all appends the elements of an array, or the members of a map.
func (r *reader) all(dst []byte, major byte, n, depth int) ([]byte, bool) {
	open, end := `{"Array":[`, "]}"
	if major == cborMap {
		open, end = `{"Object":{`, "}}"
	}
	dst = append(dst, open...)
	for i := range n {
		if i > 0 {
			dst = append(dst, ',')
		}
		ok := true
		if major == cborMap {
			kind, _, size, has := r.head()
			if dst, ok = r.text(dst, size); !has || !ok || kind != cborText {
				return dst, false
			}
			dst = append(dst, ':')
		}
		if dst, ok = r.value(dst, depth); !ok {
			return dst, false
		}
	}
	return append(dst, end...), true
}
