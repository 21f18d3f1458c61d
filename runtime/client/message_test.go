package client

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"github.com/cairn-run/cairn/actor/host"
)

func TestMessagesKeepRawJSONAsItIsWritten(t *testing.T) {
	frame, err := (&outgoing{ID: 7, Call: "put", Input: []byte(`{"n":12345678901234567890,"s":"<&>"}`), IdempotencyKey: "k"}).encode()
	if want := `{"id":7,"call":"put","input":{"n":12345678901234567890,"s":"<&>"},"idempotency_key":"k"}`; err != nil || string(frame) != want {
		t.Errorf("%s %v", frame, err)
	}
	after := uint64(0)
	frame, err = (&outgoing{Connect: &connectMessage{Token: "t", After: &after}}).encode()
	if want := `{"connect":{"token":"t","after":0}}`; err != nil || string(frame) != want {
		t.Errorf("%s %v", frame, err)
	}
	if _, err := (&outgoing{ID: 1, Call: "put", Input: []byte("{")}).encode(); err == nil {
		t.Error("what is not JSON is sent")
	}
}

func TestEveryEndOfASocketIsJudged(t *testing.T) {
	s := &socket{limit: 100}
	for code, want := range map[websocket.StatusCode]struct {
		code   host.Code
		resume bool
	}{
		websocket.StatusNormalClosure:   {host.Canceled, false},
		websocket.StatusPolicyViolation: {host.PermissionDenied, false},
		websocket.StatusMessageTooBig:   {host.InvalidArgument, true}, // the limit is not known
		websocket.StatusGoingAway:       {host.Unavailable, true},
		websocket.StatusInternalError:   {host.Unavailable, true},
		websocket.StatusTryAgainLater:   {host.Unavailable, true},
		4711:                            {host.Unavailable, true},
	} {
		b := s.closed(websocket.CloseError{Code: code})
		if b.err.Code != want.code || b.resume != want.resume {
			t.Errorf("%d: %+v", code, b)
		}
	}
	if b := s.closed(errors.New("reset")); !b.resume {
		t.Errorf("%+v", b)
	}
	if b := s.closed(websocket.ErrMessageTooBig); b.resume || b.err.Code != host.TooLarge ||
		b.err.Metadata["limit"] != "100" || b.err.Metadata["actual"] != "101" {
		t.Errorf("%+v", b)
	}
}

// FuzzDecode: whatever a node sends is an error or a message whose errors have codes that are known, and that is read
// the same once more.
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
		again, err := json.Marshal(map[string]any{"event": e.Name, "sequence": e.Sequence, "version": e.Version, "time": e.Time,
			"data": json.RawMessage(append([]byte{}, orNull(e.Data)...))})
		if err != nil {
			return // a time beyond the year 9999
		}
		second, err := decode(again)
		if err != nil || second.Event != m.Event || second.Sequence != m.Sequence || !second.Time.Equal(m.Time) ||
			!reflect.DeepEqual(value(t, second.Data), value(t, orNull(m.Data))) {
			t.Errorf("%s is read as %+v, and again as %+v: %v", frame, m, second, err)
		}
	})
}

func orNull(b []byte) []byte {
	if len(b) == 0 {
		return []byte("null")
	}
	return b
}

func value(t *testing.T, b []byte) (v any) {
	t.Helper()
	if len(b) > 0 {
		if err := json.Unmarshal(b, &v); err != nil && !strings.Contains(err.Error(), "cannot unmarshal number") {
			t.Errorf("%s: %v", b, err)
		}
	}
	return v
}

func TestTheLongestRequestIsToldTheLimitThatTheNodeNamed(t *testing.T) {
	for name, c := range map[string]struct {
		cause *host.Error
		code  host.Code
	}{
		"named":     {host.OverLimit("message", 100, 101), host.TooLarge},
		"not named": {errTooLong(), host.InvalidArgument},
	} {
		short := &flight{id: 1, sends: 1, frame: make([]byte, 60), done: make(chan landing, 1)}
		long := &flight{id: 2, sends: 1, frame: make([]byte, 200), done: make(chan landing, 1)}
		cn := &Connection{flights: map[uint64]*flight{1: short, 2: long}}
		cn.refuseLongest(c.cause)
		e := (<-long.done).err
		if e.Code != c.code || e.Metadata["what"] != "message" || len(cn.flights) != 1 {
			t.Errorf("%s: %v %v", name, e, e.Metadata)
		}
		if c.code == host.TooLarge && (e.Metadata["limit"] != "100" || e.Metadata["actual"] != "200") {
			t.Errorf("%s: %v", name, e.Metadata)
		}
	}
}
