package node

import (
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/runtime/internal/call"
	"github.com/cairn-run/cairn/runtime/internal/kernel"
	"github.com/cairn-run/cairn/runtime/internal/kernel/address"
	"github.com/cairn-run/cairn/runtime/internal/kernel/limit"
	"github.com/cairn-run/cairn/runtime/internal/kernel/options"
	"github.com/cairn-run/cairn/runtime/internal/kernel/pace"
	"github.com/cairn-run/cairn/runtime/internal/part/sqlite"
	"github.com/cairn-run/cairn/sqlitevfs"
)

// retryAt returns when another try may succeed, from the error of an overloaded actor.
func retryAt(t *testing.T, err error) time.Time {
	t.Helper()
	e := wantCode(t, err, host.Overloaded)
	at, perr := time.Parse(time.RFC3339Nano, e.Metadata["retry_at"])
	fatalIf(t, perr != nil || !e.Retryable || e.Metadata["limit"] == "", "%+v: %v", e, perr)
	return at
}

func TestLimitsThatCannotWorkAreRefused(t *testing.T) {
	for _, l := range []host.Limits{{CallRate: -1}, {CallRate: math.NaN()}, {CallRate: math.Inf(1)}, {CallBurst: -1},
		{CallRate: math.SmallestNonzeroFloat64}, {CallRate: 1, CallBurst: math.MaxInt}, {TaskGrace: -1},
		{SQLMemoryBytes: 1}, {SQLTemporaryBytes: -1}, {SQLTurnBytes: 4096}, {SQLValueBytes: 10}} {
		g := newStage(t, nil)
		for name, o := range map[string]options.Options{
			"node": {Store: g.store, Limits: l},
			"type": {Store: g.store, Behaviors: []*host.Behavior{(&puppetType{name: "x", limits: l}).behavior()}},
		} {
			if _, err := New(Options{Options: o}); err == nil {
				t.Errorf("%+v is taken as the limit of a %s", l, name)
			}
		}
	}
}

// TestBuiltinMethodsCountAgainstTheRateUnlessTheyAreForOperators calls every method that actors
// have by themselves while the bucket is empty.
func TestBuiltinMethodsCountAgainstTheRateUnlessTheyAreForOperators(t *testing.T) {
	counted := make(map[string]bool)
	for name := range strings.FieldsSeq("queue.send queue.receive queue.result queue.stats schedule.list alarm.list " +
		"stream.append stream.close stream.read stream.list workflow.start workflow.status workflow.result") {
		counted[name] = true
	}
	for _, open := range []bool{false, true} {
		counted[host.SQLQuery], counted[host.SQLExec] = open, open
		types := []*puppetType{{name: "p", limits: host.Limits{CallRate: 1, CallBurst: 1}, openSQL: open}}
		bubble(t, nil, types, func(t *testing.T, g *stage) {
			for name := range kernel.PartOf[*call.Router](g.Kernel).Methods {
				key := name // each has a bucket of its own
				g.must(key, add(1))
				err := g.verb(key, name, nil, nil)
				errorIf(t, host.CodeOf(err) == host.Overloaded != counted[name], "%s with open SQL %v: %v", name, open, err)
				if !counted[name] {
					continue
				}
				_, err = g.Call(context.Background(), &host.Request{Address: pAddr(key), Method: name, Codec: host.JSON, Continues: true})
				errorIf(t, host.CodeOf(err) == host.Overloaded, "%s that goes on with a request: %v", name, err)
				time.Sleep(time.Until(retryAt(t, g.verb(key, name, nil, nil))))
				if err := g.verb(key, name, nil, nil); host.CodeOf(err) == host.Overloaded {
					t.Errorf("%s after the time that the error names: %v", name, err)
				}
			}
		})
	}
}

func TestACallThatWaitsCountsOnceAgainstTheRate(t *testing.T) {
	types := []*puppetType{{name: "p", limits: host.Limits{CallRate: 1e-3, CallBurst: 2}, queues: []host.Queue{{Name: "jobs"}}}}
	bubble(t, nil, types, func(t *testing.T, g *stage) {
		g.must("a", add(1))
		got := make(chan error, 1)
		go func() {
			got <- g.verb("a", host.QueueReceive, host.QueueReceiveInput{Queue: "jobs", WaitMS: 60_000}, nil)
		}()
		synctest.Wait()
		for range 3 { // each is a reason to look again
			g.Signals.Notify(string(address.Append(nil, pAddr("a"))), "queue/jobs")
			synctest.Wait()
		}
		time.Sleep(2 * time.Minute)
		must(t, <-got)
	})
}

// A declaration has the bounds of limits without the store, so a wrong one is refused as such and
// with its other faults.
func TestDeclarationsAndTheNodeAgreeOnTheBoundsOfLimits(t *testing.T) {
	for field, bounds := range map[string][2]int64{
		"ValueBytes": {1, engine.MaxValueCap}, "WriteSetBytes": {4 << 10, engine.MaxWriteSetCap}, "StorageBytes": {1, 1 << 60},
		"SQLMemoryBytes": {sqlitevfs.MinConnMemory, 0}, "SQLTemporaryBytes": {sqlitevfs.MinTemporary, 0},
		"SQLTurnBytes": {sqlitevfs.MinTurnBytes, engine.MaxWriteSetCap}, "SQLValueBytes": {sqlitevfs.MinLength, sqlitevfs.MaxLength},
	} {
		for _, v := range []int64{bounds[0] - 1, bounds[0], bounds[1], bounds[1] + 1} {
			if v <= 0 || bounds[1] == 0 && v == 1 {
				continue
			}
			var l actor.Limits
			reflect.ValueOf(&l).Elem().FieldByName(field).SetInt(v)
			declared := actor.Define(actor.NewType[struct{}]("x"), actor.Spec[struct{}]{Limits: l}).Validate()
			_, opened := limit.New(l, []*sqlite.Part{{}})
			errorIf(t, (declared == nil) != (opened == nil) || declared != nil && !strings.Contains(declared.Error(), "Spec.Limits."+field),
				"%s %d: the declaration says %v, the node %v", field, v, declared, opened)
		}
	}
}

func TestLimitsByTypeGoBeforeThoseOfTheCode(t *testing.T) {
	bubble(t, func(o *Options) {
		o.Limits.StorageBytes = 10_000
		o.TypeLimits = map[string]host.Limits{"p": {StorageBytes: 50_000}}
	}, nil, func(t *testing.T, g *stage) {
		store := func(n int) error {
			return g.do("a", func(_ *puppet, h host.Turn) error {
				return h.KVPut([]byte("v"), make([]byte, n), host.EncodedBytes, time.Time{})
			})
		}
		check(t, store(40_000))
		wantCode(t, store(60_000), host.QuotaExceeded)
	})
}

func TestMailboxesOfTheNodeShareTheirMemory(t *testing.T) {
	bubble(t, func(o *Options) { o.MaxMailboxBytes = 1000 }, nil, func(t *testing.T, g *stage) {
		large := append(remember(add(1)), make([]byte, 2000)...)
		deeds.Store(string(large), add(1))
		call := func() error {
			_, err := g.Call(t.Context(), &host.Request{Address: pAddr("b"), Method: "do", Codec: host.JSON, Input: large})
			return err
		}
		// A call that is larger than all of them together gets through when nothing waits.
		must(t, call())
		let, done := make(chan struct{}), make(chan error)
		for range 2 {
			go func() { done <- g.do("a", func(p *puppet, _ host.Turn) error { <-let; return nil }) }()
			synctest.Wait() // the second waits for the first
		}
		if err := call(); host.CodeOf(err) != host.Overloaded || !strings.Contains(err.Error(), "mailboxes of the node") {
			t.Fatal(err)
		}
		close(let)
		if err := errors.Join(<-done, <-done); err != nil || g.WaitingBytes.Load() != 0 {
			t.Fatalf("%d bytes wait; %v", g.WaitingBytes.Load(), err)
		}
	})
}

func TestReplyDoesNotWaitForManyTurnsThatAreQuickOneByOne(t *testing.T) {
	bubble(t, nil, nil, func(t *testing.T, g *stage) {
		const each = pace.QuickTurn - time.Microsecond
		brief := func(p *puppet, _ host.Turn) error { p.s.N++; time.Sleep(each); return nil }
		for range 20 {
			g.must("a", brief) // the type's pace is known
		}
		waits := make(chan time.Duration, 200)
		begin := time.Now()
		for range cap(waits) {
			go func() {
				g.must("a", brief)
				waits <- time.Since(begin)
			}()
		}
		<-waits // The first turn begins alone; the others share commits.
		w := <-waits
		for range cap(waits) - 2 {
			<-waits
		}
		fatalIf(t, w > pace.QuickTurn+kernel.MaxGroupTime+pace.QuickTurn, "the second reply came after %s; the turns take %s each", w, each)
		n := g.Find(pAddr("a")).Applied.Load()
		fatalIf(t, n > 20+1+200*uint64(each)/uint64(kernel.MaxGroupTime)+2, "they took %d commits", n)
	})
}

// TestFloodedActorDoesNotKeepOthersWaiting counts instead of measuring time: how many turns of a
// flooded actor overtake a call to another, on one processor.
func TestFloodedActorDoesNotKeepOthersWaiting(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	g := newStage(t, nil)
	var stop atomic.Bool
	var turns atomic.Int64
	var wg sync.WaitGroup
	flood := remember(deed(func(p *puppet, _ host.Turn) error { turns.Add(1); return nil }))
	for range 64 {
		wg.Go(func() {
			for !stop.Load() {
				if _, err := g.Call(context.Background(), &host.Request{Address: pAddr("hot"), Method: "do", Input: flood}); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	var overtaken []int64
	for i := range 300 {
		before := turns.Load()
		g.must(fmt.Sprint("calm", i%100), add(1))
		overtaken = append(overtaken, turns.Load()-before)
	}
	stop.Store(true)
	wg.Wait()
	slices.Sort(overtaken)
	t.Logf("turns that overtake a call: median %d, 90 of 100 %d, most %d", overtaken[150], overtaken[270], overtaken[299])
	n := overtaken[270]
	errorIf(t, n > 10*64, "%d turns of the flooded actor, which has 64 callers, overtake a call in ten", n)
}

// On one processor, callers that are ready at once call one after the other, each before the actor
// runs.
func TestCallsThatComeWhileASyncRunsShareACommit(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	bubble(t, nil, nil, func(t *testing.T, g *stage) {
		g.must("a", add(1))
		thaw := make(chan struct{})
		g.disk.Fail(func(op, path string) error {
			if op == "sync" {
				<-thaw
			}
			return nil
		})
		begin := make(chan struct{})
		var wg sync.WaitGroup
		wg.Go(func() { g.must("a", add(1)) })
		const calls = 32
		for range calls {
			wg.Go(func() { <-begin; g.must("a", add(1)) })
		}
		synctest.Wait()
		before := g.Find(pAddr("a")).Applied.Load()
		close(begin)
		synctest.Wait()
		n := g.Find(pAddr("a")).Applied.Load() - before
		errorIf(t, n == 0 || n > calls/4, "%d calls took %d commits", calls, n)
		close(thaw)
		wg.Wait()
	})
}

// TestTurnsAndQueriesFitTheirSizeClasses bounds what each call allocates besides its result, by
// size classes of the allocator.
func TestTurnsAndQueriesFitTheirSizeClasses(t *testing.T) {
	t.Parallel()
	n := unsafe.Sizeof(handlerTurn{})
	errorIf(t, n > 704, "a turn takes %d bytes", n)
	if n := unsafe.Sizeof(handlerQuery{}); n > 176 {
		t.Errorf("a query takes %d bytes", n)
	}
}
