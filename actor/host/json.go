package host

import (
	"bytes"
	"cmp"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// CheckJSON returns an error if a JSON object names a member twice, or spells a member of a Go
// struct with other capitals. Package encoding/json accepts both and drops one of the values. The
// text must be valid JSON that decodes into v or into a value of its type. The members of a type
// that decodes itself may have any names, and a Raw is checked by its own decoder. The error is a
// *MemberError.
func CheckJSON(data []byte, v any) error {
	w := jsonWalk{data: data}
	if err := w.value(membersOf(reflect.TypeOf(v))); err != nil {
		return err // and not a nil *MemberError
	}
	return nil
}

// A MemberError describes a fault of a member of a JSON text, in words for a remote caller.
type MemberError struct {
	// Path leads to the member from the outermost value, such as "copy[2].to".
	Path string
	// Unknown is set if the struct has no such field.
	Unknown bool
	// Unfit is set if the value does not fit the field, or the field's type refuses it. Otherwise
	// the member is given twice.
	Unfit bool
}

// Error names the member.
func (e *MemberError) Error() string {
	switch {
	case e.Unknown:
		return fmt.Sprintf("unknown field %q", e.Path)
	case e.Unfit:
		return fmt.Sprintf("the value of %q does not fit", e.Path)
	}
	return fmt.Sprintf("member %q is given twice", e.Path)
}

// WithMember adds the path of a faulty member to e, as metadata "field". The path is that of err, a
// *MemberError or an error that wraps one, after field, the member whose value was decoded; field
// may be "".
func WithMember(e *Error, field string, err error) *Error {
	var m *MemberError
	if errors.As(err, &m) {
		inner := *m
		if field != "" {
			inner.under(field)
		}
		return e.With("field", inner.Path)
	}
	if field != "" {
		return e.With("field", field)
	}
	return e
}

// FindMember returns the member of a JSON text that does not decode into v; err is the decoder's
// error. It returns nil if no such member is found. If err is the Error of a type that decodes
// itself, the path goes on with the member in its metadata "field".
func FindMember(data []byte, v any, err error) *MemberError {
	if !json.Valid(data) {
		return nil
	}
	w := jsonWalk{data: data}
	if m := w.value(membersOf(reflect.TypeOf(v))); m != nil {
		return m
	}
	m := &MemberError{Path: unfit(data, reflect.TypeOf(v), maxUnfit), Unfit: true}
	var own *Error
	if errors.As(err, &own) && own.Metadata["field"] != "" {
		at := m.Path
		if m.Path = own.Metadata["field"]; at != "" {
			m.under(at)
		}
	}
	if m.Path == "" {
		return nil
	}
	return m
}

// maxUnfit bounds the depth of a search for a value that does not fit: each level decodes the
// values below it again.
const maxUnfit = 8

// unfit returns the path of a value that does not decode; "" is all of data.
func unfit(data []byte, t reflect.Type, levels int) string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	p := reflect.PointerTo(t)
	if levels == 0 || p.Implements(reflect.TypeFor[json.Unmarshaler]()) ||
		p.Implements(reflect.TypeFor[encoding.TextUnmarshaler]()) {
		return ""
	}
	inner := func(step string, data []byte, t reflect.Type) string {
		if json.Unmarshal(data, reflect.New(t).Interface()) == nil {
			return ""
		}
		m := MemberError{Path: unfit(data, t, levels-1)}
		return m.under(step).Path
	}
	switch t.Kind() {
	case reflect.Struct, reflect.Map:
		var values map[string]json.RawMessage
		if json.Unmarshal(data, &values) != nil {
			return ""
		}
		var fields map[string]*jsonField
		if t.Kind() == reflect.Struct {
			fields = jsonFields(t)
		}
		for _, name := range slices.Sorted(maps.Keys(values)) {
			typ := t
			if f := fields[name]; f != nil && f.quoted {
				continue // whether it fits is not to be told by its type
			} else if f != nil {
				typ = f.typ
			} else if fields != nil {
				continue
			} else {
				typ = t.Elem()
			}
			if path := inner(clipName([]byte(name)), values[name], typ); path != "" {
				return path
			}
		}
	case reflect.Slice, reflect.Array:
		var values []json.RawMessage
		if json.Unmarshal(data, &values) != nil {
			return ""
		}
		for i, value := range values {
			if path := inner("["+strconv.Itoa(i)+"]", value, t.Elem()); path != "" {
				return path
			}
		}
	}
	return ""
}

// maxMemberPath bounds the path in an error, in bytes. Its end is kept.
const maxMemberPath = 200

// under puts a step before the path.
func (e *MemberError) under(step string) *MemberError {
	switch {
	case len(e.Path) >= maxMemberPath:
	case e.Path == "" || e.Path[0] == '[':
		e.Path = step + e.Path
	default:
		e.Path = step + "." + e.Path
	}
	return e
}

// jsonMembers describes the JSON form of a Go type. Nil means unknown: any members may come.
type jsonMembers struct {
	fields map[string]func() *jsonMembers // of a struct
	max    map[string]int64               // elements that its lists may have, by the tag max
	items  func() *jsonMembers            // of a list or a map
	opaque bool                           // a Raw
}

// rawJSON describes a Raw.
var rawJSON = &jsonMembers{opaque: true}

// jsonTypes keeps the members of Go types, reflect.Type to *jsonMembers. They are facts about types
// and never change.
var jsonTypes sync.Map

// membersOf returns the members that a JSON object for the type t may have.
func membersOf(t reflect.Type) *jsonMembers {
	if t == nil {
		return nil
	}
	if known, ok := jsonTypes.Load(t); ok {
		return known.(*jsonMembers)
	}
	m := readMembers(t)
	jsonTypes.Store(t, m)
	return m
}

func readMembers(t reflect.Type) *jsonMembers {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t == reflect.TypeFor[Raw]() {
		return rawJSON
	}
	p := reflect.PointerTo(t)
	if p.Implements(reflect.TypeFor[json.Unmarshaler]()) || p.Implements(reflect.TypeFor[encoding.TextUnmarshaler]()) {
		return nil
	}
	later := func(t reflect.Type) func() *jsonMembers { return func() *jsonMembers { return membersOf(t) } }
	switch t.Kind() {
	case reflect.Struct:
		m := &jsonMembers{fields: make(map[string]func() *jsonMembers), max: make(map[string]int64)}
		for name, f := range jsonFields(t) {
			if !f.several {
				m.fields[name], m.max[name] = later(f.typ), f.max
			}
		}
		return m
	case reflect.Slice, reflect.Array, reflect.Map:
		return &jsonMembers{items: later(t.Elem())}
	}
	return nil
}

// A jsonField is a field of a struct, or of an embedded struct.
type jsonField struct {
	typ     reflect.Type
	depth   int  // of the embedding
	tagged  bool // its tag has the name
	quoted  bool // a number or a boolean in a string
	several bool // there are others like it: encoding/json takes none of them
	max     int64
}

// jsonFields returns the fields of a struct by their names in JSON. Go's own rule of which field
// hides another is of no use, because it uses the names in Go.
func jsonFields(t reflect.Type) map[string]*jsonField {
	found, seen := make(map[string]*jsonField), make(map[reflect.Type]bool)
	for depth, level := 0, []reflect.Type{t}; len(level) > 0; depth++ {
		var embedded []reflect.Type
		for _, t := range level {
			seen[t] = true
			for f := range t.Fields() {
				inner := f.Type
				if inner.Kind() == reflect.Pointer {
					inner = inner.Elem()
				}
				embeds := f.Anonymous && inner.Kind() == reflect.Struct
				tag := f.Tag.Get("json")
				if tag == "-" || !f.IsExported() && !embeds {
					continue
				}
				name, options, _ := strings.Cut(tag, ",")
				tagged := name != "" && strings.IndexFunc(name, noName) < 0
				switch {
				case !tagged && embeds:
					embedded = append(embedded, inner)
					continue
				case !tagged:
					name = f.Name
				}
				switch had := found[name]; {
				case had == nil, had.depth == depth && tagged && !had.tagged:
					max, _ := strconv.ParseInt(f.Tag.Get("max"), 10, 64)
					found[name] = &jsonField{
						typ: f.Type, depth: depth, tagged: tagged, quoted: slices.Contains(strings.Split(options, ","), "string"), max: max,
					}
				case had.depth == depth && tagged == had.tagged:
					had.several = true
				}
			}
		}
		level = slices.DeleteFunc(embedded, func(t reflect.Type) bool { return seen[t] })
	}
	return found
}

// noName reports whether a character makes encoding/json ignore the name in a tag.
func noName(r rune) bool {
	return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("!#$%&()*+-./:;<=>?@[]^_{|}~ ", r)
}

// item returns the jsonMembers of the values in a list or map.
func (m *jsonMembers) item() *jsonMembers {
	switch {
	case m == nil || m.opaque:
		return m
	case m.items != nil:
		return m.items()
	}
	return nil
}

// A jsonWalk goes through a JSON text that is known to be valid.
type jsonWalk struct {
	data []byte
	at   int
}

// next skips white space and returns the next byte; 0 at the end.
func (w *jsonWalk) next() byte {
	for ; w.at < len(w.data); w.at++ {
		switch w.data[w.at] {
		case ' ', '\t', '\r', '\n':
		default:
			return w.data[w.at]
		}
	}
	return 0
}

// text returns the string that begins here, with its quotes.
func (w *jsonWalk) text() []byte {
	start := w.at
	for w.at++; w.at < len(w.data); w.at++ {
		switch w.data[w.at] {
		case '\\':
			w.at++
		case '"':
			w.at++
			return w.data[start:w.at]
		}
	}
	return w.data[start:]
}

func (w *jsonWalk) value(m *jsonMembers) *MemberError {
	switch w.next() {
	case '{':
		return w.object(m)
	case '[':
		return w.list(m)
	case '"':
		w.text()
		return nil
	}
	for ; w.at < len(w.data); w.at++ {
		switch w.data[w.at] {
		case ',', ']', '}', ' ', '\t', '\r', '\n':
			return nil
		}
	}
	return nil
}

func (w *jsonWalk) list(m *jsonMembers) *MemberError {
	items := m.item()
	w.at++
	for i := 0; ; {
		switch w.next() {
		case ']':
			w.at++
			return nil
		case ',':
			w.at++
		case 0:
			return nil
		default:
			if err := w.value(items); err != nil {
				return err.under("[" + strconv.Itoa(i) + "]")
			}
			i++
		}
	}
}

func (w *jsonWalk) object(m *jsonMembers) *MemberError {
	var names jsonNames
	w.at++
	for {
		switch w.next() {
		case '}':
			w.at++
			return nil
		case ',':
			w.at++
			continue
		case 0:
			return nil
		}
		name, inner := w.text(), m.item()
		if m == nil || !m.opaque {
			name = unquote(name)
			if names.add(name) {
				return &MemberError{Path: clipName(name)}
			}
		}
		if m != nil && m.fields != nil {
			field, ok := m.fields[string(name)]
			if !ok {
				return &MemberError{Path: clipName(name), Unknown: true}
			}
			inner = field()
		}
		w.next()
		w.at++ // the colon
		if err := w.value(inner); err != nil {
			return err.under(clipName(name))
		}
	}
}

// clipName returns the beginning of a name that may be long. An empty name is shown in quotes,
// because it would be no step of a path.
func clipName(name []byte) string {
	return cmp.Or(strings.ToValidUTF8(string(name[:min(len(name), 100)]), ""), `""`)
}

// Clip returns the beginning of a long text of a caller, for an error that repeats it.
func Clip(text string) string {
	const most = 200
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}

// unquote returns the text of a JSON string.
func unquote(quoted []byte) []byte {
	if bytes.IndexByte(quoted, '\\') < 0 && utf8.Valid(quoted) {
		return quoted[1 : len(quoted)-1]
	}
	var s string
	if json.Unmarshal(quoted, &s) != nil {
		return quoted
	}
	return []byte(s)
}

// jsonNames are the names of an object's members. The first ones need no map.
type jsonNames struct {
	first [16][]byte
	n     int
	more  map[string]bool
}

// add adds a name, and reports whether it was there already.
func (s *jsonNames) add(name []byte) bool {
	for _, old := range s.first[:s.n] {
		if bytes.Equal(old, name) {
			return true
		}
	}
	switch {
	case s.n < len(s.first):
		s.first[s.n] = name
		s.n++
		return false
	case s.more == nil:
		s.more = make(map[string]bool)
	case s.more[string(name)]:
		return true
	}
	s.more[string(name)] = true
	return false
}
