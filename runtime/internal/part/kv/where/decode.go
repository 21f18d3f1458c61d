package where

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
)

// Decode decodes a JSON document for an Entry or an operand. Where encoding/json puts U+FFFD for a surrogate without its
// partner, a string keeps the three bytes that UTF-8 would have for it, so that it equals no other.
func Decode(text []byte) (any, error) {
	marked, mark := markSurrogates(text)
	d := json.NewDecoder(bytes.NewReader(marked))
	d.UseNumber()
	var v any
	err := d.Decode(&v)
	if err != nil || mark == "" {
		return v, err
	}
	return unmark(v, mark), nil
}

// markSurrogates puts a mark before the digits of each escape of a surrogate without its partner. The mark is "" if there is
// none, and otherwise a character that the text does not have.
func markSurrogates(text []byte) (marked []byte, mark string) {
	var lone []int
	for i := bytes.IndexByte(text, '\\'); i >= 0 && i < len(text)-1; i++ {
		if text[i] != '\\' {
			continue
		}
		switch r := surrogate(text[i:]); {
		case r == 0:
			i++
		case r < 0xDC00 && surrogate(text[min(i+6, len(text)):]) >= 0xDC00:
			i += 11
		default:
			lone = append(lone, i)
			i += 5
		}
	}
	if lone == nil {
		return text, ""
	}
	lower := bytes.ToLower(text)
	for r := rune(0xE000); ; r++ { // of private use; an escape names it by its digits
		mark = string(r)
		if !bytes.Contains(text, []byte(mark)) && !bytes.Contains(lower, strconv.AppendInt(nil, int64(r), 16)) {
			break
		}
	}
	last := 0
	for _, i := range lone {
		marked = append(append(append(marked, text[last:i]...), mark...), text[i+2:i+6]...)
		last = i + 6
	}
	return append(marked, text[last:]...), mark
}

// surrogate returns the surrogate whose escape text begins with; 0 is none.
func surrogate(text []byte) uint64 {
	if len(text) < 6 || text[0] != '\\' || text[1] != 'u' {
		return 0
	}
	r, err := strconv.ParseUint(string(text[2:6]), 16, 16)
	if err != nil || r < 0xD800 || r > 0xDFFF {
		return 0
	}
	return r
}

// unmark puts bytes for marks in all strings of a value.
func unmark(v any, mark string) any {
	switch v := v.(type) {
	case string:
		return bare(v, mark)
	case []any:
		for i := range v {
			v[i] = unmark(v[i], mark)
		}
	case map[string]any:
		all := make(map[string]any, len(v))
		for name, member := range v {
			all[bare(name, mark)] = unmark(member, mark)
		}
		return all
	}
	return v
}

func bare(s, mark string) string {
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
