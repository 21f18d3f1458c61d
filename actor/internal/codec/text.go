package codec

import (
	"bytes"
	"encoding"
	"encoding/json"
	"reflect"
	"strconv"
	"unicode/utf8"

	"github.com/fxamacker/cbor/v2"

	"github.com/cairn-run/cairn/actor/host"
)

// checkText returns a *ValueError if encoded, the form of v, shows text that is not UTF-8. JSON has
// no form for such text, and encoding/json silently replaces it by U+FFFD. v is read only if
// encoded looks like that, so that the usual value costs one pass over its bytes.
func checkText(as host.Codec, encoded []byte, v reflect.Value) error {
	if as == host.JSON {
		// It also stands for U+FFFD in JSON that a type makes itself, which findText accepts.
		if !bytes.Contains(encoded, []byte(`\ufffd`)) {
			return nil
		}
	} else if textIn(encoded) {
		return nil
	}
	return findText(as, v)
}

// textIn reports whether all text in a CBOR item is UTF-8. It stops at forms that this package does
// not write, such as an indefinite length.
func textIn(b []byte) bool {
	n := 0
	// The remaining items are counted, not nested: their depth does not matter here.
	for left := uint64(1); left > 0 && n < len(b); left-- {
		head := b[n]
		n++
		arg := uint64(head & 0x1F)
		if arg >= 24 && arg <= 27 {
			size := 1 << (arg - 24)
			if size > len(b)-n {
				return true
			}
			arg = 0
			for _, c := range b[n : n+size] {
				arg = arg<<8 | uint64(c)
			}
			n += size
		} else if arg > 27 {
			return true
		}
		switch head >> 5 {
		case 2, 3:
			if arg > uint64(len(b)-n) {
				return true
			}
			if head>>5 == 3 && !utf8.Valid(b[n:n+int(arg)]) {
				return false
			}
			n += int(arg)
		case 4:
			left += arg
		case 5:
			left += 2 * arg
		case 6:
			left++
		}
	}
	return true
}

// findText returns a *ValueError that names the first text of v that is not UTF-8; nil if there is
// none, or it is made by a type that encodes itself. v was encoded, so it does not contain itself.
func findText(as host.Codec, v reflect.Value) error {
	if !v.IsValid() {
		return nil
	}
	t := v.Type()
	switch {
	case as == host.CBOR && (implements[cbor.Marshaler](t) || implements[encoding.BinaryMarshaler](t)):
		return nil
	case as == host.JSON && implements[json.Marshaler](t):
		return nil
	case as == host.JSON && implements[encoding.TextMarshaler](t):
		return findMarshaled(v)
	}
	switch v.Kind() {
	case reflect.String:
		if !utf8.ValidString(v.String()) {
			return errNotText()
		}
	case reflect.Pointer, reflect.Interface:
		return findText(as, v.Elem())
	case reflect.Slice, reflect.Array:
		if t.Elem().Kind() == reflect.Uint8 {
			return nil
		}
		for i := range v.Len() {
			if err := findText(as, v.Index(i)); err != nil {
				return within(err, "["+strconv.Itoa(i)+"]")
			}
		}
	case reflect.Map:
		for i := v.MapRange(); i.Next(); {
			if err := findText(as, i.Key()); err != nil {
				return within(err, "key "+mapKeyText(i.Key()))
			}
			if err := findText(as, i.Value()); err != nil {
				return within(err, "["+mapKeyText(i.Key())+"]")
			}
		}
	case reflect.Struct:
		for i := range v.NumField() {
			f := t.Field(i)
			if !f.IsExported() && !f.Anonymous ||
				skipped(f, "json") && (as == host.JSON || skipped(f, "cbor", "json")) {
				continue
			}
			if err := findText(as, v.Field(i)); err != nil {
				return within(err, f.Name)
			}
		}
	}
	return nil
}

// findMarshaled is findText for a value that makes its own text.
func findMarshaled(v reflect.Value) error {
	if !v.CanInterface() {
		return nil
	}
	if v.CanAddr() {
		v = v.Addr()
	}
	if m, ok := v.Interface().(encoding.TextMarshaler); ok {
		if text, err := m.MarshalText(); err == nil && !utf8.Valid(text) {
			return errNotText()
		}
	}
	return nil
}

func errNotText() *ValueError { return &ValueError{Reason: "the text is not valid UTF-8"} }
