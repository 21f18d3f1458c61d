package node

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/changes"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/runtime/internal/part/kv"
	"github.com/cairn-run/cairn/runtime/internal/part/run"
)

// changeLog is a sink of changes. It keeps a line for each: its kind, its name, and the rest.
type changeLog struct {
	mu     sync.Mutex
	lines  []string
	refuse atomic.Pointer[host.Error]
	slept  func() // if set, called when an actor has been put to sleep
}

func (l *changeLog) Committed(_ uint64, cs *engine.ChangeSet) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range cs.Changes {
		var data map[string]any
		if c.Kind == engine.ChangeEvent {
			data = map[string]any{"data": string(c.Data)}
		} else if err := json.Unmarshal(c.Data, &data); err != nil || c.Kind != engine.ChangeLife && data["kind"] != c.Kind.String() {
			panic(string(c.Data))
		}
		line := fmt.Sprint(c.Kind, " ", c.Name)
		for _, member := range []string{"op", "key", "cause", "reason", "due", "count", "data"} {
			if v, ok := data[member]; ok {
				line += fmt.Sprintf(" %s=%v", member, v)
			}
		}
		l.lines = append(l.lines, line)
	}
}

func (l *changeLog) Life(cs *engine.ChangeSet) {
	l.Committed(0, cs)
	if l.slept != nil && cs.Changes[0].Name == "slept" {
		l.slept()
	}
}

func (l *changeLog) Refuse() error {
	if e := l.refuse.Load(); e != nil {
		return e
	}
	return nil
}

// take returns the lines since the last time, of the kind if that is not "".
func (l *changeLog) take(kind string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	lines := slices.DeleteFunc(l.lines, func(line string) bool { return !strings.HasPrefix(line, kind) })
	l.lines = nil
	return lines
}

func TestAWrittenRunIsPublishedOncePerTurn(t *testing.T) {
	var log changeLog
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
		runs := log.take("workflow")
		errorIf(t, len(runs) != 1, "a turn that writes publishes %v", runs)
		g.must("a", func(_ *puppet, h host.Turn) error {
			rows := &run.RunRows{H: kernelTurn(h)}
			if _, ok, err := rows.Get(keys[0]); !ok || err != nil {
				t.Error(ok, err)
			}
			return rows.DeleteRange([]byte{0xfe}, []byte{0xff})
		})
		if runs := log.take("workflow"); len(runs) != 0 {
			t.Errorf("a turn that reads publishes %v", runs)
		}
		g.must("a", func(_ *puppet, h host.Turn) error { return (&run.RunRows{H: kernelTurn(h)}).Delete(keys[0]) })
		if runs := log.take("workflow"); len(runs) != 1 {
			t.Errorf("a turn that deletes publishes %v", runs)
		}
	})
}

// The published kinds are documented: every kind of change as its own family or in the table of
// kinds, which has no others, and every transition of an actor's life.
func TestEveryKindOfChangeIsInTheDocumentation(t *testing.T) {
	page, err := os.ReadFile("../../../docs/nats.md")
	must(t, err)
	_, table, _ := strings.Cut(string(page), "\n## Changes\n")
	table, _, _ = strings.Cut(table, "\n## ")
	var listed, kinds []string
	for _, row := range regexp.MustCompile("(?m)^\\| `(\\w+)` \\|").FindAllStringSubmatch(table, -1) {
		listed = append(listed, row[1])
	}
	for k := engine.ChangeEvent; k.String() != "unknown"; k++ {
		if k == engine.ChangeEvent || k == engine.ChangeLife || k == engine.ChangeAudit { // families of subjects
			errorIf(t, !strings.Contains(string(page), "| `cairn.<ns>."+k.String()+".<type>."), "docs/nats.md has no subject of %s", k)
			continue
		}
		kinds = append(kinds, k.String())
	}
	slices.Sort(listed)
	slices.Sort(kinds)
	errorIf(t, !slices.Equal(listed, kinds) || len(kinds) < 7, "docs/nats.md lists the kinds %q, there are %q", listed, kinds)
	var files []string
	for _, pattern := range []string{"../kernel/*.go", "../kernel/change/*.go", "../part/*/*.go"} {
		found, err := filepath.Glob(pattern)
		must(t, err)
		files = append(files, found...)
	}
	_, life, _ := strings.Cut(string(page), "| `cairn.<ns>.life.")
	life, _, _ = strings.Cut(life, "\n")
	calls := regexp.MustCompile(`(?i:lifeChange\(|published\(|Identity: identity\}, )"(\w+)"`)
	found := 0
	for _, name := range files {
		source, err := os.ReadFile(name)
		must(t, err)
		for _, call := range calls.FindAllSubmatch(source, -1) {
			found++
			errorIf(t, !strings.Contains(life, "`"+string(call[1])+"`"),
				"docs/nats.md does not list the transition %s, which %s publishes", call[1], name)
		}
	}
	errorIf(t, found < 8, "%d transitions are found in the source", found)
}

func TestATurnPublishesSoManyChangesOfKeysAndCountsTheRest(t *testing.T) {
	for n, more := range map[int][]string{kv.MaxKVChanges: nil, kv.MaxKVChanges + 1: {"kv  op=more count=1"},
		kv.MaxKVChanges + 9: {"kv  op=more count=9"}} {
		var log changeLog
		bubble(t, func(o *Options) { o.Changes = &log }, nil, func(t *testing.T, g *stage) {
			for range 2 { // each turn counts anew
				log.take("")
				g.must("a", func(_ *puppet, h host.Turn) error {
					for i := range n {
						if err := h.KVPut([]byte{byte(i >> 8), byte(i)}, []byte("v"), host.EncodedBytes, time.Time{}); err != nil {
							return err
						}
					}
					return nil
				})
				if keys := log.take("kv"); len(keys) < kv.MaxKVChanges || !slices.Equal(keys[kv.MaxKVChanges:], more) {
					t.Errorf("of %d changes %d are published, and at last %q", n, len(keys), keys[max(0, len(keys)-1):])
				}
			}
		})
	}
}

// A node without NATS publishes the changes of all actors while they are followed, and writes no
// outbox for it.
func TestChangesOfAllActorsAreFollowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newStage(t, nil, &puppetType{name: "p"}, &puppetType{name: "q"})
		g.must("a", add(1)) // before
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var told []string
		done := make(chan error, 1)
		go func() {
			done <- g.FollowChanges(ctx, changes.Query{Type: "p", Kinds: []string{"state", "life", "audit"}},
				func(r *changes.Record) error {
					for _, c := range r.Changes {
						told = append(told, fmt.Sprintf("%s %s %s@%d", r.Key[0], c.Kind, c.Name, r.Version))
					}
					return nil
				})
		}()
		synctest.Wait()
		g.must("a", add(1))
		g.must("b", add(2))
		g.mustVerb("b", host.ActorPause, nil, nil)
		must(t, g.doAt(host.Address{Type: "q", Key: []string{"a"}}, add(1)))
		must(t, g.Destroy(t.Context(), host.Address{Type: "p", Key: []string{"a"}}))
		synctest.Wait()
		want := []string{"a state @3", "b life created@1", "b state @1", "b state @2", "b life paused@3",
			"b audit actor.pause@3", "a audit actor.destroy@4", "a life destroyed@4"}
		errorIf(t, !slices.Equal(told, want), "told %q", told)
		cancel()
		if err := <-done; host.CodeOf(err) != host.Canceled {
			t.Error(err)
		}
	})
}
