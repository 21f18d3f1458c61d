package run

import (
	"errors"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime/internal/kernel"
	"github.com/cairn-run/cairn/runtime/internal/kernel/fault"
	"github.com/cairn-run/cairn/runtime/internal/part/mail"
	"github.com/cairn-run/cairn/workflow"
	wfhost "github.com/cairn-run/cairn/workflow/host"
)

// The methods under which the runs of two actors send to each other. They cannot be called.
// runDeliver starts a child, and creates its actor. runAsk asks a child how it ended, and fails if
// its actor is gone. runTell is everything else, and is dropped if there is no actor.
const (
	runDeliver = "workflow.deliver"
	runAsk     = "workflow.ask"
	runTell    = "workflow.tell"
)

// HandleMessages registers the handler of messages between runs.
func HandleMessages(p *mail.Part) {
	receive := func(t *kernel.Turn, input []byte) error { return receiveRun(t.Core, t, input) }
	p.Handle(runDeliver, mail.MessageHandler{
		Handle: receive,
		Undeliverable: func(t *kernel.Turn, m *mail.MessageRecord, e *host.Error) (bool, error) {
			return true, runUndeliverable(t, m, e)
		},
	})
	// These messages are never moved aside: otherwise another run, or its caller, would wait for
	// ever because a target did not wake for a while.
	p.Handle(runAsk, mail.MessageHandler{
		Missing: func(c *kernel.Core) (bool, error) { return false, fault.DestroyedAt(c.Actor.Address) },
		Handle:  receive,
		Lasts:   true,
		Undeliverable: func(t *kernel.Turn, m *mail.MessageRecord, e *host.Error) (bool, error) {
			// the run has its answer: there is nothing to look at or to send again
			return false, runUndeliverable(t, m, e)
		},
	})
	p.Handle(runTell, mail.MessageHandler{
		Missing: func(*kernel.Core) (bool, error) { return false, nil }, // its target is gone
		Handle:  receive,
		Lasts:   true,
	})
}

// runUndeliverable notifies the run that sent a message that the message cannot be handled.
func runUndeliverable(t *kernel.Turn, m *mail.MessageRecord, e *host.Error) error {
	out := wfhost.Outgoing{To: workflow.Destination{Type: m.Type, Key: m.Key}, Body: m.Input}
	if err := tolerate(t.Core, wfhost.Undeliverable(&RunRows{H: t, exempt: true}, &out, e)); err != nil {
		return err
	}
	if err := flowKnown(t.Core); err != nil {
		return err
	}
	runNews(t.Core, t)
	return nil
}

// receiveRun passes a message of another actor's run to this actor's run.
func receiveRun(c *kernel.Core, h *kernel.Turn, body []byte) error {
	if err := flowKnown(c); err != nil {
		return err
	}
	t := &RunRows{H: h}
	was := flowOf(c).live
	err := wfhost.Deliver(t, func(a0 string) *wfhost.Program { return program(c.Actor.Type, a0) }, body)
	if errors.Is(err, wfhost.ErrLetter) {
		return host.Errorf(host.InvalidArgument, "%s", err) // another attempt reads the same
	}
	if err != nil {
		return runError(err)
	}
	state, err := runState(t)
	if err != nil || state == "" {
		return err
	}
	switch {
	case !was && !state.Over():
		return runBegun(c, h)
	case was:
		return runControlled(c, h, state.Over())
	}
	return nil
}
