package natspub

import (
	"slices"

	"github.com/cairn-run/cairn/engine"
)

// trim drops rows that hold only best-effort changes, oldest first, while the outbox is over its
// limit, until a tenth of the limit is free. Rows on the way stay.
func (l *loop) trim() {
	p := l.p
	rows, bytes := p.outbox.OutboxSize()
	if !p.over(rows, bytes) {
		p.full.Store(false)
		return
	}
	rows -= p.opts.MaxOutboxRows - p.opts.MaxOutboxRows/10
	bytes -= p.opts.MaxOutboxBytes - p.opts.MaxOutboxBytes/10
	busy := map[uint64]bool{}
	for _, it := range l.window {
		if it.busy {
			busy[it.seq] = true
		}
	}
	for _, seq := range l.acks {
		busy[seq] = true
	}
	var seqs []uint64
	changes, began := 0, l.trimmed
	for rows >= 0 || bytes >= 0 {
		page, err := p.outbox.Outbox(l.trimmed, pageRows)
		if err != nil {
			l.fault("read", err)
			break
		}
		if len(page) == 0 {
			break
		}
		for _, row := range page {
			if rows < 0 && bytes < 0 {
				break
			}
			l.trimmed = row.Seq
			set, err := engine.ParseChangeSet(row.Record)
			if err != nil || durable(&set) || busy[row.Seq] {
				continue
			}
			seqs = append(seqs, row.Seq)
			changes += len(set.Changes)
			rows--
			bytes -= int64(len(row.Record))
		}
	}
	if len(seqs) > 0 {
		if err := p.outbox.AckOutbox(seqs); err != nil {
			l.trimmed = began
			l.fault("delete", err)
		} else {
			p.metrics.dropped.WithLabelValues(dropOutboxFull).Add(float64(changes))
			p.log.Warn("nats: the outbox is full; dropped its oldest best-effort changes", "rows",
				len(seqs), "changes", changes)
			l.remove(seqs)
		}
	}
	p.full.Store(p.over(p.outbox.OutboxSize()))
}

// remove removes dropped rows from the window and the queue. seqs is sorted.
func (l *loop) remove(seqs []uint64) {
	l.p.queue.remove(seqs)
	l.window = slices.DeleteFunc(l.window, func(it *item) bool {
		if it.seq == 0 || !contains(seqs, it.seq) {
			return false
		}
		l.bytes -= it.size
		if l.streams != nil {
			l.streams.remove(it)
		}
		return true
	})
}
