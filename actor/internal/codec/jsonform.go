package codec

import (
	"encoding"
	"encoding/json"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
	"unsafe"
)

// A jsonForm writes and reads the JSON of a Go type, which is inspected once, when the type is
// declared. It handles truth values, numbers, text, and structs, slices and pointers of them, in
// their usual forms, with the results of encoding/json. Everything else, errors included, is left
// to encoding/json. Immutable.
type jsonForm struct {
	// append appends the value at p; false if it is not a usual one.
	append func(dst []byte, p unsafe.Pointer) ([]byte, bool)
	// read reads a value into the zero value at p; false if it is not a usual one.
	read func(r *jsonReader, p unsafe.Pointer) bool
	// empty reports whether omitempty leaves the value out; nil for never.
	empty func(p unsafe.Pointer) bool
}

// decode decodes data, one JSON value, into the zero value at p. If it returns false, a part of the
// value may have been set.
func (f *jsonForm) decode(data []byte, p unsafe.Pointer) bool {
	r := jsonReader{data: data}
	return f.read(&r, p) && r.next() == 0 && r.at == len(data)
}

// jsonForms are the forms of inspected types; nil for a type without one, such as a type that
// contains itself.
type jsonForms map[reflect.Type]*jsonForm

// of returns the form of a type, or nil.
func (forms jsonForms) of(t reflect.Type) *jsonForm {
	if f, ok := forms[t]; ok {
		return f
	}
	forms[t] = nil
	forms[t] = forms.make(t)
	return forms[t]
}

func (forms jsonForms) make(t reflect.Type) *jsonForm {
	own := []reflect.Type{
		reflect.TypeFor[json.Marshaler](), reflect.TypeFor[json.Unmarshaler](),
		reflect.TypeFor[encoding.TextMarshaler](), reflect.TypeFor[encoding.TextUnmarshaler](),
	}
	if t == reflect.TypeFor[json.Number]() || slices.ContainsFunc(own, reflect.PointerTo(t).Implements) {
		return nil
	}
	switch t.Kind() {
	case reflect.Bool:
		return boolForm
	case reflect.String:
		return textForm
	case reflect.Int:
		return intForm[int]()
	case reflect.Int8:
		return intForm[int8]()
	case reflect.Int16:
		return intForm[int16]()
	case reflect.Int32:
		return intForm[int32]()
	case reflect.Int64:
		return intForm[int64]()
	case reflect.Uint:
		return intForm[uint]()
	case reflect.Uint8:
		return intForm[uint8]()
	case reflect.Uint16:
		return intForm[uint16]()
	case reflect.Uint32:
		return intForm[uint32]()
	case reflect.Uint64:
		return intForm[uint64]()
	case reflect.Float32:
		return floatForm[float32](32)
	case reflect.Float64:
		return floatForm[float64](64)
	case reflect.Struct:
		return forms.ofStruct(t)
	case reflect.Slice:
		return forms.ofSlice(t)
	case reflect.Pointer:
		return forms.ofPointer(t)
	}
	return nil
}

var boolForm = &jsonForm{
	append: func(dst []byte, p unsafe.Pointer) ([]byte, bool) { return strconv.AppendBool(dst, *(*bool)(p)), true },
	read: func(r *jsonReader, p unsafe.Pointer) bool {
		*(*bool)(p) = r.word("true")
		return *(*bool)(p) || r.word("false")
	},
	empty: func(p unsafe.Pointer) bool { return !*(*bool)(p) },
}

var textForm = &jsonForm{
	append: func(dst []byte, p unsafe.Pointer) ([]byte, bool) { return appendPlainText(dst, *(*string)(p)) },
	read: func(r *jsonReader, p unsafe.Pointer) bool {
		s, ok := r.text()
		*(*string)(p) = string(s)
		return ok
	},
	empty: func(p unsafe.Pointer) bool { return *(*string)(p) == "" },
}

// appendPlainText appends text that needs only the short escapes, or none.
func appendPlainText(dst []byte, s string) ([]byte, bool) {
	dst = append(dst, '"')
	ascii, done := true, 0
	for i := range len(s) {
		c := s[i]
		if c >= ' ' && c != '"' && c != '\\' {
			ascii = ascii && c < utf8.RuneSelf
			continue
		}
		switch c {
		case '\n':
			c = 'n'
		case '\r':
			c = 'r'
		case '\t':
			c = 't'
		case '"', '\\':
		default:
			return dst, false
		}
		dst = append(append(dst, s[done:i]...), '\\', c)
		done = i + 1
	}
	// encoding/json escapes the separators of lines and paragraphs, which JavaScript once took for
	// ends of lines.
	if !ascii && (!utf8.ValidString(s) || strings.ContainsAny(s, "\u2028\u2029")) {
		return dst, false
	}
	return append(append(dst, s[done:]...), '"'), true
}

type integer interface {
	~int | ~int8 | ~int16 | ~int32 | ~int64 | ~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64
}

func intForm[T integer]() *jsonForm {
	signed := ^T(0) < 0
	return &jsonForm{
		append: func(dst []byte, p unsafe.Pointer) ([]byte, bool) {
			if signed {
				return strconv.AppendInt(dst, int64(*(*T)(p)), 10), true
			}
			return strconv.AppendUint(dst, uint64(*(*T)(p)), 10), true
		},
		read: func(r *jsonReader, p unsafe.Pointer) bool {
			data := r.number()
			n, ok := jsonInt(data)
			*(*T)(p) = T(n)
			return ok && int64(T(n)) == n && (signed || data[0] != '-')
		},
		empty: func(p unsafe.Pointer) bool { return *(*T)(p) == 0 },
	}
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

func floatForm[T float32 | float64](bits int) *jsonForm {
	return &jsonForm{
		append: func(dst []byte, p unsafe.Pointer) ([]byte, bool) {
			n := *(*T)(p)
			if abs := math.Abs(float64(n)); n != n || abs >= 1e21 || abs < 1e-6 && abs != 0 {
				return dst, false // it has an exponent, or no form
			}
			return strconv.AppendFloat(dst, float64(n), 'f', -1, bits), true
		},
		read: func(r *jsonReader, p unsafe.Pointer) bool {
			data := r.number()
			if !isPlainNumber(data) {
				return false
			}
			n, err := strconv.ParseFloat(string(data), bits)
			*(*T)(p) = T(n)
			return err == nil
		},
		empty: func(p unsafe.Pointer) bool { return *(*T)(p) == 0 },
	}
}

// isPlainNumber reports whether data is a JSON number without an exponent.
func isPlainNumber(data []byte) bool {
	whole, fraction, ok := strings.Cut(string(data), ".")
	if whole = strings.TrimPrefix(whole, "-"); whole == "" || whole[0] == '0' && len(whole) > 1 ||
		ok && fraction == "" {
		return false
	}
	digit := func(c rune) bool { return '0' <= c && c <= '9' }
	return strings.TrimFunc(whole, digit) == "" && strings.TrimFunc(fraction, digit) == ""
}

// A formField is a field of a struct with a form.
type formField struct {
	*jsonForm
	name   string
	head   string // the name as it is written, with its colon
	offset uintptr
	omit   bool // if it is empty
}

func (forms jsonForms) ofStruct(t reflect.Type) *jsonForm {
	var fields []formField
	for f := range t.Fields() {
		tag := f.Tag.Get("json")
		if f.Anonymous {
			return nil
		}
		if !f.IsExported() || tag == "-" {
			continue
		}
		name, options, _ := strings.Cut(tag, ",")
		if name == "" {
			name = f.Name
		}
		form := forms.of(f.Type)
		known := func(g formField) bool { return strings.EqualFold(g.name, name) }
		if form == nil || options != "" && options != "omitempty" ||
			strings.IndexFunc(name, noPlainName) >= 0 || slices.ContainsFunc(fields, known) {
			return nil
		}
		fields = append(fields, formField{form, name, `"` + name + `":`, f.Offset, options != "" && form.empty != nil})
	}
	if len(fields) > 64 {
		return nil // more than read can tick off
	}
	return &jsonForm{
		append: func(dst []byte, p unsafe.Pointer) (_ []byte, ok bool) {
			dst = append(dst, '{')
			first := true
			for i := range fields {
				f := &fields[i]
				at := unsafe.Add(p, f.offset)
				if f.omit && f.empty(at) {
					continue
				}
				if !first {
					dst = append(dst, ',')
				}
				first = false
				if dst, ok = f.append(append(dst, f.head...), at); !ok {
					return dst, false
				}
			}
			return append(dst, '}'), true
		},
		read: func(r *jsonReader, p unsafe.Pointer) bool {
			var had uint64
			next := 0 // the field that comes if they come in their order
			return r.list('{', '}', func() bool {
				name, ok := r.text()
				if !ok || r.next() != ':' {
					return false
				}
				r.at++
				if next >= len(fields) || fields[next].name != string(name) {
					next = slices.IndexFunc(fields, func(f formField) bool { return f.name == string(name) })
				}
				if next < 0 || had&(1<<next) != 0 {
					return false
				}
				f := &fields[next]
				had |= 1 << next
				next++
				return f.read(r, unsafe.Add(p, f.offset))
			})
		},
	}
}

// noPlainName reports whether a character of a member's name might be escaped, or make
// encoding/json ignore the name.
func noPlainName(c rune) bool {
	return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '_' && c != '-' && c != '.'
}

// sliceHeader is a slice of any type.
type sliceHeader struct {
	data     unsafe.Pointer
	len, cap int
}

func (forms jsonForms) ofSlice(t reflect.Type) *jsonForm {
	item, size := forms.of(t.Elem()), t.Elem().Size()
	if item == nil || t.Elem().Kind() == reflect.Uint8 {
		return nil // bytes are written as base64
	}
	return &jsonForm{
		append: func(dst []byte, p unsafe.Pointer) (_ []byte, ok bool) {
			s := (*sliceHeader)(p)
			if s.data == nil {
				return append(dst, "null"...), true
			}
			dst = append(dst, '[')
			for i := range s.len {
				if i > 0 {
					dst = append(dst, ',')
				}
				if dst, ok = item.append(dst, unsafe.Add(s.data, uintptr(i)*size)); !ok {
					return dst, false
				}
			}
			return append(dst, ']'), true
		},
		read: func(r *jsonReader, p unsafe.Pointer) bool {
			if r.word("null") {
				return true
			}
			s, v := (*sliceHeader)(p), reflect.NewAt(t, p).Elem()
			v.Set(reflect.MakeSlice(t, 0, 0))
			return r.list('[', ']', func() bool {
				if s.len == s.cap {
					v.Grow(1)
				}
				s.len++
				return item.read(r, unsafe.Add(s.data, uintptr(s.len-1)*size))
			})
		},
		empty: func(p unsafe.Pointer) bool { return (*sliceHeader)(p).len == 0 },
	}
}

func (forms jsonForms) ofPointer(t reflect.Type) *jsonForm {
	to := forms.of(t.Elem())
	if to == nil {
		return nil
	}
	return &jsonForm{
		append: func(dst []byte, p unsafe.Pointer) ([]byte, bool) {
			if *(*unsafe.Pointer)(p) == nil {
				return append(dst, "null"...), true
			}
			return to.append(dst, *(*unsafe.Pointer)(p))
		},
		read: func(r *jsonReader, p unsafe.Pointer) bool {
			if r.word("null") {
				return true
			}
			inner := reflect.New(t.Elem()).UnsafePointer()
			*(*unsafe.Pointer)(p) = inner
			return to.read(r, inner)
		},
		empty: func(p unsafe.Pointer) bool { return *(*unsafe.Pointer)(p) == nil },
	}
}

// A jsonReader reads a JSON text from its beginning.
type jsonReader struct {
	data []byte
	at   int
}

// next skips white space and returns the byte after it; 0 at the end.
func (r *jsonReader) next() byte {
	for ; r.at < len(r.data); r.at++ {
		switch c := r.data[r.at]; c {
		case ' ', '\t', '\r', '\n':
		default:
			return c
		}
	}
	return 0
}

// word reads a word if it is next. The caller checks what follows.
func (r *jsonReader) word(w string) bool {
	r.next()
	if len(r.data)-r.at < len(w) || string(r.data[r.at:r.at+len(w)]) != w {
		return false
	}
	r.at += len(w)
	return true
}

// number returns the next characters that may be part of a number.
func (r *jsonReader) number() []byte {
	r.next()
	start := r.at
	for ; r.at < len(r.data); r.at++ {
		if c := r.data[r.at]; (c < '0' || c > '9') && c != '-' && c != '.' {
			break
		}
	}
	return r.data[start:r.at]
}

// text reads a string, and returns the text of it.
func (r *jsonReader) text() ([]byte, bool) {
	if r.next() != '"' {
		return nil, false
	}
	start, plain, ascii := r.at, true, true
	for r.at++; r.at < len(r.data); r.at++ {
		switch c := r.data[r.at]; {
		case c == '"':
			r.at++
			s := r.data[start:r.at]
			if plain && (ascii || utf8.Valid(s)) {
				return s[1 : len(s)-1], true
			}
			var text string
			err := json.Unmarshal(s, &text)
			return []byte(text), err == nil
		case c == '\\':
			plain = false
			r.at++
		case c < ' ':
			return nil, false
		case c >= utf8.RuneSelf:
			ascii = false
		}
	}
	return nil, false
}

// list reads the items between two brackets, separated by commas. item reads one.
func (r *jsonReader) list(begin, end byte, item func() bool) bool {
	if r.next() != begin {
		return false
	}
	r.at++
	if r.next() == end {
		r.at++
		return true
	}
	for item() {
		switch r.next() {
		case ',':
			r.at++
		case end:
			r.at++
			return true
		default:
			return false
		}
	}
	return false
}
