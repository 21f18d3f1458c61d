// Package wire decodes the inputs and encodes the outputs of built-in methods, in JSON and CBOR,
// and converts the names and values of applications that they carry.
//
// Invariant: a member of an input that its type does not have is an error that names it; it is
// never ignored.
package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"time"

	"github.com/fxamacker/cbor/v2"

	"github.com/cairn-run/cairn/actor/host"
)

// Decode decodes the input of a built-in method into what v points to. No input is the zero value.
func Decode(name string, codec host.Codec, data []byte, v any) error {
	if len(data) == 0 {
		return checkRanges(codec, data, v)
	}
	if err := host.CheckCounts(codec, data, v); err != nil {
		return err
	}
	var err error
	if codec == host.JSON {
		d := json.NewDecoder(bytes.NewReader(data))
		d.DisallowUnknownFields()
		d.UseNumber()
		if err = d.Decode(v); err == nil {
			if _, more := d.Token(); !errors.Is(more, io.EOF) {
				err = errors.New("there is more after the value")
			} else {
				err = host.CheckJSON(data, v)
			}
		}
	} else {
		err = Input.Unmarshal(data, v)
	}
	if err != nil {
		reason := inputReason(err)
		if codec == host.JSON {
			if m := host.FindMember(data, v, err); m != nil && m.Unfit {
				err, reason = m, m.Path+": "+inputReason(err)
			} else if m != nil {
				err, reason = m, m.Error()
			}
		}
		return host.WithMember(host.Errorf(host.InvalidArgument, "input of %s: %s", name, reason), "", err)
	}
	return checkRanges(codec, data, v)
}

// inputReason says what is wrong with an input, without terms of Go.
func inputReason(err error) string {
	var typ *json.UnmarshalTypeError
	var syntax *json.SyntaxError
	var moment *time.ParseError
	var refused *host.Error
	switch {
	case errors.As(err, &refused):
		return refused.Message // by a type that decodes itself
	case errors.As(err, &typ):
		return fmt.Sprintf("it is %s; %s is expected", host.Clip(typ.Value), jsonNoun(typ.Type))
	case errors.As(err, &moment), err.Error() == "Time.UnmarshalJSON: input is not a JSON string":
		return "it is not a time in RFC 3339 form, like 2026-11-21T16:00:00Z"
	case errors.As(err, &syntax), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return "it is not JSON"
	}
	msg := err.Error()
	for _, prefix := range []string{"json: ", "cbor: "} {
		if rest, ok := bytes.CutPrefix([]byte(msg), []byte(prefix)); ok {
			return host.Clip(string(rest))
		}
	}
	return host.Clip(msg)
}

// jsonNoun says what JSON is expected for a field of an input.
func jsonNoun(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Struct, reflect.Map:
		return "an object"
	case reflect.Slice, reflect.Array:
		return "an array"
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Float32, reflect.Float64:
		return "a number"
	case reflect.Pointer:
		return jsonNoun(t.Elem())
	}
	return "a whole number that fits"
}

// Encode encodes the output of a built-in method, to which v points. An output without fields is
// none.
func Encode(codec host.Codec, v any) ([]byte, error) {
	if t := reflect.TypeOf(v).Elem(); t.Kind() == reflect.Struct && t.NumField() == 0 {
		return nil, nil
	}
	if codec == host.JSON {
		var b bytes.Buffer
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false) // values in it keep their characters as they were given
		err := e.Encode(v)
		return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
	}
	return Output.Marshal(v)
}

var (
	// Input is the decoding mode of the inputs of built-in methods.
	Input = MustDecMode(cbor.DecOptions{
		DupMapKey: cbor.DupMapKeyEnforcedAPF, IndefLength: cbor.IndefLengthForbidden, ExtraReturnErrors: cbor.ExtraDecErrorUnknownField,
		MaxArrayElements: 1 << 20, MaxNestedLevels: 512, FieldNameMatching: cbor.FieldNameMatchingCaseSensitive, IntDec: cbor.IntDecConvertSignedOrFail,
	})
	// Output is the encoding mode of their outputs.
	Output = mustEncMode(cbor.EncOptions{
		Sort: cbor.SortNone, IndefLength: cbor.IndefLengthForbidden, Time: cbor.TimeRFC3339Nano, TimeTag: cbor.EncTagRequired,
	})
)

// Read reads an output that Encode made.
func Read[Out any](codec host.Codec, out []byte) (v Out) {
	if codec == host.JSON {
		json.Unmarshal(out, &v)
	} else {
		Input.Unmarshal(out, &v)
	}
	return v
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
		panic(err) // the options are constants
	}
	return m
}
