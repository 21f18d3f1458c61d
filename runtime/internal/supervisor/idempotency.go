package supervisor

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

// fingerprint tells requests apart that come with the same idempotency key.
func (w *work) fingerprint(method string) []byte {
	h := xxh3.New()
	var n [8]byte
	binary.BigEndian.PutUint64(n[:], uint64(len(method)))
	h.Write(n[:])
	h.WriteString(method)
	h.Write([]byte{byte(w.codec)})
	h.Write(w.input)
	s := h.Sum128().Bytes()
	return s[:]
}

// requestName is the name under which a request is fingerprinted.
func (c *core) requestName(w *work) string {
	if w.builtin != nil {
		return w.builtin.name
	}
	if w.method < 0 {
		return ""
	}
	return c.a.typ.Methods[w.method].Name
}

// replay returns the stored reply of an earlier request with the same idempotency key.
func (c *core) replay(w *work) (result, bool, error) {
	at := c.ws.Savepoint()
	c.ws.Advance(unixMS(time.Now())) // an expired reply reads as absent from now on
	e, ok, err := c.ws.Get(keyspace.AppendIdempotency(nil, w.idempotencyKey))
	c.ws.Rollback(at)
	if err != nil || !ok {
		return result{}, false, err
	}
	if e.Expire != 0 && e.Expire <= unixMS(time.Now()) {
		return result{}, false, nil // the write set's clock still stands at the last turn
	}
	var r replyRecord
	if err := record.Decode(e.Value, &r); err != nil {
		return result{}, false, err
	}
	if !bytes.Equal(r.Fingerprint, w.fingerprint(c.requestName(w))) {
		return result{}, false, host.Errorf(host.IdempotencyMismatch,
			"the idempotency key was used before with another method or input")
	}
	return result{w: w, out: r.Output, version: engine.Version(r.Version), replayed: true}, true, nil
}

// remember stores a reply in the turn that made it.
func (c *core) remember(t *turn, key string, out []byte) error {
	rec, err := record.Encode(&replyRecord{
		Fingerprint: t.work.fingerprint(c.requestName(t.work)), Codec: uint8(t.work.codec), Version: uint64(t.version), Output: out,
	})
	if err != nil {
		return err
	}
	expire := unixMS(t.start.Add(c.a.sup.options.ReplyRetention))
	switch {
	case t.goodFor < 0:
		return nil
	case t.goodFor > 0:
		expire = max(min(expire, t.goodFor), unixMS(t.start)+1)
	}
	o := engine.PutOptions{ExpireAt: expire, Exempt: c.unburdens(t)}
	if err := c.ws.Put(keyspace.AppendIdempotency(nil, key), rec, o); err != nil {
		return err
	}
	t.expireAt(expire)
	return nil
}

// unburdens reports whether the reply of a turn is kept though the actor's quota is used up: the turn is an operator's verb,
// or it made the actor smaller. Otherwise nobody could make room in a full actor with an idempotency key. A caller cannot
// fill the store this way, because each such reply costs bytes that the actor cannot get again while it is full.
func (c *core) unburdens(t *turn) bool {
	b := t.work.builtin
	return b != nil && host.OperatorMethod(b.name, c.a.typ.OpenSQL) || c.ws.Size() < t.mark.at.Size()
}
