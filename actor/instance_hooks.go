package actor

import "github.com/cairn-run/cairn/actor/host"

// Message implements host.Instance.
func (i *instance[S]) Message(t host.Turn, queue int, m *host.Received, out []byte) ([]byte, error) {
	return out, Errorf(UnknownMethod, "actor type %q has no queue number %d", i.program.core.name, queue)
}

// Schedule implements host.Instance.
func (i *instance[S]) Schedule(t host.Turn, schedule int, tick *host.Tick, payload []byte) error {
	return Errorf(UnknownMethod, "actor type %q has no schedule number %d", i.program.core.name, schedule)
}

// Connect implements host.Instance.
func (i *instance[S]) Connect(t host.Turn, c *host.ConnectionState, params []byte) error { return nil }

// Disconnect implements host.Instance.
func (i *instance[S]) Disconnect(t host.Turn, c *host.ConnectionState, cause *host.Error) error {
	return nil
}

// Subscribe implements host.Instance.
func (i *instance[S]) Subscribe(t host.Turn, event int, c *host.ConnectionState) error { return nil }

// State implements host.Instance.
func (i *instance[S]) State() any { return &i.state }
