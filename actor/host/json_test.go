package host_test

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/keyspace/testutil"
)

type letter struct {
	envelope
	To   string            `json:"to"`
	Tags map[string]string `json:"tags,omitempty"`
	Copy []*letter         `json:"copy,omitempty"`
	Any  any
	At   time.Time       `json:"at"`
	Raw  json.RawMessage `json:"raw"`
	// Later is checked by its own decoder.
	Later host.Raw `json:"later"`
}

type envelope struct {
	Stamp int    `json:"stamp"`
	To    string `json:"to"` // letter's own member wins
}

func TestCheckJSONRefusesWhatTwoReadersSeeDifferently(t *testing.T) {
	for text, want := range map[string]string{
		`{"to":"a","stamp":1}`:                  "",
		`null`:                                  "",
		`{"to":"a","to":"b"}`:                   `member "to" is given twice`,
		`{"to":"a","\u0074o":"b"}`:              `member "to" is given twice`,
		`{"To":"a"}`:                            `unknown field "To"`,
		`{"to":"a","TO":"b"}`:                   `unknown field "TO"`,
		`{"STAMP":1}`:                           `unknown field "STAMP"`,
		`{"Any":{"a":1,"A":2}}`:                 "",
		`{"any":1}`:                             `unknown field "any"`,
		`{"Any":[{"a":{"b":1,"c":"}","b":2}}]}`: `member "Any[0].a.b" is given twice`,
		`{"raw":{"x":"a\"b","x":2}}`:            `member "raw.x" is given twice`,
		`{"raw":[1,[{"X":1,"x":2}],{"y":[{"z":1,"z":1}]}]}`: `member "raw[2].y[0].z" is given twice`,
		`{"later":{"x":1,"x":2}}`:                           "",
		`{"tags":{"a":"1","A":"2"}}`:                        "",
		`{"tags":{"a":"1","a":"2"}}`:                        `member "tags.a" is given twice`,
		`{"copy":[{"to":"x"},null,{"To":"y"}]}`:             `unknown field "copy[2].To"`,
		` { "to" : "a" , "copy" : [ ] , "stamp" : -1 } `:    "",
		`{"at":"2026-01-02T03:04:05Z"}`:                     "",
		"{" + members(40, -1) + "}":                         "unknown field \"m0\"",
		`{"Any":{` + members(40, -1) + "}}":                 "",
		`{"Any":{` + members(40, 30) + "}}":                 `member "Any.m30" is given twice`,
		`{"Any":{` + members(40, 3) + "}}":                  `member "Any.m3" is given twice`,
	} {
		got := ""
		if err := host.CheckJSON([]byte(text), new(letter)); err != nil {
			got = err.Error()
		}
		errorIf(t, got != want, "%s: %q, want %q", text, got, want)
	}
}

// A parcel has fields whose Go names hide fields that have other names in JSON.
type parcel struct {
	label
	side
	Name  string `json:"title"`
	Note  string `json:"-"`
	owner struct{}
	//lint:ignore SA5008 an invalid name is the case under test
	Sum string `json:"a\"b"` // no name in JSON: the field has its own
}

type label struct {
	Name  map[string]int `json:"name"`
	Note  map[string]int
	Owner map[string]int `json:"owner"`
	Same  []int
	Both  int
}

type side struct {
	Same map[string]int `json:"Same"` // the name of a tag wins
	Both int            // neither wins
}

func TestCheckJSONKnowsTheMembersThatEncodingJSONKnows(t *testing.T) {
	for text, known := range map[string]bool{
		`{"title":"a","name":{"x":1},"Note":{"x":1},"owner":{"x":1},"Same":{"x":1},"Sum":"s"}`: true,
		`{"Both":1}`: false, `{"-":"a"}`: false, `{"Name":{}}`: false, `{"label":{}}`: false, `{"a\"b":"s"}`: false,
	} {
		d := json.NewDecoder(strings.NewReader(text))
		d.DisallowUnknownFields()
		// Decoding accepts names with other capitals, too.
		err := d.Decode(new(parcel))
		fatalIf(t, (err == nil) != known && text != `{"Name":{}}`, "%s: encoding/json says %v", text, err)
		if err := host.CheckJSON([]byte(text), new(parcel)); (err == nil) != known {
			t.Errorf("%s: %v", text, err)
		}
	}
	_ = parcel{}.owner
}

// members returns n members, and one of them again at the end.
func members(n, again int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(member(i) + ",")
	}
	if again >= 0 {
		return b.String() + member(again)
	}
	return strings.TrimSuffix(b.String(), ",")
}

func member(i int) string {
	name, _ := json.Marshal(i)
	return `"m` + string(name) + `":` + string(name)
}

// FuzzCheckJSON compares the walk with encoding/json's tokens.
func FuzzCheckJSON(f *testing.F) {
	for _, seed := range []string{`{"a":1,"a":2}`, `[{"a":[{"b":"\"","b":1}]}]`, `{"\u0061":1,"a":{}}`,
		"{\"a\":\t-1.5e3 , \"b\":[true,null]}", `"x"`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if !json.Valid(data) || bytes.ContainsAny(data, "\\") && strings.Contains(string(data), `\u`) {
			return
		}
		got, want := host.CheckJSON(data, nil) != nil, twice(t, json.NewDecoder(bytes.NewReader(data)))
		fatalIf(t, got != want, "%s: refused %t, want %t", data, got, want)
	})
}

// twice reports whether an object of a valid text has two members of one name.
func twice(t *testing.T, d *json.Decoder) (found bool) {
	type level struct {
		names map[string]bool // nil: a list
		name  bool            // the next string is a name
	}
	var stack []level
	for {
		token, err := d.Token()
		if err == io.EOF {
			return found
		}
		if err != nil {
			t.Skip(err)
		}
		top := len(stack) - 1
		switch s, isText := token.(string); {
		case token == json.Delim('{'):
			stack = append(stack, level{map[string]bool{}, true})
			continue
		case token == json.Delim('['):
			stack = append(stack, level{})
			continue
		case token == json.Delim('}') || token == json.Delim(']'):
			stack = stack[:top]
			top--
		case isText && top >= 0 && stack[top].name:
			found = found || stack[top].names[s]
			stack[top].names[s], stack[top].name = true, false
			continue
		}
		if top >= 0 && stack[top].names != nil {
			stack[top].name = true
		}
	}
}

func TestTheMemberThatDoesNotFitIsFound(t *testing.T) {
	t.Parallel()
	type inner struct {
		At time.Time `json:"at"`
		N  int       `json:"n"`
	}
	type outer struct {
		List []inner          `json:"list"`
		Map  map[string]inner `json:"map"`
		Next *outer           `json:"next"`
	}
	for text, want := range map[string]string{
		`{"list":[{"n":1},{"n":"x"}]}`:  "list[1].n",
		`{"list":[{"at":"tomorrow"}]}`:  "list[0].at",
		`{"map":{"a":{},"b":{"at":7}}}`: "map.b.at",
		`{"next":{"next":{"list":7}}}`:  "next.next.list",
		`{"next":{"x":1}}`:              "next.x",
		`{"list":[{"n":1,"n":2}]}`:      "list[0].n",
		`[]`:                            "",
		`{"list":[`:                     "",
		strings.Repeat(`{"next":`, 50) + `7` + strings.Repeat("}", 50): "next.next.next.next.next.next.next.next",
	} {
		var v outer
		err := json.Unmarshal([]byte(text), &v)
		path := ""
		if m := host.FindMember([]byte(text), &v, err); m != nil {
			path = m.Path
		}
		errorIf(t, path != want, "%.60s: %q, want %q", text, path, want)
	}
}

var must, fatalIf, errorIf = testutil.Must, testutil.FatalIf, testutil.ErrorIf
