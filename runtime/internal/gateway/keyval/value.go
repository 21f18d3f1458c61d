package keyval

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/kv"
	"github.com/cairn-run/cairn/runtime/internal/gateway/kvrest"
)

// The objects with a special meaning, in JSON without white space. Quotation marks within strings
// are escaped, so these do not match in strings.
var (
	bigints = regexp.MustCompile(`\{"__type":"bigint","value":"(-?[0-9]+)"\}|\{"value":"(-?[0-9]+)","__type":"bigint"\}`)
	nows    = regexp.MustCompile(`\{"\$now":true(?:,"\$?offset":(-?[0-9]{1,15}))?\}|\{"\$?offset":(-?[0-9]{1,15}),"\$now":true\}`)
)

// bigint returns the digits of a bigint in JSON, as a JSON number; "" if the text is no bigint.
func bigint(text []byte) string {
	var b bytes.Buffer
	if json.Compact(&b, text) != nil {
		return ""
	}
	m := bigints.FindSubmatch(b.Bytes())
	if m == nil || len(m[0]) != b.Len() {
		return ""
	}
	return string(number(m))
}

// number returns the digits of a match as a JSON number, which has no leading zeros.
func number(m [][]byte) []byte {
	text := append(m[1][:len(m[1]):len(m[1])], m[2]...)
	rest, negative := bytes.CutPrefix(text, []byte{'-'})
	if rest = bytes.TrimLeft(rest, "0"); len(rest) == 0 {
		return []byte{'0'}
	}
	if negative {
		return append([]byte{'-'}, rest...)
	}
	return rest
}

// integers replaces the bigints in JSON without white space by numbers.
func integers(text []byte) []byte {
	if !bytes.Contains(text, []byte(`"__type":"bigint"`)) {
		return text
	}
	return bigints.ReplaceAllFunc(text, func(m []byte) []byte { return number(bigints.FindSubmatch(m)) })
}

// document converts a client's value for kv.commit. A bigint becomes an integer, or a number within
// a document, and {"$now":true} becomes the time.
func document(raw host.Raw, place string, now time.Time) (v host.Raw, encoding string, err error) {
	if len(raw) == 0 {
		return nil, "", kvrest.Wrong(place, "%s is missing; null is one", place)
	}
	if n := bigint(raw); n != "" {
		return host.Raw(n), host.EncodedInteger.String(), nil
	}
	var b bytes.Buffer
	if !utf8.Valid(raw) || json.Compact(&b, raw) != nil {
		return nil, "", host.Errorf(host.InvalidArgument, "%s is not JSON", place)
	}
	text := integers(b.Bytes())
	if bytes.Contains(text, []byte(`"$now":true`)) {
		text = nows.ReplaceAllFunc(text, func(m []byte) []byte {
			at := now.UnixMilli()
			for _, offset := range nows.FindSubmatch(m)[1:] {
				n, _ := strconv.ParseInt(string(offset), 10, 64)
				at += n
			}
			return strconv.AppendInt(nil, at, 10)
		})
	}
	return text, "", nil
}

// filter converts a client's filter for kv.list; nil means none.
func filter(raw host.Raw) host.Raw {
	var b bytes.Buffer
	if len(raw) == 0 || json.Compact(&b, raw) != nil {
		return raw
	}
	return integers(b.Bytes())
}

func appendBigint(b, digits []byte) []byte {
	return append(append(append(b, `{"__type":"bigint","value":"`...), digits...), `"}`...)
}

// A shownValue is a value in the form for clients.
type shownValue struct {
	raw      host.Raw
	encoding string
}

// MarshalJSON writes integers of an integer encoding, and integers that JavaScript's numbers cannot
// hold, as bigints.
func (v shownValue) MarshalJSON() ([]byte, error) {
	switch v.encoding {
	case host.EncodedInteger.String(), host.EncodedU64.String():
		return appendBigint(nil, v.raw), nil
	}
	return appendShown(make([]byte, 0, len(v.raw)), v.raw), nil
}

// appendShown appends JSON with bigints for the integers beyond maxSafe.
func appendShown(b, text []byte) []byte {
	for i := 0; i < len(text); {
		end := i + 1
		switch c := text[i]; {
		case c == '"':
			for end < len(text) && text[end] != '"' {
				if text[end] == '\\' {
					end++
				}
				end++
			}
			end = min(end+1, len(text))
		case c == '-' || '0' <= c && c <= '9':
			for end < len(text) && strings.IndexByte("0123456789+-.eE", text[end]) >= 0 {
				end++
			}
			if token := text[i:end]; !safe(token) {
				b, i = appendBigint(b, token), end
				continue
			}
		}
		b, i = append(b, text[i:end]...), end
	}
	return b
}

// safe reports whether a JSON number is not an integer beyond maxSafe.
func safe(token []byte) bool {
	if len(token) < len("9007199254740991") || bytes.ContainsAny(token, ".eE") {
		return true
	}
	n, err := strconv.ParseInt(string(token), 10, 64)
	return err == nil && n <= maxSafe && n >= -maxSafe
}

// An entry is an entry in the form for clients. A missing entry has no versionstamp.
type entry struct {
	Key          shownKey    `json:"key"`
	Value        *shownValue `json:"value"`
	Versionstamp *string     `json:"versionstamp"`
}

// show converts an entry of a key, or a missing one.
func show(key kv.Key, e *kv.Entry) entry {
	if e == nil {
		return entry{Key: shownKey(key)}
	}
	stamp := stampOf(e.Version)
	return entry{shownKey(key), &shownValue{e.Value, e.Encoding}, &stamp}
}

func showAll(entries []kv.Entry) []entry {
	shown := make([]entry, len(entries))
	for i := range entries {
		shown[i] = show(entries[i].Key, &entries[i])
	}
	return shown
}

func stampOf(version uint64) string { return hex.EncodeToString(kv.Stamp(version)) }

// versionOf returns the version of a versionstamp. An impossible versionstamp becomes a version
// that no entry has.
func versionOf(stamp string) uint64 {
	n, err := strconv.ParseUint(strings.TrimSuffix(stamp, "0000"), 16, 64)
	if err != nil || n == 0 || stampOf(n) != stamp {
		return math.MaxUint64
	}
	return n
}

// lifetime checks a time to live in milliseconds; nil means none.
func lifetime(ms *json.Number, place string) (*int64, error) {
	if ms == nil {
		return nil, nil
	}
	n, err := strconv.ParseInt(ms.String(), 10, 64)
	if err != nil || n < 1 || n > kv.MaxTTL {
		return nil, kvrest.Wrong(place, "%s is %.40s; it is a number of milliseconds from 1 to %d",
			place, ms, int64(kv.MaxTTL))
	}
	return &n, nil
}
