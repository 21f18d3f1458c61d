package actor_test

import (
	"errors"
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

// picky refuses text that it does not know, with a message of its own.
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
	if err := def.Validate(); err != nil {
		t.Fatal(err)
	}
	return def.Behavior()
}

func send(b *host.Behavior, as host.Codec, input string) (string, error) {
	out, err := b.New().Act(&stub{}, 0, as, []byte(input), nil)
	return string(out), err
}

func TestJSONInputErrorsSayWhatIsWrong(t *testing.T) {
	b := echo[form](t)
	for input, want := range map[string]string{
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
	} {
		_, err := send(b, host.JSON, input)
		var e *actor.Error
		if !errors.As(err, &e) || e.Code != actor.InvalidArgument || !strings.HasPrefix(e.Message, `input of action "echo": `) ||
			!strings.Contains(e.Message, want) {
			t.Errorf("%s\n got %v\nwant %s", input, err, want)
		}
		leaksNoGoTypes(t, err)
	}
}

func leaksNoGoTypes(t testing.TB, err error) {
	t.Helper()
	for _, leak := range []string{"actor_test", "cairn/actor", "Go struct", "Go value", "reflect", "int8", "[]byte"} {
		if strings.Contains(err.Error(), leak) {
			t.Errorf("the message shows Go types: %v", err)
		}
	}
}

func TestCBORInputErrorsNameTheField(t *testing.T) {
	b := echo[form](t)
	for input, want := range map[string]string{
		"":                                     "is missing",
		"\x80":                                 "a CBOR array does not fit",
		"\xa1\x64name\x01":                     `field "name": a CBOR positive integer does not fit`,
		"\xa1\x64name\x61a\x00":                "not valid CBOR",
		"\xa2\x64name\x61a\x64name\x61b":       "not valid CBOR",
		"\xa1\x64rows\x81\xa1\x62ok\x62no":     `a CBOR UTF-8 text string does not fit`,
		"\xbf\xff":                             "not valid CBOR",
		"\x9b\x7f\xff\xff\xff\xff\xff\xff\xff": "not valid CBOR",
	} {
		_, err := send(b, host.CBOR, input)
		if actor.CodeOf(err) != actor.InvalidArgument || !strings.Contains(err.Error(), want) {
			t.Errorf("%x\n got %v\nwant %s", input, err, want)
			continue
		}
		leaksNoGoTypes(t, err)
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
	} {
		for _, input := range c.inputs {
			if out, err := send(c.of, c.as, input); actor.CodeOf(err) != c.code || out != c.out {
				t.Errorf("%s %q: %q, %v", c.as, input, out, err)
			}
		}
	}
}

func TestJSONOutputIsOneValueWithoutEscapedMarkup(t *testing.T) {
	if out, err := send(echo[string](t), host.JSON, `"<a & b>"`); err != nil || out != `"<a & b>"` {
		t.Errorf("%s, %v", out, err)
	}
}

func TestOutputThatHasNoFormIsInternal(t *testing.T) {
	typ := actor.NewType[counter]("x")
	a := actor.NewAction[actor.None, time.Time](typ, "far")
	b := actor.Define(typ, actor.Spec[counter]{}, actor.On(a, func(*counter, *actor.Context, actor.None) (time.Time, error) {
		return time.Date(12000, 1, 1, 0, 0, 0, 0, time.UTC), nil
	})).Behavior()
	for _, as := range []host.Codec{host.CBOR, host.JSON} {
		if out, err := send(b, as, ""); actor.CodeOf(err) != actor.Internal || !strings.Contains(err.Error(), `output of action "far": `) {
			t.Errorf("%s: %q, %v", as, out, err)
		}
	}
}
