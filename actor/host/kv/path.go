package kv

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/big"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/cairn-run/cairn/actor/host"
)

// ParsePath reads a key that is written as a path, users/i~7. Each part is percent-escaped, as in a
// URL, and is a string unless a type stands in front:
//
//	i~5        an integer of any size
//	d~1.5      a double
//	b~1, b~0   true, false
//	x~AAH_     bytes, in base64url without padding
//	s~i~5      the string i~5; s~ is the empty string
//	r~IL_AAAA  the stored form of a part that only Go code can write, in base64url
//
// The error code is InvalidArgument.
func ParsePath(path string) (Key, error) {
	segments := strings.Split(path, "/")
	key := make(Key, len(segments))
	for i, escaped := range segments {
		part, err := parseSegment(escaped)
		if err != "" {
			return nil, host.Errorf(host.InvalidArgument, "key part %d, %q, %s", i+1, clip([]byte(escaped)), err)
		}
		key[i] = part
	}
	return key, nil
}

// parseSegment reads one part, or returns its fault.
func parseSegment(escaped string) (part any, fault string) {
	text, ok := unescape(escaped)
	switch {
	case !ok:
		return nil, "is not percent-escaped as in a URL (a percent sign is written %25)"
	case !utf8.ValidString(text):
		return nil, "is not valid UTF-8"
	case text == "":
		return nil, "is missing (an empty string is written s~)"
	case len(text) < 2 || text[1] != '~':
		return text, ""
	}
	value := text[2:]
	switch text[0] {
	case 's':
		return value, ""
	case 'b':
		if value == "0" || value == "1" {
			return value == "1", ""
		}
		return nil, "is not b~0 or b~1"
	case 'i', 'd':
		return parsePathNumber(text[0], value)
	case 'x', 'r':
		b, err := base64.RawURLEncoding.Strict().DecodeString(value)
		if err != nil {
			return nil, "is not base64url"
		}
		if text[0] == 'r' {
			part := unpack(b)
			if _, bound := part.(Raw); bound {
				return nil, "is not the stored form of a part"
			}
			return part, ""
		}
		return b, ""
	}
	return nil, "has an unknown type; a string with a tilde there is written s~" + text
}

func parsePathNumber(kind byte, text string) (any, string) {
	if !json.Valid([]byte(text)) || strings.IndexByte("-0123456789", text[0]) < 0 {
		return nil, "is not a number"
	}
	if kind == 'i' && strings.ContainsAny(text, ".eE") {
		return nil, "is not an integer"
	}
	if kind == 'd' && !strings.ContainsAny(text, ".eE") {
		text += ".0"
	}
	n, err := parseNumber(text)
	if err != nil {
		return nil, "is out of range"
	}
	return n, ""
}

// Path writes the key in the form of ParsePath. It fails for a part that no key can have.
func (k Key) Path() (string, error) {
	var b strings.Builder
	for i, part := range k {
		if i > 0 {
			b.WriteByte('/')
		}
		if opaque(part) {
			raw, err := stored(part)
			if err != nil {
				return "", err
			}
			b.WriteString("r~" + base64.RawURLEncoding.EncodeToString(raw))
			continue
		}
		switch part := part.(type) {
		case string:
			if part == "" || part == "." || part == ".." || len(part) > 1 && part[1] == '~' {
				b.WriteString("s~")
			}
			escape(&b, part)
		case []byte:
			b.WriteString("x~" + base64.RawURLEncoding.EncodeToString(part))
		case bool:
			b.WriteString(map[bool]string{false: "b~0", true: "b~1"}[part])
		case float64:
			b.WriteString("d~" + strconv.FormatFloat(part, 'g', -1, 64))
		case *big.Int:
			b.WriteString("i~" + part.String())
		default:
			text, err := json.Marshal(part)
			if err != nil {
				return "", err
			}
			b.WriteString("i~" + string(text))
		}
	}
	return b.String(), nil
}

// unescape undoes percent-escapes, if they are well-formed.
func unescape(s string) (string, bool) {
	var b strings.Builder
	for len(s) > 0 {
		before, after, found := strings.Cut(s, "%")
		b.WriteString(before)
		if !found {
			break
		}
		if len(after) < 2 {
			return "", false
		}
		c, err := strconv.ParseUint(after[:2], 16, 8)
		if err != nil {
			return "", false
		}
		b.WriteByte(byte(c))
		s = after[2:]
	}
	return b.String(), true
}

// escape writes a string as a segment of a URL.
func escape(b *strings.Builder, s string) {
	for i := range len(s) {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', strings.IndexByte("-_.~$&+:=@", c) >= 0:
			b.WriteByte(c)
		default:
			fmt.Fprintf(b, "%%%02X", c)
		}
	}
}
