package cell

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/fxamacker/cbor/v2"
)

// What combines two documents makes a document in the form in which it is stored, whatever they are.
func FuzzCombinationsMakeDocuments(f *testing.F) {
	for _, pair := range [][2]string{{`1`, `-0`}, {`[]`, `[1]`}, {`[[],{}]`, `[ ]`}, {`"a"`, `1`}, {`1.5`, `2`}, {`["]"]`, `[","]`}, {`-`, `1e1`}} {
		f.Add(pair[0], pair[1])
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		old, err := canonical([]byte(a))
		if err != nil {
			return
		}
		operand, err := canonical([]byte(b))
		if err != nil {
			return
		}
		var first, second []json.RawMessage
		arrays := json.Unmarshal(old, &first) == nil && json.Unmarshal(operand, &second) == nil && first != nil && second != nil
		for op, combine := range combinations {
			was := slices.Clone(old)
			if number(op) {
				if _, err := integer(operand); err != nil {
					continue
				}
			} else if operand[0] != '[' {
				continue
			}
			result, err := combine(old, operand)
			if !bytes.Equal(was, old) {
				t.Fatalf("%s changed its argument", op)
			}
			if err != nil {
				continue
			}
			if again, err := canonical(result); err != nil || !bytes.Equal(again, result) {
				t.Fatalf("%s of %s and %s is %s", op, old, operand, result)
			}
			var joined []json.RawMessage
			if arrays && !number(op) && (json.Unmarshal(result, &joined) != nil || len(joined) != len(first)+len(second)) {
				t.Fatalf("%s of %s and %s is %s", op, old, operand, result)
			}
		}
	})
}

func TestIntegersAreBounded(t *testing.T) {
	most := []byte(strings.Repeat("9", maxDigits))
	if _, err := combinations["sum"](most, []byte("0")); err != nil {
		t.Error(err)
	}
	if _, err := combinations["sum"](most, []byte("1")); err == nil {
		t.Error("a sum has more digits than an integer may have")
	}
	if _, err := integer(append(most, '9')); err == nil {
		t.Error("an integer has more digits than it may have")
	}
}

func TestUndeliveredBodiesAreReadAsDocuments(t *testing.T) {
	if got := stored([]byte{cborNull}); string(got) != "null" {
		t.Errorf("an empty body is read as %s", got)
	}
	for _, text := range []string{`1`, `"` + strings.Repeat("x", 300) + `"`, `"` + strings.Repeat("x", 70_000) + `"`, `{"a":[1,2]}`, `null`} {
		body, err := cbor.Marshal(Document(text))
		if err != nil {
			t.Fatal(err)
		}
		if got := stored(body); string(got) != text {
			t.Errorf("a body of %.20s is read as %.20s", text, got)
		}
		if got := stored([]byte(text)); string(got) != text {
			t.Errorf("%.20s is read as %.20s", text, got)
		}
	}
}

func FuzzDocument(f *testing.F) {
	for _, s := range []string{`{"a": 1}`, "\x43{ }", "\x41", "nul", "\xff"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, decode := range []func(*Document, []byte) error{(*Document).UnmarshalJSON, (*Document).UnmarshalCBOR} {
			var d, again Document
			if decode(&d, b) != nil {
				continue
			}
			text, err := json.Marshal(d)
			if err != nil || again.UnmarshalJSON(text) != nil || !bytes.Equal(again, d) && len(d) > 0 {
				t.Fatalf("%q became %q, %v", b, d, err)
			}
			packed, err := cbor.Marshal(d)
			if err != nil || again.UnmarshalCBOR(packed) != nil || !bytes.Equal(again, d) {
				t.Fatalf("%q became %q, %v", b, d, err)
			}
		}
	})
}
