package actor_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/actor/host"
)

type form struct {
	Name  string            `json:"name"`
	Count int8              `json:"count"`
	At    time.Time         `json:"at"`
	Rows  []row             `json:"rows"`
	Meta  map[string]string `json:"meta"`
	Pick  picky             `json:"pick"`
}

type row struct {
	OK bool `json:"ok"`
}

// picky refuses unknown text, with its own message.
type picky string

func (p *picky) UnmarshalText(b []byte) error {
	if s := string(b); s != "" && s != "good" {
		return actor.Errorf(actor.InvalidArgument, "pick is not good")
	}
	*p = picky(b)
	return nil
}

// echo is a behavior whose method 0 takes and returns an In.
func echo[In any](t testing.TB) *host.Behavior {
	t.Helper()
	typ := actor.NewType[counter]("echo")
	a := actor.NewAction[In, In](typ, "echo")
	def := actor.Define(typ, actor.Spec[counter]{}, actor.On(a, func(_ *counter, _ *actor.Context, v In) (In, error) { return v, nil }))
	ensure(t, def.Validate())
	return def.Behavior()
}

func send(b *host.Behavior, as host.Codec, input string) (string, error) {
	out, err := b.New().Act(&stub{}, 0, as, []byte(input), nil)
	return string(out), err
}

func TestInputErrorsSayWhatIsWrong(t *testing.T) {
	b := echo[form](t)
	for as, inputs := range map[host.Codec]map[string]string{
		host.JSON: {
			``:                        "is missing; an object is expected",
			" \n":                     "is missing; an object is expected",
			`null`:                    "is null; an object is expected",
			`[]`:                      "a JSON array where an object is expected",
			`{"nam":1}`:               `unknown field "nam"`,
			`{"rows":[{"no":1}]}`:     `unknown field "no"`,
			`{"name":1}`:              `field "name": a JSON number where a string is expected`,
			`{"count":300}`:           `field "count": a JSON number 300 where a whole number of 8 bits is expected`,
			`{"count":1.5}`:           `field "count": a JSON number 1.5 where a whole number of 8 bits is expected`,
			`{"rows":[{"ok":"yes"}]}`: `field "rows.ok": a JSON string where true or false is expected`,
			`{"at":"yesterday"}`:      `is not a time in RFC 3339 form`,
			`{"pick":"bad"}`:          `pick is not good`,
			`{"name":"x"`:             "the JSON value is cut off",
			`{"name":"x"} {}`:         "data after the JSON value, at byte 13",
			`{name:1}`:                "not valid JSON at byte 2: invalid character 'n'",
			`{"meta":{"a":{}}}`:       `a JSON object where a string is expected`,
		},
		host.CBOR: {
			"":                                     "is missing",
			"\x80":                                 "a CBOR array does not fit",
			"\xa1\x64name\x01":                     `field "name": a CBOR positive integer does not fit`,
			"\xa1\x64name\x61a\x00":                "not valid CBOR",
			"\xa2\x64name\x61a\x64name\x61b":       "not valid CBOR",
			"\xa1\x64rows\x81\xa1\x62ok\x62no":     `a CBOR UTF-8 text string does not fit`,
			"\xbf\xff":                             "not valid CBOR",
			"\x9b\x7f\xff\xff\xff\xff\xff\xff\xff": "not valid CBOR",
		},
	} {
		for input, want := range inputs {
			_, err := send(b, as, input)
			hasCode(t, input, err, actor.InvalidArgument, want)
			hasCode(t, input, err, actor.InvalidArgument, `input of action "echo": `)
			leaksNoGoTypes(t, err)
		}
	}
}

func leaksNoGoTypes(t testing.TB, err error) {
	t.Helper()
	for _, leak := range []string{"actor_test", "cairn/actor", "Go struct", "Go value", "reflect", "int8", "[]byte"} {
		errorIf(t, strings.Contains(fmt.Sprint(err), leak), "the message shows Go types: %v", err)
	}
}

func TestOnlyNoneTakesAnEmptyInput(t *testing.T) {
	none, number, list := echo[actor.None](t), echo[int](t), echo[[]int](t)
	for _, c := range []struct {
		of     *host.Behavior
		as     host.Codec
		inputs []string
		out    string
		code   actor.Code
	}{
		{none, host.JSON, []string{"", " ", "null", "{}", " {}\n"}, "", ""}, {none, host.CBOR, []string{"", "\xf6", "\xa0"}, "", ""},
		{none, host.JSON, []string{`{"a":1}`}, "", actor.InvalidArgument}, {none, host.CBOR, []string{"\x01"}, "", actor.InvalidArgument},
		{number, host.JSON, []string{""}, "", actor.InvalidArgument}, {list, host.JSON, []string{"null"}, "null", ""},
		{echo[string](t), host.JSON, []string{`"<a & b>"`}, `"<a & b>"`, ""},
	} {
		for _, input := range c.inputs {
			out, err := send(c.of, c.as, input)
			errorIf(t, actor.CodeOf(err) != c.code || out != c.out, "%s %q: %q, %v", c.as, input, out, err)
		}
	}
}
