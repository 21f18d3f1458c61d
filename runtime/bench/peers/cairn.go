package main

import (
	"context"
	"log/slog"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/runtime"
	"github.com/cairn-run/cairn/workflow"
)

// The actor type of the workflow: each run has an actor of its own, which has no state.
type host struct{}

var (
	hosts = actor.NewType[host]("host")
	five  = actor.NewWorkflow[actor.None, int](hosts, "five")
)

func cairnWorkflow(ctx workflow.Context, _ actor.None) (int, error) {
	sum := 0
	for i, name := range [steps]string{"a", "b", "c", "d", "e"} {
		n, err := workflow.Step(ctx, name, func(*workflow.StepCtx) (int, error) { return i, nil })
		if err != nil {
			return 0, err
		}
		sum += n
	}
	return sum, nil
}

type cairnSystem struct{ rt *runtime.Runtime }

// openCairn opens a node in this process, on disk, with the defaults.
func openCairn(ctx context.Context, dir string) (system, error) {
	rt, err := runtime.Open(ctx, runtime.Options{
		Dir: dir, Logger: slog.New(slog.DiscardHandler),
		Actors: []actor.Definition{actor.Define(hosts, actor.Spec[host]{}, actor.OnRun(five, cairnWorkflow))},
	})
	if err != nil {
		return nil, err
	}
	return &cairnSystem{rt}, nil
}

func (s *cairnSystem) run(ctx context.Context, id string) (int, error) {
	ref := hosts.Ref(s.rt, id)
	if _, err := five.Start(ctx, ref, actor.None{}); err != nil {
		return 0, err
	}
	return five.Result(ctx, ref)
}

func (s *cairnSystem) close() error { return s.rt.Close() }
