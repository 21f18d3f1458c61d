package kernel

import (
	"encoding/binary"
	"fmt"

	"github.com/fxamacker/cbor/v2"
)

// replyRecord is the value of KindIdempotency, a record of package record.
type replyRecord struct {
	_           struct{} `cbor:",toarray"`
	Fingerprint []byte   // 16 bytes: xxh3-128 over method, codec and input
	Codec       uint8
	Version     uint64
	Output      []byte
}

func mustEncMode(o cbor.EncOptions) cbor.EncMode {
	m, err := o.EncMode()
	if err != nil {
		panic(err) // the options are constants of this package
	}
	return m
}

// MustDecMode makes a decoding mode from options that are constants; it panics if they are wrong.
func MustDecMode(o cbor.DecOptions) cbor.DecMode {
	m, err := o.DecMode()
	if err != nil {
		panic(err) // the options are constants of this package
	}
	return m
}

// splitState takes the state's value (KindPersisted) apart: the state version as a varint, then what Instance.Save wrote.
func splitState(value []byte) (version uint64, blob []byte, err error) {
	version, n := binary.Uvarint(value)
	if n <= 0 {
		return 0, nil, fmt.Errorf("kernel: stored state has no version header")
	}
	return version, value[n:], nil
}
