package runtime_test

import (
	"context"
	"log/slog"
	gort "runtime"
	"testing"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/runtime"
)

// A node is what it takes to open a runtime that hosts bots without a harness.
type node struct{ disk *engine.Disk }

func newNode(t *testing.T) *node { return &node{} }

// open opens a runtime on the node's disk.
func (n *node) open(t *testing.T, options func(*runtime.Options)) *runtime.Runtime {
	t.Helper()
	if n.disk == nil {
		n.disk = engine.NewDisk()
	}
	o := runtime.Options{
		Dir: "data", Disk: n.disk, Actors: []actor.Definition{botDefinition(actor.Spec[bot]{})},
		Logger: slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelError})),
	}
	if options != nil {
		options(&o)
	}
	rt, err := runtime.Open(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	return rt
}

// goexit ends the goroutine, as a failed assertion of package testing does.
func goexit() { gort.Goexit() }
