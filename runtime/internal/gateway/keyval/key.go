package keyval

import (
	"bytes"
	"encoding/json"
	"math"
	"math/big"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf16"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/kv"
	"github.com/cairn-run/cairn/runtime/internal/gateway/kvrest"
)

// maxSafe is the greatest integer up to which JavaScript's numbers hold all integers.
const maxSafe = 1<<53 - 1

var digits = regexp.MustCompile(`^-?[0-9]+$`)

// pathKey returns the key of a path of decoded segments. A segment of digits is a number.
func pathKey(segments []string, place string) (kv.Key, error) {
	key := make(kv.Key, len(segments))
	for i, s := range segments {
		key[i] = s
		if n, err := strconv.ParseInt(s, 10, 64); err == nil && digits.MatchString(s) && n <= maxSafe && n >= -maxSafe {
			key[i] = float64(n)
		}
	}
	return key, checkKey(key, place)
}

// paramKey returns the key of a path in a parameter. Its segments are percent-encoded twice.
func paramKey(path, place string) (kv.Key, error) {
	segments := strings.Split(path, "/")
	for i, s := range segments {
		text, err := url.PathUnescape(s)
		if err != nil {
			return nil, kvrest.Wrong(place,
				"%s: the segment %.80q is not percent-encoded; a %% in a key is %%25 there", place, s)
		}
		if segments[i] = text; s == "" {
			return nil, kvrest.Wrong(place, "%s has an empty segment", place)
		}
	}
	return pathKey(segments, place)
}

// paramKeys returns the keys of paths that are separated by commas.
func paramKeys(paths, place string) ([]kv.Key, error) {
	var keys []kv.Key
	for path := range strings.SplitSeq(paths, ",") {
		key, err := paramKey(path, place)
		if err != nil {
			return nil, err
		}
		keys = append(keys, key)
	}
	return keys, checkCount(len(keys), maxBatch, place)
}

func checkCount(n, most int, place string) error {
	if n > most {
		return kvrest.Wrong(place, "%s has %d elements; the limit is %d", place, n, most)
	}
	return nil
}

// jsonKey reads a key from an array in JSON.
func jsonKey(raw host.Raw, place string) (kv.Key, error) {
	var parts []json.RawMessage
	if len(raw) == 0 {
		return nil, kvrest.Wrong(place, "%s is missing", place)
	}
	if len(raw) > maxKeyText {
		return nil, host.OverLimit("bytes of "+place+" as it is written", maxKeyText,
			int64(len(raw))).With("field", place)
	}
	if json.Unmarshal(raw, &parts) != nil || parts == nil {
		return nil, kvrest.Wrong(place, "%s is no array of strings, numbers, booleans, bigints and bytes", place)
	}
	key := make(kv.Key, len(parts))
	for i, text := range parts {
		part, ok := jsonPart(text)
		if !ok {
			at := place + "[" + strconv.Itoa(i) + "]"
			return nil, kvrest.Wrong(at, "%s is %s, and not a string, number, boolean, bigint or bytes", at, clip(text))
		}
		key[i] = part
	}
	return key, checkKey(key, place)
}

// maxKeyText bounds the JSON of a key.
const maxKeyText = 64 << 10

// jsonPart reads a part of a key.
func jsonPart(text []byte) (any, bool) {
	switch text[0] {
	case 'n', '[':
		return nil, false
	case '{':
		if n := bigint(text); n != "" {
			text = []byte(n)
		}
	case '"', 't', 'f':
	default: // a number is a double
		f, err := strconv.ParseFloat(string(text), 64)
		return f, err == nil
	}
	var one kv.Key
	if json.Unmarshal(append(append([]byte{'['}, text...), ']'), &one) != nil {
		return nil, false
	}
	if _, raw := one[0].(kv.Raw); raw {
		return nil, false
	}
	return one[0], true
}

// prefix reads a prefix. One that is missing or has no parts selects all entries.
func prefix(raw host.Raw, place string) (kv.Key, error) {
	if text := string(raw); text == "" || text == "[]" || text == "null" {
		return kv.Key{}, nil
	}
	return jsonKey(raw, place)
}

// checkKey checks the limits of KeyVal.
func checkKey(key kv.Key, place string) error {
	if len(key) == 0 {
		return kvrest.Wrong(place, `%s has no parts; a key is an array such as ["users",123]`, place)
	}
	if err := checkCount(len(key), maxDepth, place); err != nil {
		return err
	}
	for i, part := range key {
		n, what := 0, ""
		switch part := part.(type) {
		case string:
			n, what = len(utf16.Encode([]rune(part))), "characters"
		case []byte:
			n, what = len(part), "bytes"
		}
		if n > maxPart {
			at := place + "[" + strconv.Itoa(i) + "]"
			return kvrest.Wrong(at, "%s has %d %s; the limit is %d", at, n, what, maxPart)
		}
	}
	return nil
}

// clip shortens a text for an error.
func clip(text []byte) string {
	if most := 50; len(text) > most {
		return strings.ToValidUTF8(string(text[:most]), "") + "..."
	}
	return string(text)
}

// A shownKey is a key in the form for clients.
type shownKey kv.Key

// MarshalJSON writes an array: doubles as numbers, integers as bigints.
func (k shownKey) MarshalJSON() ([]byte, error) {
	b := []byte{'['}
	for i, part := range k {
		if i > 0 {
			b = append(b, ',')
		}
		var err error
		if b, err = appendPart(b, part); err != nil {
			return nil, err
		}
	}
	return append(b, ']'), nil
}

func appendPart(b []byte, part any) ([]byte, error) {
	switch n := part.(type) {
	case float64:
		if !math.IsNaN(n) && !math.IsInf(n, 0) {
			text, err := json.Marshal(n) // like JavaScript
			return append(b, text...), err
		}
	case int64:
		return appendBigint(b, strconv.AppendInt(nil, n, 10)), nil
	case uint64:
		return appendBigint(b, strconv.AppendUint(nil, n, 10)), nil
	case *big.Int:
		return appendBigint(b, n.Append(nil, 10)), nil
	}
	text, err := kv.Key{part}.MarshalJSON()
	return append(b, bytes.Trim(text, "[]")...), err
}
