package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/kv"
)

// A watch follows entries of an actor over connections, as kv.Watch. Each connection begins with what is there; the watch passes on
// what its reader has not been told.
type watch struct {
	c     *Client
	path  string
	body  []byte
	conn  *sse        // nil while there is none
	fault *host.Error // why it has ended

	silent bool              // the first state is not passed on
	begun  bool              // the first state is known
	life   string            // that versions count in
	known  map[string]uint64 // the versions of the entries that the reader was told, by key
	fresh  map[string]bool   // the keys that the connection has named so far; nil once it has named all
}

// WatchKV follows entries of an actor: see kv.Watcher. ctx bounds the opening only; Close ends the watch. The opening is retried
// like any read. A watch whose connection is lost connects again, and tells what has changed meanwhile.
func (c *Client) WatchKV(ctx context.Context, a host.Address, w kv.Watching) (kv.Watch, error) {
	path, e := actorPath(a)
	if e != nil {
		return nil, e
	}
	st := &watch{c: c, path: path + "kv-watch", silent: !w.Initial, known: make(map[string]uint64)}
	w.Initial = true
	var err error
	if st.body, err = json.Marshal(&w); err != nil {
		return nil, host.Errorf(host.InvalidArgument, "what is watched does not encode: %s", err)
	}
	for attempt := 1; ; attempt++ {
		f := st.open(ctx)
		if f == nil {
			break
		}
		if !f.nothing && !f.lost || attempt >= c.opts.Attempts || !sleep(ctx, c.wait(attempt, f.after)) {
			return nil, cause(ctx, f)
		}
	}
	if st.silent { // what comes after this is a change
		if _, err := st.Next(ctx); err != nil {
			st.Close()
			return nil, err
		}
	}
	return st, nil
}

// cause is why something has failed: the end of its context, or the failure.
func cause(ctx context.Context, f *failure) *host.Error {
	if ctx.Err() != nil {
		return contextError(ctx)
	}
	return f.err
}

// open connects. The connection lasts until it is closed, or ctx ends while it is being made.
func (w *watch) open(ctx context.Context) *failure {
	h := w.c.header()
	h.Set("Accept", "text/event-stream")
	h.Set("Content-Type", "application/json")
	life, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, cancel)
	defer stop()
	conn, _, f := w.c.listen(life, &request{method: http.MethodPost, path: w.path, header: h, body: w.body})
	if f != nil {
		cancel()
		return f
	}
	w.conn, w.fresh = conn, make(map[string]bool)
	return nil
}

// Close implements kv.Watch.
func (w *watch) Close() {
	if w.conn != nil {
		w.conn.close()
		w.conn = nil
	}
}

// Next implements kv.Watch.
func (w *watch) Next(ctx context.Context) (kv.Changes, error) {
	lost := time.Now()
	for attempt := 1; w.fault == nil; {
		if w.conn == nil {
			switch f := w.open(ctx); {
			case f == nil:
				attempt = 1
			case ctx.Err() != nil:
				return kv.Changes{}, contextError(ctx)
			case !f.nothing && !f.lost, w.c.opts.MaxOutage > 0 && time.Since(lost) > w.c.opts.MaxOutage:
				return kv.Changes{}, f.err
			default:
				sleep(ctx, w.c.wait(attempt, f.after))
				attempt++
			}
			continue
		}
		out, told, err := w.read(ctx)
		switch {
		case err == nil && told:
			return out, nil
		case ctx.Err() != nil:
			w.Close() // it may have stopped within an event
			return kv.Changes{}, contextError(ctx)
		case errors.Is(err, errReconnect):
			w.Close()
			lost = time.Now()
			sleep(ctx, w.c.wait(attempt, 0))
		case err != nil:
			w.Close()
			w.fault = asError(ctx, err)
		}
	}
	return kv.Changes{}, w.fault
}

// read reads an event. told is false if the reader has been told all of it.
func (w *watch) read(ctx context.Context) (out kv.Changes, told bool, err error) {
	defer context.AfterFunc(ctx, w.conn.cancel)()
	var name string
	var data []byte
	for {
		line, err := w.conn.line(len(data))
		var e *host.Error
		switch {
		case errors.As(err, &e):
			return out, false, e
		case err != nil:
			return out, false, errReconnect
		case len(line) == 0 && name == "change":
			if err := json.Unmarshal(data, &out); err != nil {
				return out, false, host.Errorf(host.Internal, "changes of the node do not decode: %s", err)
			}
			return w.news(out)
		case len(line) == 0 && name == "cairn.bye":
			bye := new(host.Error)
			if json.Unmarshal(data, bye) != nil || bye.Code == host.Unavailable {
				return out, false, errReconnect
			}
			return out, false, bye
		case len(line) == 0:
			name, data = "", nil
			continue
		}
		field, value, _ := bytes.Cut(line, []byte(": "))
		switch string(field) {
		case "event":
			name = string(value)
		case "data":
			data = append(data, value...)
		}
	}
}

// news leaves of changes what the reader has not been told.
func (w *watch) news(in kv.Changes) (out kv.Changes, told bool, err error) {
	if w.life != "" && in.Life != w.life {
		return out, false, host.Errorf(host.Destroyed, "the actor was destroyed")
	}
	w.life = in.Life
	out = in
	out.Changes = []kv.Change{}
	for _, c := range in.Changes {
		text, err := json.Marshal(c.Key)
		if err != nil {
			return out, false, host.Errorf(host.Internal, "a key of the node: %s", err)
		}
		key := string(text)
		if w.fresh != nil {
			w.fresh[key] = true
		}
		before, known := w.known[key]
		switch {
		case c.Entry == nil && !known && w.begun, c.Entry != nil && known && c.Entry.Version == before:
			continue
		case c.Entry == nil:
			delete(w.known, key)
		default:
			w.known[key] = c.Entry.Version
		}
		out.Changes = append(out.Changes, c)
	}
	if w.fresh != nil && !in.More {
		for key := range w.known {
			if w.fresh[key] {
				continue
			}
			var c kv.Change
			if err := json.Unmarshal([]byte(key), &c.Key); err != nil {
				return out, false, host.Errorf(host.Internal, "a key of the node: %s", err)
			}
			delete(w.known, key)
			out.Changes = append(out.Changes, c)
		}
		w.fresh = nil
	}
	first := !w.begun
	w.begun = w.begun || !in.More
	if w.silent {
		w.silent, out.Changes = in.More, []kv.Change{}
		return out, !in.More, nil
	}
	return out, first || len(out.Changes) > 0, nil
}
