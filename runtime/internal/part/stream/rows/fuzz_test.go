package streamrows

import (
	"bytes"
	"testing"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/runtime/internal/record"
)

func FuzzItem(f *testing.F) {
	f.Add(appendItem(nil, &item{time: 1_771_891_200_000, before: 300, data: []byte("data")}))
	f.Add([]byte{1, 0x80})
	f.Fuzz(func(t *testing.T, value []byte) {
		it, err := parseItem(value)
		if err != nil {
			return
		}
		again, err := parseItem(appendItem(nil, &it))
		fatalIf(t, err != nil || again.time != it.time || again.before != it.before || !bytes.Equal(again.data, it.data), "%v %v %v", again, it, err)
	})
}

// metaRows is a stream that consists of a metadata row.
type metaRows struct{ value []byte }

func (r metaRows) Get(key []byte) (engine.Entry, bool, error) {
	if keyspace.Kind(key[0]) == keyspace.Stream.Kind {
		return engine.Entry{Key: key, Value: r.value}, true, nil
	}
	return engine.Entry{}, false, nil
}

func (metaRows) List(engine.ListQuery) (engine.Page, error) { return engine.Page{}, nil }

// FuzzMeta reads streams with random metadata.
func FuzzMeta(f *testing.F) {
	m := fresh()
	for _, m.Next = range []uint64{1, 7} {
		value, err := record.Encode(&m)
		must(f, err)
		f.Add(value, uint64(3))
	}
	cfg := config(host.Stream{Age: 1})
	f.Fuzz(func(t *testing.T, value []byte, after uint64) {
		p, err := Read(metaRows{value}, begin, cfg, "s", after, 0, 0)
		fatalIf(t, err == nil && len(p.Items) > 0, "%v", p)
		Info(metaRows{value}, begin, cfg, "s")
	})
}

func (metaRows) Each(engine.ListQuery, func(*engine.Entry) bool) error { return nil }
