package codec

import "encoding/binary"

// The functions below write and read the CBOR of numbers, text and truth values, which are the
// inputs and outputs of many methods, without reflection. They leave everything else, errors
// included, to the library.

// CBOR major types and simple values (RFC 8949, section 3).
const (
	cborUint  = 0 << 5
	cborNeg   = 1 << 5
	cborText  = 3 << 5
	cborFalse = 0xF4
	cborTrue  = 0xF5
)

// appendScalarCBOR appends the value that v points to; ok is false if it is no scalar.
func appendScalarCBOR(dst []byte, v any) (_ []byte, ok bool) {
	switch v := v.(type) {
	case *int:
		return appendCBORInt(dst, int64(*v)), true
	case *int64:
		return appendCBORInt(dst, *v), true
	case *uint64:
		return appendCBORHead(dst, cborUint, *v), true
	case *string:
		return append(appendCBORHead(dst, cborText, uint64(len(*v))), *v...), true
	case *bool:
		if *v {
			return append(dst, cborTrue), true
		}
		return append(dst, cborFalse), true
	}
	return dst, false
}

func appendCBORInt(dst []byte, n int64) []byte {
	if n < 0 {
		return appendCBORHead(dst, cborNeg, uint64(^n))
	}
	return appendCBORHead(dst, cborUint, uint64(n))
}

// appendCBORHead appends the head of an item in its shortest form.
func appendCBORHead(dst []byte, major byte, n uint64) []byte {
	switch {
	case n < 24:
		return append(dst, major|byte(n))
	case n <= 0xFF:
		return append(dst, major|24, byte(n))
	case n <= 0xFFFF:
		return binary.BigEndian.AppendUint16(append(dst, major|25), uint16(n))
	case n <= 0xFFFF_FFFF:
		return binary.BigEndian.AppendUint32(append(dst, major|26), uint32(n))
	}
	return binary.BigEndian.AppendUint64(append(dst, major|27), n)
}

// decodeScalarCBOR decodes data into the value that v points to; ok is false if the library must.
func decodeScalarCBOR(data []byte, v any) (ok bool) {
	switch v := v.(type) {
	case *int:
		var n int64
		if n, ok = cborInt(data); ok && int64(int(n)) == n {
			*v = int(n)
			return true
		}
		return false
	case *int64:
		if n, ok := cborInt(data); ok {
			*v = n
			return true
		}
	case *uint64:
		if major, n, rest := cborHead(data); major == cborUint && len(rest) == 0 {
			*v = n
			return true
		}
	case *string:
		if major, n, rest := cborHead(data); major == cborText && uint64(len(rest)) == n {
			*v = string(rest)
			return true
		}
	case *bool:
		if len(data) == 1 && (data[0] == cborFalse || data[0] == cborTrue) {
			*v = data[0] == cborTrue
			return true
		}
	}
	return false
}

func cborInt(data []byte) (n int64, ok bool) {
	major, arg, rest := cborHead(data)
	if len(rest) > 0 || int64(arg) < 0 {
		return 0, false
	}
	switch major {
	case cborUint:
		return int64(arg), true
	case cborNeg:
		return ^int64(arg), true
	}
	return 0, false
}

// cborHead splits the head off an item; major is 0xFF if there is none.
func cborHead(data []byte) (major byte, arg uint64, rest []byte) {
	if len(data) == 0 {
		return 0xFF, 0, nil
	}
	major, arg, rest = data[0]&0xE0, uint64(data[0]&0x1F), data[1:]
	if arg < 24 {
		return major, arg, rest
	}
	size := 1 << (arg - 24)
	if arg > 27 || len(rest) < size {
		return 0xFF, 0, nil
	}
	arg = 0
	for _, c := range rest[:size] {
		arg = arg<<8 | uint64(c)
	}
	return major, arg, rest[size:]
}
