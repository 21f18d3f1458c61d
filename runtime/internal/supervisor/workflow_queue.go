package supervisor

import (
	"slices"

	"github.com/cairn-run/cairn/actor/host"
)

// told implements queueReceiver: it is runNews for a message that can be received.
func (*runPart) told(t *turn, queue string) error {
	c := t.c
	if err := c.flowKnown(); err != nil {
		return err
	}
	f := c.flow()
	if f.run != nil && !f.fresh && !f.stale && !f.advancing && !waitsFor(f.queues, queue) {
		return nil // it finds the message when it asks for one
	}
	c.runNews(t)
	return nil
}

// refuses implements queueReceiver: messages whose senders wait for a reply are refused if the run is over, because it will
// not answer. An actor that has not had a run may get one that does.
func (*runPart) refuses(c *core, messages []host.Enqueue) error {
	if !slices.ContainsFunc(messages, func(m host.Enqueue) bool { return m.WantReply }) {
		return nil
	}
	if err := c.flowKnown(); err != nil || c.flow().live {
		return err
	}
	state, err := runState(storedRows{c.ws})
	if err != nil || !state.Over() {
		return err
	}
	return host.Errorf(host.FailedPrecondition, "the actor's workflow run is %s and answers no messages", state).With("state", string(state))
}

func waitsFor(queues []string, name string) bool {
	for _, q := range queues {
		if q == name {
			return true
		}
	}
	return false
}
