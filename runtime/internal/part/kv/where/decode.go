package where

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
)

// Decode decodes a JSON document for an Entry or an operand. Where encoding/json puts U+FFFD for a
// surrogate without its partner, a string keeps the three bytes that UTF-8 would have for it, so
// that it equals no other.
func Decode(text []byte) (any, error) {
	marked, changed := markSurrogates(text)
	d := json.NewDecoder(bytes.NewReader(marked))
	d.UseNumber()
	var v any
	err := d.Decode(&v)
	if err != nil || !changed {
		return v, err
	}
	return unmark(v), nil
}

// mark stands before the four digits of a character in a marked text. It is of private use, and in
// a marked text only a mark.
const mark = "\uE000"

// markSurrogates puts a mark and digits for each escape of a surrogate without its partner, and for
// each mark that the text has itself.
func markSurrogates(text []byte) (marked []byte, changed bool) {
	last := 0
	for i := 0; i < len(text); i++ {
		digits, size := "e000", len(mark)
		switch text[i] {
		case '\\':
			r := escaped(text[i:])
			if r < 0xD800 || r > 0xE000 {
				i++
				continue
			}
			if low := escaped(text[min(i+6, len(text)):]); r < 0xDC00 && low >= 0xDC00 && low < 0xE000 {
				i += 11
				continue
			}
			digits, size = string(text[i+2:i+6]), 6
		case mark[0]:
			if !bytes.HasPrefix(text[i:], []byte(mark)) {
				continue
			}
		default:
			continue
		}
		marked = append(append(append(marked, text[last:i]...), mark...), digits...)
		i += size - 1
		last = i + 1
	}
	if last == 0 {
		return text, false
	}
	return append(marked, text[last:]...), true
}

// escaped returns the code unit that text begins with as an escape of four digits; 0 if it does
// not.
func escaped(text []byte) uint64 {
	if len(text) < 6 || text[0] != '\\' || text[1] != 'u' {
		return 0
	}
	r, err := strconv.ParseUint(string(text[2:6]), 16, 16)
	if err != nil {
		return 0
	}
	return r
}

// unmark puts bytes for marks in all strings of a value.
func unmark(v any) any {
	switch v := v.(type) {
	case string:
		return bare(v)
	case []any:
		for i := range v {
			v[i] = unmark(v[i])
		}
	case map[string]any:
		all := make(map[string]any, len(v))
		for name, member := range v {
			all[bare(name)] = unmark(member)
		}
		return all
	}
	return v
}

func bare(s string) string {
	before, rest, found := strings.Cut(s, mark)
	if !found {
		return s
	}
	b := []byte(before)
	for found {
		r, _ := strconv.ParseUint(rest[:4], 16, 16)
		b = append(b, 0xE0|byte(r>>12), 0x80|byte(r>>6&0x3F), 0x80|byte(r&0x3F))
		before, rest, found = strings.Cut(rest[4:], mark)
		b = append(b, before...)
	}
	return string(b)
}
