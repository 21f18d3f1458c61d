package client_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-run/cairn/actor/host"
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
		s.cut() // it goes on in the life that it is in now
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
