package runtime

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"syscall"
	"time"

	"github.com/cairn-run/cairn/runtime/internal/gateway/serve"
	"github.com/cairn-run/cairn/runtime/internal/kernel/spawn"
)

// pprofPath is where the profiles are.
const pprofPath = "/debug/pprof/"

// pprofGrace is how long stop waits. A profile that is cut off ends within a second.
const pprofGrace = 5 * time.Second

// A pprofServer serves the profiles of the process.
type pprofServer struct {
	listener net.Listener
	server   *http.Server
	end      context.CancelFunc // ends the requests
	running  spawn.Group        // the goroutine that serves, and the handlers
}

// checkPprof returns an error if other machines can reach the address of the profiles. A token does
// not help: the server checks none, because pprof's tools cannot send one.
func checkPprof(address string) error {
	loopback, err := isLoopback(address)
	if err != nil {
		return fmt.Errorf("runtime: Options.PprofListen %q (--pprof-listen): %w", address, err)
	}
	if !loopback {
		return fmt.Errorf("runtime: Options.PprofListen %q (--pprof-listen) can be reached from other machines, and profiles show code and timing of the process: listen on 127.0.0.1, even if a token is set", address)
	}
	return nil
}

// startPprof serves the profiles on an address that Validate has accepted.
func startPprof(ctx context.Context, address string, log *slog.Logger) (*pprofServer, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("runtime: %s is in use, perhaps by another node; choose another address with --pprof-listen: %w", address, err)
	}
	if err != nil {
		return nil, fmt.Errorf("runtime: listen on %s for profiles: %w", address, err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc(pprofPath, pprof.Index)
	mux.HandleFunc(pprofPath+"cmdline", pprof.Cmdline)
	mux.HandleFunc(pprofPath+"profile", pprof.Profile)
	mux.HandleFunc(pprofPath+"symbol", pprof.Symbol)
	mux.HandleFunc(pprofPath+"trace", pprof.Trace)
	// Not the gateway's door: there a token replaces the check, and here there is no token.
	door := serve.NewDoor("", true, nil)
	p := &pprofServer{listener: l}
	requests, end := context.WithCancel(context.Background())
	p.end = end
	p.server = &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !p.running.Begin() {
				return // the server has stopped
			}
			defer p.running.Done()
			if err := door.CheckHost(r.Host); err != nil {
				http.Error(w, err.Message, http.StatusForbidden)
				return
			}
			mux.ServeHTTP(w, r)
		}),
		ReadHeaderTimeout: serve.ReadHeaderTimeout,
		IdleTimeout:       serve.IdleTimeout,
		MaxHeaderBytes:    serve.MaxHeaderBytes,
		BaseContext:       func(net.Listener) context.Context { return requests },
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
	p.running.Go(func() {
		if err := p.server.Serve(l); err != nil && !errors.Is(err, http.ErrServerClosed) {
			log.Error("the server of the profiles stopped", "error", err)
		}
	})
	return p, nil
}

// stop ends the server and the profiles in progress, and waits for its goroutines. It does nothing
// for a nil server.
func (p *pprofServer) stop() {
	if p == nil {
		return
	}
	p.end()
	p.server.Close()
	p.running.Close(pprofGrace)
}

// PprofAddr returns the address that the profiles are served on, or "" if Options.PprofListen was
// "".
func (r *Runtime) PprofAddr() string {
	if r.pprof == nil {
		return ""
	}
	return r.pprof.listener.Addr().String()
}
