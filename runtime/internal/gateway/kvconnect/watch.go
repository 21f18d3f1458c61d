package kvconnect

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/kv"
	"github.com/cairn-run/cairn/runtime/internal/gateway/serve"
	"github.com/cairn-run/cairn/runtime/internal/part/kv/value"
)

// maxWatched is how many keys one watch may have.
const maxWatched = 10

// maxWatch bounds the body of a Watch in bytes.
const maxWatch = 32 << 10

// keepAlive is how often to send a frame of length 0 while nothing changes. Clients give up on a
// silent response.
const keepAlive = 5 * time.Second

// A watcher answers a Watch with frames: a length of 4 bytes, little-endian, and a WatchOutput.
// Each has the states of all keys, as of one commit. The protocol allows omitting unchanged states,
// but Deno treats those as absent.
type watcher struct {
	*store
	keys   [][]byte          // from the client, in its order
	states map[string][]byte // of the keys: messages of the type WatchKeyOutput
	bytes  int               // of the states
	held   int               // bytes that count for the client
	out    *serve.Writer
}

// watch answers a Watch until the client leaves or the gateway shuts down. Then the client
// reconnects by itself.
func (s *store) watch(body []byte) {
	x := s.x
	w := &watcher{store: s, states: make(map[string][]byte)}
	watching, err := w.watching(body)
	if err != nil {
		fail(x, x.Front.AsError(err), "watch")
		return
	}
	x.FreeBody()
	stay, fault := x.Front.Admit(x.R.Context(), serve.EventStream)
	if fault != nil {
		fail(x, fault, "watch")
		return
	}
	defer stay.Done()
	source, err := s.Watch(stay.Context(), s.address, watching)
	if err != nil {
		fail(x, x.Front.AsError(err), "watch")
		return
	}
	defer source.Close()
	w.out = x.Stream("application/octet-stream")
	for {
		ctx, cancel := context.WithTimeout(stay.Context(), min(keepAlive, x.Front.Limits.Heartbeat))
		err := w.until(ctx, source)
		due := ctx.Err() != nil && stay.Context().Err() == nil
		cancel()
		if code := host.CodeOf(err); !due || code != host.Canceled && code != host.DeadlineExceeded {
			return
		}
		w.out.Buf = append(w.out.Buf, 0, 0, 0, 0)
		if w.out.Flush() != nil {
			return
		}
	}
}

// watching reads a Watch.
func (w *watcher) watching(body []byte) (kv.Watching, error) {
	watching := kv.Watching{Initial: true, Stored: true}
	var err error
	if w.keys, err = parseWatch(body); err != nil {
		return watching, refused("%s", err)
	}
	if len(w.keys) == 0 {
		return watching, refused("the watch names no key")
	}
	for i, b := range w.keys {
		key, err := keyOf(b)
		if err != nil {
			return watching, within(err, "keys", i)
		}
		w.keys[i], watching.Keys = bytes.Clone(b), append(watching.Keys, key)
	}
	return watching, nil
}

// until writes frames until the source returns an error or the client is gone.
func (w *watcher) until(ctx context.Context, source kv.Watch) error {
	for {
		c, err := source.Next(ctx)
		if err != nil {
			return err
		}
		for i := range c.Changes {
			key, err := c.Changes[i].Key.Pack()
			if err != nil {
				return err
			}
			if err := w.note(key, c.Changes[i].Entry); err != nil {
				return err
			}
		}
		if c.More { // not for so few keys, unless memory is short
			continue
		}
		if err := w.frame(); err != nil {
			return err
		}
	}
}

// note stores the state of a key.
func (w *watcher) note(key []byte, stored *kv.Entry) error {
	state := appendVarint(nil, 1, 1)
	if stored != nil {
		e, err := translateEntry(key, stored)
		if err != nil {
			return err
		}
		state = protowire.AppendVarint(protowire.AppendTag(state, 2, protowire.BytesType), uint64(e.size()))
		state = e.append(state)
	}
	w.bytes += len(state) - len(w.states[string(key)])
	w.states[string(key)] = state
	if more := 2*w.bytes - w.held; more > 0 { // a frame holds them, too
		if e := w.x.Hold(more); e != nil {
			return e
		}
		w.held += more
	}
	return nil
}

// frame writes the states.
func (w *watcher) frame() error {
	b := appendVarint(nil, 1, readSuccess)
	size := len(b)
	for _, key := range w.keys {
		size += fieldSize(len(w.states[string(key)]))
	}
	w.out.Buf = append(binary.LittleEndian.AppendUint32(w.out.Buf, uint32(size)), b...)
	for _, key := range w.keys {
		w.out.Buf = appendBytes(w.out.Buf, 2, w.states[string(key)])
		if err := w.out.FlushFull(); err != nil { // each write has its own deadline
			return err
		}
	}
	return w.out.Flush()
}

// translateEntry translates an entry whose value is the stored bytes.
func translateEntry(key []byte, stored *kv.Entry) (*entry, error) {
	var v struct {
		Bytes []byte `json:"$bytes"`
	}
	if err := json.Unmarshal(stored.Value, &v); err != nil {
		return nil, err
	}
	encoding, _ := host.ParseEncoding(stored.Encoding)
	return &entry{key, translate(value.Value{Encoding: encoding, Data: v.Bytes}), kv.Stamp(stored.Version)}, nil
}
