package kvrows

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
)

// A plainLog is a Log that keeps everything, in the rows of a stream.
type plainLog struct{}

func (plainLog) rows(rows engine.Reader) ([]engine.Entry, error) {
	start := keyspace.StreamItem.Append(nil, LogName, 0)
	page, err := rows.List(engine.ListQuery{Start: start, End: keyspace.StreamItem.Append(nil, LogName, 1<<40),
		Limit: 100_000, MaxBytes: 1 << 30})
	return page.Entries, err
}

func (l plainLog) Append(rows engine.Writer, _ int64, _ *host.Stream, events [][]byte, _ bool) (uint64, error) {
	page, err := rows.List(engine.ListQuery{
		Start: keyspace.StreamItem.Append(nil, LogName, 0), End: keyspace.StreamItem.Append(nil, LogName,
			1<<40), Reverse: true, Limit: 1, KeysOnly: true,
	})
	if err != nil {
		return 0, err
	}
	n := uint64(0)
	if len(page.Entries) > 0 {
		if _, n, err = keyspace.StreamItem.Parse(page.Entries[0].Key); err != nil {
			return 0, err
		}
	}
	for i, e := range events {
		if err := rows.Put(keyspace.StreamItem.Append(nil, LogName, n+1+uint64(i)), e, engine.PutOptions{}); err != nil {
			return 0, err
		}
	}
	return n + uint64(len(events)), nil
}

func (plainLog) Retain(engine.Writer, int64, *host.Stream) error { return nil }

func (l plainLog) Delete(rows engine.Writer, _ int64) error {
	_, err := rows.DeleteRange(keyspace.StreamItem.Append(nil, LogName, 0), keyspace.StreamItem.Append(nil, LogName, 1<<40))
	return err
}

// events reads the log of a store.
func events(t testing.TB, rows engine.Reader) (all []*Event) {
	t.Helper()
	stored, err := plainLog{}.rows(rows)
	must(t, err)
	for _, row := range stored {
		e, err := ParseEvent(row.Value)
		must(t, err)
		all = append(all, e)
	}
	return all
}

// replay compares the entries that replaying the log gives with the stored ones.
func replay(t testing.TB, rows engine.Reader) int {
	t.Helper()
	made, log := make(map[string]*Event), events(t, rows)
	for i, e := range log {
		_, there := made[string(e.Key)]
		switch {
		case i > 0 && e.Version < log[i-1].Version:
			t.Fatalf("event %d is of version %d, after %d", i, e.Version, log[i-1].Version)
		case e.Cause == CauseSet:
			made[string(e.Key)] = e
		case !there:
			t.Fatalf("event %d removes %x, which is not there", i, e.Key)
		default:
			delete(made, string(e.Key))
		}
	}
	from, to := Bounds(nil, nil)
	page, err := rows.List(engine.ListQuery{Start: from, End: to, Expired: true, Limit: 10_000, MaxBytes: 1 << 30})
	must(t, err)
	for i := range page.Entries {
		e := &page.Entries[i]
		m := made[string(e.Key[1:])]
		fatalIf(t, m == nil || !bytes.Equal(m.Value, e.Value) || m.Encoding != encoding(e) || m.Expire != e.Expire ||
			m.Version != e.Version,
			"%s is %s, and the log makes it %+v", keyspace.Format(e.Key), e.Value, m)
	}
	fatalIf(t, len(page.Entries) != len(made), "%d entries are stored, and the log makes %d", len(page.Entries), len(made))
	return len(log)
}

// logging returns scopes that log everything.
func logging() *Scopes {
	return &Scopes{Log: plainLog{}, Declared: []Scope{{Policy: Policy{Log: true}}}}
}

func TestTheLogReplaysToTheEntries(t *testing.T) {
	logged := 0
	for seed := range seeds(8, 40) {
		space, rows := openRows(t)
		p := &player{t: t, rnd: rand.New(rand.NewPCG(seed, 3)), space: space, rows: Of(rows, logging()), now: 1000,
			model: make(map[string]kept)}
		for range 100 {
			p.commit()
			if p.rnd.IntN(4) == 0 {
				must(t, errOf(p.rows.Purge(1+p.rnd.IntN(3))))
			}
			p.compare()
			logged = max(logged, replay(t, p.rows))
		}
	}
	errorIf(t, logged < 100, "the longest log has %d events", logged)
}

func TestTheMostGenerousBoundsHold(t *testing.T) {
	s := Scopes{list: []*Scope{
		{Policy: Policy{Log: true, LogEvents: 10, LogBytes: 100,
			LogFor: 1000}}, {Policy: Policy{LogEvents: 1 << 30}}, {Policy: Policy{Log: true, LogEvents: 20, LogBytes: 50, LogFor: 1}},
	}}
	k := s.logKept()
	errorIf(t, k.Items != 20 || k.Bytes != 100 || k.Age.Milliseconds() != 1000, "%+v", k)
	s = Scopes{list: append(s.list, &Scope{Policy: Policy{Log: true}})}
	k = s.logKept()
	errorIf(t, k.Items != host.DefaultStreamItems || k.Bytes != host.DefaultStreamBytes || k.Age != 0, "%+v", k)
}

func TestPutsWithoutALogAllocateNothingMore(t *testing.T) {
	measure := func(scopes *Scopes) float64 {
		_, rows := openRows(t)
		rows.Advance(1000)
		s := Of(rows, scopes)
		key, data := keyspace.UserKV.Append(nil, pack("a")), []byte("1")
		must(t, s.Put(key, data, engine.PutOptions{}))
		return testing.AllocsPerRun(100, func() { must(t, s.Put(key, data, engine.PutOptions{})) })
	}
	if with, without := measure(&Scopes{Log: plainLog{}}), measure(new(Scopes)); with != without || with > 1 {
		t.Errorf("%v allocations, %v without a log", with, without)
	}
}

func FuzzParseEvent(f *testing.F) {
	_, rows := openRows(f)
	s := Of(rows, logging())
	for _, e := range []Event{
		{Cause: CauseSet, Key: []byte{4, 1}, Value: []byte("x"), Encoding: host.EncodedJSON, Expire: 7},
		{Cause: CauseDeleteRange, Key: []byte{4, 1, 2}, Prefix: -1, Start: []byte{1},
			End: []byte{2}}, {Cause: CauseExpired, Key: []byte{4}},
	} {
		data, err := s.event(e)
		must(f, err)
		f.Add(data)
	}
	f.Fuzz(func(_ *testing.T, data []byte) {
		e, err := ParseEvent(data)
		if err == nil {
			_ = e.Key[:max(e.Prefix, 0)]
		}
	})
}
