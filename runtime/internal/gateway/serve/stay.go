package serve

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cairn-run/cairn/actor/host"
)

// ErrShutdown is the error for clients when the node shuts down.
var ErrShutdown = host.Errorf(host.Unavailable, "the node is shutting down").Retry()

// errClosing is the cause of the end of a Stay's context when the front shuts down.
var errClosing = errors.New("gateway: closing")

// A Kind determines the limit and the metric of a Stay.
type Kind uint8

const (
	// EventStream is a response of server-sent events that is not a connection. It counts against
	// Limits.Streams.
	EventStream Kind = iota
	// EventConnection is a connection to an actor over server-sent events, WebSocket one over a
	// WebSocket. Both count against Limits.Connections.
	EventConnection
	WebSocket
)

// A Stay is one client with a lasting response: a subscriber, a connection, a worker that listens,
// a reader that follows.
//
//  1. It counts against its limit, and in the metric of its kind, from Admit until Done.
//  2. Its context ends when the front shuts down. Shutdown waits for Done.
type Stay struct {
	front  *Front
	kind   Kind
	ctx    context.Context
	cancel context.CancelCauseFunc
}

// Admit opens a Stay, unless there are too many or the front shuts down. The caller must call Done
// at its end.
func (f *Front) Admit(ctx context.Context, kind Kind) (*Stay, *host.Error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	most, others, what := f.Limits.Streams, len(f.stays)-f.connections, "event streams"
	if kind != EventStream {
		most, others, what = f.Limits.Connections, f.connections, "connections"
	}
	switch {
	case f.closing.Load():
		return nil, ErrShutdown
	case others >= most:
		return nil, host.Errorf(host.Overloaded, "there are too many %s", what).
			With("limit", strconv.Itoa(most)).Retry()
	}
	if kind != EventStream {
		f.connections++
	}
	s := &Stay{front: f, kind: kind}
	s.ctx, s.cancel = context.WithCancelCause(ctx)
	f.stays[s] = struct{}{}
	s.gauge().Inc()
	return s, nil
}

func (s *Stay) gauge() prometheus.Gauge {
	if s.kind == WebSocket {
		return s.front.Meter.sockets
	}
	return s.front.Meter.streams
}

// Context ends when the client leaves, after Cancel, and when the front shuts down.
func (s *Stay) Context() context.Context { return s.ctx }

// Cancel ends the context.
func (s *Stay) Cancel() { s.cancel(nil) }

// Closing reports whether the context has ended because the front shuts down.
func (s *Stay) Closing() bool { return context.Cause(s.ctx) == errClosing }

// Why returns the error for the client after a call failed with fault: ErrShutdown if the shutdown
// is the cause.
func (s *Stay) Why(fault *host.Error) *host.Error {
	if s.Closing() {
		return ErrShutdown
	}
	return fault
}

// Done ends the Stay.
func (s *Stay) Done() {
	s.cancel(nil)
	s.gauge().Dec()
	f := s.front
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.stays, s)
	if s.kind != EventStream {
		f.connections--
	}
	if f.closing.Load() && len(f.stays) == 0 {
		close(f.idle)
	}
}

// Open returns how many Stays are open.
func (f *Front) Open() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.stays)
}

// Closing reports whether the front shuts down. Gateways then refuse new requests with ErrShutdown.
func (f *Front) Closing() bool { return f.closing.Load() }

// Drain begins the shutdown without waiting. It refuses new requests and ends the context of every
// Stay.
func (f *Front) Drain() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closing.Swap(true) {
		return
	}
	for s := range f.stays {
		s.cancel(errClosing)
	}
	if len(f.stays) == 0 {
		close(f.idle)
	}
}

// Shutdown ends all event streams and WebSockets with a final message and waits for them. New
// requests are refused as unavailable. Shutdown waits only for calls over WebSockets; the server
// and the node wait for other calls. It returns ctx's error if ctx ends first, and may be called
// again.
func (f *Front) Shutdown(ctx context.Context) error {
	f.Drain()
	select {
	case <-f.idle:
	case <-ctx.Done():
		return fmt.Errorf("gateway: event streams or WebSockets are still open: %w", ctx.Err())
	}
	f.Meter.unregister(f.Registerer)
	return nil
}

// Close is Shutdown without a time limit, except the limit of each Stay's last write.
func (f *Front) Close() error { return f.Shutdown(context.Background()) }
