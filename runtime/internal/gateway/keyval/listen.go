package keyval

import (
	"slices"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime/internal/gateway/kvrest"
)

// maxHeld is how many messages a listener holds that are neither settled nor free again.
const maxHeld = 64

// closeTimeout bounds how long to give back the messages of a listener that has left.
const closeTimeout = 5 * time.Second

// listen answers GET api/queue/listen with messages as server-sent events. A message that the
// client did not read is given back.
func listen(r *kvrest.Request) error {
	if _, err := r.Params(); err != nil {
		return err
	}
	events, err := r.Events()
	if err != nil {
		return err
	}
	defer events.Done()
	// The first receive is before the response begins, so that an error has its own status.
	var out host.QueueReceiveOutput
	in := host.QueueReceiveInput{Queue: Queue, Limit: 1}
	if err := r.Do(host.QueueReceive, &in, &out); err != nil {
		return err
	}
	var held []string
	if !events.Begin() {
		giveBack(r, out.Messages)
		return nil
	}
	for {
		for i := range out.Messages {
			m := received(&out.Messages[i])
			if !events.Send("message", m.ID, m) {
				giveBack(r, out.Messages[i:])
				return nil
			}
			held = append(held, m.ID)
		}
		if !events.Ping() {
			events.End(nil)
			return nil
		}
		out = host.QueueReceiveOutput{}
		if held, err = stillHeld(r, held, events); err == nil && len(held) < maxHeld {
			in.Limit, in.WaitMS = min(maxHeld-len(held), 16), events.Quiet().Milliseconds()
			err = r.DoOn(host.QueueReceive, &in, &out)
		}
		if err != nil {
			events.End(err)
			return nil
		}
	}
}

// stillHeld returns the messages that the listener still has locked. If it holds its limit,
// stillHeld waits until one is free.
func stillHeld(r *kvrest.Request, held []string, events *kvrest.Events) ([]string, error) {
	if len(held) == 0 {
		return held, nil
	}
	in := host.QueueHeldInput{Queue: Queue, Receipts: held}
	if len(held) >= maxHeld {
		in.WaitMS = events.Quiet().Milliseconds()
	}
	var out host.QueueHeldOutput
	if err := r.DoOn(host.QueueHeld, &in, &out); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(held, func(id string) bool { return !slices.Contains(out.Held, id) }), nil
}

// giveBack gives unsent messages back, as failed attempts that are tried again at once.
func giveBack(r *kvrest.Request, messages []host.ReceivedMessage) {
	if len(messages) == 0 {
		return
	}
	at := int64(0)
	in := host.QueueNackInput{Queue: Queue, DelayMS: &at, Error: "the worker left before it got the message"}
	for i := range messages {
		in.Receipts = append(in.Receipts, messages[i].Receipt)
	}
	if err := r.DoLater(closeTimeout, host.QueueNack, &in, new(host.QueueSettleOutput)); err != nil {
		r.Front.Logger.Warn("messages not given back; they stay locked", "actor_type",
			r.Address.Type, "actor_key", r.Address.Key,
			"queue", Queue, "messages", len(messages), "error", err)
	}
}
