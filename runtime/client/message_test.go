package client

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/cairn-run/cairn/actor/host"
)

func TestMessagesKeepRawJSONAsItIsWritten(t *testing.T) {
	after := uint64(0)
	for want, m := range map[string]outgoing{
		`{"id":7,"call":"put","input":{"n":12345678901234567890,"s":"<&>"},"idempotency_key":"k"}`: {
			ID: 7, Call: "put", Input: []byte(`{"n":12345678901234567890,"s":"<&>"}`), IdempotencyKey: "k"},
		`{"connect":{"token":"t","after":0}}`: {Connect: &connectMessage{Token: "t", After: &after}},
		"":                                    {ID: 1, Call: "put", Input: []byte("{")}, // what is not JSON is not sent
	} {
		frame, err := m.encode()
		if string(frame) != want || (err == nil) != (want != "") {
			t.Errorf("%s %v, want %s", frame, err, want)
		}
	}
}

// FuzzDecode checks that any frame is an error or a message. The message's errors have known codes,
// and it decodes to the same again.
func FuzzDecode(f *testing.F) {
	for _, s := range []string{
		`{"welcome":{"connection":"c","token":"t","cursor":17,"resumed":true,"events":["said"]}}`,
		`{"bye":{"code":"unavailable","message":"shutting down","retryable":true}}`, `{"bye":{"code":"new","message":"?"}}`,
		`{"id":1,"version":42,"output":{"n":1},"replayed":true}`, `{"id":1,"error":{"code":"not_found","message":"none"}}`,
		`{"event":"said","sequence":18,"version":42,"time":"2026-11-21T12:00:00Z","data":[1]}`, `{"gap":{"missed":5}}`,
		`{"stream":4,"sequence":18,"value":1}`, `null`, `[]`, `{"id":-1}`, `{"id":1e3}`, "\xff",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, frame []byte) {
		m, err := decode(frame)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "client: ") {
				t.Errorf("%v", err)
			}
			return
		}
		for _, e := range []*host.Error{m.Bye, m.Error} {
			if e != nil && !e.Code.Known() {
				t.Errorf("the code %q", e.Code)
			}
		}
		if m.Event == "" || m.Bye != nil || m.Error != nil || m.Welcome != nil {
			return
		}
		e := m.delivered()
		if len(e.Data) == 0 {
			e.Data = []byte("null")
		}
		var again bytes.Buffer
		encoder := json.NewEncoder(&again)
		encoder.SetEscapeHTML(false)
		if err := encoder.Encode(map[string]any{"event": e.Name, "sequence": e.Sequence, "version": e.Version, "time": e.Time,
			"data": json.RawMessage(e.Data)}); err != nil {
			return // a time beyond the year 9999
		}
		second, err := decode(again.Bytes())
		if err != nil || second.Event != m.Event || second.Sequence != m.Sequence || !second.Time.Equal(m.Time) ||
			compact(second.Data) != compact(e.Data) {
			t.Errorf("%s is read as %+v, and again as %+v: %v", frame, m, second, err)
		}
	})
}

// compact returns JSON without the spaces.
func compact(b []byte) string {
	var out bytes.Buffer
	if err := json.Compact(&out, b); err != nil {
		return err.Error()
	}
	return out.String()
}
