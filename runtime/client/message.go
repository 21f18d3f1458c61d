package client

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"github.com/cairn-run/cairn/actor/host"
)

// subprotocol is the protocol of client and node over a WebSocket; docs/http.md describes it.
const subprotocol = "cairn.v1"

// An outgoing message: the connect message, or a request with an id.
type outgoing struct {
	Connect *connectMessage `json:"connect,omitempty"`

	ID             uint64          `json:"id,omitempty"`
	Call           string          `json:"call,omitempty"`
	Input          json.RawMessage `json:"input,omitempty"`
	IdempotencyKey string          `json:"idempotency_key,omitempty"`
	Reason         string          `json:"reason,omitempty"`
	Subscribe      []string        `json:"subscribe,omitempty"`
	Unsubscribe    []string        `json:"unsubscribe,omitempty"`
}

// A connectMessage opens a connection, or resumes one.
type connectMessage struct {
	Params json.RawMessage `json:"params,omitempty"`
	Events []string        `json:"events,omitempty"`
	Token  string          `json:"token,omitempty"`
	After  *uint64         `json:"after,omitempty"`
	Life   string          `json:"life,omitempty"`
}

// encode makes the frame of a message. Raw JSON in it keeps its characters as written.
func (m *outgoing) encode() ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(m); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// An incoming message: a welcome, a bye, an answer to the request ID, an event or a gap. Other
// messages, from a newer node, have none of these members and are skipped.
type incoming struct {
	Welcome *host.Welcome `json:"welcome"`
	Bye     *host.Error   `json:"bye"`

	ID       uint64          `json:"id"`
	Version  uint64          `json:"version"`
	Output   json.RawMessage `json:"output"`
	Replayed bool            `json:"replayed"`
	Error    *host.Error     `json:"error"`

	Event    string          `json:"event"`
	Sequence uint64          `json:"sequence"`
	Time     time.Time       `json:"time"`
	Data     json.RawMessage `json:"data"`
	Gap      *struct {
		Missed uint64 `json:"missed"`
		Reset  bool   `json:"reset"`
	} `json:"gap"`
}

// decode reads a frame. Its errors get a known code.
func decode(frame []byte) (*incoming, error) {
	m := new(incoming)
	if err := json.Unmarshal(frame, m); err != nil {
		return nil, fmt.Errorf("client: a message of the node cannot be read: %w", err)
	}
	m.Bye, m.Error = known(m.Bye), known(m.Error)
	return m, nil
}

// known returns e with a code of package host; the code of a later version becomes internal.
func known(e *host.Error) *host.Error {
	if e == nil || e.Code.Known() {
		return e
	}
	c := *e
	c.Code, c.Message = host.Internal, string(e.Code)+": "+e.Message
	return &c
}

// delivered returns the event in a message, without its life.
func (m *incoming) delivered() host.EmittedEvent {
	return host.EmittedEvent{Sequence: m.Sequence, Version: m.Version, Name: m.Event, Time: m.Time, Data: m.Data}
}
