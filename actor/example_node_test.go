package actor_test

import (
	"context"
	"log/slog"
	"os"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/runtime"
)

// open starts a node for an example, on a store that stop removes. A program calls runtime.Open
// with a folder that stays.
func open(definitions ...actor.Definition) (node *runtime.Runtime, stop func()) {
	dir := must(os.MkdirTemp("", "example"))
	node = must(runtime.Open(context.Background(), runtime.Options{Dir: dir, Actors: definitions, Logger: slog.New(slog.DiscardHandler)}))
	return node, func() {
		node.Close()
		os.RemoveAll(dir)
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
