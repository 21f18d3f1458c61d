package client

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/kv"
)

// A watch follows entries of an actor over connections, as kv.Watch. Each connection begins with
// the current state; the watch passes on only changes that are new to its reader.
type watch struct {
	follower
	silent bool              // the first state is not passed on
	begun  bool              // the first state is known
	life   string            // that versions count in
	known  map[string]uint64 // the versions of the entries that the reader has, by key
	fresh  map[string]bool   // the keys that the connection named so far; nil once complete
}

// WatchKV follows entries of an actor: see kv.Watcher. ctx bounds the opening only; Close ends the
// watch. The opening is retried like any read. A watch whose connection is lost connects again, and
// returns the changes of the meantime.
func (c *Client) WatchKV(ctx context.Context, a host.Address, w kv.Watching) (kv.Watch, error) {
	path, e := actorPath(a)
	if e != nil {
		return nil, e
	}
	silent := !w.Initial
	w.Initial = true
	body, err := json.Marshal(&w)
	if err != nil {
		return nil, host.Errorf(host.InvalidArgument, "what is watched does not encode: %s", err)
	}
	st := &watch{follower: follower{c: c,
		q: request{method: http.MethodPost, path: path + "kv-watch", body: body}}, silent: silent,
		known: make(map[string]uint64)}
	st.opened = func() { st.fresh = make(map[string]bool) }
	if err := st.start(ctx); err != nil {
		return nil, err
	}
	if st.silent { // everything after this is a change
		if _, err := st.Next(ctx); err != nil {
			st.Close()
			return nil, err
		}
	}
	return st, nil
}

// Next implements kv.Watch.
func (w *watch) Next(ctx context.Context) (out kv.Changes, err error) {
	err = w.next(ctx, func(name string, data []byte) (told bool, err error) {
		if name != "change" {
			return false, nil
		}
		var in kv.Changes
		if err := json.Unmarshal(data, &in); err != nil {
			return false, host.Errorf(host.Internal, "changes of the node do not decode: %s", err)
		}
		out, told, err = w.news(in)
		return told, err
	})
	if err != nil {
		return kv.Changes{}, err
	}
	return out, nil
}

// news returns the changes that are new to the reader.
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
