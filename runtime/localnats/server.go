package localnats

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// startTimeout bounds the start of a server until it accepts connections. JetStream recovers its
// streams first.
const startTimeout = time.Minute

// ErrClosed is the error of Connect on a server that was closed.
var ErrClosed = errors.New("localnats: the server is closed")

// A Server is a running NATS server.
//
//  1. It accepts connections from the return of Start to the call of Close.
//  2. When Close returns, its goroutines have ended, its port is free and JetStream's data is
//     closed.
//
// All methods may be called from many goroutines.
type Server struct {
	nats      *server.Server
	opts      Options
	closeOnce sync.Once
	closed    chan struct{}
}

// Start runs a server. The error is from Options.Validate, or says why the server could not start:
// usually a port or a directory is in use.
func Start(o Options) (*Server, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	ns, err := server.NewServer(o.server())
	if err != nil {
		return nil, fmt.Errorf("localnats: %w", err)
	}
	log := &logger{to: o.logger()}
	ns.SetLoggerV2(log, log.debug(), false, false)
	ns.Start()
	ready := ns.ReadyForConnections(0) || log.fatal() == nil && ns.ReadyForConnections(startTimeout)
	if err := log.fatal(); err != nil || !ready || !ns.Running() {
		ns.Shutdown()
		ns.WaitForShutdown()
		if err == nil {
			err = fmt.Errorf("not ready after %v", startTimeout)
		}
		return nil, fmt.Errorf("localnats: %w", err)
	}
	return &Server{nats: ns, opts: o, closed: make(chan struct{})}, nil
}

// Serve runs the server of a node, for runtime.Options.NATSServer and runtime.Program.NATSServer.
// It opens a port on listen, and requires token if that is not "". It keeps JetStream's data in
// storeDir, or has no JetStream if that is "". Errors are as from Start.
func Serve(listen, token, storeDir string, log *slog.Logger) (interface {
	Connect(...nats.Option) (*nats.Conn, error)
	ClientURL() string
	Close()
}, error) {
	s, err := Start(Options{
		Listen: listen, Token: token, JetStream: storeDir != "", StoreDir: storeDir, ServerName: "cairn", Logger: log,
	})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Connect opens a connection within the process, with the server's credentials. opts are applied
// last. After Close the connection tries to reconnect, like any connection to a stopped server;
// with nats.NoReconnect it ends.
func (s *Server) Connect(opts ...nats.Option) (*nats.Conn, error) {
	select {
	case <-s.closed:
		return nil, ErrClosed
	default:
	}
	own := make([]nats.Option, 0, len(opts)+2)
	own = append(own, nats.InProcessServer(s.nats))
	switch {
	case s.opts.Token != "":
		own = append(own, nats.Token(s.opts.Token))
	case s.opts.User != "":
		own = append(own, nats.UserInfo(s.opts.User, s.opts.Password))
	}
	nc, err := nats.Connect("", append(own, opts...)...)
	if err != nil {
		return nil, fmt.Errorf("localnats: %w", err)
	}
	return nc, nil
}

// ClientURL returns the address of the server's port for clients outside the process, or "" if it
// has none. It has no credentials.
func (s *Server) ClientURL() string {
	if s.opts.Listen == "" {
		return ""
	}
	return s.nats.ClientURL()
}

// Close stops the server and waits until it has stopped. It does not drain: messages on their way
// to subscribers are lost, as with any NATS server that stops. A second call also waits.
func (s *Server) Close() {
	s.closeOnce.Do(func() {
		close(s.closed)
		s.nats.Shutdown()
	})
	s.nats.WaitForShutdown()
}
