package natspub

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/cairn-run/cairn/runtime/localnats"
)

// In a synctest bubble the client library must not be asked to flush or wait with a timeout of its own: it keeps timers
// in a pool that outlives the bubble. The publisher passes contexts instead, which is what this test relies on.
func TestServerAndPublisherRunInABubbleWithVirtualTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := localnats.Start(localnats.Options{})
		must(t, err)
		defer s.Close()
		got := make(chan *nats.Msg, 16)
		nc, err := s.Connect(nats.NoReconnect())
		must(t, err)
		defer nc.Close()
		must(t, errOf(nc.ChanSubscribe("cairn.>", got)))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		must(t, nc.FlushWithContext(ctx))

		var away atomic.Bool
		away.Store(true)
		began := time.Now()
		var attempts atomic.Int32
		box := newOutbox(t)
		p, err := Start(t.Context(), Options{Outbox: box, Dial: func(opts ...nats.Option) (*nats.Conn, error) {
			attempts.Add(1)
			if away.Load() {
				return nil, errors.New("away")
			}
			return s.Connect(opts...)
		}})
		must(t, err)
		set := emitted(0, 1, true, "moved")
		set.TimeMS = time.Now().UnixMilli()
		box.commit(p, set)
		time.Sleep(time.Minute) // virtual
		lag := p.Lag()
		errorIf(t, lag < 59*time.Second || lag > 61*time.Second, "lag %v after a minute away", lag)
		n := attempts.Load()
		errorIf(t, n < 20 || n > 200, "%d attempts to connect in a minute", n)
		away.Store(false)
		m := <-got
		took := time.Since(began)
		errorIf(t, took < time.Minute || took > time.Minute+maxConnectPause+time.Second, "published after %v", took)
		errorIf(t, m.Subject != "cairn.default.event.airport.moved.A0", "subject %q", m.Subject)
		check(t, p.Close(t.Context()), "Close")
		if rows, _ := box.OutboxSize(); rows != 0 {
			t.Errorf("%d rows", rows)
		}
	})
}
