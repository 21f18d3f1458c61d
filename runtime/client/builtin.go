package client

import (
	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/method"
)

// repeatable reports whether a method can be called again without an idempotency key, because every
// actor has it and it only reads. All other methods need a key: with it, a repeated queue.receive
// returns the messages that the first one locked.
func repeatable(name string) bool {
	row, _ := method.Find(name)
	return row.Kind == host.Query
}
