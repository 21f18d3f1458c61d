package main

import (
	"context"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
	"go.temporal.io/server/temporaltest"
)

const taskQueue = "five"

// temporalStep is an activity: its result is recorded by the server before the next begins.
func temporalStep(_ context.Context, i int) (int, error) { return i, nil }

func temporalWorkflow(ctx workflow.Context) (int, error) {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: time.Minute})
	sum := 0
	for i := range steps {
		var n int
		if err := workflow.ExecuteActivity(ctx, temporalStep, i).Get(ctx, &n); err != nil {
			return 0, err
		}
		sum += n
	}
	return sum, nil
}

type temporalSystem struct {
	server *temporaltest.TestServer
	client client.Client
}

// openTemporal starts Temporal's own server and a worker in this process.
func openTemporal(context.Context, string) (system, error) {
	server := temporaltest.NewServer(temporaltest.WithBaseClientOptions(client.Options{Logger: quiet{}}))
	server.NewWorker(taskQueue, func(r worker.Registry) {
		r.RegisterWorkflow(temporalWorkflow)
		r.RegisterActivity(temporalStep)
	})
	return &temporalSystem{server, server.GetDefaultClient()}, nil
}

func (s *temporalSystem) run(ctx context.Context, id string) (int, error) {
	r, err := s.client.ExecuteWorkflow(ctx, client.StartWorkflowOptions{ID: id, TaskQueue: taskQueue}, temporalWorkflow)
	if err != nil {
		return 0, err
	}
	var out int
	err = r.Get(ctx, &out)
	return out, err
}

func (s *temporalSystem) close() error {
	s.server.Stop()
	return nil
}

// quiet is a logger that drops everything.
type quiet struct{}

func (quiet) Debug(string, ...any) {}
func (quiet) Info(string, ...any)  {}
func (quiet) Warn(string, ...any)  {}
func (quiet) Error(string, ...any) {}
