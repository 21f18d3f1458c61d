package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/audit"
	"github.com/cairn-run/cairn/actor/host/changes"
	"github.com/cairn-run/cairn/actor/host/trace"
	"github.com/cairn-run/cairn/actor/kv"
	"github.com/cairn-run/cairn/runtime/client"
)

func TestAStreamSurvivesItsConnectionsUntilItsActorEnds(t *testing.T) {
	onStage(t, client.Options{}, func(t *testing.T, s *stage, c *client.Client) {
		s.emit(3)
		stream := s.open(c, host.Subscription{Names: []string{"said", "left"}})
		at, known := stream.(*client.Stream).Position()
		errorIf(t, at.Sequence != 3 || !known, "position %v, %v", at, known)
		s.cut() // before the first event: the node named the position
		s.emit(1)
		s.expect(stream, 4, 4)
		last := uint64(4)
		for ; last < 100; last += 5 {
			s.emit(2)
			s.cut()
			s.emit(3)
			s.expect(stream, last+1, last+5)
		}
		for _, sub := range s.asked("subscribe") {
			errorIf(t, !strings.Contains(sub, "{Names:[said left] "), "%s", sub)
		}
		s.stop() // the node starts again
		s.emit(1)
		time.Sleep(time.Minute)
		s.start()
		s.expect(stream, last+1, last+1)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		wantCode(t, errOf(stream.Next(ctx)), host.DeadlineExceeded)
		s.emit(1)
		s.call("leave", "")
		s.expect(stream, last+2, last+2)
		for range 2 {
			wantCode(t, errOf(stream.Next(t.Context())), host.Destroyed)
		}
	})
}

func TestAStreamEndsWhenItsActorWasBornAgainWhileItWasAway(t *testing.T) {
	onStage(t, client.Options{}, func(t *testing.T, s *stage, c *client.Client) {
		s.emit(3)
		st, err := s.node.Lookup(t.Context(), room)
		must(t, err)
		stream := s.open(c, host.Subscription{Resume: true})
		s.expect(stream, 1, 3)
		s.away(s.reborn)
		s.emit(5)
		wantCode(t, errOf(stream.Next(t.Context())), host.Destroyed)
		all := s.asked("subscribe")
		last := all[len(all)-1]
		errorIf(t, !strings.Contains(last, "After:3 Life:"+st.ID), "it asked to go on with %s", last)
	})
}

func TestASubscriberIsToldThatItsPositionIsOfAnotherLife(t *testing.T) {
	onStage(t, client.Options{}, func(t *testing.T, s *stage, c *client.Client) {
		s.call("none", "")
		stream := s.open(c, host.Subscription{Resume: true, After: 3, Life: "0a3f6931-52b4-8a01-9c3e-5d0f2b7c8e14"})
		d, err := stream.Next(t.Context())
		errorIf(t, err != nil || !d.Reset || d.Missed != 0 || len(d.Events) != 0, "%+v, %v", d, err)
		s.emit(2)
		s.expect(stream, 1, 2)
		synctest.Wait()
		s.cut() // it continues in the current life
		s.emit(1)
		s.expect(stream, 3, 3)
	})
}

func TestASlowReaderGetsEverythingThatIsKept(t *testing.T) {
	onStage(t, client.Options{}, func(t *testing.T, s *stage, c *client.Client) {
		stream := s.open(c, host.Subscription{})
		for range 2 {
			s.emit(3000)
			time.Sleep(10 * time.Minute)
		}
		s.expect(stream, 1, 6000)
		errorIf(t, len(s.asked("subscribe")) < 2, "the reader was not too slow for its first stream")
		s.restart(4)
		s.last = 0
		s.emit(9)
		missed := s.expect(s.open(c, host.Subscription{Resume: true, After: 1}), 6, 9)
		errorIf(t, missed != 4, "%d missed", missed)
	})
}

func TestAStreamThatFallsSilentIsOpenedAnew(t *testing.T) {
	onStage(t, client.Options{StreamSilence: 10 * time.Second}, func(t *testing.T, s *stage, c *client.Client) {
		stream := s.open(c, host.Subscription{})
		time.Sleep(11 * time.Second) // the node's heartbeats come every 15 s
		synctest.Wait()
		n := len(s.asked("subscribe"))
		errorIf(t, n != 2, "%d subscriptions", n)
		s.emit(1)
		s.expect(stream, 1, 1)
		stream.Close()
		wantCode(t, errOf(stream.Next(t.Context())), host.Canceled)
	})
}

func TestAnOutageEndsWhatWaitsNoLonger(t *testing.T) {
	onStage(t, client.Options{MaxOutage: time.Minute}, func(t *testing.T, s *stage, c *client.Client) {
		wantCode(t, errOf(c.Subscribe(t.Context(), host.Address{Type: "none"}, host.Subscription{})), host.UnknownType)
		commas := host.Subscription{Names: []string{"a,b"}}
		wantCode(t, errOf(c.Subscribe(t.Context(), room, commas)), host.InvalidArgument)
		stream := s.open(c, host.Subscription{})
		s.stop()
		start := time.Now()
		wantCode(t, errOf(stream.Next(t.Context())), host.Unavailable)
		took := time.Since(start)
		errorIf(t, took < time.Minute || took > 2*time.Minute, "after %v", took)
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		wantCode(t, errOf(c.Subscribe(ctx, room, host.Subscription{})), host.DeadlineExceeded)
		wantCode(t, errOf(c.Subscribe(t.Context(), room, host.Subscription{})), host.Unavailable)
	})
}

// A feed has each change once and in order, both on a node and over a client whose connections
// break.
func TestChangesAreFollowedOverConnectionsThatBreak(t *testing.T) {
	onStage(t, client.Options{Token: "secret"}, func(t *testing.T, s *stage, c *client.Client) {
		s.call("none", "")
		direct := rooms.Ref(s.node, "a").KV()
		commit := func(m ...kv.Mutation) {
			t.Helper()
			must(t, errOf(direct.Commit(t.Context(), kv.Commit{Mutations: m})))
		}
		for _, err := range direct.Feed(t.Context(), kv.FeedConfig{}) {
			wantCode(t, err, host.FailedPrecondition)
		}
		sc, err := direct.SetScope(t.Context(), kv.Key{}, kv.Policy{Log: true, LogEvents: 20, LogBytes: 1 << 20, LogFor: time.Hour})
		errorIf(t, err != nil || !sc.Log || sc.LogEvents != 20 || sc.LogBytes != 1<<20 || sc.LogFor != time.Hour, "%+v %v", sc, err)
		commit(kv.Put(kv.Key{"early"}, kv.Text("x")))
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var over sync.WaitGroup
		var mu sync.Mutex
		told := make([][]string, 3)
		for i, f := range []struct {
			store kv.Store
			c     kv.FeedConfig
		}{
			{direct, kv.FeedConfig{New: true}}, {rooms.Ref(c, "a").KV(), kv.FeedConfig{Prefixes: []kv.Key{{"n"}}}},
			{rooms.Ref(c, "a").KV(), kv.FeedConfig{New: true}},
		} {
			over.Go(func() {
				for e, err := range f.store.Feed(ctx, f.c) {
					text := fmt.Sprint(e.Sequence, e.Cause, e.Key, string(e.Value.Data))
					if err != nil {
						text = string(host.CodeOf(err))
					}
					mu.Lock()
					told[i] = append(told[i], text)
					mu.Unlock()
				}
			})
		}
		synctest.Wait()
		for i := range 30 {
			if i%7 == 0 {
				s.cut()
			}
			commit(kv.Put(kv.Key{"n", i}, kv.JSON(fmt.Append(nil, i))))
			time.Sleep(time.Duration(i%4) * 300 * time.Millisecond)
		}
		time.Sleep(time.Minute)
		must(t, s.node.Destroy(t.Context(), room))
		time.Sleep(time.Minute)
		cancel()
		over.Wait()
		var want []string
		for i := range 30 {
			want = append(want, fmt.Sprint(i+2, "set", kv.Key{"n", int64(i)}, fmt.Sprint(i)))
		}
		want = append(want, string(host.Destroyed))
		for i, got := range told {
			errorIf(t, !slices.Equal(got, want), "reader %d was told %q", i, got)
		}
	})
}

var rooms = actor.NewType[struct{}]("room")

// A follower is a loop over changes that records them.
type follower struct {
	mu    sync.Mutex
	state map[string]kv.Entry
	told  []string // since the last call of news
	err   error
	over  sync.WaitGroup
	stop  context.CancelFunc
}

func followStore(t *testing.T, store kv.Store, c kv.WatchConfig) *follower {
	ctx, cancel := context.WithCancel(t.Context())
	f := &follower{state: make(map[string]kv.Entry), stop: cancel}
	f.over.Go(func() {
		for changes, err := range store.Watch(ctx, c) {
			f.mu.Lock()
			f.err = err
			for _, c := range changes.Changes {
				key := fmt.Sprint(c.Key)
				before, known := f.state[key]
				switch {
				case c.Entry == nil:
					delete(f.state, key)
					f.told = append(f.told, key+" gone")
				case known && before.Version == c.Entry.Version:
					t.Errorf("%s is told again", key)
				default:
					f.state[key] = *c.Entry
					f.told = append(f.told, key+"="+string(c.Entry.Value.Data))
				}
			}
			f.mu.Unlock()
		}
	})
	t.Cleanup(func() {
		cancel()
		f.over.Wait()
	})
	return f
}

// news returns the changes since the last call.
func (f *follower) news() string {
	synctest.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	told := strings.Join(f.told, ", ")
	f.told = nil
	return told
}

// A watcher receives each lasting state once, and the removals of the meantime, both on a node and
// over a client whose connections break.
func TestAStoreIsWatchedOverConnectionsThatBreak(t *testing.T) {
	onStage(t, client.Options{Token: "secret"}, func(t *testing.T, s *stage, c *client.Client) {
		s.call("none", "")
		direct := rooms.Ref(s.node, "a").KV()
		commit := func(m ...kv.Mutation) {
			t.Helper()
			must(t, errOf(direct.Commit(t.Context(), kv.Commit{Mutations: m})))
		}
		put := func(key string, v string) kv.Mutation { return kv.Put(kv.Key{"k", key}, kv.Text(v)) }
		commit(put("a", "1"), put("b", "1"), kv.Put(kv.Key{"other"}, kv.Text("")))
		all := kv.WatchConfig{Keys: []kv.Key{{"no"}}, Prefixes: []kv.Key{{"k"}}, Initial: true}
		later := all
		later.Initial = false
		followers := []*follower{
			followStore(t, direct, all), followStore(t, rooms.Ref(c, "a").KV(), all), followStore(t, rooms.Ref(c, "a").KV(), later),
		}
		expect := func(first, rest string) {
			t.Helper()
			for i, f := range followers {
				want := first
				if i == 2 {
					want = rest
				}
				got := f.news()
				errorIf(t, got != want, "follower %d is told %q, not %q", i, got, want)
			}
		}
		same := func(news string) {
			t.Helper()
			expect(news, news)
		}
		expect("[k a]=1, [k b]=1, [no] gone", "")
		commit(put("a", "2"), kv.Put(kv.Key{"k", 1.5, []byte{0, 1}}, kv.Bytes([]byte{0, 0xFF})))
		same("[k a]=2, [k 1.5 [0 1]]=\x00\xff")
		s.away(func() {
			commit(kv.Delete(kv.Key{"k", "b"}), put("c", "3").For(time.Minute))
			synctest.Wait()
			followers[0].news()
		})
		time.Sleep(5 * time.Second)
		for _, f := range followers[1:] {
			got := f.news()
			errorIf(t, got != "[k c]=3, [k b] gone", "after an outage: %q", got)
		}
		s.restart(0) // of the gateway, which announces it
		time.Sleep(5 * time.Second)
		same("")
		time.Sleep(time.Minute)
		same("[k c] gone")
		for range 5 {
			s.cut()
			time.Sleep(5 * time.Second)
		}
		same("")
		must(t, rooms.Ref(s.node, "a").Destroy(t.Context()))
		for i, f := range followers {
			f.over.Wait()
			wantCode(t, f.err, host.Destroyed, i)
			errorIf(t, len(f.state) != 2, "follower %d knows %v", i, f.state)
		}
	})
}

func TestWatchingEndsWithItsErrorAndItsContext(t *testing.T) {
	onStage(t, client.Options{Attempts: 2}, func(t *testing.T, s *stage, c *client.Client) {
		for _, node := range []actor.Node{s.node, c} {
			for _, w := range []struct {
				ref  actor.Ref[struct{}]
				c    kv.WatchConfig
				code host.Code
			}{
				{rooms.Ref(node, "a"), kv.WatchConfig{}, host.InvalidArgument},
				{rooms.Ref(node, "a"), kv.WatchConfig{Prefixes: make([]kv.Key, 17)}, host.TooLarge},
				{actor.NewType[struct{}]("unknown").Ref(node, "a"), kv.WatchConfig{Prefixes: []kv.Key{{}}}, host.UnknownType},
				{rooms.Ref(nil, "a"), kv.WatchConfig{Prefixes: []kv.Key{{}}}, host.InvalidArgument},
			} {
				n := 0
				for _, err := range w.ref.KV().Watch(t.Context(), w.c) {
					n++
					wantCode(t, err, w.code)
				}
				errorIf(t, n != 1, "%d errors", n)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			var last error
			for _, err := range rooms.Ref(node, "a").KV().Watch(ctx, kv.WatchConfig{Keys: []kv.Key{{"a"}}}) {
				last = err
			}
			cancel()
			wantCode(t, last, host.DeadlineExceeded)
			for changes, err := range rooms.Ref(node, "a").KV().Watch(t.Context(), kv.WatchConfig{Keys: []kv.Key{{"a"}}, Initial: true}) {
				errorIf(t, err != nil || len(changes.Changes) != 1 || changes.Changes[0].Entry != nil ||
					changes.Life != "", "%+v, %v", changes, err)
				break
			}
		}
	})
}

// A follower of changes that connects again receives the gap before any other change.
func TestChangesAreFollowedOverALostConnection(t *testing.T) {
	asked := 0
	c := served(t, func(w http.ResponseWriter, r *http.Request) {
		asked++
		errorIf(t, r.URL.RequestURI() != "/-/changes?kinds=event%2Ckv&prefix=a&prefix=b&type=room", "asked for %s", r.URL)
		w.Header().Set("Content-Type", "text/event-stream")
		if asked == 2 {
			io.WriteString(w, "retry: 1\n\n")
			return
		}
		fmt.Fprintf(w, "\n:\nevent: changes\ndata: {\"type\":\"room\",\"version\":%d,\"changes\":[{\"kind\":\"kv\",\"data\":{}}]}\n\n", asked)
	}, client.Options{})
	enough := errors.New("enough")
	var told []string
	err := c.FollowChanges(t.Context(),
		changes.Query{Type: "room", Prefix: []string{"a", "b"}, Kinds: []string{"event", "kv"}}, func(r *changes.Record) error {
			if told = append(told, fmt.Sprintf("%v %d %d", r.Gap, r.Version, len(r.Changes))); len(told) == 4 {
				return enough
			}
			return nil
		})
	want := []string{"false 1 1", "true 0 0", "true 0 0", "false 3 1"}
	errorIf(t, err != enough || !slices.Equal(told, want), "%q, %v", told, err)
}

// The clocks of client and node may differ. The first connection begins at the node's present, and
// the next at the same time.
func TestTheAuditLogIsFollowedByTheClockOfTheNode(t *testing.T) {
	var asked []string
	c := served(t, func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.RawQuery+" "+r.Header.Get("Last-Event-ID"))
		w.Header().Set("Content-Type", "text/event-stream")
		w.Header().Set("Date", "Tue, 01 Jan 2030 00:00:00 GMT")
		switch len(asked) {
		case 2:
			fmt.Fprint(w, "id: 7\nevent: audit\ndata: {\"id\":7}\n\nid: 8\nevent: audit\ndata: {\"i") // half a record is none
		case 3:
			fmt.Fprint(w, "id: 8\nevent: audit\ndata: {\"id\":8}\n\n")
		default:
			io.WriteString(w, "\n")
		}
	}, client.Options{})
	enough := errors.New("enough")
	err := c.FollowAudit(t.Context(), audit.Query{}, func(r *audit.Record) error {
		if r.ID == 8 {
			return enough
		}
		return nil
	})
	const since = "since=2030-01-01T00%3A00%3A00Z"
	want := []string{" ", since + " ", since + " 7"}
	errorIf(t, err != enough || !slices.Equal(asked, want), "%q, %v", asked, err)
}

// A lost connection is opened again, and the reader is told that spans may be missing.
func TestSpansAreFollowedOverConnections(t *testing.T) {
	const life = "0a3f6931-52b4-8a01-9c3e-5d0f2b7c8e14"
	connections := 0
	c := served(t, func(w http.ResponseWriter, r *http.Request) {
		const want = "/actors/room/a/-/traces?errors=true&name=turn&trace_id=7"
		errorIf(t, r.URL.RequestURI() != want || r.Header.Get("Accept") != "text/event-stream", "asked for %s", r.URL)
		last := r.Header.Get("Last-Event-ID")
		errorIf(t, (last == life) != (connections > 0), "connection %d goes on with the life %q", connections+1, last)
		w.Header().Set("Content-Type", "text/event-stream")
		switch connections++; connections {
		case 1:
			fmt.Fprint(w, "retry: 1\nid: "+life+"\n\n:\n\nevent: span\ndata: {\"name\":\"a\",\"attributes\":{\"n\":9007199254740993}}\n\n"+
				"event: cairn.gap\ndata: {\"missed\":3}\n\nevent: span\ndata: {\"na")
		case 2:
			io.WriteString(w, "\nevent: cairn.bye\ndata: {\"code\":\"unavailable\"}\n\n")
		case 3:
			fmt.Fprint(w,
				"event: other\ndata: 1\n\nevent: span\ndata: {\"name\":\"b\"}\n\nevent: cairn.bye\ndata: {\"code\":\"destroyed\",\"message\":\"gone\"}\n\n")
		}
	}, client.Options{})
	tail, err := c.FollowTraces(t.Context(), host.Address{Type: "room", Key: []string{"a"}},
		trace.FollowInput{TraceID: "7", Name: "turn", Errors: true})
	must(t, err)
	defer tail.Close()
	errorIf(t, tail.Life() != life, "it follows the life %q", tail.Life())
	var got string
	for err == nil {
		var news trace.News
		if news, err = tail.Next(t.Context()); err == nil {
			for _, s := range news.Spans {
				got += fmt.Sprint(s.Name, s.Attributes)
			}
			got += fmt.Sprintf(" missed %d lost %v; ", news.Missed, news.Lost)
		}
	}
	const want = "amap[n:9007199254740993] missed 0 lost false;  missed 3 lost false; bmap[] missed 0 lost true; "
	wantCode(t, err, host.Destroyed)
	errorIf(t, got != want, "%s; want %s", got, want)
}
