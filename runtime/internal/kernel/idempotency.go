package kernel

import (
	"time"

	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/runtime/internal/kernel/reply"
)

// keyed returns the request that identifies a call with an idempotency key.
func (w *Work) keyed(a *Actor) reply.Request {
	return reply.Request{Key: w.idempotencyKey, Method: w.Call.Traits(a).Name, Codec: w.Codec, Input: w.Input}
}

// remember stores a reply in the turn that made it.
func (c *Core) remember(t *Turn, out []byte) error {
	expire := t.Start.Add(c.Actor.Kernel.Options.ReplyRetention).UnixMilli()
	switch {
	case t.Work.GoodFor < 0:
		return nil
	case t.Work.GoodFor > 0:
		expire = max(min(expire, t.Work.GoodFor), t.Start.UnixMilli()+1)
	}
	o := engine.PutOptions{ExpireAt: expire, Exempt: c.unburdens(t)}
	err := reply.Keep(c.Rows, t.Work.keyed(c.Actor), reply.Reply{Version: t.AsOf, Output: out}, o)
	t.ExpireAt(expire, time.Hour) // after the reply, whose room it would take
	return err
}

// unburdens reports whether the reply of a turn is kept even if the actor's quota is used up: the
// turn is an operator's verb, or it made the actor smaller. Otherwise nobody could make room in a
// full actor with an idempotency key. A caller cannot fill the store this way, because each such
// reply costs bytes that the actor cannot get again while it is full.
func (c *Core) unburdens(t *Turn) bool {
	b := t.Work.Builtin
	return b != nil && b.operators(c.Actor.Type) || c.Rows.Size() < t.mark.at.Size()
}
