package wire

import (
	"bytes"
	"encoding/json"
	"math"
	"reflect"
	"strconv"
	"strings"
	"sync"

	"github.com/fxamacker/cbor/v2"

	"github.com/cairn-run/cairn/actor/host"
)

// A Range is what a whole number of an input, or one that a pointer is to, may be, by the tag range
// of its field; or it says that a text must be given. The tags of other numbers are only for the
// documents.
type Range struct {
	index    []int
	Name     string
	min, Max int64
	required bool
}

// memberRanges keeps the ranges of input types, reflect.Type to []Range.
var memberRanges sync.Map

// RangesOf returns the ranges of the members of a struct.
func RangesOf(t reflect.Type) []Range {
	if known, ok := memberRanges.Load(t); ok {
		return known.([]Range)
	}
	var ranges []Range
	if t.Kind() == reflect.Struct {
		for _, f := range reflect.VisibleFields(t) {
			r := Range{index: f.Index, min: math.MinInt64, Max: math.MaxInt64}
			name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
			r.Name = name
			if f.Type.Kind() == reflect.String && name != "" && !strings.Contains(options, "omitempty") {
				r.required = true
				ranges = append(ranges, r)
			}
			low, high, tagged := strings.Cut(f.Tag.Get("range"), ",")
			of := f.Type
			if of.Kind() == reflect.Pointer {
				of = of.Elem()
			}
			if !tagged || of.Kind() < reflect.Int || of.Kind() > reflect.Int64 {
				continue
			}
			if n, err := strconv.ParseInt(low, 10, 64); err == nil {
				r.min = n
			}
			if n, err := strconv.ParseInt(high, 10, 64); err == nil {
				r.Max = n
			}
			ranges = append(ranges, r)
		}
	}
	memberRanges.Store(t, ranges)
	return ranges
}

// checkRanges returns an error for a member of an input that is missing or out of its range. v
// points to the decoded data. A 0 in the request is told from an absent member by its name in the
// data.
func checkRanges(codec host.Codec, data []byte, v any) error {
	value := reflect.ValueOf(v).Elem()
	var given map[string]bool
	for _, r := range RangesOf(value.Type()) {
		if r.required {
			if value.FieldByIndex(r.index).Len() == 0 {
				return host.Errorf(host.InvalidArgument, "%s is missing", r.Name).With("field", r.Name)
			}
			continue
		}
		field := value.FieldByIndex(r.index)
		pointer := field.Kind() == reflect.Pointer
		if pointer {
			field = field.Elem()
		}
		if !field.IsValid() { // of a nil pointer
			continue
		}
		n := field.Int()
		if n >= r.min && n <= r.Max {
			continue
		}
		if n == 0 && !pointer {
			// Hardly any request has such a 0, so most need not be decoded for that.
			if !bytes.Contains(data, []byte(r.Name)) && bytes.IndexByte(data, '\\') < 0 {
				continue
			}
			if given == nil {
				given = members(codec, data)
			}
			if !given[r.Name] {
				continue
			}
		}
		want := "a number from " + strconv.FormatInt(r.min, 10)
		if r.Max != math.MaxInt64 {
			want += " to " + strconv.FormatInt(r.Max, 10)
		}
		if r.min > 0 {
			want += "; leave it out for the default"
		}
		return host.Errorf(host.InvalidArgument, "%s: %d is not %s", r.Name, n, want).With("field", r.Name)
	}
	return nil
}

// The values of CBOR that are none.
const (
	cborNull      = 0xf6
	cborUndefined = 0xf7
)

// members returns the names of the members of an input that was decoded. A null is no value, so it
// leaves out members that are null.
func members(codec host.Codec, data []byte) map[string]bool {
	names := make(map[string]bool)
	if codec == host.JSON {
		var all map[string]json.RawMessage
		if json.Unmarshal(data, &all) == nil {
			for name, value := range all {
				names[name] = string(value) != "null"
			}
		}
		return names
	}
	var all map[string]cbor.RawMessage
	if cbor.Unmarshal(data, &all) == nil {
		for name, value := range all {
			names[name] = !bytes.Equal(value, []byte{cborNull}) && !bytes.Equal(value, []byte{cborUndefined})
		}
	}
	return names
}

// NotPositive is the error for a span of milliseconds that must be positive or absent.
func NotPositive(field string, ms int64) *host.Error {
	return host.Errorf(host.InvalidArgument, "%s: %d is not a number from 1; leave it out for none",
		field, ms).With("field", field)
}
