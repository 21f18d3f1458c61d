package gateway

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/kv"
	"github.com/cairn-run/cairn/runtime/internal/gateway/serve"
)

func FuzzClientMessage(f *testing.F) {
	for _, text := range []string{
		`{"connect":{"params":{"a":1},"events":["said"],"token":"t","after":17}}`, `{"id":1,"call":"add","input":{"n":1},"idempotency_key":"k"}`,
		`{"id":2,"subscribe":["said"]}`, `{"id":3,"unsubscribe":["said"]}`, `{"id":4,"follow":"tokens","after":17}`, `{"id":5,"unfollow":4}`,
		`{"id":-1}`, `{"ID":1,"id":2,"call":"a"}`, `null`, `5`, `{`, "\"\xff\"", `{"id":1e3,"call":"a"}`, `{"connect":{"after":18446744073709551615}}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		m, fault := decodeMessage(data)
		fatalIf(t, m.ID < 0 || m.ID > maxID, "the id %d cannot be answered", m.ID)
		if fault != nil {
			fatalIf(t, fault.Code != host.InvalidArgument || !strings.Contains(fault.Message, " "), "%v", fault)
			if text := appendFault(nil, m.ID, fault); !json.Valid(text) || !utf8.Valid(text) {
				t.Fatalf("%q", text)
			}
			fatalIf(t, fault == serve.ErrNotJSON && json.Valid(data) && utf8.Valid(data), "%q is JSON", data)
			return
		}
		fatalIf(t, !json.Valid(data), "%q is not JSON", data)
		if m.Connect != nil {
			if q, fault := m.Connect.request("websocket"); fault == nil && (len(q.Params) > host.MaxConnectionParams || len(q.Events) > host.MaxSubscriptions) {
				t.Fatalf("%+v", q)
			}
			return
		}
		fatalIf(t, m.ID == 0, "a request without an id")
		fatalIf(t, m.Input != nil && !json.Valid(m.Input), "%q", m.Input)
	})
}

func TestMessagesOfTheServerAreJSONWhateverTheyHold(t *testing.T) {
	e := host.EmittedEvent{Sequence: 1<<64 - 1, Name: "a\"b\\c\n\u2028é"}
	var got struct {
		Event    string
		Sequence uint64
		Data     any
	}
	err := json.Unmarshal(eventMessage(&e), &got)
	errorIf(t, err != nil || got.Event != e.Name || got.Sequence != e.Sequence || got.Data != nil, "%v %v", got, err)
	fault := host.Errorf(host.Internal, "a\"b\xff").With("k\n", "v")
	for _, text := range [][]byte{
		appendBye(nil, fault), appendFault(nil, 0, fault), appendFault(nil, maxID, fault), appendEnd(nil, 1, fault), appendEnd(nil, 1, nil),
		appendItem(nil, 1, &host.ReadStreamItem{}), appendMissed(nil, 1, 1<<64-1, true), appendGap(nil, 1, true), appendWelcome(nil, host.Welcome{}),
		appendReply(nil, 1, &host.Reply{Replayed: true, Output: []byte("[]")}), appendDone(nil, 1),
	} {
		errorIf(t, !json.Valid(text), "%s", text)
	}
}

// Many changes are several messages, and the last of them says what the changes said.
func TestChangesOverAWebSocketComeInPieces(t *testing.T) {
	big := json.RawMessage(`"` + strings.Repeat("x", 700<<10) + `"`)
	change := func(n int) kv.Change {
		return kv.Change{Key: kv.Key{int64(n)}, Entry: &kv.Entry{Key: kv.Key{int64(n)}, Value: host.Raw(big)}}
	}
	c := kv.Changes{Version: 7, Life: "life"}
	for i := range 5 {
		c.Changes = append(c.Changes, change(i))
	}
	c.Changes = append(c.Changes, kv.Change{Key: kv.Key{"gone"}})
	for _, more := range []bool{false, true} {
		c.More = more
		batch, fault := new(exchange).changeMessages(&c)
		fatalIf(t, fault != nil || len(batch) != 3, "%v %v", len(batch), fault)
		var all []kv.Change
		for i, text := range batch {
			var got kv.Changes
			if err := json.Unmarshal(text, &got); err != nil || got.More != (more || i < 2) || got.Version != 7 || got.Life != "life" {
				t.Errorf("message %d: %t %v", i, got.More, err)
			}
			all = append(all, got.Changes...)
		}
		errorIf(t, len(all) != 6 || all[5].Entry != nil || all[4].Key[0] != int64(4), "%d changes", len(all))
	}
	if batch, fault := new(exchange).changeMessages(&kv.Changes{Changes: []kv.Change{}}); fault != nil || string(batch[0]) != `{"changes":[],"version":0}` {
		t.Errorf("%s %v", batch, fault)
	}
}
