package kv

import (
	"encoding/binary"

	"github.com/fxamacker/cbor/v2"

	"github.com/cairn-run/cairn/actor/host"
)

// The first byte of a byte string in CBOR: RFC 8949, section 3.
const (
	byteString = 2 << 5
	follows8   = 24 // the length is in the next byte
	follows16  = 25
	follows32  = 26
)

// ByteString returns bytes as a byte string of CBOR, the form of a value.
func ByteString(b []byte) host.Raw {
	raw := make(host.Raw, 0, len(b)+5)
	switch n := len(b); {
	case n < follows8:
		raw = append(raw, byteString|byte(n))
	case n < 1<<8:
		raw = append(raw, byteString|follows8, byte(n))
	case n < 1<<16:
		raw = binary.BigEndian.AppendUint16(append(raw, byteString|follows16), uint16(n))
	default:
		raw = binary.BigEndian.AppendUint32(append(raw, byteString|follows32), uint32(n)) // a value has up to 1 MiB
	}
	return append(raw, b...)
}

// Bytes is the reverse of ByteString. The result may share memory with raw. The error code is
// InvalidArgument.
func Bytes(raw host.Raw) ([]byte, error) {
	if len(raw) > 0 && raw[0]>>5 == byteString>>5 {
		n, head := uint64(raw[0]&31), 1
		switch {
		case n == follows8 && len(raw) > 1:
			n, head = uint64(raw[1]), 2
		case n == follows16 && len(raw) > 2:
			n, head = uint64(binary.BigEndian.Uint16(raw[1:])), 3
		case n == follows32 && len(raw) > 4:
			n, head = uint64(binary.BigEndian.Uint32(raw[1:])), 5
		}
		if n == uint64(len(raw)-head) && (n < follows8 || head > 1) {
			return raw[head:len(raw):len(raw)], nil
		}
		var b []byte
		if cbor.Unmarshal(raw, &b) == nil {
			return b, nil
		}
	}
	return nil, host.Errorf(host.InvalidArgument, "in CBOR it is a byte string")
}
