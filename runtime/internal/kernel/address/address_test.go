package address

import (
	"slices"
	"strings"
	"testing"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/keyspace/testutil"
)

func TestCheckRefusesKeysThatCannotNameAnActor(t *testing.T) {
	parts := func(n int, part string) []string { return slices.Repeat([]string{part}, n) }
	for _, c := range []struct {
		name string
		key  []string
		code host.Code
	}{
		{"no part", nil, ""},
		{"an empty part", []string{""}, ""},
		{"the most parts", parts(MaxParts, "x"), ""},
		{"a part too many", parts(MaxParts+1, "x"), host.TooLarge},
		{"the most bytes", []string{strings.Repeat("x", MaxBytes-1), "y"}, ""},
		{"a byte too many", []string{strings.Repeat("x", MaxBytes), "y"}, host.TooLarge},
		{"text that is not UTF-8", []string{"a", "\xff"}, host.InvalidArgument},
	} {
		err := Check(c.key)
		errorIf(t, err == nil && c.code != "" || err != nil && host.CodeOf(err) != c.code, "%s: %v, want code %q", c.name, err, c.code)
	}
}

func TestAddressesThatDifferHaveDifferentForms(t *testing.T) {
	seen := make(map[string]host.Address)
	for _, a := range []host.Address{
		{Type: "a"}, {Type: "ab"}, {Type: "a", Key: []string{""}}, {Type: "a", Key: []string{"", ""}}, {Type: "a", Key: []string{"b"}},
		{Type: "a", Key: []string{"b", ""}}, {Type: "a", Key: []string{"", "b"}}, {Type: "a", Key: []string{"b", "c"}},
		{Type: "a", Key: []string{"bc"}}, {Type: "a", Key: []string{"\x01b"}}, {Type: "a", Key: []string{strings.Repeat("b", 300)}},
	} {
		form := string(Append([]byte("x"), a))
		other, ok := seen[form]
		errorIf(t, ok || !strings.HasPrefix(form, "x"), "%v and %v have the form %q", a, other, form)
		seen[form] = a
	}
}

func TestFormatQuotesPartsAsInAPath(t *testing.T) {
	for want, a := range map[string]host.Address{
		"room":                 {Type: "room"},
		"room/a/b":             {Type: "room", Key: []string{"a", "b"}},
		"room//":               {Type: "room", Key: []string{"", ""}},
		"room/a%2Fb%20c%25%7F": {Type: "room", Key: []string{"a/b c%\x7f"}},
		"room/Zürich%0A":       {Type: "room", Key: []string{"Zürich\n"}},
	} {
		got := Format(a)
		errorIf(t, got != want, "%v is written %q, want %q", a, got, want)
	}
}

func TestParseReadsWhatAppendWrites(t *testing.T) {
	for _, a := range []host.Address{{Type: "room"}, {Type: "room", Key: []string{""}},
		{Type: "r", Key: []string{"a/b", strings.Repeat("x", 300), "\x00"}}} {
		got := Parse(string(Append(nil, a)))
		errorIf(t, got.Type != a.Type || !slices.Equal(got.Key, a.Key), "%+v, want %+v", got, a)
	}
}

var errorIf = testutil.ErrorIf
