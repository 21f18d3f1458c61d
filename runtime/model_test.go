package runtime_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/actor/actortest"
	"github.com/cairn-run/cairn/runtime"
)

var modelSeeds = flag.Int("model-seeds", 6, "how many random histories the model test runs")

// TestRandomHistoriesAgreeWithTheModel drives a few actors at random (writes, messages, alarms, errors, panics,
// destructions, sleeps) through power cuts at random moments and restarts, and compares with what a simple model allows.
//
// A power cut leaves calls in flight without an answer. Each such call may have happened or not, but nothing between: the
// entry in the log, the alarms and the messages of a turn stand or fall together.
func TestRandomHistoriesAgreeWithTheModel(t *testing.T) {
	for seed := range *modelSeeds {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			t.Parallel()
			config := actortest.Config{Seed: uint64(seed + 1), UnsyncedPercent: seed % 3 * 40}
			config.Run(t, func(t *testing.T, h *actortest.Harness) { newModel(t, h, uint64(seed)).run() },
				botDefinition(actor.Spec[bot]{IdleTimeout: time.Second, Limits: actor.Limits{SendAttempts: 1000}}))
		})
	}
}

// A model knows what every bot must hold.
type model struct {
	t      *testing.T
	h      *actortest.Harness
	random *rand.Rand
	node   atomic.Pointer[runtime.Runtime] // the one to call; stopping nodes answer Unavailable

	mu    sync.Mutex
	bots  map[string]*expected
	next  int
	fails map[int]int // messages by number: how often their handler is still to fail
}

// expected is what the model says of one bot.
type expected struct {
	acked   []string         // log entries of answered calls of this life
	maybe   map[string]bool  // entries of unanswered calls
	armed   map[string]bool  // texts of alarms that acked calls set
	sent    map[string][]int // by target: messages that acked calls sent, in order
	unknown map[int]bool     // messages of unanswered calls
}

const modelBots = 5

func newModel(t *testing.T, h *actortest.Harness, seed uint64) *model {
	m := &model{t: t, h: h, random: rand.New(rand.NewPCG(seed, 99)), bots: make(map[string]*expected), fails: make(map[int]int)}
	for i := range modelBots {
		m.bots[fmt.Sprint("w", i)] = &expected{maybe: map[string]bool{}, armed: map[string]bool{}, sent: map[string][]int{}, unknown: map[int]bool{}}
	}
	return m
}

func (m *model) run() {
	defer func() {
		acked, maybe := 0, 0
		for _, e := range m.bots {
			acked, maybe = acked+len(e.acked), maybe+len(e.maybe)
		}
		m.t.Logf("%d calls answered, %d cut off", acked, maybe)
	}()
	m.slow()
	for range 12 {
		var wg sync.WaitGroup
		for range 6 + m.random.IntN(20) {
			m.start(&wg)
			if m.random.IntN(4) == 0 {
				time.Sleep(time.Duration(m.random.IntN(3000)) * time.Microsecond)
			}
		}
		switch m.random.IntN(6) {
		case 0, 1, 2:
			time.Sleep(time.Duration(m.random.IntN(6000)) * time.Microsecond)
			m.h.Crash()
			m.slow()
		case 3:
			wg.Wait()
			m.h.Restart()
			m.slow()
		case 4:
			time.Sleep(time.Duration(m.random.IntN(5000)) * time.Millisecond)
		}
		wg.Wait()
	}
	time.Sleep(time.Hour)
	m.h.Settle()
	m.check()
	m.h.Crash()
	time.Sleep(time.Minute)
	m.check()
}

// slow makes each sync of the log take a few milliseconds, so that the power fails while calls wait for one.
func (m *model) slow() {
	m.node.Store(m.h.Runtime())
	seed := m.random.Uint64()
	var syncs atomic.Uint64
	m.h.Disk().Fail(func(op, path string) error {
		if op == "sync" && strings.HasSuffix(path, ".log") {
			r := rand.New(rand.NewPCG(seed, syncs.Add(1)))
			time.Sleep(time.Duration(r.IntN(4000)) * time.Microsecond)
		}
		return nil
	})
}

// start begins one random call.
func (m *model) start(wg *sync.WaitGroup) {
	key := fmt.Sprint("w", m.random.IntN(modelBots))
	target := fmt.Sprint("r", m.random.IntN(3))
	m.mu.Lock()
	m.next++
	n := m.next
	if m.random.IntN(5) == 0 {
		m.fails[n] = 1 + m.random.IntN(3)
	}
	m.mu.Unlock()
	e := m.bots[key]
	kind := m.random.IntN(12)
	entry := fmt.Sprint(kind, "-", n)
	write := func(b *bot, ctx *actor.Context) (string, error) {
		b.Log = append(b.Log, entry)
		said.Emit(ctx, entry)
		return entry, nil
	}
	var f action
	switch kind {
	case 0:
		f = func(b *bot, ctx *actor.Context) (string, error) { write(b, ctx); return "", errRefused }
	case 1:
		f = func(b *bot, ctx *actor.Context) (string, error) { write(b, ctx); panic("boom") }
	case 2, 3:
		delay := time.Duration(m.random.IntN(3000)) * time.Millisecond
		f = func(b *bot, ctx *actor.Context) (string, error) {
			ring.Named(entry).After(ctx, delay, entry)
			return write(b, ctx)
		}
	case 4, 5, 6:
		handler := named(action(func(*bot, *actor.Context) (string, error) {
			m.mu.Lock()
			defer m.mu.Unlock()
			if m.fails[n]--; m.fails[n] >= 0 {
				return "", errRefused
			}
			return "", nil
		}))
		f = func(b *bot, ctx *actor.Context) (string, error) {
			deliver.Send(ctx, bots.Ref(ctx, target), note{From: key, N: n, Run: handler})
			return write(b, ctx)
		}
	case 7:
		f = func(b *bot, ctx *actor.Context) (string, error) { // commits what came before, in the middle of the turn
			if _, err := run.Call(ctx, bots.Ref(ctx, "helper"), named(add(1))); err != nil {
				return "", err
			}
			return write(b, ctx)
		}
	default:
		f = write
	}
	name, retry := named(f), m.random.IntN(2) == 0
	wg.Go(func() {
		out, err := run.Call(context.Background(), bots.Ref(m.node.Load(), key), name, actor.IdempotencyKey(entry))
		for retry && actor.CodeOf(err) == actor.Unavailable { // whether it was done or not, it must not be done twice
			time.Sleep(time.Millisecond)
			out, err = run.Call(context.Background(), bots.Ref(m.node.Load(), key), name, actor.IdempotencyKey(entry))
		}
		m.mu.Lock()
		defer m.mu.Unlock()
		switch {
		case err == nil && out == entry:
			e.acked = append(e.acked, entry)
			switch kind {
			case 2, 3:
				e.armed[entry] = true
			case 4, 5, 6:
				e.sent[target] = append(e.sent[target], n)
			}
		case actor.CodeOf(err) == actor.Unavailable:
			e.maybe[entry] = true
			e.unknown[n] = true
		case kind == 0 && actor.CodeOf(err) == actor.FailedPrecondition, kind == 1 && actor.CodeOf(err) == actor.Crashed, actor.CodeOf(err) == actor.ActorFailed:
		default:
			m.t.Errorf("call %s of %s: %q, %v", entry, key, out, err)
		}
	})
}

// check compares every bot with the model.
func (m *model) check() {
	m.t.Helper()
	received := make(map[string]map[string][]int)
	for i := range 3 {
		key := fmt.Sprint("r", i)
		if exists(m.t, m.h, key) {
			received[key] = look(m.t, m.h, key).Notes
		}
	}
	for key, e := range m.bots {
		if !exists(m.t, m.h, key) {
			if len(e.acked) > 0 {
				m.t.Errorf("%s is gone", key)
			}
			continue
		}
		got := look(m.t, m.h, key)
		seen := make(map[string]int)
		for _, entry := range got.Log {
			seen[entry]++
		}
		for _, entry := range e.acked {
			if seen[entry] != 1 {
				m.t.Errorf("%s: entry %s, which was answered, is there %d times", key, entry, seen[entry])
			}
			if rang := seen["ring "+entry]; e.armed[entry] && rang != 1 {
				m.t.Errorf("%s: alarm %s fired %d times", key, entry, rang)
			}
		}
		sent := make(map[int]bool)
		for entry, n := range seen {
			kind, number, _ := strings.Cut(strings.TrimPrefix(entry, "ring "), "-")
			known := e.maybe[strings.TrimPrefix(entry, "ring ")] || slices.Contains(e.acked, strings.TrimPrefix(entry, "ring "))
			if n != 1 || !known {
				m.t.Errorf("%s: entry %s is there %d times, known %v", key, entry, n, known)
			}
			if (kind == "2" || kind == "3") && seen["ring "+strings.TrimPrefix(entry, "ring ")] != 1 {
				m.t.Errorf("%s: the turn of %s is kept without its alarm", key, entry)
			}
			if kind == "4" || kind == "5" || kind == "6" {
				var id int
				fmt.Sscan(number, &id)
				sent[id] = true
			}
		}
		total := 0
		for target, notes := range received {
			total += len(notes[key])
			for _, n := range notes[key] {
				if !sent[n] {
					m.t.Errorf("%s has message %d of %s, whose turn is not kept", target, n, key)
				}
				sent[n] = false // a second one is an error
			}
		}
		for n, left := range sent {
			if left {
				m.t.Errorf("message %d of %s is lost", n, key)
			}
		}
		st := m.h.Status("bot", key)
		if st.PendingSends != 0 || st.FailedSends != 0 || st.Alarms != 0 {
			m.t.Errorf("%s: %+v", key, st)
		}
		events := m.h.Events("bot", key)
		for i := 1; i < len(events); i++ {
			if events[i].Sequence != events[i-1].Sequence+1 {
				m.t.Errorf("%s: event %d follows event %d", key, events[i].Sequence, events[i-1].Sequence)
			}
		}
		m.order(key, got.Log, received)
	}
}

// order checks that the messages of a pair arrived in the order of the turns that sent them.
func (m *model) order(key string, log []string, received map[string]map[string][]int) {
	m.t.Helper()
	place := make(map[int]int)
	for i, entry := range log {
		var kind, n int
		if _, err := fmt.Sscanf(entry, "%d-%d", &kind, &n); err == nil {
			place[n] = i
		}
	}
	for target, notes := range received {
		for i := 1; i < len(notes[key]); i++ {
			if place[notes[key][i]] < place[notes[key][i-1]] {
				m.t.Errorf("%s got the messages of %s out of order: %v", target, key, notes[key])
			}
		}
	}
}
