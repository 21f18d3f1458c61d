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

// maxWatched is how many keys one watch has.
const maxWatched = 10

// maxWatch bounds the body of a Watch in bytes.
const maxWatch = 32 << 10

// keepAlive is how often a frame of length 0 comes while nothing changes. Clients give up on a response that is silent.
const keepAlive = 5 * time.Second

// A watcher answers a Watch with frames: a length of 4 bytes, least first, and a WatchOutput. The first frame has all keys, and each
// later one what is different, as of one commit.
type watcher struct {
	*store
	keys [][]byte // as the client named them, in its order
	out  *serve.Writer
}

// watch answers a Watch until the client leaves or the gateway shuts down. Then the client comes back by itself.
func (s *store) watch(body []byte) {
	x := s.x
	w := &watcher{store: s}
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
	changed := make(map[string]*kv.Entry)
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
			changed[string(key)] = c.Changes[i].Entry
		}
		if c.More { // never of so few keys, unless memory is short
			continue
		}
		if err := w.frame(changed); err != nil {
			return err
		}
		clear(changed)
	}
}

// frame writes what has changed.
func (w *watcher) frame(changed map[string]*kv.Entry) error {
	at := len(w.out.Buf)
	w.out.Buf = appendVarint(append(w.out.Buf, 0, 0, 0, 0), 1, readSuccess)
	for _, key := range w.keys {
		stored, is := changed[string(key)]
		var message []byte
		if is {
			message = appendVarint(nil, 1, 1)
		}
		if stored != nil {
			e, err := translateEntry(key, stored)
			if err != nil {
				return err
			}
			message = protowire.AppendVarint(protowire.AppendTag(message, 2, protowire.BytesType), uint64(e.size()))
			message = e.append(message)
		}
		w.out.Buf = appendBytes(w.out.Buf, 2, message)
	}
	binary.LittleEndian.PutUint32(w.out.Buf[at:], uint32(len(w.out.Buf)-at-4))
	return w.out.Flush()
}

// translateEntry returns an entry whose value is the stored bytes.
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
