package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	restate "github.com/restatedev/sdk-go"
	"github.com/restatedev/sdk-go/ingress"
	"github.com/restatedev/sdk-go/server"
)

// restateWorkflow is the workflow on Restate: a run of it is keyed, like an actor.
func restateWorkflow(ctx restate.WorkflowContext, _ int) (int, error) {
	sum := 0
	for i := range steps {
		n, err := restate.Run(ctx, func(restate.RunContext) (int, error) { return i, nil })
		if err != nil {
			return 0, err
		}
		sum += n
	}
	return sum, nil
}

type restateSystem struct {
	client  *ingress.Client
	server  *exec.Cmd
	stop    context.CancelFunc
	handler chan error
}

// openRestate starts the server that npm has installed beside this program, in its default
// configuration, and an endpoint in this process.
func openRestate(ctx context.Context, dir string) (system, error) {
	program, err := filepath.Abs("node_modules/.bin/restate-server")
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(program); err != nil {
		return nil, fmt.Errorf("%w; npm ci in runtime/bench/peers installs it", err)
	}
	ingressAt, adminAt, handlerAt, fabricAt := freeAddress(), freeAddress(), freeAddress(), freeAddress()
	_, fabricPort, err := net.SplitHostPort(fabricAt)
	if err != nil {
		return nil, err
	}
	s := &restateSystem{client: ingress.NewClient("http://" + ingressAt), handler: make(chan error, 1)}
	s.server = exec.Command(program, "--no-logo", "--listen-mode", "tcp", "--base-dir", dir,
		"--bind-ip", "127.0.0.1", "--bind-port", fabricPort)
	s.server.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // npm's program starts the real one
	s.server.Env = append(os.Environ(), "RESTATE_INGRESS__BIND_ADDRESS="+ingressAt,
		"RESTATE_ADMIN__BIND_ADDRESS="+adminAt,
		"RUST_LOG=warn", "DO_NOT_TRACK=1")
	s.server.Stdout, s.server.Stderr = io.Discard, io.Discard
	if err := s.server.Start(); err != nil {
		return nil, err
	}
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	s.stop = stop
	go func() {
		s.handler <- server.NewRestate().WithLogger(slog.DiscardHandler, true).
			Bind(restate.NewWorkflow("Five").Handler("run", restate.NewWorkflowHandler(restateWorkflow))).
			Start(serving, handlerAt)
	}()
	if err := register(ctx, adminAt, handlerAt); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

// register makes the server know the endpoint, once it answers.
func register(ctx context.Context, admin, handler string) error {
	body, err := json.Marshal(map[string]any{"uri": "http://" + handler, "force": true})
	if err != nil {
		return err
	}
	var last error
	for range 300 {
		r, err := http.NewRequestWithContext(ctx, "POST", "http://"+admin+"/deployments", bytes.NewReader(body))
		if err != nil {
			return err
		}
		r.Header.Set("Content-Type", "application/json")
		answer, err := http.DefaultClient.Do(r)
		if err == nil {
			text, _ := io.ReadAll(answer.Body)
			answer.Body.Close()
			if answer.StatusCode < 300 {
				return nil
			}
			err = fmt.Errorf("%s: %s", answer.Status, text)
		}
		last = err
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
	return fmt.Errorf("the server did not take the endpoint: %w", last)
}

// freeAddress returns an address on which nobody listens.
func freeAddress() string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "127.0.0.1:0"
	}
	defer l.Close()
	return l.Addr().String()
}

func (s *restateSystem) run(ctx context.Context, id string) (int, error) {
	return ingress.Workflow[int, int](s.client, "Five", id, "run").Request(ctx, 0)
}

func (s *restateSystem) close() error {
	s.stop()
	_ = syscall.Kill(-s.server.Process.Pid, syscall.SIGTERM)
	_ = s.server.Wait() // it reports the signal
	return <-s.handler
}
