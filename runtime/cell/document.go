package cell

import (
	"bytes"
	"encoding/json"

	"github.com/fxamacker/cbor/v2"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime/internal/part/kv/value"
)

// A Document is a JSON document, such as the body of a message or an item of a stream. It is kept
// as written, except for white space between tokens. In CBOR it is a byte string that holds JSON,
// or any CBOR that has a form in JSON, such as messages of Deno KV. An empty Document is null.
type Document []byte

// MarshalJSON returns d, or null if it is empty.
func (d Document) MarshalJSON() ([]byte, error) {
	if len(d) == 0 {
		return []byte("null"), nil
	}
	return d, nil
}

// UnmarshalJSON accepts any JSON document.
func (d *Document) UnmarshalJSON(b []byte) (err error) {
	*d, err = canonical(b)
	return err
}

// cborNull is null in CBOR.
const cborNull = 0xF6

// selfDescribed is the tag 55799, which only says that CBOR follows.
var selfDescribed = []byte{0xD9, 0xD9, 0xF7}

// MarshalCBOR returns d as a byte string, or null if it is empty.
func (d Document) MarshalCBOR() ([]byte, error) {
	if len(d) == 0 {
		return []byte{cborNull}, nil
	}
	return cbor.Marshal([]byte(d))
}

// UnmarshalCBOR accepts a byte string that holds JSON, or up to 1 MiB of other CBOR, which becomes
// JSON in the form of kv.get.
func (d *Document) UnmarshalCBOR(b []byte) (err error) {
	var text []byte
	switch b = bytes.TrimPrefix(b, selfDescribed); {
	case len(b) == 1 && b[0] == cborNull:
		*d = nil
		return nil
	case len(b) > 0 && b[0]>>5 == 2:
		text, err = unwrap(b)
	case len(b) > host.DefaultQueueMessageBytes: // no document is longer, and its JSON may have five times the bytes
		err = host.OverLimit("bytes of a document", host.DefaultQueueMessageBytes, int64(len(b)))
	default:
		text, err = value.Value{Encoding: host.EncodedCBOR, Data: b}.AppendJSON(nil)
	}
	if err != nil {
		return err
	}
	*d, err = canonical(text)
	return err
}

// JSONSchema allows any document.
func (Document) JSONSchema() []byte { return []byte(`{}`) }

// unwrap returns the content of a CBOR byte string.
func unwrap(b []byte) ([]byte, error) {
	var text []byte
	if len(b) == 0 || b[0]>>5 != 2 || cbor.Unmarshal(b, &text) != nil {
		return nil, actor.Errorf(actor.InvalidArgument, "in CBOR, a document is a byte string that holds JSON")
	}
	return text, nil
}

// canonical checks that text is JSON and removes white space between its tokens.
func canonical(text []byte) ([]byte, error) {
	v, err := value.JSON(text)
	return v.Data, err
}

// shown returns the value of an entry as a document. The methods kv.* and the runtime also store
// values of other encodings.
func shown(e *actor.Entry) (json.RawMessage, error) {
	return value.Value{Encoding: e.Encoding, Data: e.Value}.AppendJSON(nil)
}
