package store

import (
	"encoding/json"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/cairn-run/cairn/actor/host"
	hostkv "github.com/cairn-run/cairn/actor/host/kv"
	"github.com/cairn-run/cairn/actor/kv"
	"github.com/cairn-run/cairn/runtime/internal/part/kv/value"
)

// DefaultGroup is the group "" of a namespace.
const DefaultGroup = "default"

var namespacePattern = regexp.MustCompile(`^[a-zA-Z0-9-]+$`)

// endOfKeys sorts after the keys of a group, as the last part of a bound.
var endOfKeys = hostkv.Raw{0xFF}

// full returns the name of a group, with the namespace.
func (s *Store) full(group string) string {
	if s == nil {
		return group
	}
	if s.namespace != "" && group == "" {
		group = DefaultGroup
	}
	return s.namespace + group
}

// prefixOf returns the prefix of the keys of a group.
func prefixOf(group string) kv.Key {
	if namespace, rest, scoped := strings.Cut(group, ":"); scoped && namespacePattern.MatchString(namespace) {
		return kv.Key{namespace, rest}
	}
	return kv.Key{group}
}

// keyOf returns the key of an entry.
func keyOf(group, key string) kv.Key { return append(prefixOf(group), key) }

// groupOf returns the group whose keys have these parts and one more; false if there is none.
func groupOf(parts kv.Key) (string, bool) {
	var words [2]string
	if len(parts) < 1 || len(parts) > len(words) {
		return "", false
	}
	for i, part := range parts {
		word, is := part.(string)
		if !is {
			return "", false
		}
		words[i] = word
	}
	group := words[0]
	if len(parts) == 2 {
		group += ":" + words[1]
	}
	same := prefixOf(group)
	return group, len(same) == len(parts) && same[0] == words[0]
}

// split returns the group and the key of an entry; false if it has none.
func split(parts kv.Key) (group, key string, ok bool) {
	if len(parts) < 2 {
		return "", "", false
	}
	last := len(parts) - 1
	if key, ok = parts[last].(string); ok {
		group, ok = groupOf(parts[:last])
	}
	return group, key, ok
}

// beginning selects the entries of the groups whose names begin with a text, and maybe others.
func beginning(text string) kv.Selection {
	var before kv.Key
	if namespace, rest, scoped := strings.Cut(text, ":"); scoped && namespacePattern.MatchString(namespace) {
		before, text = kv.Key{namespace}, rest
	}
	if text == "" {
		return kv.Selection{Prefix: before}
	}
	// The stored form of a string is 02, its bytes with 00 as 00 FF, and 00. No byte of UTF-8 is
	// FF.
	from := hostkv.Raw("\x02" + strings.ReplaceAll(text, "\x00", "\x00\xff"))
	to := append(from[:len(from):len(from)], 0xFF)
	return kv.Selection{Start: append(before[:len(before):len(before)], from),
		End: append(before[:len(before):len(before)], to)}
}

// valueOf returns a text as a value.
func valueOf(text string) kv.Value {
	if utf8.ValidString(text) {
		return kv.Text(text)
	}
	return kv.Bytes([]byte(text))
}

// textOf returns a value as text. A JSON string becomes its characters; any other value that is
// neither text nor bytes becomes its JSON.
func textOf(v kv.Value) (string, error) {
	switch v.Encoding {
	case host.EncodedText, host.EncodedBytes:
		return string(v.Data), nil
	}
	text, err := value.Value{Encoding: v.Encoding, Data: v.Data}.AppendJSON(nil)
	if err != nil {
		return "", host.Errorf(host.FailedPrecondition, "the value has no text: it %s", err)
	}
	if len(text) > 0 && text[0] == '"' {
		var s string
		err = json.Unmarshal(text, &s)
		return s, err
	}
	return string(text), nil
}
