package node

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/kv"
	"github.com/cairn-run/cairn/engine"
)

// logs sets the policy of the whole store of actor a, which has a log.
func (g *stage) logs(p kv.ScopePolicy) {
	g.t.Helper()
	p.Log = true
	g.mustVerb("a", host.KVSetScope, kv.SetScopeInput{Prefix: kv.Key{}, ScopePolicy: p}, nil)
}

// A follower follows the log of actor a.
type follower struct {
	in   kv.FeedInput
	seen []kv.Event
	gaps []kv.Gap
	made map[string]string // the entries that the events make
}

func followerFrom(after uint64, prefixes ...kv.Key) *follower {
	return &follower{in: kv.FeedInput{After: &after, Prefixes: prefixes}, made: map[string]string{}}
}

// read reads one answer.
func (f *follower) read(g *stage, wait time.Duration) int {
	g.t.Helper()
	var out kv.FeedOutput
	f.in.WaitMS = wait.Milliseconds()
	g.mustVerb("a", host.KVFeed, f.in, &out)
	at := *f.in.After
	if out.Gap != nil {
		if f.gaps = append(f.gaps, *out.Gap); out.Gap.Reset {
			at = 0
		}
		at = max(at, out.Gap.First-1)
	}
	for _, e := range out.Events {
		if e.Sequence <= at || len(f.in.Prefixes) == 0 && e.Sequence != at+1 {
			g.t.Errorf("event %d after %d", e.Sequence, at)
		}
		at = e.Sequence
		if delete(f.made, keyText(e.Key)); e.Op == kv.OpPut {
			f.made[keyText(e.Key)] = string(e.Value)
		}
	}
	if out.Next < at {
		g.t.Errorf("the position is %d after event %d", out.Next, at)
	}
	f.seen = append(f.seen, out.Events...)
	*f.in.After, f.in.Life = out.Next, out.Life
	return len(out.Events)
}

// text is what was read since it was last called.
func (f *follower) text() string {
	var b []string
	for _, gap := range f.gaps {
		b = append(b, fmt.Sprintf("%+v", gap))
	}
	for _, e := range f.seen {
		t := fmt.Sprintf("%d %s", e.Sequence, e.Cause)
		if t += keyText(e.Key) + string(e.Value); e.Range != nil {
			t += " of " + keyText(e.Range.Prefix) + keyText(e.Range.Start) + keyText(e.Range.End)
		}
		b = append(b, t)
	}
	f.gaps, f.seen = nil, nil
	return strings.Join(b, "; ")
}

func (f *follower) want(t *testing.T, want string) {
	t.Helper()
	if got := f.text(); got != want {
		t.Errorf("read  %s\nnot   %s", got, want)
	}
}

func TestTheFeedHasEachChangeInOrder(t *testing.T) {
	bubble(t, nil, nil, func(t *testing.T, g *stage) {
		wantCode(t, g.verb("a", host.KVFeed, kv.FeedInput{}, nil), host.NotFound)
		g.kv("before=1")
		if e := wantCode(t, g.verb("a", host.KVFeed, kv.FeedInput{}, nil), host.FailedPrecondition); e.Metadata["reason"] != "no_log" {
			t.Error(e)
		}
		g.logs(kv.ScopePolicy{})
		all, users := followerFrom(0), followerFrom(0, kv.Key{"user"})
		if all.read(g, 0); all.text() != "" {
			t.Error("there are events of before the log")
		}
		g.kv("user.a=1", "users=2", "user=3", "-users", "-nothing")
		g.kv("user.a=4@1000", "-user/", "x=5")
		g.mustVerb("a", host.KVCommit, json.RawMessage(`{"mutations":[{"op":"sum","key":["n"],"value":2},{"op":"sum","key":["n"],"value":3},
			{"op":"put","key":["id",{"$versionstamp":true}],"value":{"$versionstamp":true}},{"op":"delete_range","prefix":[]}]}`), nil)
		all.read(g, 0)
		stamp := all.seen[len(all.seen)-5].Key[1].(string)
		all.want(t, `1 set["user","a"]1; 2 set["users"]2; 3 set["user"]3; 4 delete["users"]; 5 set["user","a"]4; 6 delete_range["user"] of ["user"][][]; `+
			`7 delete_range["user","a"] of ["user"][][]; 8 set["x"]5; 9 set["n"]2; 10 set["n"]5; 11 set["id","`+stamp+`"]"`+stamp+`"; `+
			`12 delete_range["before"] of [][][]; 13 delete_range["id","`+stamp+`"] of [][][]; 14 delete_range["n"] of [][][]; `+
			`15 delete_range["x"] of [][][]`)
		users.read(g, 0)
		users.want(t, `1 set["user","a"]1; 3 set["user"]3; 5 set["user","a"]4; 6 delete_range["user"] of ["user"][][]; 7 delete_range["user","a"] of ["user"][][]`)
		if *users.in.After != 15 {
			t.Errorf("the position is %d", *users.in.After)
		}

		// A turn that is undone, alone or in part, leaves nothing.
		failed := errors.New("no")
		put := func(h host.Turn, key string) error {
			return h.KVPut([]byte("\x02"+key+"\x00"), []byte("1"), host.EncodedJSON, time.Time{})
		}
		_ = g.do("a", func(_ *puppet, h host.Turn) error { return errors.Join(put(h, "p"), failed) })
		g.must("a", func(_ *puppet, h host.Turn) error {
			undone, err := h.(kv.Committer).KVUpdate(func() error { return errors.Join(put(h, "q"), failed) })
			if !undone || !errors.Is(err, failed) {
				t.Error(undone, err)
			}
			return put(h, "r")
		})
		all.read(g, 0)
		all.want(t, `16 set["r"]1`)

		// Nobody reads or writes the stream by its name, or sees it in a listing.
		for method, in := range map[string]any{
			host.StreamRead: host.StreamReadInput{Stream: "$kv"}, host.StreamDelete: host.StreamInput{Stream: "$kv"}, host.StreamClose: host.StreamInput{Stream: "$kv"},
			host.StreamAppend: host.StreamAppendInput{Stream: "$kv", Items: []host.Raw{host.Raw("1")}}, host.StreamList: host.StreamListInput{Stream: "$kv"},
		} {
			wantCode(t, g.verb("a", method, in, nil), host.InvalidArgument)
		}
		var list host.StreamListOutput
		if g.mustVerb("a", host.StreamList, nil, &list); len(list.Streams) != 0 {
			t.Errorf("the streams are %v", list.Streams)
		}

		// Without a scope that logs, the log goes.
		g.mustVerb("a", host.KVRemoveScope, kv.RemoveScopeInput{Prefix: kv.Key{}}, nil)
		wantCode(t, g.verb("a", host.KVFeed, kv.FeedInput{}, nil), host.FailedPrecondition)
		g.logs(kv.ScopePolicy{})
		g.kv("s=1")
		late := followerFrom(3)
		late.read(g, 0)
		late.want(t, `{First:17 Missed:13 Reset:false}; 17 set["s"]1`)
	})
}

func TestFollowersWaitWithoutTheActor(t *testing.T) {
	bubble(t, nil, nil, func(t *testing.T, g *stage) {
		g.kv("a=1")
		g.logs(kv.ScopePolicy{})
		var now kv.FeedOutput
		g.kv("a=2")
		if g.mustVerb("a", host.KVFeed, kv.FeedInput{WaitMS: 60_000}, &now); now.Next != 1 || len(now.Events) != 0 || now.Life == "" {
			t.Errorf("%+v", now)
		}
		g.mustVerb("a", host.ActorSleep, nil, nil)
		f := followerFrom(now.Next)
		begin := time.Now()
		if n := f.read(g, time.Minute); n != 0 || time.Since(begin) != time.Minute {
			t.Error(n, time.Since(begin))
		}
		if st := g.status("a"); st.State != host.Asleep {
			t.Errorf("the actor is %s", st.State)
		}
		// What expires is told when it is purged, by an actor that sleeps until then.
		g.kv("t=1@2000", "-a")
		f.read(g, 0)
		f.want(t, `2 set["t"]1; 3 delete["a"]`)
		g.mustVerb("a", host.ActorSleep, nil, nil)
		begin = time.Now()
		f.read(g, time.Minute)
		f.want(t, `4 expired["t"]`)
		if d := time.Since(begin); d > 4*time.Second {
			t.Errorf("it was told after %s", d)
		}
		wantCode(t, g.do("a", func(_ *puppet, h host.Turn) error {
			_, err := h.Call(h, &host.Request{Address: pAddr("a"), Method: host.KVFeed, Codec: host.JSON, Input: []byte(`{"after":4,"wait_ms":5}`)})
			return err
		}), host.InvalidArgument)

		// The end of the life is told, to one that waits too.
		time.AfterFunc(time.Second, func() {
			if err := g.Destroy(t.Context(), pAddr("a")); err != nil {
				t.Error(err)
			}
		})
		err := g.verb("a", host.KVFeed, kv.FeedInput{After: f.in.After, Life: f.in.Life, WaitMS: 60_000}, nil)
		wantCode(t, err, host.Destroyed)
		wantCode(t, g.verb("a", host.KVFeed, f.in, nil), host.Destroyed)
		g.kv("b=1")
		g.logs(kv.ScopePolicy{})
		g.kv("b=2")
		f.read(g, 0)
		f.want(t, `{First:1 Missed:0 Reset:true}; 1 set["b"]2`)
	})
}

func TestTheLogForgetsWhatItsBoundsSay(t *testing.T) {
	bubble(t, nil, nil, func(t *testing.T, g *stage) {
		g.kv("a=0")
		g.logs(kv.ScopePolicy{LogEvents: 3})
		for i := range 10 {
			g.kv(fmt.Sprintf("a=%d", i))
		}
		f := followerFrom(2)
		f.read(g, 0)
		f.want(t, `{First:8 Missed:5 Reset:false}; 8 set["a"]7; 9 set["a"]8; 10 set["a"]9`)
		g.logs(kv.ScopePolicy{LogBytes: 1})
		g.kv("b=1", "c=2")
		f = followerFrom(0)
		f.read(g, 0)
		f.want(t, `{First:12 Missed:11 Reset:false}; 12 set["c"]2`)
		g.logs(kv.ScopePolicy{LogForMS: 1000})
		g.kv("d=1")
		time.Sleep(3 * time.Hour) // the purge of what is too old shares a time
		f = followerFrom(0)
		f.read(g, 0)
		f.want(t, `{First:14 Missed:13 Reset:false}`)
		if f.read(g, 0); f.text() != "" {
			t.Error("the gap is told again")
		}
		f = followerFrom(99) // a position of the future
		f.read(g, 0)
		f.want(t, `{First:14 Missed:13 Reset:true}`)
	})
}

// Writers change entries at random while the actor sleeps, the node restarts and the power fails. Each follower reads every event
// once, and the events make what is stored.
func TestFollowersKnowWhatIsStored(t *testing.T) {
	steps := 150
	if long() {
		steps = 1000
	}
	for seed := range uint64(2) {
		bubble(t, nil, nil, func(t *testing.T, g *stage) {
			r := rand.New(rand.NewPCG(seed, 15))
			g.kv("start=1", "-start")
			g.logs(kv.ScopePolicy{})
			followers := []*follower{followerFrom(0), followerFrom(0, kv.Key{"x", "n1"}, kv.Key{"y"}), followerFrom(0, kv.Key{"x"})}
			for i := range steps {
				key := fmt.Sprintf("%s.n%d.m%d", []string{"x", "y"}[r.IntN(2)], r.IntN(4), r.IntN(3))
				switch n := r.IntN(20); {
				case n < 8:
					g.kv(key+"="+fmt.Sprint(i), key+".z="+fmt.Sprint(i))
				case n < 11:
					g.kv(key + fmt.Sprintf("=1@%d", 1+r.IntN(3000)))
				case n < 13:
					g.kv("-" + key)
				case n < 15:
					g.kv("-" + key[:4] + "/")
				case n < 16:
					time.Sleep(time.Duration(r.IntN(2000)) * time.Millisecond)
				case n < 17:
					_ = g.verb("a", host.ActorSleep, nil, nil)
				case n < 18:
					g.restart()
				case n < 19:
					g.cut(seed, r.IntN(100))
				default:
					followers[r.IntN(len(followers))].read(g, 0)
				}
			}
			time.Sleep(time.Hour) // everything that expires has
			for _, f := range followers {
				for before := -1; before != int(*f.in.After); {
					before = int(*f.in.After)
					f.read(g, 0)
				}
				prefixes := f.in.Prefixes
				if prefixes == nil {
					prefixes = []kv.Key{{}}
				}
				for _, prefix := range prefixes {
					var out kv.ListOutput
					g.mustVerb("a", host.KVList, kv.ListInput{Selection: kv.Selection{Prefix: prefix}, Limit: 1000}, &out)
					for _, e := range out.Entries {
						if made := f.made[keyText(e.Key)]; made != string(e.Value) {
							t.Errorf("%s is %s, and the events make it %q", keyText(e.Key), e.Value, made)
						}
						delete(f.made, keyText(e.Key))
					}
				}
				if len(f.made) > 0 || len(f.gaps) > 0 {
					t.Errorf("the events make %v more, gaps %v", f.made, f.gaps)
				}
			}
		})
	}
}

// TestFollowersReadEachEventOnceWhateverTheCrash lets the power fail after every write and sync while entries change, and lets a
// follower go on, from where it was at that moment, on what is left.
func TestFollowersReadEachEventOnceWhateverTheCrash(t *testing.T) {
	const changes = 15
	type clone struct {
		disk *engine.Disk
		seen int
		at   uint64
		life string
	}
	bubble(t, nil, nil, func(t *testing.T, g *stage) {
		change := func(g *stage, i int) { g.kv(fmt.Sprintf("a.%d=%d", i, i), fmt.Sprintf("b.%d=%d", i, i)) }
		g.kv("a=0")
		g.logs(kv.ScopePolicy{})
		f := followerFrom(0)
		var clones []clone
		var mu sync.Mutex
		g.cuts(func(left *engine.Disk) {
			mu.Lock()
			defer mu.Unlock()
			clones = append(clones, clone{left, len(f.seen), *f.in.After, f.in.Life})
		}, func() {
			var reader sync.WaitGroup
			reader.Go(func() {
				for n := 0; n < 2*changes; {
					var out kv.FeedOutput
					g.mustVerb("a", host.KVFeed, kv.FeedInput{After: f.in.After, Life: f.in.Life, WaitMS: 60_000}, &out)
					mu.Lock()
					n += len(out.Events)
					f.seen, f.in.After, f.in.Life = append(f.seen, out.Events...), &out.Next, out.Life
					mu.Unlock()
				}
			})
			for i := range changes {
				change(g, i)
			}
			reader.Wait()
		})
		for i, c := range clones {
			m := stageOn(t, c.disk, nil, g.types...)
			var list kv.ListOutput
			m.mustVerb("a", host.KVList, kv.ListInput{Selection: kv.Selection{Prefix: kv.Key{"b"}}, Limit: 1000}, &list)
			for n := len(list.Entries); n < changes; n++ {
				change(m, n)
			}
			again := followerFrom(c.at)
			again.in.Life = c.life
			for again.read(m, 0) > 0 {
			}
			if c.seen+len(again.seen) != 2*changes || len(again.gaps) > 0 {
				t.Errorf("cut %d: %d events were seen before and %d after, with gaps %v", i, c.seen, len(again.seen), again.gaps)
			}
			m.stop()
		}
	})
}

// A handler puts and deletes with the calls of ctx.KV() and actor.Map. A waiting reader is told at once.
func TestWaitingReadersAreToldOfPutsOfHandlers(t *testing.T) {
	bubble(t, nil, nil, func(t *testing.T, g *stage) {
		g.kv("a=1")
		g.logs(kv.ScopePolicy{})
		f := followerFrom(0)
		time.AfterFunc(time.Second, func() {
			_ = g.do("a", func(_ *puppet, h host.Turn) error {
				return h.KVPut([]byte("\x02p\x00"), []byte("1"), host.EncodedJSON, time.Time{})
			})
		})
		begin := time.Now()
		f.read(g, time.Minute)
		if d := time.Since(begin); d > 2*time.Second {
			t.Errorf("the put was told after %s", d)
		}
		f.want(t, `1 set["p"]1`)
		time.AfterFunc(time.Second, func() {
			_ = g.do("a", func(_ *puppet, h host.Turn) error {
				_, err := h.KVDelete([]byte("\x02p\x00"))
				return err
			})
		})
		begin = time.Now()
		f.read(g, time.Minute)
		if d := time.Since(begin); d > 2*time.Second {
			t.Errorf("the delete was told after %s", d)
		}
	})
}

// A log that is to keep events for a second forgets the ones that it has.
func TestAShorterTimeOfALogHolds(t *testing.T) {
	for _, before := range []int64{0, 30 * 24 * 3600_000} {
		t.Run(fmt.Sprint(before), func(t *testing.T) {
			bubble(t, nil, nil, func(t *testing.T, g *stage) {
				g.kv("a=0")
				g.logs(kv.ScopePolicy{LogForMS: before})
				g.kv("a=1")
				g.logs(kv.ScopePolicy{LogForMS: 1000})
				time.Sleep(24 * time.Hour)
				f := followerFrom(0)
				if f.read(g, 0) > 0 {
					t.Errorf("a day later: %s", f.text())
				}
			})
		})
	}
}

// An entry that cannot be shown does not end the feed for all others.
func TestAFeedGoesPastWhatCannotBeShown(t *testing.T) {
	for name, c := range map[string]struct {
		key, value string
		encoding   host.Encoding
	}{
		"json": {"\x02p\x00", "{bad", host.EncodedJSON},
		"cbor": {"\x02p\x00", "\xff", host.EncodedCBOR},
		"key":  {"\xee", "1", host.EncodedJSON},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, nil, nil, func(t *testing.T, g *stage) {
				g.kv("a=1")
				g.logs(kv.ScopePolicy{})
				if err := g.do("a", func(_ *puppet, h host.Turn) error {
					return h.KVPut([]byte(c.key), []byte(c.value), c.encoding, time.Time{})
				}); err != nil {
					t.Fatal(err)
				}
				g.kv("b=1")
				var out kv.FeedOutput
				after := uint64(0)
				if err := g.verb("a", host.KVFeed, kv.FeedInput{After: &after}, &out); err != nil || len(out.Events) != 2 {
					t.Errorf("%v, %+v", err, out)
				}
			})
		})
	}
}
