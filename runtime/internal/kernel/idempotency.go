package kernel

import (
	"bytes"
	"encoding/binary"
	"time"

	"github.com/zeebo/xxh3"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/runtime/internal/record"
)

// replyRecord is the value of KindIdempotency, a record of package record.
type replyRecord struct {
	_           struct{} `cbor:",toarray"`
	Fingerprint []byte   // 16 bytes: xxh3-128 over method, codec and input
	Codec       uint8
	Version     uint64
	Output      []byte
}

// fingerprint tells requests apart that come with the same idempotency key.
func (w *Work) fingerprint(method string) []byte {
	h := xxh3.New()
	var n [8]byte
	binary.BigEndian.PutUint64(n[:], uint64(len(method)))
	h.Write(n[:])
	h.WriteString(method)
	h.Write([]byte{byte(w.Codec)})
	h.Write(w.Input)
	s := h.Sum128().Bytes()
	return s[:]
}

// replay returns the stored reply of an earlier request with the same idempotency key.
func (c *Core) replay(w *Work) (result, bool, error) {
	at := c.Rows.Savepoint()
	c.Rows.Advance(time.Now().UnixMilli()) // an expired reply reads as absent from now on
	e, ok, err := c.Rows.Get(keyspace.AppendIdempotency(nil, w.idempotencyKey))
	c.Rows.Rollback(at)
	if err != nil || !ok {
		return result{}, false, err
	}
	if e.Expire != 0 && e.Expire <= time.Now().UnixMilli() {
		return result{}, false, nil // the write set's clock still stands at the last turn
	}
	var r replyRecord
	if err := record.Decode(e.Value, &r); err != nil {
		return result{}, false, err
	}
	if !bytes.Equal(r.Fingerprint, w.fingerprint(w.Call.Traits(c.Actor).Name)) {
		return result{}, false, host.Errorf(host.IdempotencyMismatch,
			"the idempotency key was used before with another method or input")
	}
	return result{w: w, out: r.Output, version: engine.Version(r.Version), replayed: true}, true, nil
}

// remember stores a reply in the turn that made it.
func (c *Core) remember(t *Turn, key string, out []byte) error {
	rec, err := record.Encode(&replyRecord{
		Fingerprint: t.Work.fingerprint(t.Work.Call.Traits(c.Actor).Name), Codec: uint8(t.Work.Codec), Version: uint64(t.AsOf), Output: out,
	})
	if err != nil {
		return err
	}
	expire := t.Start.Add(c.Actor.Kernel.Options.ReplyRetention).UnixMilli()
	switch {
	case t.Work.GoodFor < 0:
		return nil
	case t.Work.GoodFor > 0:
		expire = max(min(expire, t.Work.GoodFor), t.Start.UnixMilli()+1)
	}
	o := engine.PutOptions{ExpireAt: expire, Exempt: c.unburdens(t)}
	if err := c.Rows.Put(keyspace.AppendIdempotency(nil, key), rec, o); err != nil {
		return err
	}
	t.ExpireAt(expire)
	return nil
}

// unburdens reports whether the reply of a turn is kept though the actor's quota is used up: the turn is an operator's verb,
// or it made the actor smaller. Otherwise nobody could make room in a full actor with an idempotency key. A caller cannot
// fill the store this way, because each such reply costs bytes that the actor cannot get again while it is full.
func (c *Core) unburdens(t *Turn) bool {
	b := t.Work.Builtin
	return b != nil && b.operators(c.Actor.Type) || c.Rows.Size() < t.mark.at.Size()
}
