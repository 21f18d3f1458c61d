package supervisor

import (
	"context"

	"github.com/cairn-run/cairn/actor/host"
)

func (t *turn) Connections(after string, limit int) ([]host.ConnectionState, error) {
	return nil, errNotYet
}
func (r *reader) Connections(after string, limit int) ([]host.ConnectionState, error) {
	return nil, errNotYet
}
func (t *turn) Connection(id string) (host.ConnectionState, bool, error) {
	return host.ConnectionState{}, false, errNotYet
}
func (r *reader) Connection(id string) (host.ConnectionState, bool, error) {
	return host.ConnectionState{}, false, errNotYet
}
func (t *turn) SetConnectionState(id string, state []byte) error                { return errNotYet }
func (t *turn) CloseConnection(id string, reason *host.Error) (bool, error)     { return false, errNotYet }
func (t *turn) EmitTo(event int, data []byte, to string, except []string) error { return errNotYet }

// Caller implements host.Reader.
func (t *turn) Caller() string { return t.work.connection }

// Caller implements host.Reader.
func (r *reader) Caller() string { return r.caller }

// Connect implements host.Connector.
func (s *Supervisor) Connect(ctx context.Context, a host.Address, r host.ConnectRequest) (host.LiveConnection, error) {
	return nil, errNotYet
}

// CallOver implements host.Connector.
func (s *Supervisor) CallOver(ctx context.Context, token string, r *host.Request) (host.Reply, error) {
	return host.Reply{}, errNotYet
}

// Disconnect implements host.Connector.
func (s *Supervisor) Disconnect(ctx context.Context, a host.Address, token string) error {
	return errNotYet
}
