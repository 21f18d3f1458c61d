// Package record encodes the values that the runtime itself stores in actors' keyspaces: a format
// byte, then a CBOR array of a struct's fields in order. Fields are only ever added at the end, so
// that a later release reads the values of an earlier one. The format byte is for a change that
// cannot be made that way.
//
// A record is a struct with the field
//
//	_ struct{} `cbor:",toarray"`
//
// A struct inside of a record cannot grow: fields are added to the record itself.
package record

import (
	"errors"
	"fmt"
	"reflect"

	"github.com/fxamacker/cbor/v2"
)

// format is the first byte of every record.
const format = 1

var (
	encoding = mustEncMode(cbor.EncOptions{Sort: cbor.SortNone, IndefLength: cbor.IndefLengthForbidden})
	decoding = mustDecMode(cbor.DecOptions{
		DupMapKey: cbor.DupMapKeyEnforcedAPF, IndefLength: cbor.IndefLengthForbidden, MaxNestedLevels: 8,
		MaxArrayElements: 1 << 20,
	})
)

func mustEncMode(o cbor.EncOptions) cbor.EncMode {
	m, err := o.EncMode()
	if err != nil {
		panic(err) // the options are constants of this file
	}
	return m
}

func mustDecMode(o cbor.DecOptions) cbor.DecMode {
	m, err := o.DecMode()
	if err != nil {
		panic(err) // the options are constants of this file
	}
	return m
}

// Encode returns the record of r, a struct or a pointer to one.
func Encode(r any) ([]byte, error) {
	b, err := encoding.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("record: encode %T: %w", r, err)
	}
	return append([]byte{format}, b...), nil
}

// Decode decodes a record into r, a pointer. Fields that the record does not have stay as they are.
func Decode(b []byte, r any) error {
	if len(b) == 0 {
		return fmt.Errorf("record: decode %T: empty record", r)
	}
	if b[0] != format {
		return fmt.Errorf("record: decode %T: unknown format %d", r, b[0])
	}
	err := decoding.Unmarshal(b[1:], r)
	if _, ok := errors.AsType[*cbor.UnmarshalTypeError](err); ok {
		if older := complete(b[1:], r); older != nil {
			err = decoding.Unmarshal(older, r)
		}
	}
	if err != nil {
		return fmt.Errorf("record: decode %T: %w", r, err)
	}
	return nil
}

// complete returns the array of an older record with a null for each field of r that it lacks; nil
// if it is no such array. The codec refuses arrays of another length, and a null leaves a field
// alone.
func complete(b []byte, r any) []byte {
	const arrays, most = 0x80, 23 // of a short array, the first byte is the sum of both numbers
	t := reflect.TypeOf(r)
	if t == nil || t.Kind() != reflect.Pointer || t.Elem().Kind() != reflect.Struct || len(b) == 0 {
		return nil
	}
	fields := t.Elem().NumField() - 1 // all except the one that makes it an array
	have := int(b[0]) - arrays
	if have < 0 || have >= fields || fields > most {
		return nil
	}
	older := append([]byte{arrays + byte(fields)}, b[1:]...)
	for range fields - have {
		older = append(older, 0xF6)
	}
	return older
}
