package runtime_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/actor/actortest"
	"github.com/cairn-run/cairn/actor/host"
)

var crashPoints = flag.Int("crash-points", 210, "how many power cuts the test of all subsystems makes")

// A ledger notes every number in each of the places where a turn can write.
type ledger struct{ Numbers []int }

var (
	ledgers     = actor.NewType[ledger]("ledger")
	ledgerNote  = actor.NewAction[int, actor.None](ledgers, "note")
	ledgerKept  = actor.NewQuery[actor.None, ledgerPlaces](ledgers, "kept")
	ledgerMap   = actor.NewMap[int, int](ledgers, "numbers")
	ledgerQueue = actor.NewQueue[int](ledgers, "numbers", actor.QueueConfig{Workers: true})
	ledgerAlarm = actor.NewAlarm[int](ledgers, "number")
	ledgerEvent = actor.NewEvent[int](ledgers, "noted", actor.EventConfig{})
)

// ledgerPlaces is what the places hold.
type ledgerPlaces struct {
	State, Rows, Indexed, Entries []int
	Check                         string
}

func (l *ledger) note(ctx *actor.Context, n int) (actor.None, error) {
	l.Numbers = append(l.Numbers, n)
	db := ctx.SQL()
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return actor.None{}, err
	}
	if _, err := tx.ExecContext(ctx, "INSERT INTO number (n, text) VALUES (?, ?)", n, strings.Repeat(fmt.Sprint(n, " "), 20+n%300)); err != nil {
		return actor.None{}, err
	}
	if err := tx.Commit(); err != nil {
		return actor.None{}, err
	}
	if _, err := ledgerQueue.Put(ctx, n); err != nil {
		return actor.None{}, err
	}
	ledgerAlarm.Named(fmt.Sprint(n)).After(ctx, 1000*time.Hour, n)
	ledgerEvent.Emit(ctx, n)
	if err := ledgerMap.Put(ctx, n, n); err != nil {
		return actor.None{}, err
	}
	switch {
	case n%7 == 3:
		return actor.None{}, errors.New("a turn that fails")
	case n%11 == 5:
		panic("a turn that panics")
	case n%5 == 2:
		ctx.Done() // commits the turns before this one
		if _, err := db.ExecContext(ctx, "UPDATE number SET text = 'short' WHERE n % 10 = ?", n%10); err != nil {
			return actor.None{}, err
		}
	}
	return actor.None{}, nil
}

func (l ledger) kept(ctx *actor.ReadContext, _ actor.None) (p ledgerPlaces, err error) {
	p.State = l.Numbers
	for column, into := range map[string]*[]int{"SELECT n FROM number NOT INDEXED": &p.Rows, "SELECT n FROM number INDEXED BY number_n": &p.Indexed} {
		rows, err := ctx.SQL().QueryContext(ctx, column)
		if err != nil {
			return p, err
		}
		for rows.Next() {
			var n int
			if err := rows.Scan(&n); err != nil {
				return p, err
			}
			*into = append(*into, n)
		}
		if err := errors.Join(rows.Err(), rows.Close()); err != nil {
			return p, err
		}
	}
	for e, err := range ledgerMap.All(ctx) {
		if err != nil {
			return p, err
		}
		p.Entries = append(p.Entries, e.Key)
	}
	return p, ctx.SQL().QueryRowContext(ctx, "PRAGMA integrity_check").Scan(&p.Check)
}

func ledgerDefinition() actor.Definition {
	return actor.Define(ledgers, actor.Spec[ledger]{IdleTimeout: 2 * time.Second, Migrations: []actor.Migration{
		{Name: "1", SQL: "CREATE TABLE number (id INTEGER PRIMARY KEY, n INT NOT NULL, text TEXT); CREATE UNIQUE INDEX number_n ON number (n)"},
	}}, actor.On(ledgerNote, (*ledger).note), actor.OnQuery(ledgerKept, ledger.kept),
		actor.OnAlarm(ledgerAlarm, func(*ledger, *actor.Context, int) error { return nil }))
}

// TestEverythingOfATurnSurvivesPowerCutsOrNothing cuts the power at random moments under turns that write to the state, rows,
// entries, a queue, alarms and events: after each cut all places hold the same numbers, and all those whose calls were
// answered.
func TestEverythingOfATurnSurvivesPowerCutsOrNothing(t *testing.T) {
	const runs = 6
	points := *crashPoints
	if os.Getenv("CAIRN_LONG") != "" { // `make soak`
		points = max(points, 6000)
	}
	for seed := range uint64(runs) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			actortest.Config{Seed: seed + 1, UnsyncedPercent: int(seed) % 3 * 40}.Run(t, func(t *testing.T, h *actortest.Harness) {
				random := rand.New(rand.NewPCG(seed, 4))
				b := &bookkeeping{t: t, h: h, random: random}
				for i := range (points + runs - 1) / runs {
					if i%8 == 0 { // before the ledger gets long
						b.key, b.acked, b.refused = fmt.Sprint("l", i), nil, nil
					}
					b.cut()
				}
			}, ledgerDefinition())
		})
	}
}

type bookkeeping struct {
	t      *testing.T
	h      *actortest.Harness
	random *rand.Rand
	key    string
	next   int

	mu             sync.Mutex
	acked, refused []int
}

// cut runs calls, cuts the power among them, and compares the places.
func (b *bookkeeping) cut() {
	b.t.Helper()
	var syncs atomic.Uint64
	seed := b.random.Uint64()
	b.h.Disk().Fail(func(op, path string) error { // each sync takes a while, so that calls wait for one
		if op == "sync" && strings.HasSuffix(path, ".log") {
			time.Sleep(time.Duration(rand.New(rand.NewPCG(seed, syncs.Add(1))).IntN(4000)) * time.Microsecond)
		}
		return nil
	})
	rt := b.h.Runtime()
	var wg sync.WaitGroup
	for range 2 + b.random.IntN(9) {
		n := b.next
		b.next++
		wg.Go(func() {
			_, err := ledgerNote.Call(context.Background(), ledgers.Ref(rt, b.key), n)
			b.mu.Lock()
			defer b.mu.Unlock()
			switch actor.CodeOf(err) {
			case "":
				b.acked = append(b.acked, n)
			case actor.Internal, actor.Crashed:
				b.refused = append(b.refused, n)
			case actor.Unavailable, actor.ActorFailed:
			default:
				b.t.Errorf("%d: %v", n, err)
			}
		})
		if b.random.IntN(4) == 0 {
			time.Sleep(time.Duration(b.random.IntN(3000)) * time.Microsecond)
		}
	}
	if b.random.IntN(8) == 0 {
		time.Sleep(3 * time.Second) // long enough to fall asleep
	}
	time.Sleep(time.Duration(b.random.IntN(5000)) * time.Microsecond)
	b.h.Crash()
	wg.Wait()
	if len(b.acked) == 0 {
		return // there may be no actor yet
	}
	b.compare()
}

// ask calls a built-in method of the ledger.
func (b *bookkeeping) ask(method string, in, out any) {
	b.t.Helper()
	input, err := json.Marshal(in)
	if err != nil {
		b.t.Fatal(err)
	}
	if in == nil {
		input = nil
	}
	reply, err := b.h.Call(context.Background(), &host.Request{
		Address: host.Address{Type: "ledger", Key: []string{b.key}}, Method: method, Codec: host.JSON, Input: input,
	})
	if err == nil {
		err = json.Unmarshal(reply.Output, out)
	}
	if err != nil {
		b.t.Fatalf("%s: %v", method, err)
	}
}

func (b *bookkeeping) compare() {
	b.t.Helper()
	ctx := context.Background()
	ref := ledgers.Ref(b.h, b.key)
	p, err := ledgerKept.Call(ctx, ref, actor.None{})
	if err != nil {
		b.t.Fatal(err)
	}
	if p.Check != "ok" {
		b.t.Fatalf("integrity_check: %s", p.Check)
	}
	want := slices.Sorted(slices.Values(p.State))
	same := func(place string, got []int) {
		b.t.Helper()
		if got = slices.Sorted(slices.Values(got)); !slices.Equal(got, want) {
			b.t.Fatalf("the state has %v, %s %v", want, place, got)
		}
	}
	same("the table", p.Rows)
	same("its index", p.Indexed)
	same("the map", p.Entries)
	var queue host.QueueListOutput
	b.ask(host.QueuePeek, host.QueueListInput{Queue: "numbers", Limit: 1000}, &queue)
	var numbers []int
	for _, m := range queue.Messages {
		n, _ := strconv.Atoi(string(m.Body))
		numbers = append(numbers, n)
	}
	same("the queue", numbers)
	var alarms host.AlarmListOutput
	b.ask(host.AlarmList, nil, &alarms)
	numbers = numbers[:0]
	for _, a := range alarms.Alarms {
		n, _ := strconv.Atoi(a.Instance)
		numbers = append(numbers, n)
	}
	same("the alarms", numbers)
	numbers = numbers[:0]
	for _, e := range b.h.Events("ledger", b.key) {
		n, _ := strconv.Atoi(string(e.Data))
		numbers = append(numbers, n)
	}
	same("the history of events", numbers)
	for _, n := range b.acked {
		if _, ok := slices.BinarySearch(want, n); !ok {
			b.t.Fatalf("%d was answered and is gone: %v", n, want)
		}
	}
	for _, n := range b.refused {
		if _, ok := slices.BinarySearch(want, n); ok {
			b.t.Fatalf("%d failed and is there", n)
		}
	}
}
