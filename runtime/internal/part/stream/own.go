package stream

import (
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	streamrows "github.com/cairn-run/cairn/runtime/internal/part/stream/rows"
)

// Own is a stream that another part writes to in the actor, under a name that handlers and clients
// cannot name. Its rows are those of any stream. The other part handles its rows of the wake index.
type Own string

// Append appends items in a turn, up to host.MaxStreamBatch, and returns the sequence of the last.
// exempt: they may make a full actor larger.
func (o Own) Append(rows engine.Writer, now int64, keep *host.Stream, items [][]byte, exempt bool) (uint64, error) {
	l := streamrows.New(rows, time.UnixMilli(now))
	l.Exempt = exempt
	return l.Append(keep, string(o), items)
}

// Retain makes the stream keep less than before, or more.
func (o Own) Retain(rows engine.Writer, now int64, keep *host.Stream) error {
	return streamrows.New(rows, time.UnixMilli(now)).Retain(keep, string(o))
}

// Delete removes all items. The sequence goes on.
func (o Own) Delete(rows engine.Writer, now int64) error {
	_, err := streamrows.New(rows, time.UnixMilli(now)).Delete(string(o))
	return err
}

// Purge handles the stream's row of the wake index that was due.
func (o Own) Purge(rows engine.Writer, now int64, keep *host.Stream, due int64) error {
	return streamrows.New(rows, time.UnixMilli(now)).Purge(keep, string(o), due)
}

// Read returns up to limit items of up to maxBytes after a sequence, regardless of their age.
func (o Own) Read(rows engine.Reader, after uint64, limit, maxBytes int) (host.StreamPage, error) {
	return streamrows.Read(rows, time.Time{}, new(host.Stream), string(o), after, limit, maxBytes)
}

// Info describes the stream.
func (o Own) Info(rows engine.Reader) (host.StreamInfo, error) {
	return streamrows.Info(rows, time.Time{}, new(host.Stream), string(o))
}
