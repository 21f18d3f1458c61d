package cell_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/cairn-run/cairn/actor/actortest"
	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime/cell"
)

func TestTheFieldOfAnErrorIsTheMemberOfTheInput(t *testing.T) {
	actortest.Run(t, func(t *testing.T, h *actortest.Harness) {
		call(t, h, "put", `{"key":["text"],"value":"abc"}`)
		many := func(one string, n int) string { return strings.TrimSuffix(strings.Repeat(one+",", n), ",") }
		long, huge := strings.Repeat("k", 5000), strings.Repeat("v", 200_000)
		for _, c := range []struct{ method, in, field string }{
			{"put", `{"value":1}`, "key"}, {"put", `{"key":7,"value":1}`, "key"}, {"put", `{"key":["a",{}],"value":1}`, "key[1]"},
			{"put", `{"key":["a"]}`, "value"}, {"put", `{"key":["a"],"value":1,"ttl_ms":0}`, "ttl_ms"}, {"put", `{"key":["a"],"value":1,"ttl_ms":"x"}`, "ttl_ms"},
			{"put", `{"key":["a"],"value":1,"x":1}`, "x"}, {"put", `{"key":["a"],"value":{"a":{"b":1,"b":2}}}`, "value.a.b"},
			{"put", `{"key":["a"],"value":` + strings.Repeat("[", 501) + strings.Repeat("]", 501) + `}`, "value"},
			{"get", `{}`, "key"}, {"get", `{"key":[null]}`, "key[0]"}, {"delete", `{"key":[]}`, "key"},
			{"delete_range", `{}`, "prefix"}, {"delete_range", `{"prefix":"x"}`, "prefix"}, {"count", `{"prefix":[{}]}`, "prefix[0]"},
			{"list", `{"limit":0}`, "limit"}, {"list", `{"cursor":"x"}`, "cursor"}, {"list", `{"prefix":{}}`, "prefix"},
			{"set_state", `{}`, "state"}, {"set_state", `{"state":1,"version":"x"}`, "version"}, {"set_state", `{"state":"` + strings.Repeat("x", cell.MaxState) + `"}`, "state"},
			{"set_state", `{"state":{"x":1,"x":2}}`, "state.x"}, {"set_state", `{"state":` + strings.Repeat("[", 501) + strings.Repeat("]", 501) + `}`, "state"},
			{"set_state", `{"state":` + strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000) + `}`, ""},
			{"put", `{"key":["` + long + `"],"value":1}`, "key"}, {"delete", `{"key":["` + long + `"]}`, "key"},
			{"put", `{"key":["a"],"value":"` + huge + `"}`, "value"},
			{"atomic", `{"mutations":[{"op":"delete","key":["` + long + `"]}]}`, "mutations[0].key"},
			{"atomic", `{"mutations":[{"op":"put","key":["a"],"value":1},{"op":"put","key":["` + long + `"],"value":1}]}`, "mutations[1].key"},
			{"atomic", `{"mutations":[{"op":"put","key":["a"],"value":"` + huge + `"}]}`, "mutations[0].value"},
			{"atomic", `{"mutations":[{"op":"append","key":["a"],"value":"` + huge + `"}]}`, "mutations[0].value"},
			{"put", `{"key":["a"],"value":1,"":1}`, `""`},
			{"atomic", `{"checks":[` + many(`{"key":["n"],"version":0}`, 101) + `]}`, "checks"},
			{"atomic", `{"checks":[{"key":["n"],"version":0},{"key":["n"]}]}`, "checks[1].version"}, {"atomic", `{"checks":[{"version":0}]}`, "checks[0].key"},
			{"atomic", `{"mutations":[{"op":"put","key":["a"],"value":1},{"op":"put","key":7,"value":1}]}`, "mutations[1].key"},
			{"atomic", `{"mutations":[{"op":"set","key":["a"],"value":1}]}`, "mutations[0].op"}, {"atomic", `{"mutations":[{"op":"sum","key":["a"],"value":"x"}]}`, "mutations[0].value"},
			{"atomic", `{"mutations":[{"op":"delete","key":["a"],"value":1}]}`, "mutations[0].value"}, {"atomic", `{"mutations":[{"op":"put","value":1}]}`, "mutations[0].key"},
			{"atomic", `{"mutations":[{"op":"put","key":["a"],"value":1,"ttl_ms":-1}]}`, "mutations[0].ttl_ms"},
			{"atomic", `{"mutations":[{"op":"put","key":["a"],"value":1,"value":2}]}`, "mutations[0].value"},
			{"atomic", `{"enqueues":[{"queue":"a b","body":1}]}`, "enqueues[0].queue"}, {"atomic", `{"enqueues":[{"queue":"q"}]}`, "enqueues[0].body"},
			{"atomic", `{"enqueues":[{"queue":"q","body":1,"delay_ms":-1}]}`, "enqueues[0].delay_ms"}, {"atomic", `{"enqueues":[{"queue":"q","body":1,"backoff_ms":[1,-1]}]}`, "enqueues[0].backoff_ms[1]"},
			{"atomic", `{"enqueues":[{"queue":"q","body":1,"keys_if_undelivered":[["a"],[]]}]}`, "enqueues[0].keys_if_undelivered[1]"},
			{"schedule.set", `{"name":"s","every_ms":1000,"payload":{"queue":"q","body":1,"body":2}}`, "payload.body"},
			{"schedule.set", `{"name":"s","every_ms":1000,"payload":{"queue":"q","body":{"x":1,"x":2}}}`, "payload.body.x"},
			{"schedule.set", `{"name":"s","every_ms":1000,"payload":{"queue":"q","body":1,"x":2}}`, "payload.x"},
			{"schedule.set", `{"name":"s","every_ms":1000,"payload":{"queue":"q","body":1,"ttl_ms":0}}`, "payload.ttl_ms"},
			{"schedule.set", `{"name":"s","every_ms":1000,"payload":{"queue":"q","body":1,"delay_ms":"x"}}`, "payload.delay_ms"},
			{"queue.send", `{"queue":"q","messages":[{"body":{"x":1,"x":2}}]}`, "messages[0].body.x"},
			{"stream.append", `{"stream":"s","items":[1,{"x":1,"x":2}]}`, "items[1].x"},
		} {
			_, err := h.Call(t.Context(), &host.Request{Address: host.Address{Type: "cell", Key: []string{"c"}}, Method: c.method, Codec: host.JSON, Input: []byte(c.in)})
			e, ok := errors.AsType[*host.Error](err)
			if !ok {
				t.Errorf("%s %.100s: %v", c.method, c.in, err)
				continue
			}
			if e.Metadata["field"] != c.field || e.Code != host.InvalidArgument && e.Code != host.TooLarge {
				t.Errorf("%s %.100s: %v names the field %q, want %q", c.method, c.in, err, e.Metadata["field"], c.field)
			}
			if e.Code == host.TooLarge && (e.Metadata["limit"] == "" || e.Metadata["actual"] == "") {
				t.Errorf("%s %.100s: %+v", c.method, c.in, e)
			}
		}
	}, cell.Definition())
}
