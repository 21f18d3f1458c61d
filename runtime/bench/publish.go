package main

import (
	"context"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/cairn-run/cairn/runtime"
	"github.com/cairn-run/cairn/runtime/bench/internal/usage"
	"github.com/cairn-run/cairn/runtime/localnats"
)

// publishedEvents is how many events wait in the outbox whose publishing is measured.
const publishedEvents = 50_000

// A post is a NATS server in the process with a subscriber that counts what comes.
type post struct {
	server *localnats.Server
	nc     *nats.Conn // the subscriber's
	n      int64      // how many messages are awaited
	came   atomic.Int64
	first  time.Time
	spent  float64       // processor time until then
	all    chan struct{} // closed when n messages came
}

// withPost runs f with a server whose subscriber sees each message and waits for n of them. Its
// connection is dialed like that of the publishers.
func withPost(n int, see func(*nats.Msg), f func(*post)) {
	s, err := localnats.Start(localnats.Options{})
	check(err)
	defer s.Close()
	p := &post{server: s, n: int64(n), all: make(chan struct{})}
	p.nc, err = s.Connect()
	check(err)
	defer p.nc.Close()
	sub, err := p.nc.Subscribe("cairn.*.event.>", func(m *nats.Msg) {
		see(m)
		switch p.came.Add(1) {
		case 1:
			p.first, p.spent = time.Now(), usage.Processor()
		case p.n:
			close(p.all)
		}
	})
	check(err)
	check(sub.SetPendingLimits(-1, -1))
	check(p.nc.Flush())
	f(p)
}

// rate returns messages a second from the first to the last, at whose arrival everything is
// published.
func (p *post) rate(b *bench) float64 {
	<-p.all
	took := time.Since(p.first).Seconds()
	b.spend(p.spent, int(p.n-1))
	return float64(p.n-1) / took
}

// published returns how many events a second a node publishes that wait in its outbox, from the
// first that arrives until the last has; the subscriber sees each. The commits that put them there
// are not measured: the outbox is filled while there is no server.
func (b *bench) published(n int, see func(*nats.Msg)) (v float64) {
	dir, err := os.MkdirTemp(b.dir, "outbox-")
	check(err)
	defer os.RemoveAll(dir)
	o := runtime.Options{Dir: dir, Actors: stageDefinition(func(int) {}), NATSURL: "nats://" + nowhere, NoSync: true}
	b.node(o, func(rt *runtime.Runtime) { emitAll(rt, n) })
	withPost(n, see, func(p *post) {
		o.NATSURL, o.NATSConn = "", p.nc
		b.node(o, func(rt *runtime.Runtime) {
			v = p.rate(b)
			for end := time.Now().Add(10 * time.Second); gauge(rt, "cairn_outbox_rows") > 0; {
				if time.Now().After(end) {
					fatal(fmt.Errorf("%v events are published, and still in the outbox",
						gauge(rt, "cairn_outbox_rows")))
				}
				time.Sleep(time.Millisecond)
			}
		})
	})
	return v
}

// nowhere is an address at which no NATS server listens.
const nowhere = "127.0.0.1:1"

// emitAll has a hundred actors emit n events.
func emitAll(rt *runtime.Runtime, n int) {
	rateOnce(64, n, func(i int) {
		_, err := say.Call(context.Background(), stages.Ref(rt, fmt.Sprint("stage-", i%100)), line{i, lineText})
		check(err)
	})
}

// rawPublished publishes n messages with the subjects, headers and payloads that a node's events
// have.
func (b *bench) rawPublished(n int) (v float64) {
	messages := b.eventMessages(min(n, 1000))
	withPost(n, func(*nats.Msg) {}, func(p *post) {
		nc, err := p.server.Connect()
		check(err)
		defer nc.Close()
		for i := range n {
			check(nc.PublishMsg(messages[i%len(messages)]))
		}
		check(nc.Flush())
		v = p.rate(b)
	})
	return v
}

// eventMessages returns messages that a node published.
func (b *bench) eventMessages(n int) []*nats.Msg {
	var mu sync.Mutex
	var messages []*nats.Msg
	b.published(n, func(m *nats.Msg) {
		mu.Lock()
		defer mu.Unlock()
		messages = append(messages, &nats.Msg{Subject: m.Subject, Header: m.Header, Data: m.Data})
	})
	return messages
}
