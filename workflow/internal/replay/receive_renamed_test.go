package replay_test

import (
	"testing"

	"github.com/cairn-run/cairn/workflow"
	wfhost "github.com/cairn-run/cairn/workflow/host"
	"github.com/cairn-run/cairn/workflow/internal/memhost"
)

// A wait that is under way in a queue which the code no longer names would wait for ever: it is a divergence, which Verify finds.
// Code that names the queue beside others goes on, and waits for all of them.
func TestReceiveOfARenamedQueueDiverges(t *testing.T) {
	program := func(queues ...string) *wfhost.Program {
		return workflow.NewFunction("w", func(ctx workflow.Context, _ none) (string, error) {
			m, err := workflow.ReceiveAny(ctx, "order", queues)
			return m.Queue, err
		}).Program()
	}
	lookup := func(p *wfhost.Program) func(string) *wfhost.Program {
		return func(string) *wfhost.Program { return p }
	}
	h := started(t, program("orders"), none{})
	drive(t, h)
	wantState(t, h, wfhost.StateWaiting)

	renamed := program("purchases")
	rep, err := wfhost.Verify(h.Reader(), lookup(renamed))
	if err != nil || rep.Problem == nil || rep.Problem.Reason != wfhost.PausedDiverged {
		t.Fatalf("%+v, %v", rep, err)
	}
	h.Close()
	h.Use(renamed)
	pause(t, h)
	wantPause(t, h, wfhost.PausedDiverged, `receive "order" with queue "purchases"`, `receive "order" with queue "orders"`, "receive_renamed_test.go:", "ReceiveAny")

	both := program("purchases", "orders")
	if rep, err := wfhost.Verify(h.Reader(), lookup(both)); err != nil || rep.Problem != nil {
		t.Fatalf("%+v, %v", rep, err)
	}
	h.Close()
	h.Use(both)
	if err := h.Transact(wfhost.Resume); err != nil {
		t.Fatal(err)
	}
	drive(t, h)
	if w := status(t, h).Waiting; len(w) != 1 || len(w[0].Queues) != 2 {
		t.Fatalf("%+v", w)
	}
	h.Send("purchases", body(t, 1))
	drive(t, h)
	wantOutput(t, h, "purchases")
}

// pause lets a host go on until its run is paused.
func pause(t testing.TB, h *memhost.Host) {
	t.Helper()
	if err := h.Drive(func() bool { return h.Last.Paused }); err != nil {
		t.Fatal(err)
	}
}
