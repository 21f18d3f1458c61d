package gateway

import (
	"cmp"
	"encoding/json"
	"strconv"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/audit"
	"github.com/cairn-run/cairn/runtime/internal/gateway/serve"
)

// maxID bounds the ids in clients' messages: it is the largest integer that every client can
// represent.
const maxID = 1<<53 - 1

// A message is a client's message over a WebSocket: a connect message, or one request with an id.
type message struct {
	Connect *connectInput `json:"connect"`

	ID             int64    `json:"id"`
	Call           string   `json:"call"`
	Input          host.Raw `json:"input"` // the method's decoder checks it
	IdempotencyKey string   `json:"idempotency_key"`
	Traceparent    string   `json:"traceparent"`
	Reason         string   `json:"reason"`
	Subscribe      []string `json:"subscribe"`
	Unsubscribe    []string `json:"unsubscribe"`
	Follow         string   `json:"follow"`
	After          *uint64  `json:"after"`
	Life           string   `json:"life"`
	Unfollow       int64    `json:"unfollow"`

	held int64 // bytes of the gateway's memory for the message
}

// A connectInput is the input of a connect request, as the first message or the body of a POST.
type connectInput struct {
	Params host.Raw `json:"params"` // the node checks it
	Events []string `json:"events"`
	Token  string   `json:"token"`
	After  *uint64  `json:"after"`
	Life   string   `json:"life"`
}

// decodeMessage reads a message. With a fault other than serve.ErrNotJSON, the message's ID is set
// if it could be read.
func decodeMessage(data []byte) (*message, *host.Error) {
	m := new(message)
	if fault := serve.DecodeJSON(data, m); fault != nil {
		if m.ID < 0 || m.ID > maxID {
			m.ID = 0
		}
		return m, fault
	}
	return m, m.check()
}

// check returns the fault of a well-formed message.
func (m *message) check() *host.Error {
	bad := func(format string, args ...any) *host.Error {
		return host.Errorf(host.InvalidArgument, format, args...)
	}
	verbs := 0
	for _, is := range []bool{
		m.Connect != nil, m.Call != "", m.Subscribe != nil, m.Unsubscribe != nil, m.Follow != "", m.Unfollow != 0,
	} {
		if is {
			verbs++
		}
	}
	id := m.ID
	if m.ID < 0 || m.ID > maxID {
		m.ID = 0
	}
	switch {
	case verbs != 1:
		return bad("a message has one of connect, call, subscribe, unsubscribe, follow and unfollow; this one has %d of them", verbs)
	case m.Connect != nil && id != 0:
		return bad("the message connect has no id")
	case m.Connect == nil && m.ID == 0:
		return bad("the member id is %d; it must be a number from 1 to %d", id, int64(maxID))
	case m.Call == "" && (m.Input != nil || m.IdempotencyKey != "" || m.Traceparent != "" || m.Reason != ""):
		return bad("the members input, idempotency_key, traceparent and reason belong to call")
	case m.Follow == "" && (m.After != nil || m.Life != ""):
		return bad("the members after and life belong to follow and connect")
	case len(m.IdempotencyKey) > MaxIdempotencyKey:
		return bad("the member idempotency_key is %d bytes long; the limit is %d",
			len(m.IdempotencyKey), MaxIdempotencyKey)
	case m.Unfollow < 0:
		return bad("the member unfollow is %d; it must be the id of a follow", m.Unfollow)
	}
	if fault := cmp.Or(checkLife(m.After, m.Life), audit.CheckReason(m.Reason, "reason")); fault != nil {
		return fault
	}
	if fault := checkEvents("subscribe", m.Subscribe); fault != nil {
		return fault
	}
	return checkEvents("unsubscribe", m.Unsubscribe)
}

// checkLife checks the life that a position belongs to.
func checkLife(after *uint64, life string) *host.Error {
	if life != "" && after == nil {
		return host.Errorf(host.InvalidArgument,
			"the member life belongs to after, which is missing").With("field", "life")
	}
	return host.CheckLife(life)
}

// checkEvents checks a list of events; nil means no list.
func checkEvents(member string, names []string) *host.Error {
	switch {
	case names != nil && len(names) == 0:
		return wrong(member, "%s names no event", member)
	case len(names) > host.MaxSubscriptions:
		return host.OverLimit(member, host.MaxSubscriptions, int64(len(names))).With("field", member)
	}
	for i, name := range names {
		if name == "" {
			return wrong(member+"["+strconv.Itoa(i)+"]", "%s has an empty name", member)
		}
	}
	return nil
}

// request checks the input and makes the node's request.
func (c *connectInput) request(transport string) (host.ConnectRequest, *host.Error) {
	q := host.ConnectRequest{Params: c.Params, Events: c.Events, Token: c.Token, Transport: transport}
	if string(q.Params) == "null" {
		q.Params = nil
	}
	if len(c.Events) == 0 {
		q.Events = nil
	}
	if fault := checkLife(c.After, c.Life); fault != nil {
		return q, fault
	}
	if c.After != nil {
		q.After, q.HasAfter, q.Life = *c.After, true, c.Life
	}
	switch {
	case len(q.Params) > host.MaxConnectionParams:
		return q, host.OverLimit("params", host.MaxConnectionParams, int64(len(q.Params))).With("field", "params")
	case len(q.Token) > maxConnectionToken:
		return q, host.OverLimit("token", maxConnectionToken, int64(len(q.Token))).With("field", "token")
	}
	return q, checkEvents("events", q.Events)
}

// appendJSON appends v, which is a name or an error and can always be encoded.
func appendJSON(b []byte, v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		return append(b, "null"...)
	}
	return append(b, text...)
}

// appendRaw appends a value of the application, which is JSON, or null if there is none.
func appendRaw(b, value []byte) []byte {
	if len(value) == 0 {
		return append(b, "null"...)
	}
	return append(b, value...)
}

// appendTime appends t as a JSON string.
func appendTime(b []byte, t time.Time) []byte {
	return append(t.UTC().AppendFormat(append(b, '"'), time.RFC3339Nano), '"')
}

// appendReply appends the answer to a call.
func appendReply(b []byte, id int64, r *host.Reply) []byte {
	b = strconv.AppendInt(append(b, `{"id":`...), id, 10)
	b = strconv.AppendUint(append(b, `,"version":`...), r.Version, 10)
	if r.Replayed {
		b = append(b, `,"replayed":true`...)
	}
	if len(r.Output) > 0 {
		b = append(append(b, `,"output":`...), r.Output...)
	}
	return append(b, '}')
}

// appendTrace adds its trace, unless that is "", to an answer, which is an object with members.
func appendTrace(b []byte, traceresponse string) []byte {
	if traceresponse == "" {
		return b
	}
	return append(append(append(b[:len(b)-1], `,"traceresponse":"`...), traceresponse...), '"', '}')
}

// appendDone appends the answer to a request that has no output.
func appendDone(b []byte, id int64) []byte {
	return append(strconv.AppendInt(append(b, `{"id":`...), id, 10), '}')
}

// appendFault appends an error: the answer to request id, or an error about a message without an id
// if id is 0.
func appendFault(b []byte, id int64, e *host.Error) []byte {
	if b = append(b, '{'); id > 0 {
		b = append(strconv.AppendInt(append(b, `"id":`...), id, 10), ',')
	}
	return append(appendJSON(append(b, `"error":`...), e), '}')
}

// appendWelcome appends the first message of a connection.
func appendWelcome(b []byte, w host.Welcome) []byte {
	return append(appendJSON(append(b, `{"welcome":`...), named(w)), '}')
}

// named returns w with an empty list, which is not null in JSON, if it has no events.
func named(w host.Welcome) host.Welcome {
	if w.Events == nil {
		w.Events = []string{}
	}
	return w
}

// appendBye appends the last message of a connection.
func appendBye(b []byte, e *host.Error) []byte {
	return append(appendJSON(append(b, `{"bye":`...), e), '}')
}

// appendGap appends the message that events are missing.
func appendGap(b []byte, missed uint64, reset bool) []byte {
	return append(appendMissing(append(b, `{"gap":{`...), missed, reset), "}}"...)
}

// appendMissing appends the members that say what a reader missed.
func appendMissing(b []byte, missed uint64, reset bool) []byte {
	b = strconv.AppendUint(append(b, `"missed":`...), missed, 10)
	if reset {
		b = append(b, `,"reset":true`...)
	}
	return b
}

// eventMessage returns the message of an event, which all its receivers share.
func eventMessage(e *host.EmittedEvent) []byte {
	return e.Shared.Get(host.FrameWebSocket, func() []byte {
		b := make([]byte, 0, len(e.Name)+len(e.Data)+128)
		b = appendJSON(append(b, `{"event":`...), e.Name)
		b = strconv.AppendUint(append(b, `,"sequence":`...), e.Sequence, 10)
		b = strconv.AppendUint(append(b, `,"version":`...), e.Version, 10)
		b = appendTime(append(b, `,"time":`...), e.Time)
		return append(appendRaw(append(b, `,"data":`...), e.Data), '}')
	})
}

// appendItem appends an item of the stream followed under id.
func appendItem(b []byte, id int64, item *host.ReadStreamItem) []byte {
	b = strconv.AppendInt(append(b, `{"stream":`...), id, 10)
	b = strconv.AppendUint(append(b, `,"sequence":`...), item.Sequence, 10)
	b = appendTime(append(b, `,"time":`...), item.Time)
	return append(appendRaw(append(b, `,"value":`...), item.Value), '}')
}

// appendMissed appends the message that items of a stream are no longer kept, or not of the
// requested life.
func appendMissed(b []byte, id int64, missed uint64, reset bool) []byte {
	b = strconv.AppendInt(append(b, `{"stream":`...), id, 10)
	return append(appendMissing(append(b, ','), missed, reset), '}')
}

// appendEnd appends the end of a stream: it is closed, or the error that ended the following.
func appendEnd(b []byte, id int64, e *host.Error) []byte {
	b = strconv.AppendInt(append(b, `{"stream":`...), id, 10)
	if e == nil {
		return append(b, `,"end":true}`...)
	}
	return append(appendJSON(append(b, `,"error":`...), e), '}')
}
