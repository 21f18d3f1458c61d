package cell

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"

	"github.com/fxamacker/cbor/v2"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/actor/host"
)

// A Document is a JSON document: the body of a message, an item of a stream. It is kept as it was written apart from
// white space between tokens. In CBOR it is a byte string that holds JSON. An empty Document is null.
type Document []byte

// MarshalJSON returns d, or null if it is empty.
func (d Document) MarshalJSON() ([]byte, error) {
	if len(d) == 0 {
		return []byte("null"), nil
	}
	return d, nil
}

// UnmarshalJSON takes any JSON document.
func (d *Document) UnmarshalJSON(b []byte) (err error) {
	*d, err = canonical(b)
	return err
}

// cborNull is null in CBOR.
const cborNull = 0xF6

// MarshalCBOR returns d as a byte string, or null if it is empty.
func (d Document) MarshalCBOR() ([]byte, error) {
	if len(d) == 0 {
		return []byte{cborNull}, nil
	}
	return cbor.Marshal([]byte(d))
}

// UnmarshalCBOR takes a byte string that holds JSON, or null.
func (d *Document) UnmarshalCBOR(b []byte) error {
	if len(b) == 1 && b[0] == cborNull {
		*d = nil
		return nil
	}
	text, err := unwrap(b)
	if err != nil {
		return err
	}
	*d, err = canonical(text)
	return err
}

// JSONSchema allows any document.
func (Document) JSONSchema() []byte { return []byte(`{}`) }

// unwrap returns what a CBOR byte string holds.
func unwrap(b []byte) ([]byte, error) {
	var text []byte
	if len(b) == 0 || b[0]>>5 != 2 || cbor.Unmarshal(b, &text) != nil {
		return nil, actor.Errorf(actor.InvalidArgument, "in CBOR, a document is a byte string that holds JSON")
	}
	return text, nil
}

// canonical checks that value is JSON and removes white space between its tokens.
func canonical(value []byte) ([]byte, error) {
	if len(value) == 0 {
		return nil, actor.Errorf(actor.InvalidArgument, "the value is missing; a JSON document is expected (null is one)")
	}
	var compact bytes.Buffer
	if !utf8.Valid(value) || json.Compact(&compact, value) != nil {
		return nil, actor.Errorf(actor.InvalidArgument, "the value is not JSON")
	}
	if n := depth(compact.Bytes()); n > MaxDepth {
		return nil, host.OverLimit("depth", MaxDepth, int64(n))
	}
	return compact.Bytes(), nil
}

// MaxDepth is how deep the arrays and objects of a document may nest: few readers of JSON take much more.
const MaxDepth = 500

// depth returns how deep valid JSON nests.
func depth(text []byte) (most int) {
	level, quoted := 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '[' || c == '{':
			level++
			most = max(most, level)
		case c == ']' || c == '}':
			level--
		}
	}
	return most
}

// stored returns the document that an entry holds. The cell itself stores JSON as it is; the runtime stores the body of a
// message that was given up under its keys_if_undelivered as CBOR, which the first byte tells: no JSON document begins
// with that of a byte string shorter than 4 GiB.
func stored(value []byte) json.RawMessage {
	if len(value) == 1 && value[0] == cborNull {
		return json.RawMessage("null")
	}
	if len(value) > 0 && value[0] >= 0x40 && value[0] < 0x5B {
		if text, err := unwrap(value); err == nil {
			return text
		}
	}
	return value
}
