package natspub

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
)

// The pauses between attempts to connect.
const (
	minConnectPause = 50 * time.Millisecond
	maxConnectPause = 2 * time.Second
	// writeTimeout bounds a write to a server that does not read, flushTimeout the wait for the
	// answer to a flush.
	writeTimeout = 5 * time.Second
	flushTimeout = 10 * time.Second
)

// A link is one connection for publishing. It does not reconnect.
type link struct {
	nc     *nats.Conn
	closed chan struct{} // closed when nc is closed
	// useful: something arrived on it. After a useless connection, for example one that the server
	// ends because of a message, the pause before the next one grows.
	useful atomic.Bool
}

// connect opens successive connections and passes them to the loop, until the publisher ends.
func (p *Publisher) connect() {
	pause, failing, first := minConnectPause, false, true
	attempted := func() {
		if first {
			close(p.tried)
			first = false
		}
	}
	defer attempted()
	for {
		l := &link{closed: make(chan struct{})}
		nc, err := p.opts.Dial(
			nats.Name("cairn publisher"),
			nats.NoReconnect(),
			nats.RetryOnFailedConnect(false),
			nats.FlusherTimeout(writeTimeout),
			nats.ClosedHandler(func(*nats.Conn) { close(l.closed) }),
			nats.ErrorHandler(p.reporter()),
		)
		if err != nil {
			if !failing {
				failing = true
				p.log.Warn("nats: no connection; changes wait in the outbox", "error", err)
			}
			attempted()
		} else {
			l.nc = nc
			select {
			case p.links <- l:
			case <-p.ctx.Done():
				nc.Close()
				<-l.closed
				return
			}
			attempted()
			if failing {
				failing = false
				p.log.Info("nats: connected", "server", nc.ConnectedUrlRedacted())
			}
			<-l.closed // the loop closes it when the publisher ends
			if l.useful.Load() {
				pause = minConnectPause
			}
		}
		timer := time.NewTimer(pause/2 + rand.N(pause/2+1))
		select {
		case <-timer.C:
		case <-p.ctx.Done():
			timer.Stop()
			return
		}
		pause = min(2*pause, maxConnectPause)
	}
}

// reporter counts the errors that a server reports on one connection, such as a subject without
// permission to publish. It logs only the first, because there may be one for every message.
func (p *Publisher) reporter() nats.ErrHandler {
	var once sync.Once
	return func(_ *nats.Conn, _ *nats.Subscription, err error) {
		p.metrics.errors.Inc()
		once.Do(func() { p.log.Error("nats: the server reports an error; further ones are counted only", "error", err) })
	}
}
