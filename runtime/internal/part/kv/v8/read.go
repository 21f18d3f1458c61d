package v8

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"math"
	"math/big"
	"slices"
	"strconv"
	"time"
	"unicode/utf16"
)

// AppendJSON appends the form of a value in JSON: the result of JSON.stringify, except that
// integers of any size are numbers, bytes are {"$bytes":base64}, a Map is an array of pairs and a
// Set an array. The error is ErrOpaque or ErrMalformed; dst is then as it was.
func AppendJSON(dst, data []byte) ([]byte, error) {
	d, err := open(data)
	if err != nil {
		return dst, err
	}
	out, err := d.value(dst)
	switch {
	case err != nil:
		return dst, err
	case len(d.b) > 0:
		return dst, malformed("%d bytes follow it", len(d.b))
	}
	return out, nil
}

// Number returns the number of a value: an integer for a bigint, otherwise a double. The error is
// ErrOpaque for any other value.
func Number(data []byte) (integer *big.Int, double float64, err error) {
	d, err := open(data)
	if err != nil {
		return nil, 0, err
	}
	t, err := d.tag()
	if err != nil {
		return nil, 0, err
	}
	switch t {
	case tagBigInt:
		integer, err = d.bigInt()
	case tagInt32, tagUint32, tagDouble:
		double, err = d.number(t)
	default:
		err = ErrOpaque
	}
	if err == nil && len(d.b) > 0 {
		err = malformed("%d bytes follow it", len(d.b))
	}
	return integer, double, err
}

// nesting has the tags of values that are arrays or objects in JSON, or that another value follows.
var nesting = []byte{tagObject, tagDense, tagSparse, tagMap, tagSet, tagBuffer, tagResizable, tagCount}

// value appends the next value.
func (d *decoder) value(dst []byte) ([]byte, error) {
	t, err := d.tag()
	if err != nil {
		return dst, err
	}
	if d.depth++; d.depth > MaxDepth && slices.Contains(nesting, t) {
		return dst, ErrOpaque
	}
	defer func() { d.depth-- }()
	switch t {
	case tagUndefined, tagNull, tagHole:
		return append(dst, "null"...), nil
	case tagTrue, tagTrueObj:
		return append(dst, "true"...), nil
	case tagFalse, tagFalseObj:
		return append(dst, "false"...), nil
	case tagInt32, tagUint32, tagDouble, tagNumberObj:
		f, err := d.number(t)
		return appendNumber(dst, f), err
	case tagBigInt, tagBigIntObj:
		n, err := d.bigInt()
		switch {
		case err != nil:
			return dst, err
		case Long(n):
			return dst, ErrOpaque
		}
		return n.Append(dst, 10), nil
	case tagStringObj:
		if t, err = d.tag(); err != nil {
			return dst, err
		}
		fallthrough
	case tagLatin1, tagUTF16, tagUTF8:
		s, err := d.text(t)
		if err != nil {
			return dst, err
		}
		return appendText(dst, s)
	case tagDate:
		f, err := d.double()
		return appendDate(dst, f), err
	case tagObject:
		return d.object(dst)
	case tagDense:
		return d.dense(dst)
	case tagSparse:
		return d.sparse(dst)
	case tagMap:
		return d.list(dst, tagMapEnd, 2)
	case tagSet:
		return d.list(dst, tagSetEnd, 1)
	case tagBuffer, tagResizable:
		return d.buffer(dst, t)
	case tagCount:
		if _, err := d.varint(); err != nil {
			return dst, err
		}
		return d.value(dst)
	}
	return dst, ErrOpaque
}

// number reads a number after its tag.
func (d *decoder) number(tag byte) (float64, error) {
	if tag == tagDouble || tag == tagNumberObj {
		return d.double()
	}
	n, err := d.varint()
	switch {
	case err != nil:
		return 0, err
	case n > math.MaxUint32:
		return 0, malformed("a number has more than 32 bits")
	case tag == tagInt32:
		return float64(int32(n>>1) ^ -int32(n&1)), nil
	}
	return float64(n), nil
}

func (d *decoder) bigInt() (*big.Int, error) {
	field, err := d.varint()
	if err != nil {
		return nil, err
	}
	b, err := d.take(field >> 1)
	if err != nil {
		return nil, err
	}
	b = slices.Clone(b)
	slices.Reverse(b)
	n := new(big.Int).SetBytes(b)
	if field&1 != 0 {
		n.Neg(n)
	}
	return n, nil
}

// text reads a string after its tag. Surrogates without their partners become U+FFFD.
func (d *decoder) text(tag byte) (string, error) {
	b, err := d.sized()
	if err != nil {
		return "", err
	}
	switch tag {
	case tagUTF8:
		return string(b), nil
	case tagLatin1:
		s := make([]rune, len(b))
		for i, c := range b {
			s[i] = rune(c)
		}
		return string(s), nil
	case tagUTF16:
		if len(b)%2 != 0 {
			return "", malformed("a string of two-byte characters has %d bytes", len(b))
		}
		units := make([]uint16, len(b)/2)
		for i := range units {
			units[i] = binary.LittleEndian.Uint16(b[2*i:])
		}
		return string(utf16.Decode(units)), nil
	}
	return "", malformed("a string begins with the byte %#x", tag)
}

// key reads a property's name.
func (d *decoder) key() (string, error) {
	t, err := d.tag()
	if err != nil {
		return "", err
	}
	switch t {
	case tagInt32, tagUint32, tagDouble:
		f, err := d.number(t)
		return string(appendNumber(nil, f)), err
	}
	return d.text(t)
}

// object appends an object. Properties that are undefined are left out.
func (d *decoder) object(dst []byte) ([]byte, error) {
	dst = append(dst, '{')
	for first, n := true, uint64(0); ; n++ {
		t, err := d.peek()
		if err != nil {
			return dst, err
		}
		if t == tagObjectEnd {
			return append(dst, '}'), d.end(n)
		}
		name, err := d.key()
		if err != nil {
			return dst, err
		}
		if t, err = d.peek(); err != nil {
			return dst, err
		}
		if t == tagUndefined {
			d.b = d.b[1:]
			continue
		}
		if !first {
			dst = append(dst, ',')
		}
		first = false
		if dst, err = appendText(dst, name); err != nil {
			return dst, err
		}
		if dst, err = d.value(append(dst, ':')); err != nil {
			return dst, err
		}
	}
}

// end reads the tag that ends a value and how many parts it had.
func (d *decoder) end(n uint64) error {
	d.b = d.b[1:]
	said, err := d.varint()
	if err == nil && said != n {
		err = malformed("it has %d parts and says %d", n, said)
	}
	return err
}

// dense appends an array whose elements follow each other. Properties beside them have no place in
// JSON.
func (d *decoder) dense(dst []byte) ([]byte, error) {
	n, err := d.varint()
	if err != nil {
		return dst, err
	}
	dst = append(dst, '[')
	for i := range n { // each element takes a byte at least
		if i > 0 {
			dst = append(dst, ',')
		}
		if dst, err = d.value(dst); err != nil {
			return dst, err
		}
	}
	t, err := d.tag()
	switch {
	case err != nil:
		return dst, err
	case t != tagDenseEnd:
		return dst, ErrOpaque
	}
	return append(dst, ']'), d.counts(0, n)
}

// counts reads the numbers of properties and elements that end an array.
func (d *decoder) counts(properties, elements uint64) error {
	for _, want := range [...]uint64{properties, elements} {
		n, err := d.varint()
		if err != nil {
			return err
		}
		if n != want {
			return malformed("an array of %d says %d", want, n)
		}
	}
	return nil
}

// sparse appends an array with gaps, which are null. A value with many more gaps than bytes is
// opaque.
func (d *decoder) sparse(dst []byte) ([]byte, error) {
	length, err := d.varint()
	if err != nil {
		return dst, err
	}
	if length > d.gaps {
		return dst, ErrOpaque
	}
	d.gaps -= length
	dst = append(dst, '[')
	next, properties := uint64(0), uint64(0)
	fill := func(to uint64) {
		for ; next < to; next++ {
			if next > 0 {
				dst = append(dst, ',')
			}
			dst = append(dst, "null"...)
		}
	}
	for {
		t, err := d.tag()
		if err != nil {
			return dst, err
		}
		if t == tagSparseEnd {
			fill(length)
			return append(dst, ']'), d.counts(properties, length)
		}
		if t != tagInt32 && t != tagUint32 {
			return dst, ErrOpaque // a property beside the elements
		}
		at, err := d.number(t)
		switch {
		case err != nil:
			return dst, err
		case at < float64(next) || at >= float64(length):
			return dst, malformed("the element %v of an array is not in order", at)
		}
		fill(uint64(at))
		if next > 0 {
			dst = append(dst, ',')
		}
		if dst, err = d.value(dst); err != nil {
			return dst, err
		}
		next++
		properties++
	}
}

// list appends the elements of a Map or a Set, each of so many values.
func (d *decoder) list(dst []byte, end byte, values int) ([]byte, error) {
	dst = append(dst, '[')
	for n := uint64(0); ; n += uint64(values) {
		t, err := d.peek()
		if err != nil {
			return dst, err
		}
		if t == end {
			return append(dst, ']'), d.end(n)
		}
		if n > 0 {
			dst = append(dst, ',')
		}
		if values == 1 {
			if dst, err = d.value(dst); err != nil {
				return dst, err
			}
			continue
		}
		if d.depth++; d.depth > MaxDepth { // the pair is an array too
			return dst, ErrOpaque
		}
		if dst, err = d.value(append(dst, '[')); err != nil {
			return dst, err
		}
		if dst, err = d.value(append(dst, ',')); err != nil {
			return dst, err
		}
		dst = append(dst, ']')
		d.depth--
	}
}

// buffer appends the bytes of a buffer, or of the view of it that follows.
func (d *decoder) buffer(dst []byte, tag byte) ([]byte, error) {
	n, err := d.varint()
	if err != nil {
		return dst, err
	}
	if tag == tagResizable {
		if _, err := d.varint(); err != nil {
			return dst, err
		}
	}
	b, err := d.take(n)
	if err != nil {
		return dst, err
	}
	if len(d.b) > 0 && d.b[0] == tagView {
		d.b = d.b[1:]
		if b, err = d.view(b); err != nil {
			return dst, err
		}
	}
	dst = append(dst, `{"$bytes":"`...)
	dst = base64.StdEncoding.AppendEncode(dst, b)
	return append(dst, `"}`...), nil
}

// view reads a view of a buffer. Only views of bytes are plain data: for others the bytes do not
// show the numbers.
func (d *decoder) view(b []byte) ([]byte, error) {
	kind, err := d.take(1)
	if err != nil {
		return nil, err
	}
	var field [3]uint64 // offset, length, flags
	fields := 2
	if d.version >= 14 {
		fields = 3
	}
	for i := range fields {
		if field[i], err = d.varint(); err != nil {
			return nil, err
		}
	}
	offset, length := field[0], field[1]
	switch {
	case offset > uint64(len(b)) || length > uint64(len(b))-offset:
		return nil, malformed("a view is larger than its buffer")
	case kind[0] != 'B' && kind[0] != 'C' && kind[0] != '?': // Uint8Array, Uint8ClampedArray, DataView
		return nil, ErrOpaque
	}
	return b[offset : offset+length], nil
}

// appendNumber appends a double as JavaScript writes it; null if JSON has no such number.
func appendNumber(dst []byte, f float64) []byte {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return append(dst, "null"...)
	}
	if f == 0 {
		return append(dst, '0') // -0 too
	}
	text, err := json.Marshal(f)
	if err != nil {
		return append(dst, "null"...)
	}
	return append(dst, text...)
}

func appendText(dst []byte, s string) ([]byte, error) {
	text, err := json.Marshal(s)
	return append(dst, text...), err
}

// appendDate appends milliseconds since 1970 as toJSON writes them; an invalid date is null.
func appendDate(dst []byte, ms float64) []byte {
	const most = 8.64e15 // ECMAScript 21.4.1.1
	if !(math.Abs(ms) <= most) {
		return append(dst, "null"...)
	}
	t := time.UnixMilli(int64(ms)).UTC()
	dst = append(dst, '"')
	switch year := t.Year(); {
	case year < 0:
		dst = append(dst, '-')
		dst = appendYear(dst, -year, 6)
	case year > 9999:
		dst = append(dst, '+')
		dst = appendYear(dst, year, 6)
	default:
		dst = appendYear(dst, year, 4)
	}
	return append(t.AppendFormat(dst, "-01-02T15:04:05.000Z"), '"')
}

func appendYear(dst []byte, year, digits int) []byte {
	text := strconv.Itoa(year)
	for range digits - len(text) {
		dst = append(dst, '0')
	}
	return append(dst, text...)
}
