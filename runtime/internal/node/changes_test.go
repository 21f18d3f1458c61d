package node

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/runtime/internal/part/kv"
	"github.com/cairn-run/cairn/runtime/internal/part/run"
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
		start, _ := keyspace.KindWorkflow.Range()
		keys := [][]byte{append(start[:len(start):len(start)], 'a'), append(start[:len(start):len(start)], 'b')}
		g.must("a", func(_ *puppet, h host.Turn) error {
			rows := &run.RunRows{H: kernelTurn(h)}
			if err := rows.PutNew(keys[0], []byte{1}); err != nil {
				return err
			}
			return rows.Put(keys[1], []byte{2})
		})
		if kinds := log.take(); countKind(kinds, "workflow") != 1 {
			t.Errorf("a turn that writes publishes %v", kinds)
		}
		g.must("a", func(_ *puppet, h host.Turn) error {
			rows := &run.RunRows{H: kernelTurn(h)}
			if _, ok, err := rows.Get(keys[0]); !ok || err != nil {
				t.Error(ok, err)
			}
			return rows.DeleteRange([]byte{0xfe}, []byte{0xff})
		})
		if kinds := log.take(); slices.Contains(kinds, "workflow") {
			t.Errorf("a turn that reads publishes %v", kinds)
		}
		g.must("a", func(_ *puppet, h host.Turn) error { return (&run.RunRows{H: kernelTurn(h)}).Delete(keys[0]) })
		if kinds := log.take(); countKind(kinds, "workflow") != 1 {
			t.Errorf("a turn that deletes publishes %v", kinds)
		}
	})
}

// What is published is listed: every kind of change as its own family or in the table of kinds, which has no others, and every
// transition of an actor's life.
func TestEveryKindOfChangeIsInTheDocumentation(t *testing.T) {
	page, err := os.ReadFile("../../../docs/nats.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "\n## Changes\n")
	table, _, _ = strings.Cut(table, "\n## ")
	var listed, kinds []string
	for _, row := range regexp.MustCompile("(?m)^\\| `(\\w+)` \\|").FindAllStringSubmatch(table, -1) {
		listed = append(listed, row[1])
	}
	for k := engine.ChangeEvent; k.String() != "unknown"; k++ {
		if k == engine.ChangeEvent || k == engine.ChangeLife { // families of subjects
			if !strings.Contains(string(page), "| `cairn.<ns>."+k.String()+".<type>.") {
				t.Errorf("docs/nats.md has no subject of %s", k)
			}
			continue
		}
		kinds = append(kinds, k.String())
	}
	slices.Sort(listed)
	slices.Sort(kinds)
	if !slices.Equal(listed, kinds) || len(kinds) < 7 {
		t.Errorf("docs/nats.md lists the kinds %q, there are %q", listed, kinds)
	}
	var files []string
	for _, pattern := range []string{"../kernel/*.go", "../kernel/change/*.go", "../part/*/*.go"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	_, life, _ := strings.Cut(string(page), "| `cairn.<ns>.life.")
	life, _, _ = strings.Cut(life, "\n")
	calls := regexp.MustCompile(`(?i:lifeChange\(|published\(|Identity: identity\}, )"(\w+)"`)
	found := 0
	for _, name := range files {
		source, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, call := range calls.FindAllSubmatch(source, -1) {
			found++
			if !strings.Contains(life, "`"+string(call[1])+"`") {
				t.Errorf("docs/nats.md does not list the transition %s, which %s publishes", call[1], name)
			}
		}
	}
	if found < 8 {
		t.Errorf("%d transitions are found in the source", found)
	}
}

// opLog is a ChangeSink that counts changes by what they say was done.
type opLog struct {
	mu  sync.Mutex
	ops map[string]int // what was done -> changes, but "more" -> its count
}

func (l *opLog) Committed(_ uint64, cs *engine.ChangeSet) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range cs.Changes {
		var data struct {
			Op    string
			Count int
		}
		if err := json.Unmarshal(c.Data, &data); err != nil {
			panic(string(c.Data))
		}
		l.ops[data.Op] += max(data.Count, 1)
	}
}

func (*opLog) Life(*engine.ChangeSet) {}
func (*opLog) Refuse() error          { return nil }

func TestATurnPublishesSoManyChangesOfKeysAndCountsTheRest(t *testing.T) {
	for n, want := range map[int]map[string]int{
		kv.MaxKVChanges: {"put": kv.MaxKVChanges}, kv.MaxKVChanges + 1: {"put": kv.MaxKVChanges, "more": 1}, kv.MaxKVChanges + 9: {"put": kv.MaxKVChanges, "more": 9},
	} {
		log := opLog{ops: make(map[string]int)}
		bubble(t, func(o *Options) { o.Changes = &log }, nil, func(t *testing.T, g *stage) {
			g.must("a", func(*puppet, host.Turn) error { return nil })
			log.mu.Lock()
			log.ops = make(map[string]int)
			log.mu.Unlock()
			for range 2 { // each turn counts anew
				g.must("a", func(_ *puppet, h host.Turn) error {
					for i := range n {
						if err := h.KVPut([]byte{byte(i >> 8), byte(i)}, []byte("v"), time.Time{}); err != nil {
							return err
						}
					}
					return nil
				})
			}
			log.mu.Lock()
			defer log.mu.Unlock()
			for op, count := range want {
				if log.ops[op] != 2*count {
					t.Errorf("%d changes: %v", n, log.ops)
				}
			}
			if log.ops["more"] != 2*want["more"] {
				t.Errorf("%d changes: %v", n, log.ops)
			}
		})
	}
}
