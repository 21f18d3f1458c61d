package mail

import (
	"encoding/json"
	"reflect"
	"strings"
	"time"

	"github.com/fxamacker/cbor/v2"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/runtime/internal/call"
	"github.com/cairn-run/cairn/runtime/internal/kernel"
	"github.com/cairn-run/cairn/runtime/internal/kernel/cached"
	"github.com/cairn-run/cairn/runtime/internal/kernel/clock"
	"github.com/cairn-run/cairn/runtime/internal/kernel/wire"
	"github.com/cairn-run/cairn/runtime/internal/record"
)

// A sender keeps the messages to other actors that were given up as queues keep dead letters: as
// long and as many.
const (
	deadSendFor  = host.DefaultQueueDeadFor
	MaxDeadSends = host.DefaultQueueDead
	// MaxRequeuedBytes is about how many bytes of messages one call sends again. A node with little
	// memory must have room for them.
	MaxRequeuedBytes = 1 << 20
	// MaxDeadReason bounds the text of the error that is kept, as in a queue.
	MaxDeadReason = 1024
	// deadCountFor is how long a count of the messages that were given up is used, even if some of
	// them may have expired.
	deadCountFor = time.Minute
)

// KeepDeadSend keeps a message that was given up, and removes the oldest beyond the limit.
func KeepDeadSend(c *kernel.Core, h *kernel.Turn, seq uint64, f *FailedRecord) error {
	f.Reason = strings.ToValidUTF8(f.Reason[:min(len(f.Reason), MaxDeadReason)], "")
	rec, err := record.Encode(f)
	if err != nil {
		return err
	}
	now := h.Start.UnixMilli()
	box := Post(c)
	if !box.Dead.Known || box.Dead.Value >= MaxDeadSends && now-box.counted >= deadCountFor.Milliseconds() {
		n, err := countRows(c, keyspace.FailedSend.Kind)
		if err != nil {
			return err
		}
		box.Dead.Set(c.Rows, n)
		box.counted = now
	}
	expire := f.Failed + deadSendFor.Milliseconds()
	o := engine.PutOptions{Exempt: true, ExpireAt: expire} // it takes the message's room
	if err := c.Rows.Put(keyspace.FailedSend.Append(nil, seq), rec, o); err != nil {
		return err
	}
	h.ExpireAt(expire, time.Hour)
	n := box.Dead.Value + 1
	if over := n - MaxDeadSends; over > 0 {
		start, end := keyspace.FailedSend.Range()
		page, err := c.Rows.List(engine.ListQuery{Start: start, End: end, KeysOnly: true, Limit: min(over, 100)})
		if err != nil {
			return err
		}
		for _, e := range page.Entries {
			if _, err := c.Rows.Delete(e.Key); err != nil {
				return err
			}
			n--
		}
	}
	box.Dead.Set(c.Rows, n)
	return nil
}

// eachDeadSend removes given-up messages, by ids or all, and sends them again if again is set. It
// handles as many as one call may, at least one, and says if there are more.
func eachDeadSend(c *kernel.Core, h *kernel.Turn, in *host.SendSelectInput,
	again bool) (out host.CountOutput, err error) {
	if in.All == (len(in.IDs) > 0) {
		return out, host.Errorf(host.InvalidArgument, "give either ids or all").With("field", "ids")
	}
	if len(in.IDs) > host.MaxQueueBatch {
		return out, host.OverLimit("ids", host.MaxQueueBatch, int64(len(in.IDs))).With("field", "ids")
	}
	MailOf(h).again = again
	size := 0
	visit := func(e *engine.Entry) error {
		size += len(e.Key)
		if again {
			var f FailedRecord
			if err := record.Decode(e.Value, &f); err != nil {
				return err
			}
			if err := MailOf(h).sendAgain(&f.Message); err != nil {
				return err
			}
			size += len(e.Value)
		}
		if _, err := c.Rows.Delete(e.Key); err != nil {
			return err
		}
		out.Count++
		return nil
	}
	if in.All {
		start, end := keyspace.FailedSend.Range()
		q := engine.ListQuery{Start: start, End: end, Limit: host.MaxQueueBatch,
			MaxBytes: MaxRequeuedBytes, KeysOnly: !again}
		for more := true; more && size < MaxRequeuedBytes; more = q.After != nil {
			page, err := c.Rows.List(q)
			if err != nil {
				return out, err
			}
			for i := range page.Entries {
				if err := visit(&page.Entries[i]); err != nil {
					return out, err
				}
			}
			q.After = page.Next
		}
		out.More = q.After != nil
	}
	for _, id := range in.IDs {
		e, ok, err := c.Rows.Get(keyspace.FailedSend.Append(nil, id))
		if err == nil && ok {
			if size >= MaxRequeuedBytes {
				out.More = true
				break
			}
			e.Key = keyspace.FailedSend.Append(nil, id)
			err = visit(&e)
		}
		if err != nil {
			return out, err
		}
	}
	if out.Count > 0 {
		Post(c).Dead = cached.Value[int]{}
	}
	return out, nil
}

// sendAgain sends a message that was given up as a new one, after the waiting ones: the target may
// have handled later messages since, and counts an earlier number as handled. It goes to the actor
// that has the target's address now.
func (h *Turn) sendAgain(m *MessageRecord) error {
	if err := h.Post(m.Address(), m.Method, m.Input); err != nil {
		return err
	}
	again := &h.messages[len(h.messages)-1].Record
	again.Sent, again.Traceparent = m.Sent, m.Traceparent
	return nil
}

// listDeadSends implements send.dead.list.
func listDeadSends(r *call.Query, codec host.Codec, in *host.SendListInput) (out host.SendListOutput, err error) {
	limit := in.Limit
	switch {
	case len(in.IDs) > host.MaxQueueBatch:
		return out, host.OverLimit("ids", host.MaxQueueBatch, int64(len(in.IDs))).With("field", "ids")
	case limit == 0:
		limit = 100
	}
	rows, done, err := r.Rows()
	if err != nil {
		return out, err
	}
	defer done()
	var entries []engine.Entry
	if len(in.IDs) > 0 {
		for _, id := range in.IDs {
			key := keyspace.FailedSend.Append(nil, id)
			e, ok, err := rows.Get(key)
			if err != nil {
				return out, err
			}
			if e.Key = key; ok {
				entries = append(entries, e)
			}
		}
	} else {
		start, end := keyspace.FailedSend.Range()
		q := engine.ListQuery{Start: start, End: end, Limit: limit, MaxBytes: maxListedBytes}
		if in.After > 0 {
			q.After = keyspace.FailedSend.Append(nil, in.After)
		}
		page, err := rows.List(q)
		if err != nil {
			return out, err
		}
		entries, out.More = page.Entries, page.Next != nil
	}
	out.Messages = make([]host.DeadLetter, len(entries))
	for i := range entries {
		if err := showDeadSend(&entries[i], codec, &out.Messages[i]); err != nil {
			return out, err
		}
	}
	return out, nil
}

// maxListedBytes bounds the messages of one page.
const maxListedBytes = 4 << 20

// showDeadSend describes a message that was given up.
func showDeadSend(e *engine.Entry, codec host.Codec, m *host.DeadLetter) error {
	seq, err := keyspace.FailedSend.Parse(e.Key)
	if err != nil {
		return err
	}
	var f FailedRecord
	if err := record.Decode(e.Value, &f); err != nil {
		return err
	}
	key := f.Message.Key
	if key == nil {
		key = []string{}
	}
	*m = host.DeadLetter{
		ID: seq, Type: f.Message.Type, Key: key, Method: f.Message.Method, Attempts: f.Attempts,
		Sent: clock.TimeMS(f.Message.Sent).UTC(), Died: clock.TimeMS(f.Failed).
			UTC(), Code: host.Code(f.Code), Error: f.Reason,
	}
	if e.Expire != 0 {
		at := clock.TimeMS(e.Expire).UTC()
		m.Expires = &at
	}
	switch in := f.Message.Input; {
	case codec == host.JSON:
		m.Input = JsonOf(in)
	case cbor.Wellformed(in) == nil:
		m.Input = in
	}
	return nil
}

// JsonOf shows CBOR of an application as JSON, for people: byte strings are base64. It is nil for
// values that JSON cannot show.
func JsonOf(value []byte) host.Raw {
	var v any
	if len(value) == 0 || textDecoding.Unmarshal(value, &v) != nil {
		return nil
	}
	text, err := json.Marshal(v)
	if err != nil {
		return nil
	}
	return text
}

var textDecoding = wire.MustDecMode(cbor.DecOptions{DefaultMapType: reflect.TypeFor[map[string]any](), TimeTag: cbor.DecTagOptional})
