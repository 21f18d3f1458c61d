package survey

import (
	"bytes"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/keyspace/tuple"
	wfhost "github.com/cairn-run/cairn/workflow/host"
)

// The grammar of a condition is
//
//	condition = field operator value
//	field     = "state" | "run" | "size" | "updated" | "created" | the name of an attribute
//	operator  = "=" | "!=" | "<" | "<=" | ">" | ">="
//
// without spaces around the operator. The value is the rest, as it is, or a quoted string of Go. A
// size is a number of bytes with an optional unit, a time RFC 3339 or a date in UTC.

// maxConditions is how many conditions a query may have.
const maxConditions = 16

// An operator of a condition.
type operator string

// operators are in an order in which none comes after one that it begins with.
var operators = []operator{"!=", "<=", ">=", "=", "<", ">"}

// holds reports whether the operator holds, if order compares a value with the condition's.
func (o operator) holds(order int) bool {
	switch o {
	case "=":
		return order == 0
	case "!=":
		return order != 0
	case "<":
		return order < 0
	case "<=":
		return order <= 0
	case ">":
		return order > 0
	}
	return order >= 0
}

// A condition is one condition on actors.
type condition struct {
	field string
	op    operator
	kind  host.AttributeKind // of an attribute; 0 for another field
	value []byte             // of an attribute: an element of a tuple
	n     int64              // of size, updated and created
	word  string             // of state and run
}

// attributes returns the kind of an attribute; false if it is not known.
type attributes func(name string) (host.AttributeKind, bool, error)

// parseCondition reads a condition. The error names it.
func parseCondition(text string, known attributes) (c condition, err error) {
	fault := func(format string, args ...any) *host.Error {
		return host.Errorf(host.InvalidArgument, "condition %.200q: "+format,
			append([]any{strings.ToValidUTF8(text, "\uFFFD")}, args...)...).With("field", "where")
	}
	at := strings.IndexAny(text, "=!<>")
	if at < 1 {
		return c, fault("want a field, one of = != < <= > >=, and a value")
	}
	c.field = text[:at]
	i := slices.IndexFunc(operators, func(o operator) bool { return strings.HasPrefix(text[at:], string(o)) })
	if i < 0 {
		return c, fault("want one of = != < <= > >= after %.100q", c.field)
	}
	c.op = operators[i]
	value := text[at+len(c.op):]
	if strings.HasPrefix(value, `"`) {
		if value, err = strconv.Unquote(value); err != nil {
			return c, fault("the quoted value is malformed")
		}
	}
	if !utf8.ValidString(value) {
		return c, fault("it is not valid UTF-8")
	}
	ok := false
	switch c.field {
	case "state":
		c.word, ok = value,
			slices.Contains([]host.State{host.Awake, host.Asleep, host.Paused, host.Failed}, host.State(value))
		if !ok {
			return c, fault("a state is awake, asleep, paused or failed")
		}
	case "run":
		c.word, ok = value, value == string(wfhost.StatePaused) || value == string(wfhost.StateFailed)
		if !ok {
			return c, fault("the run is paused or failed")
		}
	case "size":
		if c.n, ok = parseSize(value); !ok {
			return c, fault("a size is a number of bytes, such as 1048576, 512KiB, 1MiB or 2GiB")
		}
	case "updated", "created":
		if c.n, ok = parseTime(value); !ok {
			return c, fault("a time is RFC 3339 or a date: 2026-01-31T12:00:00Z, 2026-01-31")
		}
	case "key":
		return c, fault("keys are selected by a prefix")
	default:
		if c.kind, ok, err = known(c.field); err != nil {
			return c, err
		} else if !ok {
			return c, fault("the actor type has no attribute %.100q; every actor has state, run, size, updated and created", c.field).With("attribute", short(c.field))
		}
		if c.value, ok = parseValue(c.kind, value); !ok {
			return c, fault("%.100q is a %s", c.field, c.kind)
		}
	}
	if c.word != "" && c.op != "=" && c.op != "!=" {
		return c, fault("%s takes = and !=", c.field)
	}
	if c.kind == host.BoolAttribute && c.op != "=" && c.op != "!=" {
		return c, fault("a bool takes = and !=")
	}
	return c, nil
}

// parseSize reads a number of bytes.
func parseSize(s string) (int64, bool) {
	unit := int64(1)
	for i, name := range []string{"KiB", "MiB", "GiB", "TiB"} {
		if number, ok := strings.CutSuffix(s, name); ok {
			s, unit = number, int64(1)<<(10*(i+1))
		}
	}
	n, err := strconv.ParseInt(s, 10, 64)
	return n * unit, err == nil && n >= 0 && n <= math.MaxInt64/unit
}

// parseTime reads a time, in Unix milliseconds.
func parseTime(s string) (int64, bool) {
	for _, layout := range []string{time.RFC3339Nano, time.DateOnly} {
		if t, err := time.Parse(layout, s); err == nil {
			return t.UnixMilli(), true
		}
	}
	return 0, false
}

// parseValue reads the value of an attribute, as it is stored.
func parseValue(kind host.AttributeKind, s string) (_ []byte, ok bool) {
	v := host.AttributeValue{Kind: kind, Text: s}
	switch kind {
	case host.StringAttribute:
		ok = true
	case host.IntegerAttribute:
		var err error
		v.Number, err = strconv.ParseInt(s, 10, 64)
		ok = err == nil
	case host.BoolAttribute:
		if ok = s == "true" || s == "false"; s == "true" {
			v.Number = 1
		}
	default:
		v.Number, ok = parseTime(s)
	}
	return AppendAttribute(nil, v), ok
}

// AppendAttribute appends the value of an attribute as it is stored: one element of a tuple, which
// is nested for a time.
func AppendAttribute(dst []byte, v host.AttributeValue) []byte {
	switch v.Kind {
	case host.StringAttribute:
		return tuple.AppendString(dst, v.Text)
	case host.IntegerAttribute:
		return tuple.AppendInt(dst, v.Number)
	case host.BoolAttribute:
		return tuple.AppendBool(dst, v.Number != 0)
	}
	return tuple.EndNested(tuple.AppendInt(tuple.BeginNested(dst), v.Number))
}

// ParseAttribute reads a stored value; the zero value if no attribute has such a value.
func ParseAttribute(stored []byte) (v host.AttributeValue) {
	d := tuple.NewDecoder(stored)
	var err error
	switch d.Peek() {
	case tuple.TypeString:
		v.Kind = host.StringAttribute
		v.Text, err = d.String()
	case tuple.TypeInt:
		v.Kind = host.IntegerAttribute
		v.Number, err = d.Int()
	case tuple.TypeBool:
		v.Kind = host.BoolAttribute
		var is bool
		if is, err = d.Bool(); is {
			v.Number = 1
		}
	case tuple.TypeTuple:
		v.Kind = host.TimeAttribute
		if err = d.Nested(); err == nil {
			if v.Number, err = d.Int(); err == nil {
				err = d.EndNested()
			}
		}
	}
	if err != nil || d.More() {
		return host.AttributeValue{}
	}
	return v
}

// bounds are the values of a field that conditions allow, as bytes: from <= value < to.
type bounds struct{ from, to []byte }

func (b *bounds) atLeast(from []byte) {
	if bytes.Compare(from, b.from) > 0 {
		b.from = from
	}
}

func (b *bounds) below(to []byte) {
	if b.to == nil || bytes.Compare(to, b.to) < 0 {
		b.to = to
	}
}

// boundsOf returns the bounds of an attribute's kind.
func boundsOf(kind host.AttributeKind) bounds {
	switch kind {
	case host.StringAttribute:
		return bounds{[]byte{0x02}, []byte{0x03}}
	case host.IntegerAttribute:
		return bounds{[]byte{0x0B}, []byte{0x1E}}
	case host.BoolAttribute:
		return bounds{[]byte{0x26}, []byte{0x28}}
	}
	return bounds{[]byte{0x05}, []byte{0x06}}
}

// narrow narrows the bounds of the rows of the condition's field.
func (c *condition) narrow(b *bounds) {
	element := func(n int64) []byte { return c.value }
	switch c.field {
	case "size":
		element = func(n int64) []byte { return tuple.AppendInt(nil, keyspace.SizeStep(n)) }
	case "updated":
		element = func(n int64) []byte { return tuple.AppendInt(nil, keyspace.MinuteStep(n)) }
	}
	coarse := c.kind == 0 // the rows of a step have values on both sides
	switch c.op {
	case "=":
		b.atLeast(element(c.n))
		b.below(keyspace.TupleEnd(element(c.n)))
	case ">":
		if coarse {
			b.atLeast(element(c.n))
		} else {
			b.atLeast(keyspace.TupleEnd(c.value))
		}
	case ">=":
		b.atLeast(element(c.n))
	case "<":
		if coarse {
			b.below(keyspace.TupleEnd(element(c.n)))
		} else {
			b.below(c.value)
		}
	case "<=":
		b.below(keyspace.TupleEnd(element(c.n)))
	}
}

// stored reports whether the condition is on the store's data, and not on the node's state.
func (c *condition) stored() bool { return c.word == "" }

// admits reports whether an actor meets a condition on the store's data. value is that of the
// walk's field.
func (c *condition) admits(f *engine.Found, walk string, head func() (engine.Head, error)) (bool, error) {
	switch c.field {
	case "size", "updated", "created":
		h, err := head()
		n := map[string]int64{"size": h.Bytes, "updated": h.Updated, "created": h.Created}[c.field]
		return err == nil && c.op.holds(compareInts(n, c.n)), err
	}
	value, ok := f.Value, true
	if c.field != walk {
		var err error
		if value, ok, err = f.Get(keyspace.Attribute.Append(nil, c.field)); err != nil || !ok {
			return false, err
		}
	}
	return ParseAttribute(value).Kind == c.kind && c.op.holds(bytes.Compare(value, c.value)), nil
}

func compareInts(a, b int64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}
