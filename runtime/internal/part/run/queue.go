package run

import (
	"slices"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime/internal/kernel"
)

// Told implements queue.queueReceiver: it is runNews for a message that can be received.
func (*Part) Told(t *kernel.Turn, queue string) error {
	c := t.Core
	if err := flowKnown(c); err != nil {
		return err
	}
	f := flowOf(c)
	if f.run != nil && !f.fresh && !f.stale && !f.advancing && !waitsFor(f.queues, queue) {
		return nil // it finds the message when it asks for one
	}
	runNews(c, t)
	return nil
}

// Refuses implements queue.queueReceiver: it refuses messages whose senders wait for a reply if the
// run is over, because it will not answer. An actor that has not had a run may get one that
// answers.
func (*Part) Refuses(c *kernel.Core, messages []host.Enqueue) error {
	if !slices.ContainsFunc(messages, func(m host.Enqueue) bool { return m.WantReply }) {
		return nil
	}
	if err := flowKnown(c); err != nil || flowOf(c).live {
		return err
	}
	state, err := runState(storedRows{c.Rows})
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
