package site_test

import (
	"context"
	"testing"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/kv"
	"github.com/cairn-run/cairn/actor/host/method"
	"github.com/cairn-run/cairn/actor/internal/site"
)

// answering is a node in the process that answers every request.
type answering struct {
	host.Node
	reply host.Reply
}

func (answering) TakesValues() {}

func (n answering) Call(context.Context, *host.Request) (host.Reply, error) { return n.reply, nil }

// A call within the process allocates only its request: no encoded input, and no memory for a
// decoded output.
func TestACallWithinTheProcessAllocatesItsRequest(t *testing.T) {
	out := kv.CommitOutput{OK: true, Version: 7}
	s := &site.Site{Node: answering{reply: host.Reply{Value: &out}}}
	in := new(kv.CommitInput)
	allocated := testing.AllocsPerRun(100, func() {
		if got, err := site.Ask(t.Context(), s, method.KVCommit, in); err != nil || got.Version != 7 {
			t.Error(got, err)
		}
	})
	if allocated > 1 {
		t.Errorf("%v allocations, not one", allocated)
	}
}
