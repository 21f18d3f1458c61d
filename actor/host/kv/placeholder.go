package kv

import (
	"bytes"
	"regexp"
	"strings"

	"github.com/cairn-run/cairn/actor/host"
)

// A Placeholder stands for a string that a commit makes: in keys of mutations, and in documents
// that they store. It is
//
//	uuidv7        {"$uuidv7":true}    a UUID of version 7, greater than all that commits of the actor have made before
//	uuidv7:NAME   {"$uuidv7":NAME}    another one of the same commit; a name is 1 to 64 letters, digits, "-" and "_"
//	versionstamp  {"$versionstamp":true}  the version of the commit: 16 hexadecimal digits, and 0000
//
// in Go and in JSON. Each has one value throughout a commit.
type Placeholder string

// Versionstamp and UUIDv7 are the placeholders without a name.
const (
	Versionstamp Placeholder = "versionstamp"
	UUIDv7       Placeholder = "uuidv7"
)

var placeholder = regexp.MustCompile(`\{"\$(?:versionstamp":true|uuidv7":(?:true|"[A-Za-z0-9_-]{1,64}"))\}`)

// parsePlaceholder reads the text of a match.
func parsePlaceholder(text string) Placeholder {
	kind, rest, _ := strings.Cut(text[len(`{"$`):len(text)-1], `":`)
	if rest == "true" {
		return Placeholder(kind)
	}
	return Placeholder(kind + ":" + strings.Trim(rest, `"`))
}

// Resolve replaces the placeholders in a JSON document by strings. The document has no white space
// between its tokens. Other objects do not change.
func Resolve(document []byte, value func(Placeholder) (string, error)) (out []byte, err error) {
	if !bytes.Contains(document, []byte(`{"$`)) {
		return document, nil
	}
	return placeholder.ReplaceAllFunc(document, func(match []byte) []byte {
		text, failed := "", err
		if err == nil {
			text, failed = value(parsePlaceholder(string(match)))
		}
		err = failed
		return []byte(`"` + text + `"`)
	}), err
}

// check returns an error if p is no valid placeholder, because Go code can make any.
func (p Placeholder) check() error {
	if text := p.String(); placeholder.FindString(text) != text {
		return host.Errorf(host.InvalidArgument,
			"%.80q is not a placeholder: a name is 1 to 64 letters, digits, \"-\" and \"_\"", string(p))
	}
	return nil
}

// String returns the placeholder as it is in JSON.
func (p Placeholder) String() string {
	kind, name, named := strings.Cut(string(p), ":")
	if named {
		return `{"$` + kind + `":"` + name + `"}`
	}
	return `{"$` + kind + `":true}`
}

// MarshalJSON writes the form of String.
func (p Placeholder) MarshalJSON() ([]byte, error) { return []byte(p.String()), p.check() }

// binary returns the placeholder for CBOR.
func (p Placeholder) binary() map[string]any {
	kind, name, named := strings.Cut(string(p), ":")
	if named {
		return map[string]any{"$" + kind: name}
	}
	return map[string]any{"$" + kind: true}
}

// fromBinary reads the form that binary returns, or returns "" for any other.
func fromBinary(m map[any]any) (p Placeholder) {
	for member, v := range m {
		kind, _ := member.(string)
		kind, ok := strings.CutPrefix(kind, "$")
		switch v := v.(type) {
		case bool:
			p = Placeholder(kind)
			ok = ok && v
		case string:
			p = Placeholder(kind + ":" + v)
		default:
			ok = false
		}
		if !ok || len(m) != 1 || p.check() != nil {
			return ""
		}
	}
	return p
}
