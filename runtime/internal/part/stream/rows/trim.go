package streamrows

import (
	"errors"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
)

// How many rows of items a turn removes: an append besides as many as it adds, and a purge or a
// deletion.
const (
	removeMost = 1_000
	purgeMost  = 10_000
)

// cut moves m's first item past everything that the limits no longer allow. batch holds the last
// items of the stream, which have no rows yet.
func (l *Log) cut(cfg *host.Stream, name string, m *metaRecord, batch []item) error {
	read := func(seq uint64) (item, error) {
		if from := m.Next - uint64(len(batch)); seq >= from {
			return batch[seq-from], nil
		}
		return readItem(l.rows, name, seq)
	}
	least := m.First
	if n := m.Next - m.First; n > uint64(cfg.Items) {
		least = m.Next - uint64(cfg.Items)
	}
	held, old := uint64(cfg.Bytes), tooOld(cfg, l.now)
	if least == m.First && m.Total-m.Dropped <= held && m.Oldest > old {
		return nil
	}
	// From an item on, the stream holds all bytes except those before the item.
	return m.search(least, read, func(it *item) bool { return m.Total-it.before > held || it.time <= old })
}

// tooOld returns the time of items that have just become too old, in Unix ms: items of that time or
// before read as absent. It is before all times if the stream keeps items of any age.
func tooOld(cfg *host.Stream, now int64) int64 {
	if cfg.Age <= 0 {
		return -1
	}
	return now - cfg.Age.Milliseconds()
}

// search makes the first item from least on for which cut is false the first of the stream. cut is
// true for a prefix of the items. The search gallops, because the cut is near in most cases.
func (m *metaRecord) search(least uint64, read func(seq uint64) (item, error), cut func(*item) bool) error {
	lo, hi := least, m.Next // the items before lo are cut; hi is not, or is the end
	last := item{before: m.Total}
	look := func(at uint64) error {
		it, err := read(at)
		if err != nil {
			return err
		}
		if cut(&it) {
			lo = at + 1
		} else {
			hi, last = at, it
		}
		return nil
	}
	for step, end := uint64(1), hi; lo < hi && hi == end; step *= 2 {
		if err := look(min(lo+step-1, hi-1)); err != nil {
			return err
		}
	}
	for lo < hi {
		if err := look(lo + (hi-lo)/2); err != nil {
			return err
		}
	}
	m.First, m.Dropped, m.Oldest = lo, last.before, last.time
	return nil
}

// remove deletes up to most rows that are cut off, and schedules the rest for soon. The stream is
// consistent without it: if the write set of the turn is full, the rows go with a later append.
func (l *Log) remove(name string, m metaRecord, most int) error {
	if m.Stored == m.First {
		return nil
	}
	err := l.removeRows(name, &m, most)
	if err == nil {
		wake := m.Wake
		if m.Stored < m.First && (wake == 0 || wake > l.now) {
			l.wakeAt(name, &m, l.now)
		}
		if err = l.write(name, &m); err != nil {
			l.wakeAt(name, &m, wake)
		}
	}
	if full := (*engine.LimitError)(nil); errors.As(err, &full) {
		return nil
	}
	return err
}

func (l *Log) removeRows(name string, m *metaRecord, most int) error {
	end := min(m.First, m.Stored+uint64(most))
	if end-m.Stored > 8 {
		if _, err := l.rows.DeleteRange(keyspace.StreamItem.Append(nil, name, m.Stored),
			keyspace.StreamItem.Append(nil, name, end)); err != nil {
			return err
		}
	} else {
		for seq := m.Stored; seq < end; seq++ {
			if _, err := l.rows.Delete(keyspace.StreamItem.Append(nil, name, seq)); err != nil {
				return err
			}
		}
	}
	m.Stored = end
	return nil
}

// wakeAt moves the stream's row in the wake index; 0 removes it.
func (l *Log) wakeAt(name string, m *metaRecord, due int64) {
	if due != 0 {
		due = max(due, 1) // rows that are due at 0 are for the start of a node
	}
	if m.Wake != due && m.Wake != 0 {
		l.rows.ClearWake(m.Wake, keyspace.WakeExpiry, name, "")
	}
	if due != 0 {
		l.rows.SetWake(due, keyspace.WakeExpiry, name, "") // even if it stands: it may have fired, and must fire again
	}
	m.Wake = due
}

// hourEnd returns the end of the hour of a time, so that items that become too old within an hour
// are removed together.
func hourEnd(ms int64) int64 {
	const hour = int64(time.Hour / time.Millisecond)
	return (ms/hour + 1) * hour
}

// Retain makes a stream keep what cfg says from now on.
func (l *Log) Retain(cfg *host.Stream, name string) error {
	m, found, err := readMeta(l.rows, name)
	if err != nil || !found {
		return err
	}
	return l.Purge(cfg, name, m.Wake)
}

// Purge handles a stream's row in the wake index, which was due at due. It cuts off items that are
// too old and removes up to some thousands of rows. It removes a row that the stream does not have.
// cfg is nil if the actor's type no longer has such a stream; then nothing more is cut off.
func (l *Log) Purge(cfg *host.Stream, name string, due int64) error {
	m, found, err := readMeta(l.rows, name)
	if err != nil {
		return err
	}
	if !found || m.Wake != due {
		l.rows.ClearWake(due, keyspace.WakeExpiry, name, "")
		return nil
	}
	next := int64(0)
	if cfg != nil {
		if err := l.cut(cfg, name, &m, nil); err != nil {
			return err
		}
		if cfg.Age > 0 && m.First < m.Next {
			next = hourEnd(m.Oldest + cfg.Age.Milliseconds())
		}
	}
	if err := l.removeRows(name, &m, purgeMost); err != nil {
		return err
	}
	if m.Stored < m.First {
		next = l.now
	}
	l.wakeAt(name, &m, next)
	return l.write(name, &m)
}
