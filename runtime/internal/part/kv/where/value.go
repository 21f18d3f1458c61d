package where

import (
	"cmp"
	"encoding/json"
	"strings"
)

// types are the words of $type.
var types = []string{"null", "boolean", "number", "string", "array", "object", "bytes"}

func typeOf(v any) string {
	switch v := v.(type) {
	case bool:
		return "boolean"
	case json.Number:
		return "number"
	case string:
		return "string"
	case []any:
		return "array"
	case map[string]any:
		if _, is := v["$bytes"].(string); is && len(v) == 1 {
			return "bytes"
		}
		return "object"
	}
	return "null"
}

func isNull(v any) bool { return v == nil }

// isEmpty reports whether a value is null, or a string, array or object without anything in it.
func isEmpty(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case string:
		return v == ""
	case []any:
		return len(v) == 0
	case map[string]any:
		return len(v) == 0
	}
	return false
}

// Equal reports whether two values are the same for $eq. They are as in an Entry.
func Equal(a, b any) bool { return equal(a, b) }

// equal reports whether two values are the same: numbers by value, objects regardless of the order
// of their members.
func equal(a, b any) bool {
	switch a := a.(type) {
	case json.Number:
		n, ok := b.(json.Number)
		return ok && compareNumbers(string(a), string(n)) == 0
	case []any:
		list, ok := b.([]any)
		if !ok || len(a) != len(list) {
			return false
		}
		for i := range a {
			if !equal(a[i], list[i]) {
				return false
			}
		}
		return true
	case map[string]any:
		object, ok := b.(map[string]any)
		if !ok || len(a) != len(object) {
			return false
		}
		for name, v := range a {
			if other, there := object[name]; !there || !equal(v, other) {
				return false
			}
		}
		return true
	}
	switch b.(type) {
	case []any, map[string]any:
		return false
	}
	return a == b
}

// Compare orders two values of one type that has an order, as $lt does; false means that they have
// no order. They are as in an Entry.
func Compare(a, b any) (int, bool) { return compare(a, b) }

// compare orders two values of one type that has an order; false means that they have no order.
func compare(a, b any) (int, bool) {
	switch a := a.(type) {
	case json.Number:
		n, ok := b.(json.Number)
		if !ok {
			return 0, false
		}
		return compareNumbers(string(a), string(n)), true
	case string:
		s, ok := b.(string)
		return strings.Compare(a, s), ok // UTF-8 is in the order of code points
	case bool:
		other, ok := b.(bool)
		return cmp.Compare(number(a), number(other)), ok
	}
	return 0, false
}

func number(b bool) int {
	if b {
		return 1
	}
	return 0
}
