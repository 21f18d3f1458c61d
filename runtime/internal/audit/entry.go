package audit

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/audit"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/runtime/internal/kernel"
	"github.com/cairn-run/cairn/runtime/internal/kernel/address"
	"github.com/cairn-run/cairn/runtime/internal/kernel/wire"
	"github.com/cairn-run/cairn/runtime/internal/record"
)

// maxValue bounds an input, and a value before and after, in a record.
const maxValue = 4 << 10

// An Entry is the record of a call that is under way. Its claims:
//
//  1. It is written once, by the first turn that it joins and that succeeds, in the commit of that
//     turn.
//  2. Nothing is written for a call that fails, except by [Entry.Append].
//
// The methods of a nil Entry do nothing. Not all calls have one.
type Entry struct {
	log *Log
	row row
	// written: a turn has written it. dropped: the call changes nothing.
	written, dropped bool
}

// A row is the value of a record. Its fields are the format on the disk.
type row struct {
	_         struct{} `cbor:",toarray"`
	ActorID   string
	Version   uint64
	Verb      string
	Channel   string
	Principal string
	Remote    string
	Reason    string
	Input     []byte // JSON, as are the next
	Before    []byte
	After     []byte
	Time      int64 // Unix microseconds, by the clock
}

type entryKey struct{}

// BesideKey finds the actor, a *kernel.Actor, in the context of a call that a goroutine beside its
// turns makes.
type BesideKey struct{}

// Begin makes the entry of a call: of a verb with an input in JSON, made by a turn or query unless
// from is nil. It returns the context for the work of the call.
func (l *Log) Begin(ctx context.Context, verb string, input []byte, from *kernel.Caller) (context.Context, *Entry) {
	if l == nil {
		return ctx, nil
	}
	e := l.entry(ctx, verb, from)
	e.row.Input = short(input)
	if e.row.Reason == "" {
		var in struct{ Reason string }
		if json.Unmarshal(input, &in) == nil {
			e.row.Reason = plain(in.Reason)
		}
	}
	if from != nil && from.Waiter != nil && ctx.Done() == nil {
		ctx = from.Waiter // the call runs under it, see kernel.Caller.Extend, and must find the entry there
	}
	return context.WithValue(ctx, entryKey{}, e), e
}

// entry makes an entry without an input.
func (l *Log) entry(ctx context.Context, verb string, from *kernel.Caller) *Entry {
	e := &Entry{log: l, row: row{Verb: verb, Channel: "go"}}
	if o := audit.Of(ctx); o != nil {
		e.row.Channel, e.row.Principal, e.row.Remote, e.row.Reason = cmp.Or(o.Channel, "go"),
			plain(o.Principal), plain(o.Remote), plain(o.Reason)
	}
	if from != nil {
		e.row.Channel, e.row.Principal, e.row.Remote = "actor", "", ""
		if t := from.Waiter; t != nil {
			e.row.Principal = address.Format(t.Actor.Address)
		} else if a, is := ctx.Value(BesideKey{}).(*kernel.Actor); is {
			e.row.Principal = address.Format(a.Address)
		}
	}
	if l.kernel.Offline {
		e.row.Channel = "offline"
	}
	return e
}

// plain returns a text from outside in a form for a record: in UTF-8, so that the record can be
// read, and not long.
func plain(s string) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	n := 0
	for i := range s {
		if n++; n > audit.MaxReason {
			return s[:i]
		}
	}
	return s
}

// Of returns the entry of the call that work belongs to; nil if it has none.
func Of(ctx context.Context) *Entry {
	if ctx == nil {
		return nil
	}
	e, _ := ctx.Value(entryKey{}).(*Entry)
	return e
}

// Join makes a turn write the entry, if the turn succeeds. A turn that is repeated joins it again.
func (e *Entry) Join(t *kernel.Turn) {
	if e == nil {
		return
	}
	e.written, e.row.Before, e.row.After = false, nil, nil
	t.Lock()
	defer t.Leave()
	t.Enlist(e)
}

// Verb returns the name of the method.
func (e *Entry) Verb() string {
	if e == nil {
		return ""
	}
	return e.row.Verb
}

// Before sets the value before the verb: JSON, or a pointer to a value that has a form in it.
func (e *Entry) Before(v any) {
	if e != nil {
		e.row.Before = shortOf(v)
	}
}

// After sets the value after the verb. Without that, it is the output of the method.
func (e *Entry) After(v any) {
	if e != nil {
		e.row.After = shortOf(v)
	}
}

// Output sets the output of the method.
func (e *Entry) Output(v any) {
	if e != nil && e.row.After == nil {
		e.After(v)
	}
}

// Drop marks that the call changes nothing, so it leaves no record.
func (e *Entry) Drop() {
	if e != nil {
		e.dropped = true
	}
}

// Seal implements kernel.Participant: it writes the record.
func (e *Entry) Seal(t *kernel.Turn) error {
	if e.dropped {
		return nil
	}
	e.row.ActorID, e.row.Version = t.Core.ID.String(), uint64(t.AsOf)
	b, err := e.encode()
	if err != nil {
		return err
	}
	if err := t.Core.Rows.Audit(t.Actor.Kernel.Identity(t.Actor.Address), b); err != nil {
		return err
	}
	t.Change(engine.ChangeAudit, e.row.Verb, e.published)
	t.Then(e.log.signal)
	return nil
}

// Succeeded implements kernel.Finisher.
func (e *Entry) Succeeded(*kernel.Turn) { e.written = true }

// Append writes the record of a verb without a commit, unless a turn has written it. It returns
// when the record is durable, and no context ends it. A verb with an effect calls it first; for a
// verb that found nothing to do, the router does.
func (e *Entry) Append(a host.Address) error {
	if e == nil || e.written || e.dropped {
		return nil
	}
	k := e.log.kernel
	set := engine.ChangeSet{Identity: k.Identity(a)}
	id, there, err := k.Store.Lookup(set.Identity)
	if there {
		set.ID, e.row.ActorID = id, id.String()
	}
	var b []byte
	if err == nil {
		b, err = e.encode()
	}
	if err == nil {
		err = k.Store.AppendAudit(set.Identity, b)
	}
	if err != nil {
		return k.StoreError(err)
	}
	e.written = true
	e.log.signal()
	k.Changes.Publish(set, engine.ChangeAudit, e.row.Verb, e.published())
	return nil
}

// encode returns the record as of now.
func (e *Entry) encode() ([]byte, error) {
	e.row.Time = time.Now().UnixMicro()
	return record.Encode(&e.row)
}

// published is the data of the message to NATS.
func (e *Entry) published() any {
	m := map[string]any{"verb": e.row.Verb, "channel": e.row.Channel}
	for name, text := range map[string]string{"principal": e.row.Principal, "remote": e.row.Remote,
		"reason": e.row.Reason} {
		if text != "" {
			m[name] = text
		}
	}
	for name, value := range map[string][]byte{"input": e.row.Input, "before": e.row.Before, "after": e.row.After} {
		if len(value) > 0 {
			m[name] = json.RawMessage(value)
		}
	}
	return m
}

// JSON returns an input that is made of strings and numbers.
func JSON(input map[string]any) []byte {
	b, err := json.Marshal(input)
	if err != nil {
		return nil
	}
	return b
}

// shortOf returns a value in JSON, in its form for a record.
func shortOf(v any) []byte {
	switch v := v.(type) {
	case nil:
		return nil
	case json.RawMessage:
		return short(v)
	}
	b, err := wire.Encode(host.JSON, v)
	if err != nil {
		return nil
	}
	return short(b)
}

// short returns JSON, or its size and digest if it is long or no JSON.
func short(text []byte) []byte {
	if len(text) == 0 {
		return nil
	}
	var b bytes.Buffer
	if len(text) <= maxValue && json.Compact(&b, text) == nil {
		return b.Bytes()
	}
	sum := sha256.Sum256(text)
	return fmt.Appendf(nil, `{"$size":%d,"$sha256":"%s"}`, len(text), hex.EncodeToString(sum[:]))
}
