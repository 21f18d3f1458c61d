package gateway

import (
	"context"
	"encoding/json"
	"log/slog"
	"sync"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/kv"
	"github.com/cairn-run/cairn/runtime/internal/gateway/serve"
)

// EventReset says that events of a feed are missing. Data: a kv.Gap. Each event itself is an
// EventChange with a kv.Event.
const EventReset = "reset"

// A feedReader reads the log of an actor's key-value store, in one life of the actor, as a
// streamReader reads a stream.
type feedReader struct {
	g       *Gateway
	address host.Address
	in      kv.FeedInput
	begun   bool
}

// read reads the next events and waits for them up to wait.
func (r *feedReader) read(ctx context.Context, wait time.Duration) (kv.FeedOutput, *host.Error) {
	r.in.WaitMS = waitMS(wait)
	out, fault := callBuiltin[kv.FeedOutput](ctx, r.g, r.g.callNode,
		host.Request{Address: r.address, Method: host.KVFeed, Continues: r.begun}, &r.in)
	switch {
	case fault != nil:
		return out, fault
	case r.begun && out.Life != r.in.Life:
		return out, host.Errorf(host.Destroyed, "the actor was destroyed")
	}
	r.in.After, r.in.Life, r.begun = &out.Next, out.Life, true
	return out, nil
}

// feedReader returns a reader for the parameters of a request. The fault names the parameter.
func (x *exchange) feedReader(t *target) (*feedReader, *host.Error) {
	r := &feedReader{g: x.g, address: t.Address}
	p, fault := x.params("prefix", "after")
	if fault != nil {
		return nil, fault
	}
	if r.in.Prefixes, fault = p.keys("prefix"); fault != nil {
		return nil, fault
	}
	at, fault := x.position(p)
	if at != nil {
		r.in.After, r.in.Life = &at.Sequence, at.Life
	}
	return r, fault
}

// feed answers GET .../-/kv-feed with each change of entries as server-sent events, or over a
// WebSocket.
//
// Each client has its own position. A slow client delays nobody, and misses nothing that the log
// keeps.
func (x *exchange) feed(t *target, socket bool) {
	x.Count(t.Type, serve.LabelWatch)
	refusal := (*host.Error)(nil)
	if socket {
		refusal = x.admitSocket(t)
	}
	if refusal == nil {
		refusal = x.Authorize(x.R.Context(), x.g.operation(t.Type, host.KVFeed), t.Address, host.KVFeed)
	}
	var r *feedReader
	if refusal == nil {
		var fault *host.Error
		if r, fault = x.feedReader(t); fault != nil {
			x.Fail(fault)
			return
		}
	}
	if socket {
		x.feedSocket(r, refusal)
		return
	}
	if refusal != nil {
		x.Fail(refusal)
		return
	}
	s, fault := x.Front.Admit(x.R.Context(), serve.EventStream)
	if fault != nil {
		x.Fail(fault)
		return
	}
	defer s.Done()
	// The first read is before the response, so that an error has its own status.
	out, fault := r.read(s.Context(), 0)
	if fault != nil {
		x.Fail(parameterOf(s.Why(fault)))
		return
	}
	w := x.stream()
	w.Buf = host.Position{Sequence: first(&out), Life: out.Life}.Append(append(w.Buf, "id: "...))
	w.Buf = append(w.Buf, "\n\n"...)
	for {
		fault := x.writeFeed(w, &out)
		if fault == nil && w.Flush() != nil {
			return
		}
		if fault == nil {
			out, fault = r.read(s.Context(), x.Front.Limits.Heartbeat)
		}
		if fault == errGone {
			return
		}
		if fault != nil {
			x.parting(s, fault, w)
			return
		}
		if out.Gap == nil && len(out.Events) == 0 {
			w.Buf = append(w.Buf, comment...)
		}
	}
}

// first returns the position before the first of the events.
func first(out *kv.FeedOutput) uint64 {
	if len(out.Events) > 0 {
		return out.Events[0].Sequence - 1
	}
	return out.Next
}

// errGone says that the client is gone.
var errGone = host.Errorf(host.Canceled, "the client has left")

// writeFeed writes events, and the client's position if the last events were not for it.
func (x *exchange) writeFeed(w *serve.Writer, out *kv.FeedOutput) *host.Error {
	at := first(out)
	if out.Gap != nil {
		text, fault := x.encode(out.Gap)
		if fault != nil {
			return fault
		}
		w.Buf = append(host.Position{Sequence: at, Life: out.Life}.Append(append(w.Buf, "id: "...)), '\n')
		w.Buf = serve.AppendEvent(w.Buf, EventReset, text)
	}
	for i := range out.Events {
		text, fault := x.encode(&out.Events[i])
		if fault != nil {
			return fault
		}
		at = out.Events[i].Sequence
		w.Buf = append(host.Position{Sequence: at, Life: out.Life}.Append(append(w.Buf, "id: "...)),
			"\nevent: "+EventChange+"\ndata: "...)
		for most := x.Front.Limits.StreamBufferBytes; len(text) > 0; text = text[min(most, len(text)):] {
			w.Buf = append(w.Buf, text[:min(most, len(text))]...)
			if w.FlushFull() != nil {
				return errGone
			}
		}
		w.Buf = append(w.Buf, "\n\n"...)
	}
	if at != out.Next {
		w.Buf = append(host.Position{Sequence: out.Next, Life: out.Life}.Append(append(w.Buf, "id: "...)), "\n\n"...)
	}
	x.Front.Meter.Events.Add(float64(len(out.Events)))
	return nil
}

// encode encodes a message of a feed, in one line.
func (x *exchange) encode(v any) ([]byte, *host.Error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, x.Front.Internal("an event of a feed does not encode", slog.Any("error", err))
	}
	return text, nil
}

// A feedMessage is a message of a feed over a WebSocket. Next and Life are the position after it.
type feedMessage struct {
	Change *kv.Event `json:"change,omitempty"`
	Reset  *kv.Gap   `json:"reset,omitempty"`
	Next   uint64    `json:"next"`
	Life   string    `json:"life"`
}

// feedSocket writes a feed over a WebSocket.
func (x *exchange) feedSocket(r *feedReader, refusal *host.Error) {
	welcomed := false
	x.overSocket(refusal, appendBye, func(ctx context.Context, wait time.Duration) ([][]byte, *host.Error) {
		out, fault := r.read(ctx, wait)
		if fault != nil {
			return nil, fault
		}
		batch, fault := x.feedMessages(&out, welcomed)
		x.Front.Meter.Events.Add(float64(len(out.Events)))
		welcomed = true
		return batch, fault
	})
}

// overSocket writes the messages of next over a WebSocket until there is an error, which the last
// message reports. It ignores the client's messages.
func (x *exchange) overSocket(refusal *host.Error, bye func([]byte, *host.Error) []byte,
	next func(context.Context, time.Duration) ([][]byte, *host.Error)) {
	socket := x.Upgrade(Subprotocol, refusal)
	if socket == nil {
		return
	}
	base := context.WithoutCancel(x.R.Context())
	var s *serve.Stay
	if refusal == nil {
		s, refusal = x.Front.Admit(base, serve.WebSocket)
	}
	defer socket.CloseNow()
	if refusal != nil {
		x.Code = refusal.Code
		socket.Farewell(bye(nil, refusal), serve.CloseCode(refusal, false), string(refusal.Code))
		socket.Discard()
		return
	}
	defer s.Done()
	var reader sync.WaitGroup
	defer reader.Wait()
	defer socket.CloseNow() // ends the reader
	reader.Go(func() {
		socket.Discard()
		s.Cancel()
	})
	welcomed, pinged := false, time.Now()
	for wait := time.Duration(0); ; wait = x.Front.Limits.Heartbeat {
		batch, fault := next(s.Context(), wait)
		switch {
		case fault == nil:
		case s.Closing():
			fault = serve.ErrShutdown
		case s.Context().Err() != nil:
			return // the client has left
		}
		if fault != nil {
			x.Code = fault.Code
			socket.Farewell(bye(nil, fault), serve.CloseCode(fault, welcomed), string(fault.Code))
			reader.Wait()
			return
		}
		// The client must answer a ping within two heartbeats, even while there are always messages
		// to send.
		if len(batch) == 0 || time.Since(pinged) > x.Front.Limits.Heartbeat/2 {
			socket.Ping()
			pinged = time.Now()
		}
		if socket.SendAll(batch) != nil {
			return
		}
		welcomed = true
	}
}

// feedMessages makes messages of the read events. The first one says where the feed begins.
func (x *exchange) feedMessages(out *kv.FeedOutput, welcomed bool) (batch [][]byte, fault *host.Error) {
	add := func(m feedMessage) {
		var text []byte
		if m.Life = out.Life; fault == nil {
			text, fault = x.encode(&m)
		}
		batch = append(batch, text)
	}
	at := first(out)
	if !welcomed || out.Gap != nil {
		add(feedMessage{Reset: out.Gap, Next: at})
	}
	for i := range out.Events {
		at = out.Events[i].Sequence
		add(feedMessage{Change: &out.Events[i], Next: at})
	}
	if at != out.Next {
		add(feedMessage{Next: out.Next})
	}
	return batch, fault
}
