package kv

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"

	"github.com/fxamacker/cbor/v2"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/kv"
	"github.com/cairn-run/cairn/actor/host/method"
	"github.com/cairn-run/cairn/actor/host/token"
	"github.com/cairn-run/cairn/keyspace/tuple"
	"github.com/cairn-run/cairn/runtime/internal/call"
	"github.com/cairn-run/cairn/runtime/internal/kernel"
	"github.com/cairn-run/cairn/runtime/internal/kernel/attach"
	"github.com/cairn-run/cairn/runtime/internal/kernel/clock"
	"github.com/cairn-run/cairn/runtime/internal/kernel/fault"
	"github.com/cairn-run/cairn/runtime/internal/kernel/wire"
	kvrows "github.com/cairn-run/cairn/runtime/internal/part/kv/rows"
	"github.com/cairn-run/cairn/runtime/internal/part/kv/value"
)

// feedTopic is signalled when a commit that wrote the log is durable.
const feedTopic = "kv/feed"

// Bounds of what one call reads of the log.
const (
	feedItems = 10_000
	feedBytes = 4 << 20
)

// logged records that a change has written the log, for its readers.
//
// REQUIRES: h.K.Mu
func (h *Turn) logged(store *kvrows.Store) {
	if store.TakeLogged() {
		h.collects().logged = true
	}
}

// feedMethod binds kv.feed. It reads the store of a sleeping actor, and waits without one.
func (p *Part) feedMethod() *call.Method {
	b := call.Unwoken(call.Waiting(call.Ask(method.KVFeed, p.feed),
		func(in *kv.FeedInput) (string, int64) {
			if in.After == nil {
				return feedTopic, 0
			}
			return feedTopic, in.WaitMS
		}, noEvents))
	b.Missing, b.OfLife = feedGone, true
	return b
}

// feedGone says that the actor of a reader is gone, or only that there is none.
func feedGone(_ *kernel.Type, req *host.Request, notFound error) ([]byte, error) {
	var in kv.FeedInput
	if wire.Decode(host.KVFeed, req.Codec, req.Input, &in) != nil || in.Life == "" {
		return nil, notFound
	}
	if err := host.CheckLife(in.Life); err != nil {
		return nil, err
	}
	return nil, fault.Destroyed()
}

// noEvents reports whether a reader is up to date.
func noEvents(in *kv.FeedInput, codec host.Codec, output []byte) bool {
	const most = 256 // bytes of an answer without events, with room to spare
	if len(output) > most {
		return false
	}
	var out kv.FeedOutput
	var err error
	if codec == host.JSON {
		err = json.NewDecoder(bytes.NewReader(output)).Decode(&out)
	} else {
		err = cbor.Unmarshal(output, &out)
	}
	return err == nil && len(out.Events) == 0 && out.Gap == nil && in.After != nil && out.Next == *in.After
}

// feed implements kv.feed.
func (p *Part) feed(q *call.Query, codec host.Codec, in *kv.FeedInput) (out kv.FeedOutput, err error) {
	if n := len(in.Prefixes); n > kv.MaxWatchedPrefixes {
		return out, host.OverLimit("prefixes", kv.MaxWatchedPrefixes, int64(n)).With("field", "prefixes")
	}
	prefixes := make([][]byte, len(in.Prefixes))
	for i, prefix := range in.Prefixes {
		if prefixes[i], err = prefixOf(prefix); err != nil {
			return out, at("prefixes", i, err)
		}
	}
	if err := host.CheckLife(in.Life); err != nil {
		return out, err
	}
	g := token.Of(q.Context)
	rows, done, err := q.Rows()
	if err != nil {
		return out, err
	}
	defer done()
	info, err := p.log.Info(rows)
	if err != nil {
		return out, err
	}
	if info.First > info.Last { // it may be empty because there is no log
		logs, err := kvrows.Logs(rows)
		for _, sc := range attach.Get[*declaration](&q.Actor.Type.Attached).list() {
			logs = logs || sc.Log
		}
		if err != nil {
			return out, err
		}
		if !logs {
			return out, host.Errorf(host.FailedPrecondition,
				"no scope of the store has log in its policy, so its changes are not kept").With("reason", "no_log")
		}
	}
	out.Events, out.Life, out.Next = []kv.Event{}, q.View.ID.String(), info.Last
	if in.After == nil {
		return out, nil
	}
	out.Next = *in.After
	if another := in.Life != "" && in.Life != out.Life; another || out.Next > info.Last {
		out.Gap, out.Next = &kv.Gap{First: info.First, Missed: info.First - 1, Reset: true}, info.First-1
	} else if out.Next < info.First-1 {
		out.Gap, out.Next = &kv.Gap{First: info.First, Missed: info.First - 1 - out.Next}, info.First-1
	}
	most := cmp.Or(in.Limit, kv.DefaultPage)
	for read, size := 0, 0; read < feedItems && size < feedBytes && len(out.Events) < most && out.Next < info.Last; {
		want := most - len(out.Events)
		if len(prefixes) > 0 {
			want = host.MaxStreamBatch
		}
		page, err := p.log.Read(rows, out.Next, want, feedBytes-size)
		if err != nil || len(page.Items) == 0 {
			return out, err
		}
		for i := range page.Items {
			item := &page.Items[i]
			if len(out.Events) == most {
				return out, nil
			}
			e, err := kvrows.ParseEvent(item.Data)
			if err != nil {
				return out, err
			}
			out.Next = item.Sequence
			read, size = read+1, size+len(item.Data)
			if len(prefixes) > 0 &&
				!slices.ContainsFunc(prefixes, func(p []byte) bool { return within(string(p), string(e.Key)) }) {
				continue
			}
			event := eventOf(codec, item, e)
			if g != nil && event.Range != nil {
				event.Range = clip(g, event.Range)
			}
			out.Events = append(out.Events, event)
		}
	}
	return out, nil
}

var causeWords = map[kvrows.Cause]string{
	kvrows.CauseSet: kv.CauseSet, kvrows.CauseDelete: kv.CauseDelete, kvrows.CauseDeleteRange: kv.CauseDeleteRange, kvrows.CauseExpired: kv.CauseExpired,
}

// showAny is show for a value that may not fit its encoding: then it is shown as bytes.
func showAny(codec host.Codec, v value.Value) (host.Raw, string) {
	text, encoding, err := show(codec, v)
	if err != nil || codec == host.JSON && v.Encoding == host.EncodedJSON && !json.Valid(v.Data) {
		text, encoding, _ = show(codec, value.Value{Encoding: host.EncodedBytes, Data: v.Data})
	}
	return text, encoding
}

// eventOf returns an event for callers. A value that does not fit its encoding, or a key that
// callers cannot have, is shown as bytes: the feed goes on.
func eventOf(codec host.Codec, item *host.StreamItem, e *kvrows.Event) kv.Event {
	out := kv.Event{
		Sequence: item.Sequence, Version: uint64(e.Version), Time: item.Time, Op: kv.OpDelete, Cause: causeWords[e.Cause], Key: boundOf(e.Key),
	}
	switch e.Cause {
	case kvrows.CauseSet:
		out.Op = kv.OpPut
		if e.Expire != 0 {
			at := clock.TimeMS(e.Expire).UTC()
			out.Expires = &at
		}
		out.Value, out.Encoding = showAny(codec, value.Value{Encoding: e.Encoding, Data: e.Value})
	case kvrows.CauseDeleteRange:
		out.Range = &kv.Selection{Start: boundOf(e.Start), End: boundOf(e.End)}
		if e.Prefix >= 0 {
			out.Range.Prefix = boundOf(e.Key[:e.Prefix])
		}
	}
	return out
}

// boundOf returns a packed bound, or a prefix, for callers; nil if it is empty.
func boundOf(b []byte) kv.Key {
	if len(b) == 0 {
		return nil
	}
	k, d := kv.Key{}, tuple.NewDecoder(b)
	for d.More() {
		at := d.Offset()
		part, err := d.Next()
		if err != nil {
			return append(k, kv.Raw(b[at:]))
		}
		k = append(k, part)
	}
	return k
}
