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

// The objects that stand for something, in JSON without white space. A quotation mark within a
// string is escaped, so that none of them is found there.
var (
	bigints = regexp.MustCompile(`\{"__type":"bigint","value":"(-?[0-9]+)"\}|\{"value":"(-?[0-9]+)","__type":"bigint"\}`)
	nows    = regexp.MustCompile(`\{"\$now":true(?:,"\$?offset":(-?[0-9]{1,15}))?\}|\{"\$?offset":(-?[0-9]{1,15}),"\$now":true\}`)
)

// bigint returns the digits of a JSON text that is a bigint, as a number of JSON; "" if it is none.
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

// number returns the digits of a match as a number of JSON, which has no zeros in front.
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

// integers puts numbers for the bigints in JSON without white space.
func integers(text []byte) []byte {
	if !bytes.Contains(text, []byte(`"__type":"bigint"`)) {
		return text
	}
	return bigints.ReplaceAllFunc(text, func(m []byte) []byte { return number(bigints.FindSubmatch(m)) })
}

// document returns a value of a client as one of kv.commit: a bigint is an integer, one within a
// document is a number of it, and {"$now":true} is the time.
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

// filter returns a filter of a client as one of kv.list; nil is none.
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

// A shownValue is a value as clients see it.
type shownValue struct {
	raw      host.Raw
	encoding string
}

// MarshalJSON writes integers of their own encoding, and integers that JavaScript's numbers cannot
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

// safe reports whether a number of JSON is no integer beyond maxSafe.
func safe(token []byte) bool {
	if len(token) < len("9007199254740991") || bytes.ContainsAny(token, ".eE") {
		return true
	}
	n, err := strconv.ParseInt(string(token), 10, 64)
	return err == nil && n <= maxSafe && n >= -maxSafe
}

// An entry is one as clients see it. Without a versionstamp there is none.
type entry struct {
	Key          shownKey    `json:"key"`
	Value        *shownValue `json:"value"`
	Versionstamp *string     `json:"versionstamp"`
}

// show returns an entry of a key, or that there is none.
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

// versionOf returns the version that a versionstamp is of. One that no entry can have is that of
// none.
func versionOf(stamp string) uint64 {
	n, err := strconv.ParseUint(strings.TrimSuffix(stamp, "0000"), 16, 64)
	if err != nil || n == 0 || stampOf(n) != stamp {
		return math.MaxUint64
	}
	return n
}

// lifetime checks a time to live in milliseconds; nil is none.
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
