package journal

import (
	"fmt"

	"github.com/fxamacker/cbor/v2"
)

// Kinds and statuses are words for people and other programs: in JSON, and in CBOR on the wire. In
// the rows of a run they are numbers.

// MarshalText returns the word for the kind.
func (k Kind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText reads a word that MarshalText returns.
func (k *Kind) UnmarshalText(text []byte) error {
	for i := range KindLast + 1 {
		if i.String() == string(text) {
			*k = i
			return nil
		}
	}
	return fmt.Errorf("workflow: no kind is called %q", text)
}

// MarshalCBOR returns the word for the kind, as a text string.
func (k Kind) MarshalCBOR() ([]byte, error) { return cbor.Marshal(k.String()) }

// UnmarshalCBOR reads the encoding of MarshalCBOR.
func (k *Kind) UnmarshalCBOR(data []byte) error { return unmarshalWord(data, k) }

// MarshalText returns the word for the status.
func (s EntryStatus) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads a word that MarshalText returns.
func (s *EntryStatus) UnmarshalText(text []byte) error {
	for i := range StatusLast + 1 {
		if i.String() == string(text) {
			*s = i
			return nil
		}
	}
	return fmt.Errorf("workflow: no status is called %q", text)
}

// MarshalCBOR returns the word for the status, as a text string.
func (s EntryStatus) MarshalCBOR() ([]byte, error) { return cbor.Marshal(s.String()) }

// UnmarshalCBOR reads the encoding of MarshalCBOR.
func (s *EntryStatus) UnmarshalCBOR(data []byte) error { return unmarshalWord(data, s) }

func unmarshalWord(data []byte, to interface{ UnmarshalText([]byte) error }) error {
	var word string
	if err := cbor.Unmarshal(data, &word); err != nil {
		return err
	}
	return to.UnmarshalText([]byte(word))
}
