package tuple

import (
	"bytes"
	"encoding/gob"
	"math/rand"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const officialModule = "github.com/apple/foundationdb/bindings/go"

// officialGolden reads the packed forms that the official Go binding ships as
// test data, from the module's directory in the module cache.
func officialGolden(t *testing.T) map[string][]byte {
	t.Helper()
	find := func() string {
		out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", officialModule).Output()
		fatalIf(t, err != nil, "go list -m %s: %v", officialModule, err)
		return strings.TrimSpace(string(out))
	}
	dir := find()
	if dir == "" {
		out, err := exec.Command("go", "mod", "download", officialModule).CombinedOutput()
		fatalIf(t, err != nil, "go mod download %s: %v\n%s", officialModule, err, out)
		dir = find()
	}
	f, err := os.Open(filepath.Join(dir, "src", "fdb", "tuple", "testdata", "tuples.golden"))
	must(t, err)
	defer f.Close()
	var golden map[string][]byte
	must(t, gob.NewDecoder(f).Decode(&golden))
	return golden
}

// officialCases rebuilds the tuples behind the golden file. Its random numbers
// come from one generator with seed 1, drawn in the order of the cases.
func officialCases() map[string]Tuple {
	random := rand.New(rand.NewSource(1))
	repeat := func(n int, element func() any) Tuple {
		t := make(Tuple, n)
		for i := range t {
			t[i] = element()
		}
		return t
	}
	integer := func() any { return random.Int63() }
	float := func() any { return float32(random.NormFloat64()) }
	double := func() any { return random.NormFloat64() }
	constant := func(v any) func() any { return func() any { return v } }

	id := UUID{0x11, 0, 0xAA, 0xBB, 0xCC, 0xDD, 0xEE, 0xFF, 0x11, 0, 0xAA, 0xBB, 0xCC, 0xDD, 0xEE, 0xFF}
	name, nameZero := []byte("namespace"), []byte{0xFF, 0x00, 0xFF}

	cases := map[string]Tuple{
		"Simple":         {id, "foobarbaz", 1234, nil},
		"Namespaces":     {id, "github", "com", "apple", "foundationdb", "tree"},
		"ManyStrings":    repeat(8, constant("namespace")),
		"ManyStringsNil": repeat(8, constant("nam\x00es\xFFpace")),
		"ManyBytes":      repeat(20, constant(name)),
		"ManyBytesNil":   repeat(20, constant(nameZero)),
		"LargeBytes":     {id, bytes.Repeat([]byte("abcd"), 20)},
		"LargeBytesNil":  {id, bytes.Repeat(nameZero, 20)},
		"UUIDs":          {id, true, id, false, id, true, id, false, id, true},
		"NilCases":       {"\x00", "\x00\xFF", "\x00\x00\x00", "\xFF\x00", ""},
	}
	cases["Integers"] = repeat(20, integer)
	cases["Floats"] = repeat(20, float)
	cases["Doubles"] = repeat(20, double)
	integers, names, doubles := repeat(4, integer), repeat(4, constant(name)), repeat(4, double)
	cases["Nested"] = Tuple{id, integers, nil, names, nil, doubles, nil}
	return cases
}

func TestOfficialGoldenVectorsPackAndUnpack(t *testing.T) {
	golden, cases := officialGolden(t), officialCases()
	fatalIf(t, len(golden) == 0 || len(golden) != len(cases), "the golden file has %d cases, this test %d", len(golden), len(cases))
	for name, want := range golden {
		packed, err := cases[name].Pack()
		errorIf(t, err != nil || !bytes.Equal(packed, want), "%s: packed %x (%v), want %x", name, packed, err, want)
		if got, err := Unpack(want); err != nil || Compare(got, cases[name]) != 0 {
			t.Errorf("%s: unpacked %v (%v), want %v", name, got, err, cases[name])
		}
	}
}
