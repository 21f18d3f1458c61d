package node

import (
	"bytes"
	"context"
	"math"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime/internal/call"
	"github.com/cairn-run/cairn/runtime/internal/kernel"
	"github.com/cairn-run/cairn/runtime/internal/kernel/address"
	"github.com/cairn-run/cairn/runtime/internal/kernel/options"
	"github.com/cairn-run/cairn/runtime/internal/kernel/pace"
	"github.com/cairn-run/cairn/runtime/internal/part/mail"
)

// retryAt returns when an overloaded actor says that another try may succeed.
func retryAt(t *testing.T, err error) time.Time {
	t.Helper()
	e := wantCode(t, err, host.Overloaded)
	at, perr := time.Parse(time.RFC3339Nano, e.Metadata["retry_at"])
	if perr != nil || !e.Retryable || e.Metadata["limit"] == "" {
		t.Fatalf("%+v: %v", e, perr)
	}
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

func TestFullMailboxSaysWhenToTryAgain(t *testing.T) {
	for name, l := range map[string]host.Limits{"count": {MailboxCount: 3}, "bytes": {MailboxBytes: 300}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, nil, []*puppetType{{name: "p", limits: l}}, func(t *testing.T, g *stage) {
				g.must("a", func(*puppet, host.Turn) error { time.Sleep(8 * time.Second); return nil }) // the pace of the type
				hold := make(chan struct{})
				var wg sync.WaitGroup
				errs := make(chan error, 20)
				for range 20 {
					wg.Go(func() {
						if err := g.do("a", func(*puppet, host.Turn) error { <-hold; return nil }); err != nil {
							errs <- err
						}
					})
				}
				synctest.Wait()
				if len(errs) == 0 {
					t.Fatal("all calls were taken")
				}
				for range len(errs) {
					if wait := time.Until(retryAt(t, <-errs)); wait != pace.MaxDrain {
						t.Errorf("try again in %s", wait)
					}
				}
				close(hold)
				wg.Wait()
			})
		})
	}
	a := &kernel.Actor{Type: &kernel.Type{}}
	if d := a.Drains(&kernel.Work{Job: &mail.Delivery{}}, 1000); d != pace.MinDrain {
		t.Errorf("a mailbox of a type that never ran drains in %s", d)
	}
}

// TestBuiltinMethodsCountAgainstTheRateUnlessTheyAreForOperators calls every method that actors have by themselves while the
// bucket is empty.
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
				if host.CodeOf(err) == host.Overloaded != counted[name] {
					t.Errorf("%s with open SQL %v: %v", name, open, err)
				}
				if !counted[name] {
					continue
				}
				_, err = g.Call(context.Background(), &host.Request{Address: pAddr(key), Method: name, Codec: host.JSON, Continues: true})
				if host.CodeOf(err) == host.Overloaded {
					t.Errorf("%s that goes on with a request: %v", name, err)
				}
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
		if err := <-got; err != nil {
			t.Fatal(err)
		}
	})
}

// A handler can tell by the code why the keyspace refuses an entry, and go on.
func TestAHandlerGetsTheCodeOfALimit(t *testing.T) {
	t.Parallel()
	g := newStage(t, nil, &puppetType{name: "p", limits: host.Limits{StorageBytes: 64 << 10, ValueBytes: 32 << 10}})
	g.must("a", func(_ *puppet, h host.Turn) error {
		wantLimit(t, h.KVPut(bytes.Repeat([]byte("k"), 5000), nil, time.Time{}), "key", "2048")
		wantLimit(t, h.KVPut([]byte("k"), make([]byte, 33<<10), time.Time{}), "value", "32768")
		_, err := h.KVDelete(bytes.Repeat([]byte("k"), 5000))
		wantLimit(t, err, "key", "2048")
		for i := range 3 {
			if err = h.KVPut([]byte{byte(i)}, make([]byte, 30<<10), time.Time{}); err != nil {
				break
			}
		}
		wantCode(t, err, host.QuotaExceeded)
		return nil
	})
}
