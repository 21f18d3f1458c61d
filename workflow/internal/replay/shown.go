package replay

import (
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/fxamacker/cbor/v2"
)

// maxShown is the maximum size of a payload that is shown as JSON, in bytes.
const maxShown = 64 << 10

// Show fills the fields for JSON: the payloads, or a text with their size if they have more than 64
// KiB or are not CBOR.
func (s *RunStatus) Show() {
	s.InputJSON, s.PublishedJSON, s.OutputJSON = payloadJSON(s.Input, s.Codec),
		payloadJSON(s.Published, s.Codec), payloadJSON(s.Output, s.Codec)
}

// Show fills the fields for JSON, as [RunStatus.Show] does.
func (h *HistoryEntry) Show() {
	h.OutputJSON, h.StateJSON = payloadJSON(h.Output, h.Codec), payloadJSON(h.State, h.Codec)
}

// payloadJSON returns a payload as JSON; nil if there is none.
func payloadJSON(b []byte, codec uint8) json.RawMessage {
	if len(b) == 0 {
		return nil
	}
	var v any = fmt.Sprintf("%d bytes", len(b))
	if len(b) <= maxShown {
		v = shownPayload(b, codec)
	}
	out, err := json.Marshal(v)
	if err != nil {
		return nil // shownPayload returns no such value
	}
	return out
}

// shownPayload returns a payload as a value that encodes as JSON: the decoded CBOR if that can be
// shown, else a text with its size and first bytes.
func shownPayload(b []byte, codec uint8) any {
	if b == nil {
		return nil
	}
	var v any
	if codec == CodecCBOR && shownDecoding.Unmarshal(b, &v) == nil {
		if _, err := json.Marshal(v); err == nil {
			return v
		}
	}
	return fmt.Sprintf("%d bytes: %x", len(b), b[:min(len(b), 64)])
}

// shownDecoding decodes payloads to types that JSON can encode. Its options are constant and cannot
// be wrong.
var shownDecoding = func() cbor.DecMode {
	mode, err := cbor.DecOptions{DefaultMapType: reflect.TypeFor[map[string]any](),
		DefaultByteStringType: reflect.TypeFor[[]byte]()}.DecMode()
	if err != nil {
		panic(err)
	}
	return mode
}()
