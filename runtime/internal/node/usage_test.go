package node

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/usage"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/runtime/internal/record"
)

// counted starts a node that counts what actors do.
func counted(t testing.TB, types ...*puppetType) *stage {
	t.Helper()
	return newStage(t, func(o *Options) { o.UsageOff = false }, types...)
}

// days reads what an actor did.
func (g *stage) days(key string) []usage.Day {
	g.t.Helper()
	var out usage.GetOutput
	g.mustVerb(key, host.UsageGet, usage.GetInput{}, &out)
	return out.Days
}

// today is the last of the days. A reply may come before its commit is counted.
func (g *stage) today(key string) usage.Day {
	g.t.Helper()
	synctest.Wait()
	d := g.days(key)
	return d[len(d)-1]
}

// slowly is add that takes some time.
func slowly(n int, d time.Duration) deed {
	return func(p *puppet, h host.Turn) error {
		time.Sleep(d)
		return add(n)(p, h)
	}
}

func TestUsageCountsCallsTurnsTimeAndBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := counted(t)
		g.must("a", slowly(1, 2*time.Millisecond))
		g.must("a", slowly(2, 3*time.Millisecond))
		g.look("a", func(*puppetState, host.Reader) error { time.Sleep(5 * time.Millisecond); return nil })
		d := g.today("a")
		if d.Calls != 3 || d.Turns != 3 || d.HandlerUS != 10_000 || d.BytesStored != g.status("a").Bytes || d.BytesWritten < d.BytesStored {
			t.Fatalf("got %+v; its status is %+v", d, g.status("a"))
		}
		same := func(what string) {
			t.Helper()
			if now := g.today("a"); now != d {
				t.Fatalf("%s: got %+v, want %+v", what, now, d)
			}
		}
		keys, bytes := g.status("a").Keys, g.status("a").Bytes
		time.Sleep(3 * time.Second) // shorter than a minute: the row is written before sleep
		g.restart()
		same("after a restart")
		if g.Memory.Awake.Load() != 0 {
			t.Error("asking has woken the actor")
		}
		if st := g.status("a"); st.Keys != keys || st.Bytes != bytes {
			t.Errorf("the status counts usage: %+v", st)
		}
		g.must("a", add(0))
		d = g.today("a")
		if d.Calls != 4 || d.Turns != 4 {
			t.Fatalf("after another call: %+v", d)
		}
		time.Sleep(10 * time.Minute)
		same("after the sleep")
		wantCode(t, g.verb("b", host.UsageGet, nil, nil), host.NotFound)
	})
}

func TestCrashLosesTheUsageOfTheLastMinuteAtMost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := counted(t)
		for range 10 {
			g.must("a", add(1))
			time.Sleep(20 * time.Second)
		}
		g.must("b", add(1)) // which makes what was written before durable
		before := g.today("a")
		g.cut(1, 0)
		if after := g.today("a"); after.Calls < before.Calls-3 || after.Calls > before.Calls {
			t.Errorf("%d calls after the crash, %d before", after.Calls, before.Calls)
		}
	})
}

func TestUsageIsKeptByDay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := counted(t)
		time.Sleep(12 * time.Hour) // what is done at midnight may be of the day after
		g.must("a", add(1))
		first := g.today("a")
		time.Sleep(72 * time.Hour)
		if d := g.days("a"); len(d) != 4 || d[0] != first || d[3].Calls != 0 || d[1].BytesStored != first.BytesStored || d[3].BytesStored != first.BytesStored {
			t.Fatalf("three days later: %+v", d)
		}
		g.must("a", func(p *puppet, h host.Turn) error { p.s.Log = append(p.s.Log, "more"); return nil })
		last := g.today("a")
		if d := g.days("a"); d[2].BytesStored != first.BytesStored || last.BytesStored <= first.BytesStored || last.Calls != 1 {
			t.Fatalf("after another call: %+v", d)
		}
		for range 2 * usage.Kept {
			g.must("a", add(1))
			time.Sleep(24 * time.Hour)
		}
		rows := g.storedDays("a")
		if d := g.days("a"); len(d) != usage.Kept || len(rows) > usage.Kept || d[0].Calls != 1 || rows[len(rows)-1]-rows[0] >= usage.Kept {
			t.Errorf("%d days, %d rows: %v", len(d), len(rows), rows)
		}
	})
}

func TestUsageGoesWithTheActor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := counted(t)
		for range 3 {
			g.must("a", add(1))
			g.must("a", add(1))
			time.Sleep(2 * time.Minute)
			g.must("a", add(1))
			if err := g.Destroy(context.Background(), pAddr("a")); err != nil {
				t.Fatal(err)
			}
			wantCode(t, g.verb("a", host.UsageGet, nil, nil), host.NotFound)
			g.must("a", add(1))
			if d := g.today("a"); d.Calls != 1 {
				t.Fatalf("a successor has %+v", d)
			}
			g.restart()
			if d := g.today("a"); d.Calls != 1 {
				t.Fatalf("after a restart a successor has %+v", d)
			}
			if err := g.Destroy(context.Background(), pAddr("a")); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func TestUsageOfManyActorsIsPagedAndWakesNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := counted(t)
		for i := range 7 {
			for range i + 1 {
				g.must(fmt.Sprint("k", i), add(1))
			}
		}
		g.restart()
		g.must("k3", add(1))
		time.Sleep(time.Hour)
		awake := g.Memory.Awake.Load()
		var calls []int64
		q := usage.Query{Type: "p", Limit: 3}
		first, err := g.Usage(context.Background(), q)
		if err != nil {
			t.Fatal(err)
		}
		for {
			page, err := g.Usage(context.Background(), q)
			if err != nil {
				t.Fatal(err)
			}
			for _, a := range page.Actors {
				calls = append(calls, a.Calls)
			}
			if q.Cursor = page.Cursor; q.Cursor == "" {
				break
			}
		}
		if want := []int64{1, 2, 3, 5, 5, 6, 7}; !slices.Equal(calls, want) || g.Memory.Awake.Load() != awake {
			t.Errorf("%v, want %v", calls, want)
		}
		yesterday := time.Now().Add(-24 * time.Hour).UTC().Format(time.DateOnly)
		if page, err := g.Usage(context.Background(), usage.Query{Day: yesterday}); err != nil || len(page.Actors) != 0 || page.Day != yesterday {
			t.Errorf("before their creation: %+v, %v", page, err)
		}
		for field, q := range map[string]usage.Query{"day": {Day: "tomorrow"}, "prefix": {Prefix: []string{"x"}}, "limit": {Limit: 1001},
			"cursor": {Type: "p", Day: yesterday, Cursor: first.Cursor}} {
			_, err := g.Usage(context.Background(), q)
			if e := wantCode(t, err, host.InvalidArgument); e.Metadata["field"] != field {
				t.Errorf("the field of %v is %q", e, e.Metadata["field"])
			}
		}
		tomorrow := time.Now().Add(24 * time.Hour).UTC().Format(time.DateOnly)
		for in, field := range map[string]string{
			`{"from":"x"}`: "from", `{"to":"2026-13-01"}`: "to", `{"from":"1999-12-02","to":"1999-12-01"}`: "to", `{"to":"` + tomorrow + `"}`: "to", `{"day":1}`: "day",
		} {
			r := &host.Request{Address: pAddr("k3"), Method: host.UsageGet, Codec: host.JSON, Input: []byte(in)}
			_, err := g.Call(context.Background(), r)
			if e := wantCode(t, err, host.InvalidArgument); e.Metadata["field"] != field {
				t.Errorf("%s: the field of %v is %q", in, e, e.Metadata["field"])
			}
		}
	})
}

func TestTopHasTheActorsThatDidMostInTheLastMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := counted(t)
		top := func(by usage.Measure, limit int) (keys []string) {
			t.Helper()
			synctest.Wait()
			out, err := g.Top(usage.TopQuery{By: by, Limit: limit})
			if err != nil {
				t.Fatal(err)
			}
			for _, a := range out.Actors {
				keys = append(keys, a.Key...)
			}
			return keys
		}
		for i, key := range []string{"a", "b", "c", "d"} {
			for range i + 1 {
				g.must(key, slowly(1, time.Duration(4-i)*10*time.Millisecond))
			}
		}
		g.must("a", func(p *puppet, h host.Turn) error {
			for range 100 {
				p.s.Log = append(p.s.Log, "more")
			}
			return nil
		})
		for by, want := range map[usage.Measure]string{usage.ByTurns: "[d c]", usage.ByBytes: "[a d]", usage.ByTime: "[b c]"} {
			if got := fmt.Sprint(top(by, 2)); got != want {
				t.Errorf("by %s: %s, want %s", by, got, want)
			}
		}
		if got := top(usage.BySize, 1); len(got) != 1 || got[0] != "a" {
			t.Errorf("by size: %v", got)
		}
		time.Sleep(50 * time.Second) // of which the actors sleep after a minute without work
		g.must("a", add(1))
		time.Sleep(50 * time.Second)
		if got := top(usage.ByTurns, 0); len(got) != 1 || got[0] != "a" {
			t.Errorf("later: %v", got)
		}
		time.Sleep(5 * time.Minute)
		if got := top(usage.ByTurns, 0); len(got) != 0 {
			t.Errorf("in the end: %v", got)
		}
		_, err := g.Top(usage.TopQuery{By: "x"})
		if e := wantCode(t, err, host.InvalidArgument); e.Metadata["field"] != "by" {
			t.Errorf("the field is %q", e.Metadata["field"])
		}
	})
}

func TestEveryActionIsCountedOnceThoughTheActorSleeps(t *testing.T) {
	g := counted(t)
	var wg sync.WaitGroup
	const each = 50
	for range 4 {
		wg.Go(func() {
			for i := range each {
				if err := g.do("a", add(1)); err != nil {
					t.Error(err)
				}
				if i%5 == 0 {
					g.verb("a", host.ActorSleep, nil, nil)
				}
			}
		})
	}
	stop := make(chan struct{})
	var reader sync.WaitGroup
	reader.Go(func() {
		last := int64(0)
		for {
			select {
			case <-stop:
				return
			default:
			}
			var out usage.GetOutput
			if g.verb("a", host.UsageGet, usage.GetInput{}, &out) != nil {
				continue
			}
			n := int64(0)
			for _, d := range out.Days {
				n += d.Calls
			}
			if n < last {
				t.Errorf("%d calls after %d", n, last)
			}
			last = n
		}
	})
	wg.Wait()
	close(stop)
	reader.Wait()
	g.restart()
	n := int64(0)
	for _, d := range g.days("a") {
		n += d.Calls
	}
	if want := int64(4 * each); n != want {
		t.Errorf("%d calls, want %d", n, want)
	}
}

// storedDays are the days of which an actor has rows.
func (g *stage) storedDays(key string) (days []uint64) {
	g.t.Helper()
	id, _, err := g.store.Lookup(g.Identity(pAddr(key)))
	if err != nil {
		g.t.Fatal(err)
	}
	snap := g.store.Snapshot(id)
	defer snap.Close()
	start, end := keyspace.Usage.Range()
	if err := snap.Scan(start, end, func(key, _ []byte) bool {
		n, _ := keyspace.Usage.Parse(key)
		days = append(days, n)
		return true
	}); err != nil {
		g.t.Fatal(err)
	}
	return days
}

// TestUsageOutlivesAClockThatIsWrong lets the clock be a year ahead for a call.
func TestUsageOutlivesAClockThatIsWrong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := counted(t)
		for range 3 {
			g.must("a", add(1))
			time.Sleep(24 * time.Hour)
		}
		time.Sleep(365 * 24 * time.Hour)
		g.must("a", add(1))
		time.Sleep(5 * time.Minute)
		if days := g.storedDays("a"); len(days) != 4 {
			t.Errorf("rows of the days %v are left", days)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		g := counted(t)
		g.must("a", add(1))
		first := g.today("a").BytesStored
		g.mustVerb("a", host.ActorSleep, nil, nil)
		g.stop()
		g.future("a", uint64(usage.DayOf(time.Now())+500), 7)
		g.start()
		time.Sleep(48 * time.Hour)
		for _, d := range g.days("a") {
			if d.BytesStored != first {
				t.Errorf("%+v; it has stored %d", d, first)
			}
		}
	})
}

// behind changes the rows of an actor of a node that is stopped.
func (g *stage) behind(key string, change func(*engine.Space) error) {
	g.t.Helper()
	store, err := engine.Open(g.t.Context(), engine.Options{Dir: "store", Disk: g.disk, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		g.t.Fatal(err)
	}
	defer store.Close()
	id, _, err := store.Lookup(engine.Identity{Namespace: "default", Type: "p", Key: []string{key}})
	if err != nil {
		g.t.Fatal(err)
	}
	space, err := store.OpenSpace(id)
	if err != nil {
		g.t.Fatal(err)
	}
	defer space.Close()
	if err := change(space); err != nil {
		g.t.Fatal(err)
	}
}

// future writes a row of a day into the store of a node that is stopped.
func (g *stage) future(key string, day uint64, stored int64) {
	g.t.Helper()
	value, err := record.Encode(&struct {
		_                                            struct{} `cbor:",toarray"`
		Calls, Turns, Time, Written, Sent, Now, Then int64
	}{Now: stored, Then: stored})
	if err != nil {
		g.t.Fatal(err)
	}
	g.behind(key, func(space *engine.Space) error {
		return space.Aside(func(a *engine.Aside) error { return a.Put(keyspace.Usage.Append(nil, day), value) })
	})
}

// TestUsageCountsWhatFails calls an action that fails in each way.
func TestUsageCountsWhatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := counted(t)
		g.must("a", add(1))
		want := g.today("a")
		for name, f := range map[string]deed{
			"an error": failing,
			"a panic":  func(*puppet, host.Turn) error { panic("on purpose") },
		} {
			if g.do("a", f) == nil {
				t.Fatal(name)
			}
			time.Sleep(10 * time.Second) // the actor wakes again after a while
			want.Calls, want.Turns = want.Calls+1, want.Turns+1
			if d := g.today("a"); d.Calls != want.Calls || d.Turns != want.Turns || d.BytesStored != want.BytesStored {
				t.Errorf("after %s: %+v, want %+v", name, d, want)
			}
		}
		r := request(add(1))
		r.IdempotencyKey = "once"
		for i := range 3 {
			if _, err := g.Call(context.Background(), r); err != nil {
				t.Fatal(err)
			}
			want.Calls++
			if i == 0 {
				want.Turns++
			}
		}
		if d := g.today("a"); d.Calls != want.Calls || d.Turns != want.Turns {
			t.Errorf("after repeats: %+v, want %+v", d, want)
		}
		r = request(add(1))
		r.Method = "nothing"
		_, err := g.Call(context.Background(), r)
		wantCode(t, err, host.UnknownMethod)
		if d := g.today("a"); d.Calls != want.Calls || d.Turns != want.Turns {
			t.Errorf("after a refusal: %+v, want %+v", d, want)
		}
	})
}

func TestUsageOfADayThatIsNotKeptIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := counted(t)
		g.must("a", add(1))
		time.Sleep(100 * 24 * time.Hour)
		on := func(ago int) error {
			_, err := g.Usage(context.Background(), usage.Query{Day: usage.FormatDay(usage.DayOf(time.Now()) - int64(ago))})
			return err
		}
		if err := on(usage.Kept - 1); err != nil {
			t.Error(err)
		}
		if e := wantCode(t, on(usage.Kept), host.InvalidArgument); e.Metadata["field"] != "day" {
			t.Errorf("the field of %v", e)
		}
	})
}

// TestUsageCountsEventsThatClientsGet has followers of some events and of all.
func TestUsageCountsEventsThatClientsGet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := counted(t, &puppetType{name: "p", events: []host.Event{{Name: "said"}, {Name: "done"}}})
		g.must("a", add(1))
		for _, names := range [][]string{nil, {"done"}, {"said", "done"}} {
			s, err := g.Subscribe(context.Background(), pAddr("a"), host.Subscription{Names: names})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
		}
		before := g.today("a")
		g.must("a", func(_ *puppet, h host.Turn) error { return h.Emit(0, []byte(`"0123456789"`)) })
		after := g.today("a")
		if got, want := after.BytesSent-before.BytesSent, int64(2*len(`said"0123456789"`)); got < want || got > want+4 { // and the answer
			t.Errorf("%d bytes are sent, want %d", got, want)
		}
	})
}

// TestUsageOfActorsThatSleepIsWrittenByTheMinute has an actor that falls asleep again and again.
func TestUsageOfActorsThatSleepIsWrittenByTheMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := counted(t)
		for range 5 {
			g.must("a", add(1))
			g.mustVerb("a", host.ActorSleep, nil, nil)
		}
		before := g.today("a")
		if before.Calls != 5 {
			t.Fatalf("%d calls that nobody has written", before.Calls)
		}
		g.must("b", add(1)) // which makes what was written before durable
		g.cut(1, 0)
		if after := g.today("a"); after.Calls != 0 {
			t.Errorf("%d calls were written within the minute", after.Calls)
		}
		g.must("a", add(1))
		g.mustVerb("a", host.ActorSleep, nil, nil)
		time.Sleep(61 * time.Second)
		g.must("b", add(1))
		before = g.today("a")
		g.cut(1, 0)
		if after := g.today("a"); before.Calls != 1 || after != before {
			t.Errorf("%+v after the crash, %+v before", after, before)
		}
		g.must("a", add(1)) // of which a successor has nothing
		g.mustVerb("a", host.ActorSleep, nil, nil)
		if err := g.Destroy(context.Background(), pAddr("a")); err != nil {
			t.Fatal(err)
		}
		g.must("a", add(1))
		time.Sleep(5 * time.Minute)
		if d := g.today("a"); d.Calls != 1 {
			t.Errorf("a successor has %+v", d)
		}
	})
}
