package gateway

import (
	"context"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/kv"
	"github.com/cairn-run/cairn/runtime/internal/gateway/codebolt"
	"github.com/cairn-run/cairn/runtime/internal/gateway/serve"
)

// codeboltEvents answers GET .../-/kvstore/ws with the changes of instances and their records over
// a WebSocket.
//
// The first follower of an actor turns its log on. That happens after the handshake, so only a
// follower does it.
func (x *exchange) codeboltEvents(t *target) {
	x.Count(t.Type, serve.LabelWatch)
	refusal := x.admitSocket(t)
	if refusal == nil {
		refusal = x.Authorize(x.R.Context(), x.g.operation(t.Type, host.KVFeed), t.Address, host.KVFeed)
	}
	r := &feedReader{g: x.g, address: t.Address, in: kv.FeedInput{Prefixes: []kv.Key{codebolt.Prefix()}}}
	if refusal == nil {
		p, fault := x.params("after")
		var at *host.Position
		if fault == nil {
			at, fault = x.position(p)
		}
		if fault != nil {
			x.Fail(fault)
			return
		}
		if at != nil {
			r.in.After, r.in.Life = &at.Sequence, at.Life
		}
	}
	var events codebolt.Events
	x.overSocket(refusal, appendKVStoreError,
		func(ctx context.Context, wait time.Duration) (batch [][]byte, fault *host.Error) {
			if !r.begun {
				if err := codebolt.Log(x.g.codebolt.Request(ctx, &x.Exchange, t.Address)); err != nil {
					return nil, x.Front.AsError(err)
				}
			}
			if events.Pending() {
				wait = 0
			}
			out, fault := r.read(ctx, wait)
			if fault != nil {
				return nil, fault
			}
			for _, m := range events.Read(&out) {
				text, fault := x.encode(&m)
				if fault != nil {
					return nil, fault
				}
				batch = append(batch, text)
			}
			x.Front.Meter.Events.Add(float64(len(batch)))
			return batch, nil
		})
}

// appendKVStoreError appends the last message.
func appendKVStoreError(b []byte, e *host.Error) []byte {
	return append(appendJSON(append(b, `{"error":`...), e.Message), '}')
}
