package node

import (
	"errors"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime/internal/kernel/park"
)

// stores is a deed that puts n bytes into the key-value store.
func stores(n int) deed {
	return func(_ *puppet, h host.Turn) error { return h.KVPut([]byte("v"), make([]byte, n), time.Time{}) }
}

func whole(n int64) *int64 { return &n }

func TestFullActorObeysItsOperatorsAndCallsThatMakeRoom(t *testing.T) {
	bubble(t, func(o *Options) { o.Limits.StorageBytes = 10_000 }, nil, func(t *testing.T, g *stage) {
		g.must("a", add(1))
		g.mustVerb("a", host.LimitsSet, host.ActorLimits{StorageBytes: whole(100_000)}, nil)
		g.must("a", stores(40_000))
		n := 0
		keyed := func(method string, input []byte) (host.Reply, error) {
			n++
			return g.Call(t.Context(), &host.Request{Address: pAddr("a"), Method: method, Codec: host.JSON, Input: input, IdempotencyKey: strconv.Itoa(n)})
		}
		for _, v := range []struct{ method, input string }{
			{host.LimitsSet, `{"storage_bytes":20000}`}, {host.LimitsSet, `{"storage_bytes":20000,"mailbox_count":7}`},
			{host.ActorPause, `{"reason":"it is full"}`}, {host.ActorResume, ""}, {host.LimitsReset, ""},
			{host.ScheduleCancel, `{"name":"none"}`}, {host.SendDeadDelete, `{"all":true}`},
		} {
			for range 2 { // again, it is the kept reply
				reply, err := keyed(v.method, []byte(v.input))
				if err != nil {
					t.Fatalf("%s %s: %v", v.method, v.input, err)
				}
				n--
				again, err := keyed(v.method, []byte(v.input))
				if err != nil || again.Version != reply.Version {
					t.Fatalf("%s again: version %d after %d, %v", v.method, again.Version, reply.Version, err)
				}
			}
		}
		// A call that makes the actor no smaller is refused.
		_, err := keyed("do", remember(add(1)))
		wantCode(t, err, host.QuotaExceeded)
		if _, err := keyed("do", remember(stores(39_000))); err != nil {
			t.Fatal(err)
		}
		drops := deed(func(_ *puppet, h host.Turn) error { _, err := h.KVDelete([]byte("v")); return err })
		if _, err := keyed("do", remember(drops)); err != nil {
			t.Fatal(err)
		}
		if _, err := keyed("do", remember(add(1))); err != nil {
			t.Fatal(err)
		}
		if st := g.status("a"); st.Limits != nil || st.Pause != nil || g.n("a") != 2 {
			t.Fatalf("%+v", st)
		}
	})
}

func TestTheSmallestLimitsDoNotLockOperatorsOut(t *testing.T) {
	shop(t, 30, func(t *testing.T, g *stage, _ *atomic.Bool) {
		g.mustVerb("a", host.LimitsSet, host.ActorLimits{
			WriteSetBytes: whole(4096), ValueBytes: whole(1), StateBytes: whole(1), StorageBytes: whole(1), MailboxCount: whole(1), MailboxBytes: whole(1),
		}, nil)
		g.mustVerb("a", host.ActorPause, host.PauseInput{Reason: strings.Repeat("r", park.MaxReason)}, nil)
		g.mustVerb("a", host.ActorResume, nil, nil)
		g.mustVerb("a", host.SendDeadDelete, host.SendSelectInput{All: true}, nil)
		g.mustVerb("a", host.LimitsSet, host.ActorLimits{MailboxCount: whole(2)}, nil)
		if err := g.Destroy(t.Context(), pAddr("a")); err != nil {
			t.Fatal(err)
		}
	})
}

func TestMessagesUnderWayAreGivenUpThoughTheWriteSetWasMadeSmall(t *testing.T) {
	types := []*puppetType{{name: "p", limits: host.Limits{SendAttempts: 2}}}
	bubble(t, nil, types, func(t *testing.T, g *stage) {
		g.must("shut", add(1))
		g.mustVerb("shut", host.ActorPause, nil, nil)
		input := append(remember(nil), make([]byte, 100_000)...)
		deeds.Store(string(input), deed(failing))
		g.must("a", func(_ *puppet, h host.Turn) error {
			return h.Send(&host.Message{Type: "p", Key: []string{"shut"}, Method: "do", Input: input})
		})
		g.mustVerb("a", host.LimitsSet, host.ActorLimits{WriteSetBytes: whole(4096)}, nil)
		g.mustVerb("shut", host.ActorResume, nil, nil)
		time.Sleep(time.Hour)
		if st := g.status("a"); st.FailedSends != 1 || st.PendingSends != 0 {
			t.Fatalf("%+v", st)
		}
	})
}

func TestTurnsOfOneCommitDoNotShareAWriteSetLimit(t *testing.T) {
	bubble(t, func(o *Options) { o.Limits.WriteSetBytes = 8192 }, nil, func(t *testing.T, g *stage) {
		put := func(keys ...byte) deed {
			return func(_ *puppet, h host.Turn) error {
				for _, k := range keys {
					if err := h.KVPut([]byte{k}, make([]byte, 5000), time.Time{}); err != nil {
						return err
					}
				}
				return nil
			}
		}
		let, done := make(chan struct{}), make(chan error)
		go func() { done <- g.do("a", func(*puppet, host.Turn) error { <-let; return nil }) }()
		synctest.Wait()
		for i := range 20 {
			go func() { done <- g.do("a", put(byte(i))) }()
		}
		synctest.Wait()
		close(let)
		for range 21 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		wantCode(t, g.do("a", put(1, 2)), host.TooLarge)
	})
}

func TestLimitsByTypeGoBeforeThoseOfTheCode(t *testing.T) {
	bubble(t, func(o *Options) {
		o.Limits.StorageBytes = 10_000
		o.TypeLimits = map[string]host.Limits{"p": {StorageBytes: 50_000}}
	}, nil, func(t *testing.T, g *stage) {
		g.must("a", stores(40_000))
		wantCode(t, g.do("a", stores(60_000)), host.QuotaExceeded)
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
		if err := call(); err != nil {
			t.Fatal(err)
		}
		let, done := make(chan struct{}), make(chan error)
		for range 2 {
			go func() { done <- g.do("a", func(p *puppet, _ host.Turn) error { <-let; return nil }) }()
			synctest.Wait() // the second waits for the first
		}
		if err := call(); host.CodeOf(err) != host.Overloaded || !strings.Contains(err.Error(), "mailboxes of the node") {
			t.Fatal(err)
		}
		close(let)
		if err := errors.Join(<-done, <-done); err != nil {
			t.Fatal(err)
		}
		for range 100 { // what was worked off does not count
			g.must("a", add(1))
		}
		if n := g.WaitingBytes.Load(); n != 0 {
			t.Fatalf("%d bytes wait", n)
		}
	})
}
