package runtime_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/actor/actortest"
	"github.com/cairn-run/cairn/actor/handle"
	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime"
)

var modelSeeds = flag.Int("model-seeds", 2, "how many random histories the model test runs")

// TestRandomHistoriesAgreeWithTheModel drives a few actors at random (writes, messages, alarms,
// errors, panics, sleeps) through power cuts at random moments and restarts, and compares them with
// a simple model.
//
// A power cut leaves calls in flight without an answer. Each such call happened completely or not
// at all: a turn's writes to the state, rows, entries, a queue, alarms, events and messages are
// kept or lost together.
func TestRandomHistoriesAgreeWithTheModel(t *testing.T) {
	seeds := *modelSeeds
	if os.Getenv("CAIRN_LONG") != "" { // `make soak`
		seeds = max(seeds, 200)
	}
	var dead atomic.Int64
	t.Cleanup(func() { errorIf(t, dead.Load() == 0, "no message became a dead letter") })
	for seed := range seeds {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			t.Parallel()
			config := actortest.Config{Seed: uint64(seed + 1), UnsyncedPercent: 2 * seed % 3 * 40}
			config.Run(t, func(t *testing.T, h *actortest.Harness) { newModel(t, h, uint64(seed), &dead).run() },
				botDefinition(actor.Spec[bot]{IdleTimeout: time.Second, Limits: actor.Limits{SendAttempts: 1000},
					Migrations: []actor.Migration{
						{Name: "1",
							SQL: "CREATE TABLE entry (id INTEGER PRIMARY KEY, name TEXT NOT NULL, text TEXT); CREATE UNIQUE INDEX entry_name ON entry (name)"},
					}}))
		})
	}
}

// A model holds the expected content of every bot.
type model struct {
	t      *testing.T
	h      *actortest.Harness
	random *rand.Rand
	// Turns write rows as well. They fill the log, and when Pebble begins a new one, commits wait
	// without virtual time passing. So there are few calls between power cuts.
	rows bool
	node atomic.Pointer[runtime.Runtime] // the node to call; stopping nodes answer Unavailable

	mu    sync.Mutex
	bots  map[string]*expected
	next  int
	fails map[int]int   // messages by number: how often their handler must still fail
	dead  *atomic.Int64 // messages that failed too often
}

// expected is the model's content of one bot.
type expected struct {
	acked   []string         // log entries of answered calls of this life
	maybe   map[string]bool  // entries of unanswered calls
	armed   map[string]bool  // texts of alarms that acked calls set
	sent    map[string][]int // by target: messages that acked calls sent, in order
	unknown map[int]bool     // messages of unanswered calls
}

const (
	modelBots = 5
	queued    = "q"    // the sender of messages that a bot puts in its own queue
	far       = "far " // begins the names of alarms that exist only to be listed
)

func newModel(t *testing.T, h *actortest.Harness, seed uint64, dead *atomic.Int64) *model {
	m := &model{t: t, h: h, dead: dead, rows: seed%2 == 1, random: rand.New(rand.NewPCG(seed, 99)),
		bots: make(map[string]*expected), fails: make(map[int]int)}
	for i := range modelBots {
		m.bots[fmt.Sprint("w", i)] = &expected{maybe: map[string]bool{}, armed: map[string]bool{},
			sent: map[string][]int{}, unknown: map[int]bool{}}
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
	rounds, calls, ends := 8, 20, 6
	if m.rows {
		rounds, calls, ends = 18, 5, 3
	}
	if os.Getenv("CAIRN_LONG") != "" {
		rounds *= 2
	}
	for range rounds {
		var wg sync.WaitGroup
		for range 6 + m.random.IntN(calls) {
			m.start(&wg)
			if m.random.IntN(4) == 0 {
				time.Sleep(time.Duration(m.random.IntN(3000)) * time.Microsecond)
			}
		}
		switch m.random.IntN(ends) {
		case 0, 1, 2:
			if m.rows && m.random.IntN(4) == 0 { // bots fall asleep, and their databases close
				wg.Wait()
				time.Sleep(3 * time.Second)
				m.start(&wg)
			}
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
		m.compare()
	}
	time.Sleep(time.Hour)
	m.h.Settle()
	m.check()
	m.h.Crash()
	time.Sleep(time.Minute)
	m.check()
}

// slow makes each sync of the log take a few milliseconds, so that the power fails while calls wait
// for one.
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
		_, err := carry.Put(ctx, entry)
		err = errors.Join(err, latest.Set(ctx, entry), things.Put(ctx, entry, ""), ring.Named(far+entry).After(ctx, 1000*time.Hour, ""))
		if err != nil || !m.rows {
			return entry, err
		}
		tx, err := ctx.SQL().BeginTx(ctx, nil)
		if err != nil {
			return "", err
		}
		_, err = tx.ExecContext(ctx, "INSERT INTO entry (name, text) VALUES (?, ?)", entry, strings.Repeat(entry, 20+n%300))
		return entry, errors.Join(err, tx.Commit())
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
		handler := m.handler(n)
		f = func(b *bot, ctx *actor.Context) (string, error) {
			deliver.Send(ctx, bots.Ref(ctx, target), note{From: key, N: n, Run: handler})
			return write(b, ctx)
		}
	case 7:
		f = func(b *bot, ctx *actor.Context) (string, error) { // commits the earlier turns, in mid-turn
			if _, err := run.Call(ctx, bots.Ref(ctx, "helper"), named(add(1))); err != nil {
				return "", err
			}
			return write(b, ctx)
		}
	case 8:
		f = func(b *bot, ctx *actor.Context) (string, error) {
			out, err := write(b, ctx)
			ctx.Done() // commits the turns before this one
			if !m.rows {
				return out, err
			}
			_, uerr := ctx.SQL().ExecContext(ctx, "UPDATE entry SET text = 'short' WHERE id % 10 = ?", n%10)
			return out, errors.Join(err, uerr)
		}
	case 9:
		if m.random.IntN(4) == 0 {
			m.mu.Lock()
			m.fails[n] = 1000 // more often than it is tried
			m.mu.Unlock()
		}
		handler := m.handler(n)
		f = func(b *bot, ctx *actor.Context) (string, error) {
			if _, err := work.Put(ctx, note{From: queued, N: n, Run: handler}); err != nil {
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
		for retry && actor.CodeOf(err) == actor.Unavailable { // done or not, it must not be done twice
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
		case kind == 0 && actor.CodeOf(err) == actor.FailedPrecondition, kind == 1 &&
			actor.CodeOf(err) == actor.Crashed, actor.CodeOf(err) == actor.ActorFailed:
		default:
			m.t.Errorf("call %s of %s: %q, %v", entry, key, out, err)
		}
	})
}

// handler makes the handler of a message, which may fail a few times.
func (m *model) handler(n int) string {
	return named(action(func(*bot, *actor.Context) (string, error) {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.fails[n]--
		switch left := m.fails[n]; {
		case left >= 0 && n%2 == 0:
			panic("boom")
		case left >= 0:
			return "", errRefused
		}
		return "", nil
	}))
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
		got, rang := look(m.t, m.h, key), 0
		seen := make(map[string]int)
		for _, entry := range got.Log {
			seen[entry]++
			if strings.HasPrefix(entry, "ring ") {
				rang++
			}
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
		errorIf(m.t, st.PendingSends != 0 || st.FailedSends != 0 || st.Alarms != len(got.Log)-rang, "%s: %+v", key, st)
		m.order(key, got.Log, received)
		m.queue(key, got)
	}
	m.compare()
}

// queue checks that each message of a queue was handled once, or failed too often and is a dead
// letter.
func (m *model) queue(key string, got bot) {
	m.t.Helper()
	var sent []int
	for _, entry := range got.Log {
		var n int
		if _, err := fmt.Sscanf(entry, "9-%d", &n); err == nil {
			sent = append(sent, n)
		}
	}
	ended := slices.Clone(got.Notes[queued])
	for l, err := range work.Of(bots.Ref(m.h, key)).DeadLetters().List(context.Background()) {
		must(m.t, err)
		ended = append(ended, l.Body.N)
		m.dead.Add(1)
	}
	slices.Sort(sent)
	slices.Sort(ended)
	errorIf(m.t, !slices.Equal(sent, ended), "%s: sent %v, handled or set aside %v", key, sent, ended)
}

// compare checks that all places that turns write hold the same entries.
func (m *model) compare() {
	m.t.Helper()
	for key := range m.bots {
		if !exists(m.t, m.h, key) {
			continue
		}
		want := slices.DeleteFunc(look(m.t, m.h, key).Log, func(entry string) bool { return strings.HasPrefix(entry, "ring ") })
		m.find(key, want)
		slices.Sort(want)
		for place, got := range m.places(key) {
			slices.Sort(got)
			fatalIf(m.t, !slices.Equal(got, want), "%s: the state has %v, %s %v", key, want, place, got)
		}
	}
}

// find looks for a bot by its last entry, and by any.
func (m *model) find(key string, log []string) {
	m.t.Helper()
	var where []string
	if len(log) > 0 {
		where = []string{latest.Is(log[len(log)-1])}
	}
	for _, q := range []handle.FindQuery{{Where: where}, {Prefix: []string{key}, Sort: "latest"}} {
		var found []string
		for ref, err := range bots.Find(m.t.Context(), m.h, q) {
			must(m.t, err)
			found = append(found, ref.Key()[0])
		}
		want := min(1, len(log))
		fatalIf(m.t, len(log) > 0 && !slices.Equal(found, []string{key}) ||
			len(log) == 0 && q.Sort != "" && want != len(found), "%s with the log %v: %+v finds %v", key, log, q, found)
	}
}

// places returns the content of the places beside the state of a bot.
func (m *model) places(key string) map[string][]string {
	m.t.Helper()
	all := make(map[string][]string)
	_, err := peek(m.h, key, func(_ bot, ctx *actor.ReadContext) (_ string, err error) {
		for e, err := range things.All(ctx) {
			if err != nil {
				return "", err
			}
			all["the map"] = append(all["the map"], e.Key)
		}
		if !m.rows {
			return "", nil
		}
		check, cerr := selectAll(ctx, "PRAGMA integrity_check")
		errorIf(m.t, !slices.Equal(check, []string{"ok"}), "%s: integrity_check: %q", key, check)
		var terr, ierr error
		all["the table"], terr = selectAll(ctx, "SELECT name FROM entry NOT INDEXED")
		all["its index"], ierr = selectAll(ctx, "SELECT name FROM entry INDEXED BY entry_name")
		return "", errors.Join(cerr, terr, ierr)
	})
	must(m.t, err)
	var queue host.QueueListOutput
	var alarms host.AlarmListOutput
	must(m.t, errOf(invoke(m.t, m.h, host.Request{Address: botAt(key), Method: host.QueuePeek},
		host.QueueListInput{Queue: "carry", Limit: 1000}, &queue)))
	must(m.t, errOf(invoke(m.t, m.h, host.Request{Address: botAt(key), Method: host.AlarmList}, nil, &alarms)))
	for _, q := range queue.Messages {
		all["the queue"] = append(all["the queue"], strings.Trim(string(q.Body), `"`))
	}
	for _, a := range alarms.Alarms {
		if entry, ok := strings.CutPrefix(a.Instance, far); ok {
			all["the alarms"] = append(all["the alarms"], entry)
		}
	}
	for i, e := range m.h.Events("bot", key) {
		errorIf(m.t, e.Sequence != uint64(i+1), "%s: event %d has the number %d", key, i+1, e.Sequence)
		all["the history of events"] = append(all["the history of events"], strings.Trim(string(e.Data), `"`))
	}
	return all
}

// selectAll returns the texts that a statement selects.
func selectAll(ctx *actor.ReadContext, statement string) (all []string, err error) {
	rows, err := ctx.SQL().QueryContext(ctx, statement)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var s string
		if err := rows.Scan(&s); err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, rows.Err()
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
			errorIf(m.t, place[notes[key][i]] < place[notes[key][i-1]],
				"%s got the messages of %s out of order: %v", target, key, notes[key])
		}
	}
}
