package actor

import (
	"strings"
	"testing"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/internal/codec"
)

type (
	schemaNote struct {
		Body string `json:"body"`
	}
	schemaBase struct {
		ID int `json:"id"`
	}
)

func TestEveryValueOfATypeHasItsSchema(t *testing.T) {
	typ := NewType[struct{ N int }]("described")
	NewAction[schemaNote, int8](typ, "add")
	NewQuery[None, []string](typ, "all")
	NewEvent[schemaNote](typ, "added", EventConfig{})
	NewQueue[bool](typ, "jobs", QueueConfig{Workers: true})
	NewRequestQueue[string, int16](typ, "price", QueueConfig{Workers: true})
	NewStream[uint8](typ, "tokens", StreamConfig{})
	NewSchedule[time.Time](typ, "nightly")
	NewAlarm[chan int](typ, "impossible")
	NewConnections[schemaBase, None](typ)
	d := definer[struct{ N int }]{core: typ.core, bound: make(map[place]Binding[struct{ N int }])}
	p := &program[struct{ N int }]{core: typ.core, state: codec.Of[struct{ N int }](typ.core.codec, codec.CBOR)}
	for _, c := range typ.core.contracts() {
		d.bound[place{c, slotOnly}] = Binding[struct{ N int }]{decl: c, handler: "handler"}
	}
	d.compile(p)
	for _, test := range []struct {
		kind  host.ValueKind
		index int
		part  string // "" has no schema
	}{
		{host.MethodInput, 0, `"additionalProperties":false`},
		{host.MethodOutput, 0, `"format":"int8"`},
		{host.MethodInput, 1, ``},
		{host.MethodOutput, 1, `"items":{"type":"string"}`},
		{host.EventValue, 0, `"required":["body"]`},
		{host.QueueBody, 0, `"type":"boolean"`},
		{host.QueueReplyValue, 0, ``},
		{host.QueueBody, 1, `"type":"string"`},
		{host.QueueReplyValue, 1, `"format":"int16"`},
		{host.StreamValue, 0, `"format":"uint8"`},
		{host.SchedulePayload, 0, `"format":"date-time"`},
		{host.AlarmPayload, 0, ``},
		{host.ConnectParams, 0, `"id"`},
		{host.ConnectParams, 1, ``},
		{host.MethodInput, -1, ``},
	} {
		got := string(p.schema(test.kind, test.index))
		if (got == "") != (test.part == "") || !strings.Contains(got, test.part) {
			t.Errorf("the schema of value %d of kind %d is %s, want %s", test.index, test.kind, got, test.part)
		}
	}
}
