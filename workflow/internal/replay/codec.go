package replay

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"sync"

	"github.com/fxamacker/cbor/v2"
)

// A Codec encodes what a run stores: inputs, results, states of loops, errors.
type Codec interface {
	// Encode returns the encoded form of v, never nil.
	Encode(v any) ([]byte, error)
	// Decode decodes data into the value that v points to. It does not keep data.
	Decode(data []byte, v any) error
}

// cborCodec is the default: deterministic CBOR.
type cborCodec struct {
	enc cbor.EncMode
	dec cbor.DecMode
}

func (c cborCodec) Encode(v any) ([]byte, error)    { return c.enc.Marshal(v) }
func (c cborCodec) Decode(data []byte, v any) error { return c.dec.Unmarshal(data, v) }

// defaultCodec returns the codec of programs without WithCodec.
var defaultCodec = sync.OnceValues(func() (Codec, error) {
	enc, err := cbor.EncOptions{
		Sort:          cbor.SortCoreDeterministic,
		ShortestFloat: cbor.ShortestFloat16,
		NaNConvert:    cbor.NaNConvert7e00,
		InfConvert:    cbor.InfConvertFloat16,
		IndefLength:   cbor.IndefLengthForbidden,
		Time:          cbor.TimeRFC3339Nano,
		TimeTag:       cbor.EncTagRequired,
		ByteArray:     cbor.ByteArrayToByteSlice,
	}.EncMode()
	if err != nil {
		return nil, err
	}
	dec, err := cbor.DecOptions{
		IndefLength:      cbor.IndefLengthForbidden,
		MaxArrayElements: math.MaxInt32,
		MaxMapPairs:      math.MaxInt32,
		IntDec:           cbor.IntDecConvertSignedOrBigInt,
		DefaultMapType:   reflect.TypeFor[map[string]any](),
	}.DecMode()
	if err != nil {
		return nil, err
	}
	return cborCodec{enc, dec}, nil
})

// A CodecError says that a value cannot be encoded or decoded.
type CodecError struct {
	// Type is the Go type.
	Type string
	// Decoding is set if decoding failed.
	Decoding bool
	Err      error
}

func (e *CodecError) Error() string {
	if e.Decoding {
		return fmt.Sprintf("workflow: decode into %s: %v", e.Type, e.Err)
	}
	return fmt.Sprintf("workflow: encode %s: %v", e.Type, e.Err)
}

// Unwrap returns the codec's error.
func (e *CodecError) Unwrap() error { return e.Err }

var errNilEncoding = errors.New("the codec returned nil, which is no encoding")

// encode encodes a value. A panic of the codec, or of a method that it calls, is an error.
func (p *Program) encode(v any) (data []byte, err error) {
	defer func() {
		if e := recover(); e != nil {
			err = fmt.Errorf("panic: %v", e)
		}
		if err != nil {
			data, err = nil, &CodecError{Type: fmt.Sprintf("%T", v), Err: err}
		}
	}()
	data, err = p.config.codec.Encode(v)
	if err == nil && data == nil {
		err = errNilEncoding
	}
	return data, err
}

// decode is the inverse of encode. Without an encoded value it leaves *v unchanged.
func (p *Program) decode(data []byte, v any) (err error) {
	if data == nil {
		return nil
	}
	defer func() {
		if e := recover(); e != nil {
			err = fmt.Errorf("panic: %v", e)
		}
		if err != nil {
			err = &CodecError{Type: fmt.Sprintf("%T", v), Decoding: true, Err: err}
		}
	}()
	return p.config.codec.Decode(data, v)
}

func (p *Program) codec() Codec { return p.config.codec }

// EncodeInput encodes an input of the program. The error is a *CodecError.
func (p *Program) EncodeInput(in any) ([]byte, error) { return p.encode(in) }

// DecodeOutput decodes the output of the program into the value that out points to. The error is a
// *CodecError.
func (p *Program) DecodeOutput(data []byte, out any) error { return p.decode(data, out) }

func (r *Run) encode(v any) ([]byte, error)    { return r.program.encode(v) }
func (r *Run) decode(data []byte, v any) error { return r.program.decode(data, v) }
