package streamrows

import (
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
)

// The bounds of one page.
const (
	defaultPage      = 100
	defaultPageBytes = 4 << 20
)

// current is the stream as of now: without what has become too old since the last append.
func current(rows engine.Reader, now int64, cfg *host.Stream, name string) (m metaRecord, found bool, err error) {
	if m, found, err = readMeta(rows, name); err != nil || !found {
		return m, found, err
	}
	if old := tooOld(cfg, now); m.First < m.Next && m.Oldest <= old {
		read := func(seq uint64) (item, error) { return readItem(rows, name, seq) }
		err = m.search(m.First, read, func(it *item) bool { return it.time <= old })
	}
	return m, true, err
}

func (m *metaRecord) info(name string) host.StreamInfo {
	i := host.StreamInfo{Stream: name, First: m.First, Last: m.Next - 1,
		Bytes: int64(m.Total - m.Dropped), Closed: m.Closed}
	if m.Updated != 0 {
		i.Updated = time.UnixMilli(m.Updated).UTC()
	}
	return i
}

// Info describes a stream; one that was never appended to is empty and open. cfg has its defaults
// filled in.
func Info(rows engine.Reader, now time.Time, cfg *host.Stream, name string) (host.StreamInfo, error) {
	m, _, err := current(rows, now.UnixMilli(), cfg, name)
	return m.info(name), err
}

// List describes all streams of an actor that were appended to or closed, and not deleted since, in
// the order of their names. config returns the limits of a stream, with its defaults filled in, or
// nil if it is no longer declared.
func List(rows engine.Reader, now time.Time, config func(name string) *host.Stream) ([]host.StreamInfo, error) {
	start, end := keyspace.Stream.Range()
	q := engine.ListQuery{Start: start, End: end, KeysOnly: true}
	all := []host.StreamInfo{}
	for {
		page, err := rows.List(q)
		if err != nil {
			return nil, err
		}
		for _, e := range page.Entries {
			stream, err := keyspace.Stream.Parse(e.Key)
			if err != nil {
				return nil, err
			}
			cfg := config(stream)
			if cfg == nil {
				cfg = &host.Stream{}
			}
			m, _, err := current(rows, now.UnixMilli(), cfg, stream)
			if err != nil {
				return nil, err
			}
			if !m.Deleted {
				all = append(all, m.info(stream))
			}
		}
		if q.After = page.Next; q.After == nil {
			return all, nil
		}
	}
}

// Read returns the items after a position: the sequence of the last item that the reader has, 0 for
// none. limit 0 is 100 items, maxBytes 0 is 4 MiB; the first item is returned even if it is larger.
//
// Nothing is skipped silently. Items between the position and the first kept item are counted as
// missed. A position beyond the last item is not of this stream, but perhaps of another life:
// reading begins anew, with the first kept item, and the page has Reset set. Next is then less than
// the position, even if there are no items: a reader must always go on from Next.
func Read(rows engine.Reader, now time.Time, cfg *host.Stream, name string, after uint64, limit,
	maxBytes int) (host.StreamPage, error) {
	m, _, err := current(rows, now.UnixMilli(), cfg, name)
	if err != nil {
		return host.StreamPage{}, err
	}
	var p host.StreamPage
	if after >= m.Next {
		after, p.Reset = 0, true
	}
	if after+1 < m.First {
		p.Missed = m.First - 1 - after
		after = m.First - 1
	}
	p.Next = after
	if limit <= 0 {
		limit = defaultPage
	}
	if maxBytes <= 0 {
		maxBytes = defaultPageBytes
	}
	if after+1 < m.Next {
		page, err := rows.List(engine.ListQuery{
			Start: keyspace.StreamItem.Append(nil, name, after+1), End: keyspace.StreamItem.Append(nil, name, m.Next),
			Limit: min(limit, host.MaxStreamBatch), MaxBytes: maxBytes,
		})
		if err != nil {
			return host.StreamPage{}, err
		}
		if len(page.Entries) == 0 {
			return host.StreamPage{}, &engine.CorruptError{Reason: "the items of a stream are missing"}
		}
		p.Items = make([]host.StreamItem, len(page.Entries))
		for i, e := range page.Entries {
			_, seq, err := keyspace.StreamItem.Parse(e.Key)
			if err != nil {
				return host.StreamPage{}, err
			}
			it, err := parseItem(e.Value)
			if err != nil {
				return host.StreamPage{}, err
			}
			if p.Next++; seq != p.Next {
				return host.StreamPage{}, &engine.CorruptError{Reason: "an item of a stream is missing"}
			}
			p.Items[i] = host.StreamItem{Sequence: seq, Time: time.UnixMilli(it.time).UTC(), Data: it.data}
		}
	}
	p.Closed = m.Closed && p.Next+1 == m.Next
	return p, nil
}
