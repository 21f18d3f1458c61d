package supervisor

import (
	"bytes"
	"encoding/json"
	"strconv"
	"time"

	"github.com/fxamacker/cbor/v2"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/runtime/internal/streamlog"
)

// streamPart is the part of actors that is streams.
type streamPart struct{}

func (*streamPart) name() string { return "stream" }

// purge implements purger: it does what the row of a stream in the wake index asks for.
func (*streamPart) purge(c *core, w *work, row *engine.Wake) error {
	_, err := c.internal(w, "purge stream", func(h *turn) error {
		_, cfg, err := c.a.typ.streamOf(row.Name)
		if err != nil {
			cfg = nil // it is not declared any more
		}
		l := streamlog.New(c.ws, h.start)
		return l.Purge(cfg, row.Name, row.Due)
	})
	return err
}

// streamTurn is what handlers may do with streams.
type streamTurn struct{ t *turn }

// streamReads is what handlers of turns and queries alike may read of streams.
type streamReads struct{ of scope }

// streamOf returns the contract that a stream's name belongs to, with its defaults filled in, and its index.
func (t *actorType) streamOf(name string) (int, *host.Stream, error) {
	at := named(len(t.Streams), func(i int) string { return t.Streams[i].Name }, name)
	if at < 0 {
		return -1, nil, t.unknownName(host.InvalidArgument, "stream", name)
	}
	cfg := t.Streams[at]
	cfg.EnsureDefaults()
	return at, &cfg, nil
}

// StreamAppend implements host.Turn.
func (h streamTurn) StreamAppend(stream string, items [][]byte) (uint64, error) {
	t := h.t
	if err := t.enter(); err != nil {
		return 0, err
	}
	defer t.leave()
	return t.c.streamAppend(t, stream, items)
}

// streamAppend appends items to a stream in a turn, and tells those who wait for them when they are durable.
//
// REQUIRES: h.mu
func (c *core) streamAppend(h *turn, name string, items [][]byte) (uint64, error) {
	_, cfg, err := c.a.typ.streamOf(name)
	if err != nil {
		return 0, err
	}
	var last uint64
	l := streamlog.New(c.ws, h.start)
	if err := h.atomically(func() (err error) {
		last, err = l.Append(cfg, name, items)
		return err
	}); err != nil {
		return 0, err
	}
	h.streamWritten(name)
	return last, nil
}

// streamWritten notes that a stream was changed.
//
// REQUIRES: t.mu
func (t *turn) streamWritten(name string) {
	t.notify(streamTopic(name))
}

func streamTopic(name string) string { return "stream/" + name }

// StreamClose implements host.Turn.
func (h streamTurn) StreamClose(stream string) error {
	t := h.t
	if _, _, err := t.a.typ.streamOf(stream); err != nil {
		return err
	}
	if err := t.enter(); err != nil {
		return err
	}
	defer t.leave()
	l := streamlog.New(t.c.ws, t.start)
	closed, err := l.Close(stream)
	if closed && err == nil {
		t.streamWritten(stream)
	}
	return err
}

// methods implements server.
func (*streamPart) methods() []*builtin {
	read := ask(host.StreamRead, readStream)
	read.wait, read.empty, read.missing, read.ofLife = waitForItems, noItems, streamGone, true
	return []*builtin{
		act(host.StreamAppend, appendStream),
		existing(act(host.StreamClose, func(c *core, h *turn, _ host.Codec, in *host.StreamInput) (host.StreamInfo, error) {
			if err := c.externalStream(in.Stream); err != nil {
				return host.StreamInfo{}, err
			}
			if err := (streamTurn{h}).StreamClose(in.Stream); err != nil {
				return host.StreamInfo{}, err
			}
			return (streamReads{h}).StreamInfo(in.Stream)
		})),
		existing(act(host.StreamDelete, func(_ *core, h *turn, _ host.Codec, in *host.StreamInput) (host.CountOutput, error) {
			n, err := h.deleteStream(in.Stream)
			return host.CountOutput{Count: n}, err
		})),
		read,
		ask(host.StreamList, listStreams),
	}
}

// externalStream checks that clients may write to a stream.
func (c *core) externalStream(name string) error {
	_, cfg, err := c.a.typ.streamOf(name)
	if err == nil && !cfg.External {
		err = host.Errorf(host.PermissionDenied, "only the actor itself writes to stream %q", name).With("stream", name)
	}
	return err
}

func appendStream(c *core, h *turn, codec host.Codec, in *host.StreamAppendInput) (out host.StreamAppendOutput, err error) {
	if err := c.externalStream(in.Stream); err != nil {
		return out, err
	}
	if len(in.Items) > host.MaxStreamBatch {
		return out, host.OverLimit("stream items of one call", host.MaxStreamBatch, int64(len(in.Items))).With("field", "items")
	}
	index, _, err := c.a.typ.streamOf(in.Stream)
	if err != nil {
		return out, err
	}
	items := make([][]byte, len(in.Items))
	for i, item := range in.Items {
		if items[i], err = c.a.typ.convert(host.StreamValue, index, codec, item, host.CBOR, "items["+strconv.Itoa(i)+"]"); err != nil {
			return out, err
		}
	}
	if len(items) > 0 || !in.Close {
		if out.Last, err = (streamTurn{h}).StreamAppend(in.Stream, items); err != nil {
			return out, err
		}
	}
	if in.Close {
		if err := (streamTurn{h}).StreamClose(in.Stream); err != nil {
			return out, err
		}
		info, err := (streamReads{h}).StreamInfo(in.Stream)
		return host.StreamAppendOutput{Last: info.Last}, err
	}
	return out, nil
}

// deleteStream removes a stream's items, also of one that is not declared any more.
func (t *turn) deleteStream(name string) (int64, error) {
	if err := t.enter(); err != nil {
		return 0, err
	}
	defer t.leave()
	l := streamlog.New(t.c.ws, t.start)
	n, err := l.Delete(name)
	if err == nil {
		t.streamWritten(name)
	}
	return n, err
}

func readStream(r *reader, codec host.Codec, in *host.StreamReadInput) (out host.StreamReadOutput, err error) {
	index, cfg, err := r.a.typ.streamOf(in.Stream)
	if err != nil {
		return out, err
	}
	if err := host.CheckLife(in.Life); err != nil {
		return out, err
	}
	s, done, err := r.rows()
	if err != nil {
		return out, err
	}
	defer done()
	life, after := r.v.id.String(), in.After
	another := in.Life != "" && in.Life != life
	if another {
		after = 0
	}
	page, err := streamlog.Read(s, time.Now(), cfg, in.Stream, after, in.Limit, 0)
	if err != nil {
		return out, err
	}
	out = host.StreamReadOutput{
		Missed: page.Missed, Reset: page.Reset || another, Items: make([]host.ReadStreamItem, len(page.Items)),
		Next: page.Next, Closed: page.Closed, Life: life,
	}
	for i, it := range page.Items {
		value := it.Data
		if codec != host.CBOR {
			if value, err = r.a.typ.convert(host.StreamValue, index, host.CBOR, it.Data, codec, "value"); err != nil {
				return out, err
			}
		}
		out.Items[i] = host.ReadStreamItem{Sequence: it.Sequence, Time: it.Time, Value: value}
	}
	return out, nil
}

// streamGone says that the actor is gone that a reader has read from, or only that there is none.
func streamGone(req *host.Request, notFound error) error {
	var in host.StreamReadInput
	if decodeInput(host.StreamRead, req.Codec, req.Input, &in) != nil || in.Life == "" {
		return notFound
	}
	if err := host.CheckLife(in.Life); err != nil {
		return err
	}
	return errDestroyed()
}

// waitForItems says what a call of stream.read waits for.
func waitForItems(req *host.Request) (string, time.Duration, error) {
	var in host.StreamReadInput
	if err := decodeInput(host.StreamRead, req.Codec, req.Input, &in); err != nil {
		return "", 0, err
	}
	d := time.Duration(in.WaitMS) * time.Millisecond
	return streamTopic(in.Stream), d, nil
}

// noItems reports that a reader is up to date: nothing follows its position, which is one in this stream.
func noItems(req *host.Request, output []byte) bool {
	const most = 256 // bytes of a page without items, with room to spare
	if len(output) > most {
		return false
	}
	var in host.StreamReadInput
	if decodeInput(host.StreamRead, req.Codec, req.Input, &in) != nil {
		return false
	}
	var out host.StreamReadOutput
	var err error
	if req.Codec == host.JSON {
		err = json.NewDecoder(bytes.NewReader(output)).Decode(&out)
	} else {
		err = cbor.Unmarshal(output, &out)
	}
	return err == nil && len(out.Items) == 0 && out.Missed == 0 && !out.Reset && !out.Closed && out.Next == in.After
}

func listStreams(r *reader, _ host.Codec, in *host.StreamListInput) (host.StreamListOutput, error) {
	if in.Stream != "" {
		info, err := (streamReads{r}).StreamInfo(in.Stream)
		return host.StreamListOutput{Streams: []host.StreamInfo{info}}, err
	}
	s, done, err := r.rows()
	if err != nil {
		return host.StreamListOutput{}, err
	}
	defer done()
	all, err := streamlog.List(s, time.Now(), func(name string) *host.Stream {
		_, cfg, err := r.a.typ.streamOf(name)
		if err != nil {
			return nil
		}
		return cfg
	})
	for i := range all {
		all[i].Life = r.v.id.String()
	}
	return host.StreamListOutput{Streams: all}, err
}

// StreamInfo implements host.Reader.
func (h streamReads) StreamInfo(stream string) (host.StreamInfo, error) {
	r := h.of
	_, cfg, err := r.actorType().streamOf(stream)
	if err != nil {
		return host.StreamInfo{}, err
	}
	return reading(r, func(rows engine.Reader) (host.StreamInfo, error) {
		info, err := streamlog.Info(rows, r.Now(), cfg, stream)
		info.Life = r.id().String()
		return info, err
	})
}

// StreamRead implements host.Reader.
func (h streamReads) StreamRead(stream string, after uint64, limit int) (host.StreamPage, error) {
	r := h.of
	_, cfg, err := r.actorType().streamOf(stream)
	if err != nil {
		return host.StreamPage{}, err
	}
	return reading(r, func(rows engine.Reader) (host.StreamPage, error) {
		return streamlog.Read(rows, r.Now(), cfg, stream, after, limit, 0)
	})
}
