package codec

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"strings"
	"sync"
	"time"

	"github.com/fxamacker/cbor/v2"

	"github.com/cairn-run/cairn/actor/host"
)

const (
	// maxDecodeDepth bounds the nesting of decoded CBOR. It exceeds maxDepth, the bound for encoded
	// values, by enough for types that encode themselves.
	maxDecodeDepth = 2 * maxDepth
	// maxPooled is the largest buffer that is kept for reuse, in bytes.
	maxPooled = 64 << 10
)

// A Codec holds the CBOR modes and the buffers of one actor type. Safe for concurrent use.
//
//  1. Equal values encode to equal bytes: map keys are sorted, numbers take their shortest form
//     that keeps the value.
//  2. Values that encode also decode, to equal values. So text need not be UTF-8 and lengths are
//     bounded by the input alone; values that could break this do not encode (see shape).
//  3. Decoding never writes to its input nor keeps a part of it.
type Codec struct {
	enc   cbor.UserBufferEncMode
	dec   cbor.DecMode
	cbors sync.Pool // of *bytes.Buffer
	jsons sync.Pool // of *jsonBuffer
}

// jsonBuffer is an encoder with the buffer that it writes to.
type jsonBuffer struct {
	buf bytes.Buffer
	enc *json.Encoder
}

// New panics only if the options, which are constant, are wrong.
func New() *Codec {
	enc, err := cbor.EncOptions{
		Sort:          cbor.SortCoreDeterministic,
		ShortestFloat: cbor.ShortestFloat16,
		NaNConvert:    cbor.NaNConvert7e00,
		InfConvert:    cbor.InfConvertFloat16,
		IndefLength:   cbor.IndefLengthForbidden,
		Time:          cbor.TimeRFC3339Nano,
		TimeTag:       cbor.EncTagRequired,
		ByteArray:     cbor.ByteArrayToByteSlice,
	}.UserBufferEncMode()
	if err != nil {
		panic(fmt.Sprintf("actor: CBOR encoding options: %v", err))
	}
	dec, err := cbor.DecOptions{
		DupMapKey:         cbor.DupMapKeyEnforcedAPF,
		IndefLength:       cbor.IndefLengthForbidden,
		MaxNestedLevels:   maxDecodeDepth,
		MaxArrayElements:  math.MaxInt32,
		MaxMapPairs:       math.MaxInt32,
		IntDec:            cbor.IntDecConvertSignedOrBigInt,
		DefaultMapType:    reflect.TypeFor[map[string]any](),
		UTF8:              cbor.UTF8DecodeInvalid,
		FieldNameMatching: cbor.FieldNameMatchingCaseSensitive,
	}.DecMode()
	if err != nil {
		panic(fmt.Sprintf("actor: CBOR decoding options: %v", err))
	}
	c := &Codec{enc: enc, dec: dec}
	c.cbors.New = func() any { return new(bytes.Buffer) }
	c.jsons.New = func() any {
		j := new(jsonBuffer)
		j.enc = json.NewEncoder(&j.buf)
		j.enc.SetEscapeHTML(false)
		return j
	}
	return c
}

// AppendCBOR appends the encoded form of the value that v points to.
func (c *Codec) AppendCBOR(dst []byte, v any) ([]byte, error) {
	if out, ok := appendScalarCBOR(dst, v); ok {
		return out, nil
	}
	return c.appendAnyCBOR(dst, v)
}

func (c *Codec) appendAnyCBOR(dst []byte, v any) ([]byte, error) {
	// The pooled buffer borrows dst, so that nothing is copied and nothing allocated if dst has
	// room.
	b := c.cbors.Get().(*bytes.Buffer)
	*b = *bytes.NewBuffer(dst)
	err := c.enc.MarshalToBuffer(v, b)
	out := b.Bytes()
	*b = bytes.Buffer{}
	c.cbors.Put(b)
	if err != nil {
		return dst, &ValueError{Reason: cborEncodeReason(err)}
	}
	return out, nil
}

// appendJSON appends the encoded form of the value that v points to.
func (c *Codec) appendJSON(dst []byte, v any) ([]byte, error) {
	j := c.jsons.Get().(*jsonBuffer)
	j.buf.Reset()
	err := j.enc.Encode(v)
	if err == nil {
		dst = append(dst, bytes.TrimSuffix(j.buf.Bytes(), []byte("\n"))...)
	}
	if j.buf.Cap() <= maxPooled {
		c.jsons.Put(j)
	}
	if err != nil {
		return dst, &ValueError{Reason: jsonEncodeReason(err)}
	}
	return dst, nil
}

// DecodeCBOR decodes data, one whole CBOR item, into the value that v points to.
func (c *Codec) DecodeCBOR(data []byte, v any) error {
	if decodeScalarCBOR(data, v) {
		return nil
	}
	return c.decodeAnyCBOR(data, v)
}

func (c *Codec) decodeAnyCBOR(data []byte, v any) error {
	if err := c.dec.Unmarshal(data, v); err != nil {
		return &ValueError{Reason: cborReason(err)}
	}
	return nil
}

// decodeJSON decodes data into *v. It refuses more than one JSON value, and unknown fields.
func (c *Codec) decodeJSON(data []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		fault := &ValueError{Reason: JSONReason(err)}
		if m := host.FindMember(data, v, err); m != nil {
			fault.cause = m
		}
		return fault
	}
	if rest := bytes.TrimLeft(data[d.InputOffset():], " \t\r\n"); len(rest) > 0 {
		return &ValueError{Reason: fmt.Sprintf("data after the JSON value, at byte %d", len(data)-len(rest))}
	}
	if err := host.CheckJSON(data, v); err != nil {
		return &ValueError{Reason: err.Error(), cause: err}
	}
	return nil
}

// Remote callers read the reasons below: they name fields, never Go types.

func cborReason(err error) string {
	var (
		mismatch *cbor.UnmarshalTypeError
		own      *host.Error
	)
	switch {
	case errors.As(err, &own):
		return own.Message
	case errors.As(err, &mismatch) && mismatch.StructFieldName != "":
		field := mismatch.StructFieldName[strings.LastIndexByte(mismatch.StructFieldName, '.')+1:]
		return fmt.Sprintf("field %q: a CBOR %s does not fit", field, mismatch.CBORType)
	case errors.As(err, &mismatch):
		return fmt.Sprintf("a CBOR %s does not fit", mismatch.CBORType)
	}
	return "not valid CBOR for the type"
}

func cborEncodeReason(err error) string {
	var own *host.Error
	if errors.As(err, &own) {
		return own.Message
	}
	return "has no CBOR form"
}

// JSONReason returns the reason of a JSON error, in words for remote callers.
func JSONReason(err error) string {
	var (
		own      *host.Error
		mismatch *json.UnmarshalTypeError
		syntax   *json.SyntaxError
		instant  *time.ParseError
	)
	switch {
	case errors.As(err, &own):
		return own.Message
	case errors.As(err, &mismatch):
		want := jsonNoun(mismatch.Type)
		if mismatch.Field == "" {
			return fmt.Sprintf("a JSON %s where %s is expected", host.Clip(mismatch.Value), want)
		}
		return fmt.Sprintf("field %q: a JSON %s where %s is expected", host.Clip(mismatch.Field),
			host.Clip(mismatch.Value), want)
	case errors.As(err, &syntax):
		return fmt.Sprintf("not valid JSON at byte %d: %s", syntax.Offset, syntax.Error())
	case errors.As(err, &instant):
		return fmt.Sprintf("%s is not a time in RFC 3339 form", host.Clip(instant.Value))
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return "the JSON value is cut off"
	}
	if field, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
		return "unknown field " + host.Clip(field)
	}
	return "not valid JSON for the type"
}

func jsonEncodeReason(err error) string {
	var (
		own   *host.Error
		value *json.UnsupportedValueError
	)
	switch {
	case errors.As(err, &own):
		return own.Message
	case errors.As(err, &value):
		return "has no JSON form: " + value.Str
	}
	return "has no JSON form"
}

// jsonNoun names the JSON that is expected for a Go type.
func jsonNoun(t reflect.Type) string {
	if t == reflect.TypeFor[time.Time]() {
		return "a time in RFC 3339 form"
	}
	if t.Implements(reflect.TypeFor[json.Unmarshaler]()) ||
		reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]()) {
		return "a JSON value"
	}
	switch t.Kind() {
	case reflect.Pointer:
		return jsonNoun(t.Elem())
	case reflect.Struct, reflect.Map:
		return "an object"
	case reflect.Slice, reflect.Array:
		if t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8 {
			return "a string of base64"
		}
		return "an array"
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Float32, reflect.Float64:
		return "a number"
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return fmt.Sprintf("a whole number of %d bits", t.Bits())
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return fmt.Sprintf("a whole number of %d bits and not negative", t.Bits())
	}
	return "a JSON value"
}
