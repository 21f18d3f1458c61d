package wire

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/keyspace/testutil"
)

type input struct {
	Name  string    `json:"name"`
	Note  string    `json:"note,omitempty"`
	Limit int       `json:"limit,omitempty" range:"1,1000"`
	Wait  int64     `json:"wait_ms,omitempty" range:"0,60000"`
	At    time.Time `json:"at,omitzero"`
	Tags  []string  `json:"tags,omitempty"`
	Some  *int64    `json:"some,omitempty" range:"1,9"`
	Share *float64  `json:"share,omitempty" range:"0,1"`
	More  struct {
		On bool `json:"on,omitempty"`
	} `json:"more,omitzero"`
}

func TestDecodeNamesWhatIsWrong(t *testing.T) {
	for in, want := range map[string]string{
		``:                                   "name is missing",
		`{}`:                                 "name is missing",
		`{"name":"a"}`:                       "",
		`{"name":"a","limit":5,"wait_ms":0}`: "",
		`{"name":"a","limit":null}`:          "",
		`{"name":"a","tags":["limit"]}`:      "",
		`{"name":"a","limit":0}`:             "limit: 0 is not a number from 1 to 1000; leave it out for the default",
		`{"name":"a","\u006cimit":0}`:        "limit: 0 is not a number from 1 to 1000; leave it out for the default",
		`{"name":"a","limit":1001}`:          "limit: 1001 is not a number from 1 to 1000",
		`{"name":"a","wait_ms":-1}`:          "wait_ms: -1 is not a number from 0 to 60000",
		`{"name":"a","some":9,"share":5}`:    "",
		`{"name":"a","some":null}`:           "",
		`{"name":"a","some":0}`:              "some: 0 is not a number from 1 to 9; leave it out for the default",
		`{"name":"a","some":10}`:             "some: 10 is not a number from 1 to 9",
		`{"name":"a","nmae":"b"}`:            `nmae`,
		`{"name":"a","limit":"x"}`:           "a whole number that fits is expected",
		`{"name":7}`:                         "a string is expected",
		`{"name":"a","tags":{}}`:             "an array is expected",
		`{"name":"a","more":[]}`:             "an object is expected",
		`{"name":"a","more":{"on":1}}`:       "true or false is expected",
		`{"name":"a","at":"tomorrow"}`:       "it is not a time in RFC 3339 form",
		`{"name":"a"} {}`:                    "there is more after the value",
		`{"name":"a"`:                        "it is not JSON",
		`name`:                               "it is not JSON",
	} {
		var v input
		err := Decode("list", host.JSON, []byte(in), &v)
		errorIf(t, want == "" && err != nil ||
			want != "" && (host.CodeOf(err) != host.InvalidArgument || !strings.Contains(err.Error(), want)),
			"%s: %v, want %q", in, err, want)
	}
}

func TestBothEncodingsCarryTheSame(t *testing.T) {
	want := input{Name: "a", Limit: 7, Wait: 60_000, At: time.Unix(5, 6).UTC(), Tags: []string{"x", "y"}}
	for _, codec := range []host.Codec{host.JSON, host.CBOR} {
		data, err := Encode(codec, &want)
		must(t, err)
		var got input
		err = Decode("list", codec, data, &got)
		errorIf(t, err != nil || !reflect.DeepEqual(got, want), "%v: %+v, %v", codec, got, err)
		read := Read[input](codec, data)
		errorIf(t, !reflect.DeepEqual(read, want), "%v: %+v is read", codec, read)
		none, err := Encode(codec, &struct{}{})
		errorIf(t, none != nil || err != nil, "%v: an output without fields is %q, %v", codec, none, err)
	}
	for what, v := range map[string]any{
		"an unknown member": map[string]any{"name": "a", "nmae": "b"}, "a member in other letters": map[string]any{"NAME": "a"},
		"a 0": map[string]any{"name": "a", "limit": 0},
	} {
		data, err := Output.Marshal(v)
		must(t, err)
		err = Decode("list", host.CBOR, data, new(input))
		errorIf(t, host.CodeOf(err) != host.InvalidArgument, "%s: %v", what, err)
	}
	data, err := Output.Marshal(map[string]any{"name": "a", "limit": nil})
	must(t, err)
	check(t, Decode("list", host.CBOR, data, new(input)), "a null counts as a value:")
}

func TestANameBelongsToTheContractThatDeclaresIt(t *testing.T) {
	for _, c := range []struct {
		names []string
		name  string
		want  int
	}{
		{[]string{"a", "b"}, "b", 1}, {[]string{"a", "b"}, "c", -1}, {[]string{host.AnyName, "b"}, "b",
			1}, {[]string{host.AnyName, "b"}, "c", 0},
		{[]string{host.AnyName}, "not a name", -1}, {[]string{host.AnyName}, host.AnyName, -1}, {nil, "a",
			-1}, {[]string{host.AnyName}, "", -1},
		{[]string{host.AnyName}, strings.Repeat("n", 64), 0}, {[]string{host.AnyName}, strings.Repeat("n", 65), -1},
		{[]string{host.AnyName}, "a-b_1", 0}, {[]string{host.AnyName}, "1a", -1}, {[]string{host.AnyName}, "ä", -1},
	} {
		got := Named(len(c.names), func(i int) string { return c.names[i] }, c.name)
		errorIf(t, got != c.want, "%q of %q: %d, want %d", c.name, c.names, got, c.want)
	}
	for _, c := range []struct {
		code              host.Code
		kind, name, field string
		want              host.Code
	}{
		{host.NotFound, "queue", "", "queue", host.InvalidArgument}, {host.NotFound, "schedule", "", "name", host.InvalidArgument},
		{host.NotFound, "queue", "a b", "queue", host.InvalidArgument}, {host.NotFound, "queue", "jobs", "", host.NotFound},
		{host.InvalidArgument, "stream", "log", "stream", host.InvalidArgument},
	} {
		e, ok := UnknownName(&host.Behavior{Type: "p"}, c.code, c.kind, c.name).(*host.Error)
		errorIf(t, !ok || e.Code != c.want || e.Metadata["field"] != c.field, "%+v: %+v", c, e)
	}
}

func TestValuesAreConvertedByTheirType(t *testing.T) {
	own := host.Errorf(host.InvalidArgument, "of the type")
	b := &host.Behavior{Type: "p",
		Convert: func(_ host.ValueKind, _ int, _ host.Codec, value []byte, to host.Codec, dst []byte) ([]byte, error) {
			switch string(value) {
			case "own":
				return nil, own
			case "other":
				return nil, errors.New("does not fit")
			}
			return append(append(dst, value...), byte('0'+int(to))), nil
		}}
	out, err := Convert(b, host.QueueBody, 0, host.JSON, []byte("v"), host.CBOR, "body")
	errorIf(t, err != nil || string(out) != "v"+string(rune('0'+int(host.CBOR))), "%q, %v", out, err)
	_, err = Convert(b, host.QueueBody, 0, host.JSON, []byte("own"), host.CBOR, "body")
	errorIf(t, err != error(own), "%v", err)
	_, err = Convert(b, host.QueueBody, 0, host.JSON, []byte("other"), host.CBOR, "body")
	errorIf(t, host.CodeOf(err) != host.InvalidArgument || !strings.Contains(err.Error(), "body: does not fit"), "%v", err)
	_, err = Convert(&host.Behavior{Type: "p"}, host.QueueBody, 0, host.JSON, []byte("v"), host.CBOR, "body")
	errorIf(t, host.CodeOf(err) != host.InvalidArgument, "%v", err)
	out, err = Present(b, host.QueueBody, 0, []byte("v"), host.CBOR)
	errorIf(t, err != nil || string(out) != "v", "%q, %v", out, err)
	out, err = Present(b, host.QueueBody, 0, []byte("v"), host.JSON)
	errorIf(t, err != nil || string(out) != "v"+string(rune('0'+int(host.JSON))), "%q, %v", out, err)
}

var must, check, errorIf = testutil.Must, testutil.Check, testutil.ErrorIf
