// Package stream is the part for streams: logs for readers that may come later. Package streamrows
// has the rows.
package stream

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"time"

	"github.com/fxamacker/cbor/v2"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/method"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/runtime/internal/call"
	"github.com/cairn-run/cairn/runtime/internal/kernel"
	"github.com/cairn-run/cairn/runtime/internal/kernel/fault"
	"github.com/cairn-run/cairn/runtime/internal/kernel/wire"
	streamrows "github.com/cairn-run/cairn/runtime/internal/part/stream/rows"
)

// Part is the part for streams.
type Part struct{}

var _ interface {
	kernel.Purger
	call.Server
} = (*Part)(nil)

// Name implements kernel.Part.
func (*Part) Name() string { return "stream" }

// Purges implements kernel.Purger.
func (*Part) Purges(name string) bool { return wire.ValidName(name) }

// Purge implements kernel.Purger: it handles the row of a stream in the wake index.
func (*Part) Purge(c *kernel.Core, w *kernel.Work, row *engine.Wake) error {
	err := c.System(w, "purge stream", func(h *kernel.Turn) error {
		_, cfg, err := streamOf(c.Actor.Type, row.Name)
		if err != nil {
			cfg = nil // it is no longer declared
		}
		l := streamrows.New(c.Rows, h.Start)
		return l.Purge(cfg, row.Name, row.Due)
	})
	return err
}

// Turn is the view of handlers on streams.
type Turn struct{ Reads[*kernel.Turn] }

// turnOf returns what handlers may do in a turn.
func turnOf(t *kernel.Turn) Turn { return Turn{Reads[*kernel.Turn]{t}} }

// Query is what handlers of queries may read of streams.
type Query = Reads[*call.Query]

// Reads is the view of handlers of turns and queries on streams.
type Reads[S call.Scope] struct{ K S }

// streamOf returns the contract that a stream's name belongs to, with its defaults filled in, and
// its index.
func streamOf(t *kernel.Type, name string) (int, *host.Stream, error) {
	at := wire.Named(len(t.Streams), func(i int) string { return t.Streams[i].Name }, name)
	if at < 0 {
		return -1, nil, wire.UnknownName(t.Behavior, host.InvalidArgument, "stream", name)
	}
	cfg := t.Streams[at]
	cfg.EnsureDefaults()
	return at, &cfg, nil
}

// StreamAppend implements host.Turn.
func (h Turn) StreamAppend(stream string, items [][]byte) (uint64, error) {
	t := h.K
	if err := t.Enter(); err != nil {
		return 0, err
	}
	defer t.Leave()
	return Append(t.Core, t, stream, items)
}

// Append appends items to a stream in a turn, and notifies readers when the items are durable.
//
// REQUIRES: h.mu
func Append(c *kernel.Core, h *kernel.Turn, name string, items [][]byte) (uint64, error) {
	_, cfg, err := streamOf(c.Actor.Type, name)
	if err != nil {
		return 0, err
	}
	var last uint64
	l := streamrows.New(c.Rows, h.Start)
	if err := h.Atomically(func() (err error) {
		last, err = l.Append(cfg, name, items)
		return err
	}); err != nil {
		return 0, err
	}
	streamWritten(h, name)
	return last, nil
}

// streamWritten notifies readers of a changed stream when the turn is durable.
//
// REQUIRES: t.Mu
func streamWritten(t *kernel.Turn, name string) {
	t.Notify(streamTopic(name))
}

func streamTopic(name string) string { return "stream/" + name }

// StreamClose implements host.Turn.
func (h Turn) StreamClose(stream string) error {
	t := h.K
	if _, _, err := streamOf(t.Actor.Type, stream); err != nil {
		return err
	}
	if err := t.Enter(); err != nil {
		return err
	}
	defer t.Leave()
	l := streamrows.New(t.Core.Rows, t.Start)
	closed, err := l.Close(stream)
	if closed && err == nil {
		streamWritten(t, stream)
	}
	return err
}

// Methods implements call.Server.
func (*Part) Methods() []*call.Method {
	read := call.Unwoken(call.Waiting(call.Ask(method.StreamRead, readStream),
		func(in *host.StreamReadInput) (string, int64) { return streamTopic(in.Stream), in.WaitMS }, noItems))
	read.Missing, read.OfLife = streamGone, true
	return []*call.Method{
		call.Act(method.StreamAppend, appendStream),
		call.Act(method.StreamClose,
			func(c *kernel.Core, h *kernel.Turn, _ host.Codec, in *host.StreamInput) (host.StreamInfo, error) {
				if err := externalStream(c, in.Stream); err != nil {
					return host.StreamInfo{}, err
				}
				if err := turnOf(h).StreamClose(in.Stream); err != nil {
					return host.StreamInfo{}, err
				}
				return turnOf(h).StreamInfo(in.Stream)
			}),
		call.Act(method.StreamDelete,
			func(_ *kernel.Core, h *kernel.Turn, _ host.Codec, in *host.StreamInput) (host.CountOutput, error) {
				n, err := deleteStream(h, in.Stream)
				return host.CountOutput{Count: n}, err
			}),
		read,
		call.Unwoken(call.Ask(method.StreamList, listStreams)),
	}
}

// externalStream checks that clients may write to a stream.
func externalStream(c *kernel.Core, name string) error {
	_, cfg, err := streamOf(c.Actor.Type, name)
	if err == nil && !cfg.External {
		err = host.Errorf(host.PermissionDenied, "only the actor itself writes to stream %q", name).With("stream", name)
	}
	return err
}

func appendStream(c *kernel.Core, h *kernel.Turn, codec host.Codec,
	in *host.StreamAppendInput) (out host.StreamAppendOutput, err error) {
	if err := externalStream(c, in.Stream); err != nil {
		return out, err
	}
	if len(in.Items) > host.MaxStreamBatch {
		return out, host.OverLimit("stream items of one call", host.MaxStreamBatch,
			int64(len(in.Items))).With("field", "items")
	}
	index, _, err := streamOf(c.Actor.Type, in.Stream)
	if err != nil {
		return out, err
	}
	items := make([][]byte, len(in.Items))
	for i, item := range in.Items {
		if items[i], err = wire.Convert(c.Actor.Type.Behavior, host.StreamValue, index, codec, item,
			host.CBOR, "items["+strconv.Itoa(i)+"]"); err != nil {
			return out, err
		}
	}
	if len(items) > 0 || !in.Close {
		if out.Last, err = turnOf(h).StreamAppend(in.Stream, items); err != nil {
			return out, err
		}
	}
	if in.Close {
		if err := turnOf(h).StreamClose(in.Stream); err != nil {
			return out, err
		}
		info, err := turnOf(h).StreamInfo(in.Stream)
		return host.StreamAppendOutput{Last: info.Last}, err
	}
	return out, nil
}

// deleteStream removes a stream's items, even if the stream is no longer declared.
func deleteStream(t *kernel.Turn, name string) (int64, error) {
	if !wire.ValidName(name) {
		return 0, wire.UnknownName(t.Actor.Type.Behavior, host.InvalidArgument, "stream", name)
	}
	if err := t.Enter(); err != nil {
		return 0, err
	}
	defer t.Leave()
	l := streamrows.New(t.Core.Rows, t.Start)
	n, err := l.Delete(name)
	if err == nil {
		streamWritten(t, name)
	}
	return n, err
}

func readStream(r *call.Query, codec host.Codec, in *host.StreamReadInput) (out host.StreamReadOutput, err error) {
	index, cfg, err := streamOf(r.Actor.Type, in.Stream)
	if err != nil {
		return out, err
	}
	if err := host.CheckLife(in.Life); err != nil {
		return out, err
	}
	s, done, err := r.Rows()
	if err != nil {
		return out, err
	}
	defer done()
	life, after := r.View.ID.String(), in.After
	another := in.Life != "" && in.Life != life
	if another {
		after = 0
	}
	page, err := streamrows.Read(s, time.Now(), cfg, in.Stream, after, in.Limit, 0)
	if err != nil {
		return out, err
	}
	out = host.StreamReadOutput{
		Missed: page.Missed, Reset: page.Reset || another, Items: make([]host.ReadStreamItem, len(page.Items)),
		Next: page.Next, Closed: page.Closed, Life: life,
	}
	for i, it := range page.Items {
		out.Items[i] = host.ReadStreamItem{Sequence: it.Sequence, Time: it.Time,
			Value: wire.Shown(r.Actor.Type.Behavior, host.StreamValue, index, it.Data, codec)}
	}
	return out, nil
}

// streamGone says that the actor of a reader is gone, or only that there is none.
func streamGone(_ *kernel.Type, req *host.Request, notFound error) ([]byte, error) {
	var in host.StreamReadInput
	if wire.Decode(host.StreamRead, req.Codec, req.Input, &in) != nil || in.Life == "" {
		return nil, notFound
	}
	if err := host.CheckLife(in.Life); err != nil {
		return nil, err
	}
	return nil, fault.Destroyed()
}

// noItems reports whether a reader is up to date: nothing follows its position, and the position is
// in this stream.
func noItems(in *host.StreamReadInput, codec host.Codec, output []byte) bool {
	const most = 256 // bytes of a page without items, with room to spare
	if len(output) > most {
		return false
	}
	var out host.StreamReadOutput
	var err error
	if codec == host.JSON {
		err = json.NewDecoder(bytes.NewReader(output)).Decode(&out)
	} else {
		err = cbor.Unmarshal(output, &out)
	}
	return err == nil && len(out.Items) == 0 && out.Missed == 0 && !out.Reset && !out.Closed && out.Next == in.After
}

func listStreams(r *call.Query, _ host.Codec, in *host.StreamListInput) (host.StreamListOutput, error) {
	if in.Stream != "" {
		info, err := Query{r}.StreamInfo(in.Stream)
		return host.StreamListOutput{Streams: []host.StreamInfo{info}}, err
	}
	s, done, err := r.Rows()
	if err != nil {
		return host.StreamListOutput{}, err
	}
	defer done()
	all, err := streamrows.List(s, time.Now(), func(name string) *host.Stream {
		_, cfg, err := streamOf(r.Actor.Type, name)
		if err != nil {
			return nil
		}
		return cfg
	})
	all = slices.DeleteFunc(all, func(s host.StreamInfo) bool { return !wire.ValidName(s.Stream) }) // other parts' own
	for i := range all {
		all[i].Life = r.View.ID.String()
	}
	return host.StreamListOutput{Streams: all}, err
}

// StreamInfo implements host.Reader.
func (h Reads[S]) StreamInfo(stream string) (host.StreamInfo, error) {
	r := h.K
	_, cfg, err := streamOf(r.Type(), stream)
	if err != nil {
		return host.StreamInfo{}, err
	}
	return call.Reading(r, func(rows engine.Reader) (host.StreamInfo, error) {
		info, err := streamrows.Info(rows, r.Now(), cfg, stream)
		info.Life = r.ID().String()
		return info, err
	})
}

// StreamRead implements host.Reader.
func (h Reads[S]) StreamRead(stream string, after uint64, limit int) (host.StreamPage, error) {
	r := h.K
	_, cfg, err := streamOf(r.Type(), stream)
	if err != nil {
		return host.StreamPage{}, err
	}
	return call.Reading(r, func(rows engine.Reader) (host.StreamPage, error) {
		return streamrows.Read(rows, r.Now(), cfg, stream, after, limit, 0)
	})
}
