package gateway

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"strconv"
	"strings"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/kv"
	"github.com/cairn-run/cairn/runtime/internal/gateway/serve"
)

// watching reads what a request watches: from the parameters of a GET, or from the body of a POST, which has room for more.
func (x *exchange) watching() (w kv.Watching, fault *host.Error) {
	if x.R.Method != http.MethodPost {
		return x.watchingParams()
	}
	if _, fault = x.params(); fault != nil {
		return w, fault
	}
	if codec, ok := x.codec(); !ok || codec != host.JSON {
		return w, host.Errorf(host.InvalidArgument, "the Content-Type %q is not application/json", x.R.Header.Get("Content-Type"))
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
			return nil, wrong(name, `the parameter %s is %.100q, which is no key; a key is a JSON array, such as ["user",7]`, name, text)
		}
		keys = append(keys, k)
	}
	return keys, nil
}

// watch answers GET and POST .../-/kv-watch with what changes of entries as server-sent events.
//
// The node keeps for a client which entries it has seen, and nothing of what it has not read yet. So one that reads slowly skips
// states, and a write that takes too long closes the connection. A client that comes back begins anew: with what is there if it sends a
// Last-Event-ID, as browsers do, because it has missed changes. So the stream begins with an id.
func (x *exchange) watch(t *target) {
	x.Count(t.Type, serve.LabelWatch)
	fault := x.Authorize(x.R.Context(), x.g.operation(t.Type, host.KVWatch), t.Address, host.KVWatch)
	var watching kv.Watching
	if fault == nil {
		watching, fault = x.watching()
	}
	if fault != nil {
		x.Fail(fault)
		return
	}
	if x.R.Header.Get("Last-Event-ID") != "" {
		watching.Initial = true
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

// parameterOf makes the error about a member of kv.Watching one about a parameter.
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
