package serve

import (
	"crypto/rand"
	"errors"
	"log"
	"log/slog"
	"net/http"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/method"
)

// A Front stands between the clients of a node and its gateways. All gateways of a node share one,
// so its limits apply to all clients together. It is safe for concurrent use.
//
//  1. It keeps no state of actors.
//  2. The cause of an internal error is only in the log.
//  3. After Shutdown returns nil, no Stay is open, and no new one can be opened.
type Front struct {
	Options // with its defaults
	Door    *Door
	Meter   *Meter
	Memory  Memory

	closing atomic.Bool

	mu          sync.Mutex
	stays       map[*Stay]struct{} // open
	connections int                // how many of them are connections to actors
	idle        chan struct{}      // closed once closing and no Stay is open
}

// New makes a front. The error lists every fault of the options.
func New(o Options) (*Front, error) {
	o = o.ensureDefaults()
	if err := o.validate(); err != nil {
		return nil, err
	}
	f := &Front{
		Options: o,
		Door:    NewDoor(o.Token, o.LoopbackOnly, o.AllowedOrigins),
		Meter:   newMeter(o.Behaviors),
		Memory:  Memory{limit: o.Limits.MemoryBytes},
		stays:   make(map[*Stay]struct{}),
		idle:    make(chan struct{}),
	}
	if err := f.Meter.register(o.Registerer); err != nil {
		return nil, err
	}
	return f, nil
}

// Server returns a server for h with time-outs for gateways: calls end in time, slow clients are
// cut off, and event streams continue, because they set their own write deadlines. The caller sets
// Addr, or serves a listener. Shutdown of the server ends the event streams and WebSockets, but
// only Shutdown of the front waits for WebSockets.
func (f *Front) Server(h http.Handler) *http.Server {
	s := &http.Server{
		Handler:           h,
		Protocols:         new(http.Protocols),
		ReadHeaderTimeout: ReadHeaderTimeout,
		IdleTimeout:       IdleTimeout,
		MaxHeaderBytes:    MaxHeaderBytes,
		ErrorLog:          log.New(&serverLog{log: f.Logger}, "", 0),
		// A gateway answers "OPTIONS *" itself, after checking the token.
		DisableGeneralOptionsHandler: true,
	}
	// HTTP/2 without TLS is for clients that begin with HTTP/2, such as Deno KV.
	s.Protocols.SetHTTP1(true)
	s.Protocols.SetHTTP2(true)
	s.Protocols.SetUnencryptedHTTP2(true)
	// There is no ReadTimeout, because net/http ends a call's context when it passes. Exchanges
	// bound the reading of bodies themselves.
	if f.Limits.CallTimeout > 0 {
		s.WriteTimeout = f.Limits.CallTimeout + method.MaxWait + f.Limits.BodyTimeout + ReplyTimeout
	}
	s.RegisterOnShutdown(f.Drain)
	return s
}

// AsError returns err in a form for clients. An error without a code is logged under an id that the
// caller sees.
func (f *Front) AsError(err error) *host.Error {
	var e *host.Error
	if errors.As(err, &e) {
		return e
	}
	switch c := host.CodeOf(err); c {
	case host.Canceled:
		return host.Errorf(c, "the caller gave up")
	case host.DeadlineExceeded:
		return host.Errorf(c, "the call took longer than it may")
	}
	return f.Internal("request failed", slog.Any("error", err))
}

// Internal logs a message under a new id and returns an error that contains only this id.
func (f *Front) Internal(message string, attrs ...any) *host.Error {
	id := rand.Text()
	f.Logger.With(attrs...).Error(message, "error_id", id)
	return host.Errorf(host.Internal, "internal error").With("error_id", id)
}

// Panicked counts and logs a panic, with the stack of its goroutine, and returns the error for the
// client.
func (f *Front) Panicked(message string, p any) *host.Error {
	f.Meter.panics.Inc()
	return f.Internal(message, slog.Any("panic", p), slog.String("stack", string(debug.Stack())))
}
