package keyspace

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

func TestActorIDIsItsBytesAndItsText(t *testing.T) {
	const text = "1234699c-ea00-8f01-bf03-040506070809"
	if !bytes.Equal(testID[:], unhex(t, testIDHex)) || testID.IsZero() || !(ActorID{}).IsZero() {
		t.Errorf("bytes %x, want %s", testID[:], testIDHex)
	}
	encoded, err := json.Marshal(map[string]ActorID{"id": testID})
	errorIf(t, err != nil || string(encoded) != `{"id":"`+text+`"}`, "%s (%v)", encoded, err)
	for _, text := range []string{text, strings.ToUpper(text)} {
		var decoded map[string]ActorID
		err := json.Unmarshal([]byte(`{"id":"`+text+`"}`), &decoded)
		errorIf(t, err != nil || decoded["id"] != testID, "%v (%v)", decoded, err)
	}
	for _, fill := range []byte{0x00, 0xFF, 0x5A} { // version, variant and slot do not depend on it
		id := NewActorID(0xFFFF, 0xFFFFFFFF, [10]byte(bytes.Repeat([]byte{fill}, 10)))
		again, err := parseActorID(id.String())
		errorIf(t, err != nil || again != id || !bytes.HasPrefix(id[:], []byte{0x3F, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF}), "%s: %v", id, err)
	}
}

func TestParseActorIDRefusesWithOffset(t *testing.T) {
	for text, offset := range map[string]int{
		"":                                      0,
		"1234699c-ea00-8f01-bf03-04050607080":   35,
		"1234699c-ea00-8f01-bf03-0405060708090": 36,
		"1234699cxea00-8f01-bf03-040506070809":  0,
		"g234699c-ea00-8f01-bf03-040506070809":  0,
		"1234699c-ea00-8f01-bf03-04050607080é":  36,
		"1234699c-ea00-8f01-bf03-04050607080z":  0,
		"00000000-0000-0000-0000-000000000000":  14,
		// Other forms that uuid.Parse accepts.
		"1234699cea008f01bf03040506070809":              32,
		"{1234699c-ea00-8f01-bf03-040506070809}":        36,
		"urn:uuid:1234699c-ea00-8f01-bf03-040506070809": 36,
		"1234699c-ea00-4f01-bf03-040506070809":          14,
		"1234699c-ea00-8f01-cf03-040506070809":          19,
		"4000699c-ea00-8f01-bf03-040506070809":          0,
	} {
		var id ActorID
		err := id.UnmarshalText([]byte(text))
		var syntax *SyntaxError
		errorIf(t, !id.IsZero() || !errors.As(err, &syntax) || syntax.Offset != offset, "%q: %v, %v, want offset %d", text, id, err, offset)
	}
}

func TestSlotInputKeepsPartsApart(t *testing.T) {
	got := AppendSlotInput(nil, "default", "tenant", []string{"acme", ""})
	want := unhex(t, "00000007 64656661756c74 00000006 74656e616e74 00000004 61636d65 00000000")
	errorIf(t, !bytes.Equal(got, want), "%x, want %x", got, want)
	seen := map[string][]string{}
	for _, key := range [][]string{nil, {""}, {"", ""}, {"ab"}, {"a", "b"}, {"ab", ""}, {"", "ab"}} {
		input := string(AppendSlotInput(nil, "n", "t", key))
		other, ok := seen[input]
		errorIf(t, ok, "%q and %q have the same input", key, other)
		seen[input] = key
	}
}
