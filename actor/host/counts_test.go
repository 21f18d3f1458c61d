package host_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"strings"
	"testing"

	"github.com/fxamacker/cbor/v2"

	"github.com/cairn-run/cairn/actor/host"
)

type mapped struct {
	Names []string            `json:"names" max:"3"`
	Parts []counted           `json:"parts" max:"2"`
	Deep  [][]any             `json:"deep" max:"2"`
	Any   any                 `json:"any"`
	Raw   host.Raw            `json:"raw"`
	Maps  map[string][]string `json:"maps"`
	outer
}

type counted struct {
	IDs []int `json:"ids" max:"2"`
}

type outer struct {
	Outer []int `json:"outer" max:"2"`
}

// TestCountsOfLists checks which lists are too long for their fields. Both decoders find the same.
func TestCountsOfLists(t *testing.T) {
	space := strings.Repeat(" ", host.CountedBytes)
	const many = `"MANY"` // stands for a list
	for text, want := range map[string]string{
		`{"names":["a","b","c"],"parts":[{},{}],"outer":[1,2]}`:   "",
		`{"names":["a","b","c","d"]}`:                             "names",
		`{"parts":[{},{},{}]}`:                                    "parts",
		`{"parts":[{},{"ids":[1,2,3]}]}`:                          "parts[1].ids",
		`{"outer":[1,2,3]}`:                                       "outer",
		`{"deep":[[1,2,3,4],["[1,2,3]"]]}`:                        "",
		`{"deep":[[],[],[]]}`:                                     "deep",
		`{"any":[1,2,3,[],{"names":[1,2,3,4]}]}`:                  "",
		`{"any":{"x":{"y":` + many + `}}}`:                        "any.x.y",
		`{"deep":[` + many + `]}`:                                 "deep[0]",
		`{"raw":` + many + `,"names":[]}`:                         "",
		`{"raw":{"a":` + many + `},"names":["\"[","\\",",","]"]}`: "names",
		many: " ", // the input itself
		`{"raw":[[]],"parts":[{"ids":[1]},{"ids":[]}],"names":[1,2,3]}`: "",
	} {
		found := func(codec host.Codec, data []byte) string {
			err := host.CheckCounts(codec, data, new(mapped))
			switch {
			case err == nil:
				return ""
			case err.Code != host.TooLarge || !strings.Contains(err.Message, err.Metadata["field"]) || err.Metadata["limit"] == "":
				t.Errorf("%.60s: %v, with %v", text, err, err.Metadata)
			case err.Metadata["field"] == "":
				return " "
			}
			return err.Metadata["field"]
		}
		list := "[" + strings.Repeat("0,", host.MaxLoose) + "0]"
		got := found(host.JSON, []byte(strings.ReplaceAll(text, many, list)+space))
		errorIf(t, got != want, "JSON %.60s: %q, want %q", text, got, want)
		var v any
		must(t, json.Unmarshal([]byte(text), &v), text)
		if object, is := v.(map[string]any); is {
			object["pad"] = space
		}
		data, err := cbor.Marshal(v)
		must(t, err)
		list = "\x9a" + string(binary.BigEndian.AppendUint32(nil, host.MaxLoose+1)) + strings.Repeat("\x00", host.MaxLoose+1)
		if got := found(host.CBOR, bytes.ReplaceAll(data, []byte("\x64MANY"), []byte(list))); got != want {
			t.Errorf("CBOR %.60s: %q, want %q", text, got, want)
		}
	}
	for _, text := range []string{`{"NAMES":[1,2,3,4]}`, `{"n\u0061mes":[1,2,3,4]}`, `{"names":[1,2,3,4`,
		`{"parts":[{"names":0}],"names":[[{}],{"a":[]},"",0]}`} {
		err := host.CheckCounts(host.JSON, []byte(text+space), new(mapped))
		errorIf(t, err == nil, "%s is taken", text)
	}
	if err := host.CheckCounts(host.JSON, []byte(`{"names":[1,2,3,4]}`), new(mapped)); err != nil {
		t.Errorf("a short input: %v", err)
	}
}

// TestCountsOfTaggedCBOR checks that a tag of CBOR hides nothing, as the decoder ignores it.
func TestCountsOfTaggedCBOR(t *testing.T) {
	data, err := cbor.Marshal(map[string]any{"pad": strings.Repeat(" ", host.CountedBytes),
		"names": cbor.Tag{Number: 999, Content: []int{1, 2, 3, 4}}})
	must(t, err)
	if err := host.CheckCounts(host.CBOR, data, new(mapped)); err == nil || err.Metadata["actual"] != "4" {
		t.Errorf("%v", err)
	}
}

func FuzzCheckCounts(f *testing.F) {
	f.Add([]byte(`{"names":["a\"",{"b":[1,2]}],"raw":[{}]}`))
	f.Add([]byte(`{"a`))
	f.Add([]byte{0xa1, 0x65, 'n', 'a', 'm', 'e', 's', 0x9b, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff})
	f.Add([]byte{0xc1, 0xbf, 0x61, 'a', 0x80})
	mode, err := cbor.DecOptions{
		DupMapKey: cbor.DupMapKeyEnforcedAPF, IndefLength: cbor.IndefLengthForbidden, FieldNameMatching: cbor.FieldNameMatchingCaseSensitive,
	}.DecMode()
	must(f, err)
	f.Fuzz(func(t *testing.T, data []byte) {
		over := func(v *mapped) bool {
			over := len(v.Names) > 3 || len(v.Parts) > 2 || len(v.Deep) > 2 || len(v.Outer) > 2
			for _, p := range v.Parts {
				over = over || len(p.IDs) > 2
			}
			return over
		}
		// Both stop after the first value, and nothing in data is too large without a tag max.
		err := host.CheckCounts(host.JSON, append(bytes.Clone(data), strings.Repeat(" ", host.CountedBytes)...), new(mapped))
		v := new(mapped)
		if json.Unmarshal(data, v) == nil && (over(v) && err == nil || !over(v) && err != nil && host.CheckJSON(data, v) == nil) {
			t.Errorf("JSON %q: %v", data, err)
		}
		err = host.CheckCounts(host.CBOR, append(bytes.Clone(data), make([]byte, host.CountedBytes)...), new(mapped))
		v = new(mapped)
		errorIf(t, mode.Unmarshal(data, v) == nil && over(v) != (err != nil), "CBOR %x: %v", data, err)
	})
}

type limited struct {
	Rows  []*limited        `json:"rows" max:"2"`
	Named map[string][]bool `json:"named"`
	Own   []int             `json:"own"`
}

type wrapped struct {
	Deep map[string][]limited `json:"deep"`
}

// TestLimitsOfApplications counts lists with the tag max, wherever they are in a type, and no
// others.
func TestLimitsOfApplications(t *testing.T) {
	space := strings.Repeat(" ", host.CountedBytes)
	long := "[" + strings.Repeat("0,", host.MaxLoose) + "0]"
	for text, want := range map[string]string{
		`{"deep":{"a":[{"rows":[{},{"own":` + long + `}]}]}}`:            "",
		`{"deep":{"a":[{},{},{},{"named":{"x":` + long + `}}]}}`:         "",
		`{"deep":{"a":[{"rows":[null,{"rows":[{},{},{}]}]}]}}`:           "deep.a[0].rows[1].rows",
		`{"unknown":{"rows":[1,2,3]},"deep":{"b":[{"ROWS":[1,2,3]}]}}`:   "deep.b[0].ROWS",
		`{"deep":{"a":[{"rows":[]}]}, "deep":{"a":[{"rows":[1,2,3]}]}}`:  "deep.a[0].rows",
		`{"deep":{"a":[{"rows":"[1,2,3]","\u0072ows":[[1,2,3],[],0]}]}}`: "deep.a[0].rows",
	} {
		got := ""
		if err := host.CheckLimits(host.JSON, []byte(text+space), new(wrapped)); err != nil {
			got = err.Metadata["field"]
		}
		errorIf(t, got != want, "%.60s: %q, want %q", text, got, want)
	}
	err := host.CheckLimits(host.JSON, []byte(`{"rows":[1,2,3]`+space), new(counted))
	errorIf(t, err != nil, "of another type: %v", err)
}
