//go:build fdb

package tuple

import (
	"bytes"
	"testing"

	official "github.com/apple/foundationdb/bindings/go/src/fdb/tuple"
)

// toOfficial converts a tuple to the types of the official package, which has fewer Go integers.
func toOfficial(t Tuple) official.Tuple {
	out := make(official.Tuple, len(t))
	for i, e := range t {
		switch e := e.(type) {
		case Tuple:
			out[i] = toOfficial(e)
		case UUID:
			out[i] = official.UUID(e)
		case Versionstamp:
			out[i] = official.Versionstamp{TransactionVersion: e.Transaction, UserVersion: e.User}
		default:
			out[i] = e
		}
	}
	return out
}

func fromOfficial(t official.Tuple) Tuple {
	out := make(Tuple, len(t))
	for i, e := range t {
		switch e := e.(type) {
		case official.Tuple:
			out[i] = fromOfficial(e)
		case official.UUID:
			out[i] = UUID(e)
		case official.Versionstamp:
			out[i] = Versionstamp{Transaction: e.TransactionVersion, User: e.UserVersion}
		default:
			out[i] = e
		}
	}
	return out
}

func TestAgreesWithOfficialPackage(t *testing.T) {
	tuples := randomTuples(20000)
	for _, v := range vectors {
		tuples = append(tuples, v.tuple)
	}
	for _, tuple := range tuples {
		compareWithOfficial(t, tuple)
	}
}

// compareWithOfficial packs a tuple with both packages and unpacks the result
// with both.
func compareWithOfficial(t *testing.T, tuple Tuple) {
	t.Helper()
	ours, err := tuple.Pack()
	fatalIf(t, err != nil, "%v: %v", tuple, err)
	theirs := toOfficial(tuple).Pack()
	fatalIf(t, !bytes.Equal(ours, theirs), "%v: ours %x, theirs %x", tuple, ours, theirs)
	got, err := Unpack(ours)
	fatalIf(t, err != nil, "%x: %v", ours, err)
	want, err := official.Unpack(ours)
	fatalIf(t, err != nil, "%x: the official package refuses: %v", ours, err)
	converted := fromOfficial(want)
	fatalIf(t, Compare(got, converted) != 0, "%x: ours %v, theirs %v", ours, got, converted)
}

// The official decoder panics on some malformed input and accepts forms that are not canonical;
// bytes that both accept must mean the same.
func FuzzAgreesWithOfficialUnpack(f *testing.F) {
	for _, v := range vectors {
		f.Add(unhex(f, v.hex))
	}
	f.Fuzz(func(t *testing.T, packed []byte) {
		got, err := Unpack(packed)
		if err != nil {
			return
		}
		want, err := official.Unpack(packed)
		fatalIf(t, err != nil, "%x: we accept %v, the official package refuses: %v", packed, got, err)
		converted := fromOfficial(want)
		fatalIf(t, Compare(got, converted) != 0, "%x: ours %v, theirs %v", packed, got, converted)
	})
}
