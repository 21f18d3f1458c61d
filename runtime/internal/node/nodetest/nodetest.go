// Package nodetest opens nodes on disks in memory for tests of code in front of a node.
package nodetest

import (
	"context"
	"log/slog"
	"testing"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/hosttest"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/runtime/internal/kernel/options"
	"github.com/cairn-run/cairn/runtime/internal/node"
)

// Open starts a node behind a recorder. It ends with the test, which may be in a bubble of virtual
// time.
func Open(t testing.TB, behaviors ...*host.Behavior) *hosttest.Recorder {
	t.Helper()
	quiet := slog.New(slog.DiscardHandler)
	store, err := engine.Open(t.Context(), engine.Options{Dir: "store", Disk: engine.NewDisk(), Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	n, err := node.New(node.Options{Options: options.Options{Store: store, Logger: quiet, Behaviors: behaviors}})
	if err != nil {
		store.Close()
		t.Fatal(err)
	}
	n.Start()
	t.Cleanup(func() {
		if err := n.Close(context.Background()); err != nil {
			t.Error(err)
		}
		store.Close()
	})
	return &hosttest.Recorder{Node: n}
}
