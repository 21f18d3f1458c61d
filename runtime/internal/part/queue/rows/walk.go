package queuerows

import (
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/keyspace/tuple"
)

// walk finds the first entries of an index before end, up to limit, in order. It searches from the
// front in growing windows, because a list looks one entry beyond its limit, which may lie behind
// many deleted ones. It records the first entry in the front.
func walk(rows engine.Reader, queue string, ix index, f *front, limit int, end place) ([]place, error) {
	var found []place
	prefix := appendIndex(nil, ix, queue)
	for i := 0; i < len(f.runs) && len(found) < limit && f.runs[i].from.before(end); i++ {
		r := &f.runs[i]
		n := len(found)
		if r.exact && (r.n == 1 || limit-n == 1) {
			found = append(found, r.from)
			continue
		}
		var err error
		want := n + int(min(r.n, int64(limit-n)))
		found, err = walkRun(rows, prefix, ix, f, i, found, want, end)
		if err != nil {
			return nil, err
		}
		if len(found) > n {
			r.from, r.exact = found[n], true
		} else if r.n > 0 && !f.end(i).after(end) {
			return nil, corrupt("the index %x has not the entries that the counts tell", prefix)
		}
	}
	return found, nil
}

func (p place) after(q place) bool { return q.before(p) }

// The first window of a walk, in ids or milliseconds, and how much larger each next one is.
const (
	firstWindow  = 256
	windowGrowth = 32
	lastWindow   = firstWindow * windowGrowth * windowGrowth * windowGrowth * windowGrowth
)

// walkRun appends entries of one run to found until there are want.
func walkRun(
	rows engine.Reader, prefix []byte, ix index, f *front, i int, found []place, want int, end place,
) ([]place, error) {
	from, upTo := f.runs[i].from, f.end(i)
	if end.before(upTo) {
		upTo = end
	}
	for window := int64(max(firstWindow, 2*(want-len(found)))); len(found) < want &&
		from.before(upTo); window *= windowGrowth {
		to := upTo
		if window <= lastWindow {
			to = from
			if ix == readyIndex {
				to.id += uint64(window)
			} else {
				to = place{at: from.at + window}
			}
			if upTo.before(to) {
				to = upTo
			}
		}
		page, err := rows.List(engine.ListQuery{
			Start: appendPlace(nil, prefix, from), End: appendPlace(nil, prefix,
				to), Limit: want - len(found), KeysOnly: true,
		})
		if err != nil {
			return nil, err
		}
		for k := range page.Entries {
			p, err := parsePlace(prefix, page.Entries[k].Key)
			if err != nil {
				return nil, err
			}
			found = append(found, p)
		}
		from = to
		if page.Next != nil && len(found) > 0 {
			from = found[len(found)-1]
			from.id++
		}
	}
	return found, nil
}

// appendPlace appends the key of a place of an index, whose keys begin with prefix. Last stands for
// the end of the index.
func appendPlace(b, prefix []byte, p place) []byte {
	if p == last {
		return keyspace.TupleEnd(append(b, prefix...))
	}
	return tuple.AppendUint(tuple.AppendInt(append(b, prefix...), p.at), p.id)
}

func parsePlace(prefix, key []byte) (p place, err error) {
	d := tuple.NewDecoder(key[len(prefix):])
	if p.at, err = d.Int(); err == nil {
		if p.id, err = d.Uint(); err == nil {
			err = d.End()
		}
	}
	if err != nil {
		return p, corrupt("index entry %x: %v", key, err)
	}
	return p, nil
}

// readMessage reads a message, of any queue. It returns false if there is none. key is memory that
// it may use.
func readMessage(rows engine.Reader, key []byte, id uint64, m *message) (bool, error) {
	e, ok, err := rows.Get(keyspace.QueueMessage.Append(key[:0], id))
	if err != nil || !ok {
		return false, err
	}
	return true, m.decode(id, e.Value)
}

// firstReady reads the message that is received next. key is memory that it may use.
func firstReady(rows engine.Reader, key []byte, queue string, f *front, m *message) (bool, error) {
	if len(f.runs) == 0 {
		return false, nil
	}
	// Mostly the first entry is where its run begins, which one look at the message tells.
	r := &f.runs[0]
	isFirst := func() bool { return m.state == pending && m.place() == r.from && string(m.queue) == queue }
	ok, err := readMessage(rows, key, r.from.id, m)
	if err != nil {
		return false, err
	}
	if ok && isFirst() {
		r.exact = true
		return true, nil
	}
	if r.exact {
		return false, corrupt("queue %q: message %d should be ready", queue, r.from.id)
	}
	if _, err := walk(rows, queue, readyIndex, f, 1, last); err != nil {
		return false, err
	}
	ok, err = readMessage(rows, key, r.from.id, m)
	if err == nil && !(ok && isFirst()) {
		err = corrupt("queue %q: message %d should be ready", queue, r.from.id)
	}
	return err == nil, err
}
