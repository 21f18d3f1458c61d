package keyspace

import (
	"bytes"
	"errors"
	"testing"
)

// checkOffset verifies that an error is a *SyntaxError inside the input.
func checkOffset(t *testing.T, input []byte, err error) {
	t.Helper()
	var syntax *SyntaxError
	fatalIf(t, !errors.As(err, &syntax) || syntax.Offset < 0 || syntax.Offset > len(input), "%x: %v", input, err)
}

// A key that Parse accepts appends to the same bytes, and every key prints.
func FuzzParse(f *testing.F) {
	for _, v := range keyVectors {
		f.Add(unhex(f, v.hex))
	}
	f.Fuzz(func(t *testing.T, key []byte) {
		fatalIf(t, Format(key) == "", "%x prints nothing", key)
		l, v, bad := find(key)
		if bad != nil {
			checkOffset(t, key, bad)
			return
		}
		again := appendKey(t, l, &v, key)
		fatalIf(t, !bytes.Equal(again, key), "%x parses to %+v, which appends %x", key, v, again)
		if start, end := l.Range(); !in(key, start, end) || Kind(key[0]) != l.Kind || l.Kind.Check(key) != nil {
			t.Fatalf("%x is outside the range of %s", key, l.prints)
		}
	})
}

func FuzzParseRow(f *testing.F) {
	for _, v := range rowVectors {
		f.Add(unhex(f, v.hex))
	}
	f.Fuzz(func(t *testing.T, row []byte) {
		fatalIf(t, FormatRow(row) == "", "%x prints nothing", row)
		split := SplitRow(row)
		r, err := ParseRow(row)
		if err != nil {
			checkOffset(t, row, err)
			return
		}
		again := appendRow(nil, r)
		fatalIf(t, !bytes.Equal(again, row), "%x parses to %+v, which appends %x", row, r, again)
		if r.Type == RowData || r.Type == RowMetadata {
			want := len(appendKeyPrefix(nil, r.ID, r.Key))
			fatalIf(t, split != want, "%x splits at %d, want %d", row, split, want)
		} else if split != len(row) {
			t.Fatalf("%x splits at %d", row, split)
		}
	})
}

func FuzzRowsOfKeys(f *testing.F) {
	f.Add([]byte{4, 0, 0xFF}, []byte{4, 0})
	f.Add([]byte{}, []byte{0})
	f.Fuzz(checkRows)
}

func FuzzSplitRow(f *testing.F) {
	for _, v := range rowVectors {
		f.Add(unhex(f, v.hex), unhex(f, rowVectors[0].hex))
	}
	f.Fuzz(func(t *testing.T, a, b []byte) {
		checkSplit(t, a, b)
		checkSuccessor(t, a, b)
	})
}

func FuzzParseActorID(f *testing.F) {
	f.Add(testID.String())
	f.Add("1234699C-EA00-8F01-BF03-04050607080")
	f.Fuzz(func(t *testing.T, text string) {
		id, err := parseActorID(text)
		if err != nil {
			checkOffset(t, []byte(text), err)
			return
		}
		if again, err := parseActorID(id.String()); err != nil || again != id {
			t.Fatalf("%q parses to %v, which parses to %v (%v)", text, id, again, err)
		}
	})
}
