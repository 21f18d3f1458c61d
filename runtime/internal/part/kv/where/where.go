// Package where has the filters of the key-value store: conditions on entries, in JSON. A filter is
// compiled once and then applied to one entry after the other.
//
//	{"status": "active", "age": {"$gte": 18, "$lt": 65}, "$or": [{"tags[0]": "a"}, {"name": {"$startsWithi": "ann"}}]}
//
// A condition names a member of the value by its path: members are separated by dots, elements of
// arrays are [0], [1] and so on, and a backslash takes the meaning from the character after it.
// Arrays are not searched. The names $key[0], $version, $created, $updated, $expires and $size are
// of the entry itself; times are milliseconds since 1970. An absent value is null.
//
// Compiling is strict: a text that is not understood is an error that names its place, and never a
// condition that all entries meet.
package where

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/text/cases"

	"github.com/cairn-run/cairn/actor/host"
)

// The bounds of a filter.
const (
	MaxBytes   = 256 << 10 // of its text
	MaxDepth   = 16        // how deep conditions nest
	MaxNodes   = 64        // conditions
	MaxIn      = 1000      // values of $in and $nin
	maxPattern = 256       // bytes of a regular expression
	maxProgram = 1000      // instructions of all regular expressions: each may take one step at each character
)

// An Entry is the input of a filter.
type Entry struct {
	// Key has the parts of the key as in JSON: strings, json.Number, booleans, objects.
	Key []any
	// Value is the value as encoding/json decodes it into an any, with numbers as json.Number.
	Value any
	// Version is that of the turn that wrote the entry last, and Size the number of bytes of the
	// value.
	Version uint64
	Size    int
	// Created, Updated and Expires are zero if the entry has no such time.
	Created, Updated, Expires time.Time
}

// A Filter is a compiled condition. Safe for concurrent use.
type Filter struct{ meets func(*Entry) bool }

// Meets reports whether an entry meets the filter.
func (f *Filter) Meets(e *Entry) bool { return f.meets(e) }

// Compile compiles a filter. now is the value of $now. The error is an *host.Error with the code
// InvalidArgument, whose field is the place of the fault, or TooLarge. A filter without conditions
// is refused.
func Compile(text []byte, now time.Time) (*Filter, error) {
	if len(text) > MaxBytes {
		return nil, host.OverLimit("bytes of a filter", MaxBytes, int64(len(text)))
	}
	if !utf8.Valid(text) {
		return nil, host.Errorf(host.InvalidArgument, "the filter is not UTF-8")
	}
	text, marked := markSurrogates(text)
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var v any
	err := d.Decode(&v)
	if err == nil {
		if _, more := d.Token(); !errors.Is(more, io.EOF) {
			err = errors.New("text follows the filter")
		}
	}
	if err != nil {
		return nil, host.Errorf(host.InvalidArgument, "the filter is not JSON: %s", err)
	}
	if twice, ok := errors.AsType[*host.MemberError](host.CheckJSON(text, v)); ok {
		return nil, fault(twice.Path, "the member is given twice")
	}
	if marked {
		v = unmark(v)
	}
	c := compiler{now: now.UnixMilli()}
	meets, err := c.all(v, "", 1)
	if err != nil {
		return nil, err
	}
	return &Filter{meets}, nil
}

type condition = func(*Entry) bool

// A compiler makes conditions. Each of its methods gets the place of its input, for errors.
type compiler struct {
	now     int64
	nodes   int
	program int
}

func fault(place, format string, args ...any) error {
	e := host.Errorf(host.InvalidArgument, format, args...)
	if most := 200; len(place) > most {
		place = strings.ToValidUTF8(place[:most], "") + "…"
	}
	if place != "" {
		e = host.Errorf(host.InvalidArgument, "%s: %s", place, e.Message).With("field", place)
	}
	return e
}

// under returns the place of a member.
func under(place, member string) string {
	if place == "" {
		return member
	}
	return place + "." + member
}

// node counts a condition.
func (c *compiler) node(depth int) error {
	if c.nodes++; c.nodes > MaxNodes {
		return host.OverLimit("conditions of a filter", MaxNodes, int64(c.nodes))
	}
	if depth > MaxDepth {
		return host.OverLimit("depth of a filter", MaxDepth, int64(depth))
	}
	return nil
}

// members returns the members of an object in the order of their names.
func members(v any) (names []string, m map[string]any, ok bool) {
	m, ok = v.(map[string]any)
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names, m, ok
}

// and returns a condition that is met if all conditions are.
func and(all []condition) condition {
	if len(all) == 1 {
		return all[0]
	}
	return func(e *Entry) bool {
		for _, meets := range all {
			if !meets(e) {
				return false
			}
		}
		return true
	}
}

func or(any []condition) condition {
	return func(e *Entry) bool {
		for _, meets := range any {
			if meets(e) {
				return true
			}
		}
		return false
	}
}

func not(meets condition) condition { return func(e *Entry) bool { return !meets(e) } }

// all compiles an object of conditions that must all be met.
func (c *compiler) all(v any, place string, depth int) (condition, error) {
	names, m, ok := members(v)
	switch {
	case !ok:
		return nil, fault(place, "a filter is an object of conditions")
	case len(names) == 0:
		return nil, fault(place, "a filter has at least one condition")
	}
	var conditions []condition
	for _, name := range names {
		if err := c.node(depth); err != nil {
			return nil, err
		}
		meets, err := c.one(name, m[name], under(place, name), depth)
		if err != nil {
			return nil, err
		}
		conditions = append(conditions, meets)
	}
	return and(conditions), nil
}

// one compiles a member of a filter.
func (c *compiler) one(name string, v any, place string, depth int) (condition, error) {
	switch name {
	case "$and", "$or":
		list, ok := v.([]any)
		if !ok {
			return nil, fault(place, "%s takes an array of filters", name)
		}
		conditions := make([]condition, len(list))
		for i, element := range list {
			var err error
			if conditions[i], err = c.all(element, fmt.Sprintf("%s[%d]", place, i), depth+1); err != nil {
				return nil, err
			}
		}
		if name == "$or" {
			return or(conditions), nil
		}
		return and(conditions), nil
	case "$not":
		meets, err := c.all(v, place, depth+1)
		if err != nil {
			return nil, err
		}
		return not(meets), nil
	}
	get, err := parsePath(name)
	if err != nil {
		return nil, fault(place, "%s", err)
	}
	return c.field(get, v, place, depth)
}

// field compiles the condition of a member: operators, or a value that it equals.
func (c *compiler) field(get func(*Entry) any, v any, place string, depth int) (condition, error) {
	names, m, ok := members(v)
	if !ok || isNow(m) {
		return c.operator(get, "$eq", v, place, depth)
	}
	if len(names) == 0 {
		return nil, fault(place, "an object of operators has at least one")
	}
	var conditions []condition
	for i, name := range names {
		if !strings.HasPrefix(name, "$") {
			return nil, fault(under(place, name), "%.40q is not an operator; compare with an object by $eq", name)
		}
		if i > 0 {
			if err := c.node(depth); err != nil {
				return nil, err
			}
		}
		meets, err := c.operator(get, name, m[name], under(place, name), depth)
		if err != nil {
			return nil, err
		}
		conditions = append(conditions, meets)
	}
	return and(conditions), nil
}

// operator compiles an operator with its operand.
func (c *compiler) operator(get func(*Entry) any, name string, operand any, place string,
	depth int) (condition, error) {
	if meets, ok, err := c.text(get, name, operand, place); ok {
		return meets, err
	}
	switch name {
	case "$not":
		if err := c.node(depth + 1); err != nil {
			return nil, err
		}
		if _, _, ok := members(operand); !ok {
			return nil, fault(place, "$not takes an object of operators")
		}
		meets, err := c.field(get, operand, place, depth+1)
		if err != nil {
			return nil, err
		}
		return not(meets), nil
	case "$eq", "$ne":
		value, err := c.value(operand, place)
		if err != nil {
			return nil, err
		}
		meets := func(e *Entry) bool { return equal(get(e), value) }
		if name == "$ne" {
			return not(meets), nil
		}
		return meets, nil
	case "$in", "$nin":
		values, err := c.values(operand, place, name)
		if err != nil {
			return nil, err
		}
		meets := func(e *Entry) bool {
			v := get(e)
			if n, is := v.(json.Number); is { // which may be long, and is parsed once
				d := parseDecimal(string(n))
				return slices.ContainsFunc(values, func(value any) bool {
					n, is := value.(json.Number)
					return is && d.compare(parseDecimal(string(n))) == 0
				})
			}
			return slices.ContainsFunc(values, func(value any) bool { return equal(v, value) })
		}
		if name == "$nin" {
			return not(meets), nil
		}
		return meets, nil
	case "$gt", "$gte", "$lt", "$lte":
		value, err := c.ordered(operand, place, name)
		if err != nil {
			return nil, err
		}
		return func(e *Entry) bool {
			sign, ok := compare(get(e), value)
			switch {
			case !ok:
				return false
			case name == "$gt":
				return sign > 0
			case name == "$gte":
				return sign >= 0
			case name == "$lt":
				return sign < 0
			}
			return sign <= 0
		}, nil
	case "$between":
		return c.between(get, operand, place)
	case "$null", "$empty", "$notEmpty", "$exists":
		yes, ok := operand.(bool)
		if !ok {
			return nil, fault(place, "%s takes true or false", name)
		}
		is := isNull
		if name == "$empty" || name == "$notEmpty" {
			is = isEmpty
		}
		if name == "$notEmpty" || name == "$exists" {
			yes = !yes
		}
		return func(e *Entry) bool { return is(get(e)) == yes }, nil
	case "$type":
		word, _ := operand.(string)
		if !slices.Contains(types, word) {
			return nil, fault(place, "$type takes one of %s", strings.Join(types, ", "))
		}
		return func(e *Entry) bool { return typeOf(get(e)) == word }, nil
	}
	return nil, fault(place, "%.40q is not an operator", name)
}

// text compiles the operators of strings; ok is false for another one.
func (c *compiler) text(get func(*Entry) any, name string, operand any,
	place string) (meets condition, ok bool, err error) {
	base, folded := strings.CutSuffix(name, "i")
	var has func(s, part string) bool
	switch base {
	case "$contains", "$notContains":
		has = strings.Contains
	case "$startsWith":
		has = strings.HasPrefix
	case "$endsWith":
		has = strings.HasSuffix
	case "$regex":
		if folded {
			return nil, false, nil
		}
	default:
		return nil, false, nil
	}
	part, is := operand.(string)
	if !is {
		return nil, true, fault(place, "%s takes a string", name)
	}
	if base == "$regex" {
		if len(part) > maxPattern {
			return nil, true, host.OverLimit("bytes of the pattern", maxPattern, int64(len(part))).With("field", place)
		}
		pattern, err := regexp.Compile(part)
		if err != nil {
			return nil, true, fault(place, "the pattern cannot be compiled: %s", err)
		}
		if c.program += instructions(part); c.program > maxProgram {
			return nil, true,
				host.OverLimit("instructions of all patterns", maxProgram, int64(c.program)).With("field", place)
		}
		has = func(s, _ string) bool { return pattern.MatchString(s) }
	}
	if folded {
		part = cases.Fold().String(part)
	}
	wanted := base != "$notContains"
	return func(e *Entry) bool {
		s, is := get(e).(string)
		if !is {
			return false
		}
		if folded {
			s = cases.Fold().String(s)
		}
		return has(s, part) == wanted
	}, true, nil
}

// instructions returns the size of the program of a pattern that compiles.
func instructions(pattern string) int {
	parsed, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return 0
	}
	program, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return 0
	}
	return len(program.Inst)
}

func (c *compiler) between(get func(*Entry) any, operand any, place string) (condition, error) {
	list, ok := operand.([]any)
	if !ok || len(list) != 2 {
		return nil, fault(place, "$between takes an array of two values")
	}
	least, err := c.ordered(list[0], place+"[0]", "$between")
	if err != nil {
		return nil, err
	}
	most, err := c.ordered(list[1], place+"[1]", "$between")
	if err != nil {
		return nil, err
	}
	if sign, same := compare(least, most); !same || sign > 0 {
		return nil, fault(place, "$between takes the lesser value first, and two of one type")
	}
	return func(e *Entry) bool {
		v := get(e)
		a, ok := compare(v, least)
		b, _ := compare(v, most)
		return ok && a >= 0 && b <= 0
	}, nil
}

func (c *compiler) values(operand any, place, name string) ([]any, error) {
	list, ok := operand.([]any)
	switch {
	case !ok:
		return nil, fault(place, "%s takes an array of values", name)
	case len(list) > MaxIn:
		return nil, host.OverLimit("values of "+name, MaxIn, int64(len(list))).With("field", place)
	}
	values := make([]any, len(list))
	for i, v := range list {
		var err error
		if values[i], err = c.value(v, fmt.Sprintf("%s[%d]", place, i)); err != nil {
			return nil, err
		}
	}
	return values, nil
}

// ordered is value for an operand that has an order.
func (c *compiler) ordered(operand any, place, name string) (any, error) {
	v, err := c.value(operand, place)
	if err != nil {
		return nil, err
	}
	switch v.(type) {
	case string, json.Number, bool:
		return v, nil
	}
	return nil, fault(place, "%s takes a number, a string or a boolean", name)
}

// value returns the value of an operand: $now, or itself.
func (c *compiler) value(operand any, place string) (any, error) {
	m, ok := operand.(map[string]any)
	if !ok {
		return operand, nil
	}
	if !isNow(m) {
		for name := range m {
			if strings.HasPrefix(name, "$") && name != "$bytes" {
				return nil, fault(under(place, name), "%.40q is not a value", name)
			}
		}
		return operand, nil
	}
	offset := int64(0)
	for name, v := range m {
		switch name {
		case "$now":
			if v != true {
				return nil, fault(under(place, name), "$now is true")
			}
		case "$offset", "offset":
			number, _ := v.(json.Number)
			n, err := number.Int64()
			if err != nil || n < -maxOffset || n > maxOffset || len(m) > 2 {
				return nil,
					fault(under(place, name),
						"the offset is one whole number of milliseconds, up to %d", int64(maxOffset))
			}
			offset = n
		default:
			return nil, fault(under(place, name), "%.40q does not belong to $now", name)
		}
	}
	return json.Number(strconv.FormatInt(c.now+offset, 10)), nil
}

// maxOffset is 200 years, in milliseconds.
const maxOffset = 200 * 366 * 24 * 3_600_000

func isNow(m map[string]any) bool {
	_, ok := m["$now"]
	return ok
}
