package gateway

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/kv"
	"github.com/cairn-run/cairn/runtime/internal/gateway/serve"
)

// watching reads the watched entries of a request: from the parameters of a GET, or from the body
// of a POST, which has more room.
func (x *exchange) watching() (w kv.Watching, fault *host.Error) {
	if x.R.Method != http.MethodPost {
		return x.watchingParams()
	}
	if _, fault = x.params(); fault != nil {
		return w, fault
	}
	if codec, ok := x.codec(); !ok || codec != host.JSON {
		return w, host.Errorf(host.InvalidArgument, "the Content-Type %q is not application/json",
			x.R.Header.Get("Content-Type"))
	}
	body, fault := x.KVBody()
	defer x.FreeBody()
	if fault == nil && len(body) > 0 {
		fault = serve.DecodeJSON(body, &w)
	}
	return w, fault
}

func (x *exchange) watchingParams() (w kv.Watching, fault *host.Error) {
	p, fault := x.params("key", "prefix", "initial", "stored")
	if fault != nil {
		return w, fault
	}
	if w.Keys, fault = p.keys("key"); fault != nil {
		return w, fault
	}
	if w.Prefixes, fault = p.keys("prefix"); fault != nil {
		return w, fault
	}
	if w.Initial, fault = p.flag("initial"); fault == nil {
		w.Stored, fault = p.flag("stored")
	}
	return w, fault
}

// keys reads a parameter that may be given several times, each a key.
func (p parameters) keys(name string) (keys []kv.Key, fault *host.Error) {
	for _, text := range p[name] {
		var k kv.Key
		if err := json.Unmarshal([]byte(text), &k); err != nil || k == nil {
			return nil, wrong(name,
				`the parameter %s is %.100q, which is no key; a key is a JSON array, such as ["user",7]`, name, text)
		}
		keys = append(keys, k)
	}
	return keys, nil
}

// watch answers GET and POST .../-/kv-watch with changes of entries, as server-sent events or over
// a WebSocket.
//
// For each client, the node keeps which entries it has seen, but no unread changes. So a slow
// client skips states, and a write that takes too long closes the connection. A client that
// reconnects begins anew. If it sends a Last-Event-ID, as browsers do, it begins with the current
// state, because it has missed changes. So the stream begins with an id.
func (x *exchange) watch(t *target, socket bool) {
	x.Count(t.Type, serve.LabelWatch)
	refusal := (*host.Error)(nil)
	if socket {
		refusal = x.admitSocket(t)
	}
	if refusal == nil {
		refusal = x.Authorize(x.R.Context(), x.g.operation(t.Type, host.KVWatch), t.Address, host.KVWatch)
	}
	var watching kv.Watching
	if refusal == nil {
		var fault *host.Error
		if watching, fault = x.watching(); fault != nil {
			x.Fail(fault)
			return
		}
	}
	if x.R.Header.Get("Last-Event-ID") != "" {
		watching.Initial = true
	}
	if socket {
		x.watchSocket(t, watching, refusal)
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
	w, err := x.g.node.WatchKV(s.Context(), t.Address, watching)
	if err != nil {
		e := x.Front.AsError(err)
		if x.R.Method == http.MethodGet {
			e = parameterOf(e)
		}
		x.Fail(e)
		return
	}
	defer w.Close()
	out := x.stream()
	out.Buf = append(out.Buf, "id: 0\n\n"...)
	if out.Flush() != nil {
		return
	}
	x.pump(s, out, func(ctx context.Context) error { return x.changes(ctx, w, out) })
}

// watchSocket writes changes over a WebSocket. The first message has no changes; later ones have
// all changes from then on.
func (x *exchange) watchSocket(t *target, watching kv.Watching, refusal *host.Error) {
	var w kv.Watch
	defer func() {
		if w != nil {
			w.Close()
		}
	}()
	x.overSocket(refusal, appendBye, func(ctx context.Context, wait time.Duration) ([][]byte, *host.Error) {
		if w == nil {
			var err error
			if w, err = x.g.node.WatchKV(ctx, t.Address, watching); err != nil {
				return nil, parameterOf(x.Front.AsError(err))
			}
			return x.changeMessages(&kv.Changes{Changes: []kv.Change{}})
		}
		beat, cancel := context.WithTimeout(ctx, wait)
		defer cancel()
		c, err := w.Next(beat)
		if code := host.CodeOf(err); beat.Err() != nil && ctx.Err() == nil &&
			(code == host.Canceled || code == host.DeadlineExceeded) {
			return nil, nil
		}
		if err != nil {
			return nil, x.Front.AsError(err)
		}
		x.Front.Meter.Events.Add(float64(len(c.Changes)))
		return x.changeMessages(&c)
	})
}

// changeMessages makes messages of changes. Many changes become several messages; all except the
// last say that more follows.
func (x *exchange) changeMessages(c *kv.Changes) (batch [][]byte, fault *host.Error) {
	const most, each = 1 << 20, 256 // bytes of a message's values; about that of a change without its value
	for rest := c.Changes; len(batch) == 0 || len(rest) > 0; {
		n, size := 0, 0
		for ; n < len(rest) && size < most; n++ {
			if size += each; rest[n].Entry != nil {
				size += len(rest[n].Entry.Value)
			}
		}
		part := *c
		part.Changes, rest = rest[:n:n], rest[n:]
		part.More = c.More || len(rest) > 0
		text, fault := x.encode(&part)
		if fault != nil {
			return nil, fault
		}
		batch = append(batch, text)
	}
	return batch, nil
}

// parameterOf turns an error about a member of kv.Watching into one about a parameter.
func parameterOf(e *host.Error) *host.Error {
	for member, parameter := range map[string]string{"keys": "key", "prefixes": "prefix"} {
		if strings.HasPrefix(e.Metadata["field"], member) {
			return e.With("field", parameter)
		}
	}
	return e
}

// changes writes changes until the watch returns an error or the client is gone.
func (x *exchange) changes(ctx context.Context, w kv.Watch, out *serve.Writer) error {
	for {
		c, err := w.Next(ctx)
		if err != nil {
			return err
		}
		text, err := json.Marshal(&c) // in one line
		if err != nil {
			return x.Front.Internal("changes do not encode", slog.Any("error", err))
		}
		out.Buf = strconv.AppendUint(append(out.Buf, "id: "...), c.Version, 10)
		out.Buf = append(out.Buf, "\nevent: "+EventChange+"\ndata: "...)
		for most := x.Front.Limits.StreamBufferBytes; len(text) > 0; text = text[min(most, len(text)):] {
			out.Buf = append(out.Buf, text[:min(most, len(text))]...)
			if err := out.FlushFull(); err != nil {
				return err
			}
		}
		out.Buf = append(out.Buf, "\n\n"...)
		if err := out.Flush(); err != nil {
			return err
		}
		x.Front.Meter.Events.Add(float64(len(c.Changes)))
	}
}
