package actor_test

import (
	"strings"
	"testing"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/actor/host"
)

// kinds lists the values of the desk: each kind at each index.
func kinds(b *host.Behavior) map[host.ValueKind]int {
	return map[host.ValueKind]int{
		host.MethodInput: len(b.Methods), host.MethodOutput: len(b.Methods), host.EventValue: len(b.Events),
		host.AlarmPayload: len(b.Alarms), host.QueueBody: len(b.Queues), host.QueueReplyValue: len(b.Queues),
		host.SchedulePayload: len(b.Schedules), host.StreamValue: len(b.Streams), host.ConnectParams: 1,
	}
}

func TestEveryValueConvertsAndHasItsSchema(t *testing.T) {
	b := newDesks("desk").definition().Behavior()
	const do, log, note, open, jobs, price = 0, 1, 2, 3, 0, 1
	for _, c := range []struct {
		kind       host.ValueKind
		index      int
		json, cbor string
		schema     string // a part of it; "" has none
	}{
		{host.MethodInput, do, `null`, "\xf6", ``},
		{host.MethodOutput, do, `"out"`, "\x63out", `"type":"string"`},
		{host.MethodOutput, log, `["a"]`, "\x81\x61a", `"items":{"type":"string"}`},
		{host.MethodInput, note, `"line"`, "\x64line", `"type":"string"`},
		{host.MethodInput, open, `"line"`, "\x64line", `"type":"string"`},
		{host.EventValue, 0, `"said"`, "\x64said", `"type":"string"`},
		{host.EventValue, 1, `null`, "\xf6", ``},
		{
			host.AlarmPayload, 0, `{"name":"n","count":3,"at":"2001-01-01T00:00:00Z","rows":[{"ok":true}],"meta":{"a":"b"},"pick":"good"}`,
			"", `"format":"int8"`,
		},
		{host.QueueBody, jobs, `{"name":"x","n":2}`, "\xa2\x61n\x02\x64name\x61x", `"additionalProperties":false`},
		{host.QueueReplyValue, jobs, `null`, "\xf6", ``},
		{host.QueueBody, price, `"table"`, "\x65table", `"type":"string"`},
		{host.QueueReplyValue, price, `5`, "\x05", `"type":"integer"`},
		{host.SchedulePayload, 0, `9`, "\x09", `"type":"integer"`},
		{host.StreamValue, 0, `"tok"`, "\x63tok", `"type":"string"`},
		{host.ConnectParams, 0, `{"name":"x"}`, "\xa1\x64name\x61x", `"name"`},
	} {
		got := string(b.Schema(c.kind, c.index))
		wrong := (got == "") != (c.schema == "") || !strings.Contains(got, c.schema)
		errorIf(t, wrong, "%d %d: schema %s, want %s", c.kind, c.index, got, c.schema)
		as, err := b.Convert(c.kind, c.index, host.JSON, []byte(c.json), host.CBOR, []byte("kept"))
		if err != nil || !strings.HasPrefix(string(as), "kept") || c.cbor != "" && string(as) != "kept"+c.cbor {
			t.Errorf("%d %d: %s became %x, %v", c.kind, c.index, c.json, as, err)
			continue
		}
		back, err := b.Convert(c.kind, c.index, host.CBOR, as[len("kept"):], host.JSON, nil)
		errorIf(t, err != nil || string(back) != c.json, "%d %d: %s came back as %s, %v", c.kind, c.index, c.json, back, err)
		for _, same := range []host.Codec{host.JSON, host.CBOR} {
			in := []byte(c.json)
			if same == host.CBOR {
				in = as[len("kept"):]
			}
			out, err := b.Convert(c.kind, c.index, same, in, same, nil)
			errorIf(t, err != nil || string(out) != string(in), "%d %d: %q in %s became %q, %v", c.kind, c.index, in, same, out, err)
		}
	}
	for kind, n := range kinds(b) {
		for _, index := range []int{-1, n} {
			_, err := b.Convert(kind, index, host.JSON, []byte("1"), host.CBOR, nil)
			errorIf(t, err == nil || b.Schema(kind, index) != nil, "kind %d has a value %d", kind, index)
		}
	}
	_, err := b.Convert(0, 0, host.JSON, []byte("1"), host.CBOR, nil)
	errorIf(t, err == nil, "kind 0 has values")
}

func TestConvertKeepsWhatIsThereIfAValueIsWrong(t *testing.T) {
	b := newDesks("desk").definition().Behavior()
	for _, c := range []struct {
		kind        host.ValueKind
		codec       host.Codec
		value, want string
	}{
		{host.QueueBody, host.JSON, `null`, "is null; an object is expected"}, {host.QueueBody, host.JSON,
			`{"n":1e400}`, "where a whole number"},
		{host.QueueBody, host.CBOR, "\x01", "does not fit"}, {host.StreamValue, host.CBOR, "", "is missing"},
	} {
		out, err := b.Convert(c.kind, 0, c.codec, []byte(c.value), host.CBOR, []byte("kept"))
		errorIf(t, err == nil || !strings.Contains(err.Error(), c.want) || string(out) != "kept", "%q: %q, %v", c.value, out, err)
		leaksNoGoTypes(t, err)
	}
}

func TestValueWithOneEncodingIsConvertedToNoOther(t *testing.T) {
	type point struct{ X, Y int }
	typ := actor.NewType[desk]("desk")
	actor.NewEvent[struct {
		At lonely `json:"at"`
	}](typ, "json", actor.EventConfig{})
	bell := actor.NewAlarm[map[point]int](typ, "cbor")
	ring := actor.OnAlarm(bell, func(*desk, *actor.Context, map[point]int) error { return nil })
	b := actor.Define(typ, actor.Spec[desk]{}, ring).Behavior()
	for _, c := range []struct {
		kind     host.ValueKind
		from, to host.Codec
		value    string
		fault    string // a part of it; "" has none
	}{
		{host.EventValue, host.JSON, host.JSON, ` {"at":"x"}`, ""},
		{host.EventValue, host.JSON, host.CBOR, `{"at":"x"}`, "application/cbor"},
		{host.AlarmPayload, host.CBOR, host.CBOR, "\xa0", ""},
		{host.AlarmPayload, host.CBOR, host.JSON, "\xa0", "application/json"},
	} {
		out, err := b.Convert(c.kind, 0, c.from, []byte(c.value), c.to, nil)
		kept := err == nil && string(out) == strings.TrimSpace(c.value)
		refused := err != nil && strings.Contains(err.Error(), c.fault)
		errorIf(t, c.fault == "" && !kept || c.fault != "" && !refused, "%d to %s: %q, %v", c.kind, c.to, out, err)
	}
}

// lonely has a JSON form of its own and no CBOR form: nothing of it would be saved.
type lonely struct{ text string }

func (l lonely) MarshalJSON() ([]byte, error)  { return []byte(`"` + l.text + `"`), nil }
func (l *lonely) UnmarshalJSON(b []byte) error { l.text = strings.Trim(string(b), `"`); return nil }

// FuzzConvert converts any bytes as any value: no panic, no Go types in the error, and an accepted
// value converts there and back.
func FuzzConvert(f *testing.F) {
	b := newDesks("desk").definition().Behavior()
	count := kinds(b)
	f.Add(uint8(host.QueueBody), uint8(0), true, []byte(`{"name":"x","n":2}`))
	f.Add(uint8(host.QueueBody), uint8(0), false, []byte("\xa2\x61n\x02\x64name\x61x"))
	f.Add(uint8(host.AlarmPayload), uint8(0), true, []byte(`{"name":"n","at":"2001-01-01T00:00:00Z","rows":[{"ok":true}]}`))
	f.Add(uint8(host.ConnectParams), uint8(0), true, []byte(`{}`))
	f.Add(uint8(host.QueueReplyValue), uint8(0), true, []byte(`null`))
	f.Add(uint8(host.StreamValue), uint8(0), false, []byte("\x63tok"))
	f.Fuzz(func(t *testing.T, k, i uint8, asJSON bool, value []byte) {
		kind := host.ValueKind(k%uint8(host.ConnectParams)) + 1
		index := int(i) % max(count[kind], 1)
		from, to := host.CBOR, host.JSON
		if asJSON {
			from, to = to, from
		}
		there, err := b.Convert(kind, index, from, value, to, nil)
		if err != nil {
			for _, leak := range []string{"actor_test", "cairn/actor", "Go struct"} {
				if strings.Contains(err.Error(), leak) && !strings.Contains(string(value), leak) {
					t.Fatalf("the message shows Go types: %v", err)
				}
			}
			return
		}
		// Text that is not UTF-8 has no JSON form of its own, so the first value that comes back
		// must stay.
		back, err := b.Convert(kind, index, to, there, from, nil)
		fatalIf(t, err != nil, "%q became %q, which does not convert back: %v", value, there, err)
		there, err = b.Convert(kind, index, from, back, to, nil)
		fatalIf(t, err != nil, "%q came back as %q, which does not convert: %v", value, back, err)
		again, err := b.Convert(kind, index, to, there, from, nil)
		fatalIf(t, err != nil || string(again) != string(back), "%q came back as %q, then as %q, %v", value, back, again, err)
	})
}
