// Package v8 reads and writes values as V8 serializes them, which is how the clients of Deno KV
// send and expect values: ValueSerializer of v8/src/objects/value-serializer.h, versions 13 to 15.
// Plain data has a form in JSON; anything else (errors, regular expressions, references to an
// object that came before, objects of the host) is opaque and stays as it is.
package v8

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/big"
)

// Header is the byte that begins every value; the version follows it.
const Header = 0xFF

// The bytes that begin the parts of a value.
const (
	tagVersion   = Header
	tagPadding   = 0x00
	tagUndefined = '_'
	tagNull      = '0'
	tagTrue      = 'T'
	tagFalse     = 'F'
	tagInt32     = 'I' // zigzag varint
	tagUint32    = 'U' // varint
	tagDouble    = 'N' // 8 bytes, little-endian
	tagBigInt    = 'Z' // varint: twice the number of bytes, and the sign; the bytes, little-endian
	tagLatin1    = '"' // varint length, bytes
	tagUTF16     = 'c' // varint length in bytes, little-endian
	tagUTF8      = 'S' // varint length, bytes
	tagObject    = 'o' // keys and values, up to tagObjectEnd and a varint number of properties
	tagObjectEnd = '{'
	tagDense     = 'A' // varint length, elements, then properties, up to tagDenseEnd, their number and the length
	tagDenseEnd  = '$'
	tagHole      = '-'
	tagSparse    = 'a' // varint length, then indexes and other properties, up to tagSparseEnd, their number and the length
	tagSparseEnd = '@'
	tagDate      = 'D' // milliseconds, as a double
	tagTrueObj   = 'y'
	tagFalseObj  = 'x'
	tagNumberObj = 'n'
	tagBigIntObj = 'z'
	tagStringObj = 's'
	tagMap       = ';' // keys and values, up to tagMapEnd and their number
	tagMapEnd    = ':'
	tagSet       = '\'' // elements, up to tagSetEnd and their number
	tagSetEnd    = ','
	tagBuffer    = 'B' // varint length, bytes
	tagResizable = '~' // varint length, varint maximal length, bytes
	tagView      = 'V' // after a buffer: kind, varint offset, varint length, varint flags from version 14 on
	tagCount     = '?' // varint, without a meaning
)

const (
	oldest = 13
	latest = 15

	// MaxDepth is how deep the arrays and objects of a value may nest, to have a form in JSON.
	MaxDepth = 500

	// MaxDigits is how many decimal digits an integer may have, to have a form in JSON. The time to
	// read or write more grows with their square.
	MaxDigits = 10_000
)

var tooLong = new(big.Int).Exp(big.NewInt(10), big.NewInt(MaxDigits), nil)

// Long reports whether an integer has more than MaxDigits.
func Long(n *big.Int) bool { return n.CmpAbs(tooLong) >= 0 }

var (
	// ErrOpaque is the error for a value that has no form in JSON, or is not of the type that the
	// caller needs.
	ErrOpaque = errors.New("v8: the value is not plain data")
	// ErrMalformed is the error for bytes that V8 does not write.
	ErrMalformed = errors.New("v8: the value is malformed")
)

// A decoder reads a value from the front of b.
type decoder struct {
	b       []byte
	version byte
	depth   int
	gaps    uint64 // how many elements sparse arrays may have in all
}

func malformed(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrMalformed, fmt.Sprintf(format, args...))
}

// open reads the header.
func open(data []byte) (*decoder, error) {
	d := &decoder{b: data, gaps: 16*uint64(len(data)) + 1024}
	if len(data) < 2 || data[0] != tagVersion {
		return nil, malformed("it has no header")
	}
	if d.version = data[1]; d.version < oldest || d.version > latest {
		return nil, fmt.Errorf("%w: its version is %d", ErrOpaque, d.version)
	}
	d.b = data[2:]
	return d, nil
}

// peek returns the next byte that is not padding.
func (d *decoder) peek() (byte, error) {
	for len(d.b) > 0 && d.b[0] == tagPadding {
		d.b = d.b[1:]
	}
	if len(d.b) == 0 {
		return 0, malformed("it ends early")
	}
	return d.b[0], nil
}

// tag is peek, and reads the byte.
func (d *decoder) tag() (byte, error) {
	t, err := d.peek()
	if err == nil {
		d.b = d.b[1:]
	}
	return t, err
}

func (d *decoder) varint() (uint64, error) {
	n, size := binary.Uvarint(d.b)
	if size <= 0 {
		return 0, malformed("a number is cut short")
	}
	d.b = d.b[size:]
	return n, nil
}

func (d *decoder) take(n uint64) ([]byte, error) {
	if n > uint64(len(d.b)) {
		return nil, malformed("it ends early")
	}
	b := d.b[:n]
	d.b = d.b[n:]
	return b, nil
}

// sized reads a length and as many bytes.
func (d *decoder) sized() ([]byte, error) {
	n, err := d.varint()
	if err != nil {
		return nil, err
	}
	return d.take(n)
}

func (d *decoder) double() (float64, error) {
	b, err := d.take(8)
	if err != nil {
		return 0, err
	}
	return math.Float64frombits(binary.LittleEndian.Uint64(b)), nil
}
