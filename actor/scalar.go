package actor

import (
	"encoding/binary"
	"strconv"
)

// The functions below encode and decode numbers, text and truth values without reflection, in the usual of their forms: such
// values are the inputs and outputs of many methods. They leave everything else, errors included, to the libraries.

// CBOR major types and simple values (RFC 8949, section 3).
const (
	cborUint  = 0 << 5
	cborNeg   = 1 << 5
	cborText  = 3 << 5
	cborFalse = 0xF4
	cborTrue  = 0xF5
)

// appendScalarCBOR appends what v points to; ok is false if it is no scalar.
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

// decodeScalarCBOR decodes data into what v points to; ok is false if something else has to.
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

// appendScalarJSON appends what v points to; ok is false if something else has to.
func appendScalarJSON(dst []byte, v any) (_ []byte, ok bool) {
	switch v := v.(type) {
	case *int:
		return strconv.AppendInt(dst, int64(*v), 10), true
	case *int64:
		return strconv.AppendInt(dst, *v, 10), true
	case *uint64:
		return strconv.AppendUint(dst, *v, 10), true
	case *bool:
		return strconv.AppendBool(dst, *v), true
	}
	return dst, false
}

// decodeScalarJSON decodes data into what v points to; ok is false if something else has to.
func decodeScalarJSON(data []byte, v any) (ok bool) {
	switch v := v.(type) {
	case *int:
		n, ok := jsonInt(data)
		if ok && int64(int(n)) == n {
			*v = int(n)
			return true
		}
	case *int64:
		if n, ok := jsonInt(data); ok {
			*v = n
			return true
		}
	case *uint64:
		if n, ok := jsonInt(data); ok && data[0] != '-' {
			*v = uint64(n)
			return true
		}
	case *bool:
		switch string(data) {
		case "true", "false":
			*v = data[0] == 't'
			return true
		}
	case *string:
		if len(data) < 2 || data[0] != '"' || data[len(data)-1] != '"' {
			return false
		}
		for _, c := range data[1 : len(data)-1] {
			if c < ' ' || c > '~' || c == '"' || c == '\\' {
				return false
			}
		}
		*v = string(data[1 : len(data)-1])
		return true
	}
	return false
}

// jsonInt reads an integer of up to 18 digits.
func jsonInt(data []byte) (n int64, ok bool) {
	digits := data
	if len(digits) > 0 && digits[0] == '-' {
		digits = digits[1:]
	}
	if len(digits) == 0 || len(digits) > 18 || digits[0] == '0' && len(digits) > 1 {
		return 0, false
	}
	for _, c := range digits {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = 10*n + int64(c-'0')
	}
	if len(digits) < len(data) {
		n = -n
	}
	return n, true
}
