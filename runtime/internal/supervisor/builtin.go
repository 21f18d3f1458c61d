package supervisor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"sync/atomic"
	"time"

	"github.com/fxamacker/cbor/v2"

	"github.com/cairn-run/cairn/actor/host"
)

// A builtin is a method that every actor has besides its own. One of act, run, query and serve is set.
type builtin struct {
	name string
	// existing: a call of it does not create the actor.
	existing bool
	// creates: a call of it creates the actor all the same, if the type is such; nil means never.
	creates func(t *actorType) bool
	// bare: a call of it does not wake the actor.
	bare bool
	// act runs in a turn that does not touch the instance, and encodes its output.
	act func(c *core, h *turn, w *work) ([]byte, error)
	// run runs the turns that it needs by itself, because it calls the instance.
	run func(c *core, w *work) ([]byte, error)
	// fault says what to answer instead of the error of a turn of act; nil for that itself.
	fault func(error) error
	// pace is a moving average of the time that its turns take, like actorType.pace; nil if that is not known.
	pace *atomic.Int64
	// operates: it runs though the actor is paused.
	operates bool
	// sturdy: an operator may call it on an actor that does not wake, though it has run.
	sturdy bool
	// query runs like a query, on a committed version.
	query func(r *reader, req *host.Request) ([]byte, error)
	// serve answers without a turn or a version: what is about the actor rather than in it.
	serve func(ctx context.Context, s *Supervisor, t *actorType, req *host.Request, from *caller) ([]byte, error)
	// reads: serve shows what turns have changed.
	reads bool
	// wait is how long the caller is willing to wait, and for what signal, when empty says that there is nothing yet.
	wait  func(req *host.Request) (topic string, d time.Duration, err error)
	empty func(req *host.Request, out []byte) bool
	// ofLife: what the caller waits for is of the actor as it is, not of one that is made under its address after it.
	ofLife bool
	// missing says what a query answers of an actor that is not there; nil for NotFound.
	missing func(req *host.Request, notFound error) error
}

// act makes a builtin that writes.
func act[In, Out any](name string, f func(c *core, h *turn, codec host.Codec, in *In) (Out, error)) *builtin {
	return &builtin{name: name, act: func(c *core, h *turn, w *work) ([]byte, error) {
		var in In
		if err := decodeInput(name, w.codec, w.input, &in); err != nil {
			return nil, err
		}
		out, err := f(c, h, w.codec, &in)
		if err != nil {
			return nil, err
		}
		return encodeOutput(w.codec, &out)
	}}
}

// ask makes a builtin that reads. It does not create an actor.
func ask[In, Out any](name string, f func(r *reader, codec host.Codec, in *In) (Out, error)) *builtin {
	return &builtin{name: name, existing: true, query: func(r *reader, req *host.Request) ([]byte, error) {
		var in In
		if err := decodeInput(name, req.Codec, req.Input, &in); err != nil {
			return nil, err
		}
		out, err := f(r, req.Codec, &in)
		if err != nil {
			return nil, err
		}
		return encodeOutput(req.Codec, &out)
	}}
}

// maxWait bounds how long a call may wait for something to appear.
const maxWait = time.Minute

// waiting makes a builtin wait for a topic that depends on its input.
func waiting[In any](b *builtin, wait func(*In) (topic string, ms int64), empty func(codec host.Codec, out []byte) bool) *builtin {
	b.wait = func(req *host.Request) (string, time.Duration, error) {
		var in In
		if err := decodeInput(b.name, req.Codec, req.Input, &in); err != nil {
			return "", 0, err
		}
		topic, ms := wait(&in)
		return topic, time.Duration(ms) * time.Millisecond, nil
	}
	b.empty = func(req *host.Request, out []byte) bool { return empty(req.Codec, out) }
	return b
}

// decoded reads an output that a builtin made.
func decoded[Out any](codec host.Codec, out []byte) (v Out) {
	if codec == host.JSON {
		json.Unmarshal(out, &v)
	} else {
		inputDecoding.Unmarshal(out, &v)
	}
	return v
}

// counted is the output of a builtin that removes one thing.
func counted(ok bool, err error) (host.CountOutput, error) {
	if !ok || err != nil {
		return host.CountOutput{}, err
	}
	return host.CountOutput{Count: 1}, nil
}

// decodeInput decodes the input of a builtin. No input is the zero value.
func decodeInput(name string, codec host.Codec, data []byte, v any) error {
	if len(data) == 0 {
		return checkRanges(codec, data, v)
	}
	var err error
	if codec == host.JSON {
		d := json.NewDecoder(bytes.NewReader(data))
		d.DisallowUnknownFields()
		d.UseNumber()
		if err = d.Decode(v); err == nil {
			if _, more := d.Token(); !errors.Is(more, io.EOF) {
				err = errors.New("there is more after the value")
			} else {
				err = host.CheckJSON(data, v)
			}
		}
	} else {
		err = inputDecoding.Unmarshal(data, v)
	}
	if err != nil {
		reason := inputReason(err)
		if codec == host.JSON {
			if m := host.FindMember(data, v, err); m != nil && m.Unfit {
				err, reason = m, m.Path+": "+inputReason(err)
			} else if m != nil {
				err, reason = m, m.Error()
			}
		}
		return host.WithMember(host.Errorf(host.InvalidArgument, "input of %s: %s", name, reason), "", err)
	}
	return checkRanges(codec, data, v)
}

// inputReason says what is wrong with an input, in words for people who do not know Go.
func inputReason(err error) string {
	var typ *json.UnmarshalTypeError
	var syntax *json.SyntaxError
	var moment *time.ParseError
	switch {
	case errors.As(err, &typ):
		return fmt.Sprintf("it is %s; %s is expected", typ.Value, jsonNoun(typ.Type))
	case errors.As(err, &moment), err.Error() == "Time.UnmarshalJSON: input is not a JSON string":
		return "it is not a time in RFC 3339 form, like 2026-11-21T16:00:00Z"
	case errors.As(err, &syntax), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return "it is not JSON"
	}
	msg := err.Error()
	for _, prefix := range []string{"json: ", "cbor: "} {
		if rest, ok := bytes.CutPrefix([]byte(msg), []byte(prefix)); ok {
			return string(rest)
		}
	}
	return msg
}

// jsonNoun says what JSON is expected for a field of an input.
func jsonNoun(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Struct, reflect.Map:
		return "an object"
	case reflect.Slice, reflect.Array:
		return "an array"
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Float32, reflect.Float64:
		return "a number"
	case reflect.Pointer:
		return jsonNoun(t.Elem())
	}
	return "a whole number that fits"
}

func encodeOutput(codec host.Codec, v any) ([]byte, error) {
	if _, ok := v.(*none); ok {
		return nil, nil
	}
	if codec == host.JSON {
		return json.Marshal(v)
	}
	return outputEncoding.Marshal(v)
}

var (
	inputDecoding = mustDecMode(cbor.DecOptions{
		DupMapKey: cbor.DupMapKeyEnforcedAPF, IndefLength: cbor.IndefLengthForbidden, ExtraReturnErrors: cbor.ExtraDecErrorUnknownField,
		MaxArrayElements: 1 << 20, FieldNameMatching: cbor.FieldNameMatchingCaseSensitive, IntDec: cbor.IntDecConvertSigned,
	})
	outputEncoding = mustEncMode(cbor.EncOptions{
		Sort: cbor.SortNone, IndefLength: cbor.IndefLengthForbidden, Time: cbor.TimeRFC3339Nano, TimeTag: cbor.EncTagRequired,
	})
)

// runBuiltin runs a builtin that writes, as one turn unless it decides itself.
func (c *core) runBuiltin(w *work) ([]byte, error) {
	if err := c.exist(w); err != nil {
		return nil, err
	}
	if w.builtin.run != nil {
		return w.builtin.run(c, w)
	}
	out, err := c.turn(w, w.builtin.name, false, func(h *turn) ([]byte, error) { return w.builtin.act(c, h, w) })
	if err != nil && w.builtin.fault != nil {
		err = w.builtin.fault(err)
	}
	return out, err
}

// callBuiltin calls a builtin, waiting for what it asks for if the caller wants to.
func (s *Supervisor) callBuiltin(ctx context.Context, t *actorType, b *builtin, r *host.Request, from *caller) (host.Reply, error) {
	if r.Create {
		return host.Reply{}, host.Errorf(host.InvalidArgument, "%q cannot create an actor explicitly", r.Method).With("create", r.Method)
	}
	if from == nil && b.counted(t) {
		if err := s.admit(t, r); err != nil {
			return host.Reply{}, err
		}
	}
	if b.wait == nil {
		return s.callBuiltinOnce(ctx, t, b, r, from)
	}
	topic, d, err := b.wait(r)
	if err != nil {
		return host.Reply{}, err
	}
	if d <= 0 {
		return s.callBuiltinOnce(ctx, t, b, r, from)
	}
	if from != nil && from.turn != nil {
		return host.Reply{}, host.Errorf(host.InvalidArgument, "%q cannot wait inside a turn", r.Method)
	}
	sub := s.signals.subscribe(string(appendAddress(nil, r.Address)), topic, b.ofLife)
	defer sub.close()
	timer := time.NewTimer(d)
	defer timer.Stop()
	for {
		reply, err := s.callBuiltinOnce(ctx, t, b, r, from)
		if sub.destroyed.Load() {
			return host.Reply{}, errDestroyed() // what was read may be a successor's
		}
		if err != nil || !b.empty(r, reply.Output) {
			return reply, err
		}
		if r.Order != nil {
			r.Order.Waits()
		}
		select {
		case <-sub.signal:
		case <-timer.C:
			return reply, nil
		case <-ctx.Done():
			return host.Reply{}, contextError(ctx)
		case <-s.noWaits:
			return host.Reply{}, unavailable("the node is shutting down")
		}
	}
}

// EndWaits ends the calls that wait for a message, a reply or an item, and lets no more wait. It is the first thing to do
// before the gateways are closed, which wait for their calls.
func (s *Supervisor) EndWaits() { s.waitsOnce.Do(func() { close(s.noWaits) }) }

func (s *Supervisor) callBuiltinOnce(ctx context.Context, t *actorType, b *builtin, r *host.Request, from *caller) (host.Reply, error) {
	if from == nil && s.draining.Load() {
		return host.Reply{}, unavailable("the node is shutting down")
	}
	switch {
	case b.serve != nil:
		if b.reads {
			if err := inOrder(ctx, r); err != nil {
				return host.Reply{}, err
			}
		} else {
			placed(r)
		}
		out, err := b.serve(ctx, s, t, r, from)
		return host.Reply{Output: out}, err
	case b.query != nil:
		q := *r
		q.Existing = r.Existing || b.existing
		reply, err := s.queryBuiltin(ctx, t, &q, from, b.name, func(rd *reader) ([]byte, error) { return b.query(rd, &q) })
		if b.missing != nil && host.CodeOf(err) == host.NotFound {
			err = b.missing(&q, err)
		}
		return reply, err
	}
	return s.callTurn(ctx, t, r, from, func(w *work) {
		w.method, w.builtin, w.existing = -1, b, r.Existing || b.existing && (b.creates == nil || !b.creates(t))
	})
}
