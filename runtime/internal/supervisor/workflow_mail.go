package supervisor

import (
	"errors"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/workflow"
)

// The methods under which the runs of two actors send to each other, which cannot be called: runDeliver starts a child, and
// creates its actor; runAsk asks a child how it ended, and fails if its actor is gone; runTell is everything else, which
// concerns nobody if there is no actor.
const (
	runDeliver = "workflow.deliver"
	runAsk     = "workflow.ask"
	runTell    = "workflow.tell"
)

// handleRunMessages has the messages handled that runs of two actors send to each other.
func handleRunMessages(p *mailPart) {
	receive := func(t *turn, input []byte) error { return t.c.receiveRun(t, input) }
	p.handle(runDeliver, messageHandler{
		handle: receive,
		undeliverable: func(t *turn, m *messageRecord, e *host.Error) (bool, error) {
			return true, runUndeliverable(t, m, e)
		},
	})
	// Another run, or the caller of one, would wait for ever if what follows were moved aside because its target did not wake
	// for a while.
	p.handle(runAsk, messageHandler{
		missing: func(c *core) (bool, error) { return false, destroyedError(c.a.addr) },
		handle:  receive,
		lasts:   true,
		undeliverable: func(t *turn, m *messageRecord, e *host.Error) (bool, error) {
			return false, runUndeliverable(t, m, e) // the run has its answer: there is nothing to look at or to send again
		},
	})
	p.handle(runTell, messageHandler{
		missing: func(*core) (bool, error) { return false, nil }, // its target is gone
		handle:  receive,
		lasts:   true,
	})
}

// runUndeliverable tells the run that sent a message that it cannot be handled.
func runUndeliverable(t *turn, m *messageRecord, e *host.Error) error {
	out := workflow.Outgoing{To: workflow.Destination{Type: m.Type, Key: m.Key}, Body: m.Input}
	if err := t.c.tolerate(workflow.Undeliverable(&runRows{h: t, exempt: true}, &out, e)); err != nil {
		return err
	}
	if err := t.c.flowKnown(); err != nil {
		return err
	}
	t.c.runNews(t)
	return nil
}

// receiveRun hands a message of another actor's run to this one's.
func (c *core) receiveRun(h *turn, body []byte) error {
	if err := c.flowKnown(); err != nil {
		return err
	}
	t := &runRows{h: h}
	was := c.flow().live
	err := workflow.Deliver(t, c.a.typ.program, body)
	if errors.Is(err, workflow.ErrLetter) {
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
		return c.runBegun(h)
	case was:
		return c.runControlled(h, state.Over())
	}
	return nil
}
