package supervisor

import (
	"encoding/json"
	"slices"
	"sync"
	"testing"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
)

// kindLog is a ChangeSink that keeps the kinds of what it gets.
type kindLog struct {
	mu    sync.Mutex
	kinds []string
}

func (l *kindLog) Committed(_ uint64, cs *engine.ChangeSet) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range cs.Changes {
		var data struct{ Kind, Op string }
		if err := json.Unmarshal(c.Data, &data); err != nil || data.Kind != c.Kind.String() {
			panic(string(c.Data))
		}
		l.kinds = append(l.kinds, data.Kind)
	}
}

func (*kindLog) Life(*engine.ChangeSet) {}
func (*kindLog) Refuse() error          { return nil }

// take returns the kinds since the last time.
func (l *kindLog) take() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	kinds := l.kinds
	l.kinds = nil
	return kinds
}

func countKind(kinds []string, kind string) (n int) {
	for _, k := range kinds {
		if k == kind {
			n++
		}
	}
	return n
}

func TestAWrittenDatabaseIsPublishedOncePerTurn(t *testing.T) {
	var log kindLog
	bubble(t, func(o *Options) { o.Changes = &log }, nil, func(t *testing.T, g *stage) {
		g.must("a", note("one"))
		log.take()
		g.must("a", func(p *puppet, h host.Turn) error {
			if err := note("two")(p, h); err != nil {
				return err
			}
			return note("three")(p, h)
		})
		if kinds := log.take(); countKind(kinds, "sql") != 1 {
			t.Errorf("a turn that writes publishes %v", kinds)
		}
		g.must("a", func(_ *puppet, h host.Turn) error {
			var n int
			return h.SQL().QueryRowContext(h, "SELECT count(*) FROM note").Scan(&n)
		})
		if kinds := log.take(); slices.Contains(kinds, "sql") {
			t.Errorf("a turn that reads publishes %v", kinds)
		}
	})
}

func TestAWrittenRunIsPublishedOncePerTurn(t *testing.T) {
	var log kindLog
	bubble(t, func(o *Options) { o.Changes = &log }, nil, func(t *testing.T, g *stage) {
		start, _ := keyspace.KindRange(keyspace.KindWorkflow)
		keys := [][]byte{append(start[:len(start):len(start)], 'a'), append(start[:len(start):len(start)], 'b')}
		g.must("a", func(_ *puppet, h host.Turn) error {
			rows := &runTurn{h: h.(*turn)}
			if err := rows.PutNew(keys[0], []byte{1}); err != nil {
				return err
			}
			return rows.Put(keys[1], []byte{2})
		})
		if kinds := log.take(); countKind(kinds, "workflow") != 1 {
			t.Errorf("a turn that writes publishes %v", kinds)
		}
		g.must("a", func(_ *puppet, h host.Turn) error {
			rows := &runTurn{h: h.(*turn)}
			if _, ok, err := rows.Get(keys[0]); !ok || err != nil {
				t.Error(ok, err)
			}
			return rows.DeleteRange([]byte{0xfe}, []byte{0xff})
		})
		if kinds := log.take(); slices.Contains(kinds, "workflow") {
			t.Errorf("a turn that reads publishes %v", kinds)
		}
		g.must("a", func(_ *puppet, h host.Turn) error { return (&runTurn{h: h.(*turn)}).Delete(keys[0]) })
		if kinds := log.take(); countKind(kinds, "workflow") != 1 {
			t.Errorf("a turn that deletes publishes %v", kinds)
		}
	})
}
