package conn

import (
	"context"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/method"
	"github.com/cairn-run/cairn/runtime/internal/call"
	"github.com/cairn-run/cairn/runtime/internal/kernel"
	"github.com/cairn-run/cairn/runtime/internal/kernel/address"
	"github.com/cairn-run/cairn/runtime/internal/part/event"
)

// CallOver implements host.Connector. It also serves a client that was lost a moment ago, and may
// come back.
func CallOver(s *kernel.Kernel, ctx context.Context, token string, r *host.Request) (host.Reply, error) {
	id, err := identify(s, r.Address, token)
	if err != nil {
		return host.Reply{}, err
	}
	q := *r
	q.Connection, q.Existing = id, r.Existing || !r.Create
	return s.Call(ctx, &q)
}

// Disconnect implements host.Connector. The error code is Unauthenticated if there is no such
// connection.
func Disconnect(s *kernel.Kernel, ctx context.Context, addr host.Address, token string) error {
	id, err := identify(s, addr, token)
	if err != nil {
		return err
	}
	if err := outside(s, ctx); err != nil {
		return err
	}
	if l := liveConnection(s, addr, id); l != nil {
		// The reader of the connection still gets the events that wait for it, and closes it.
		if l.leave() {
			return l.quit(ctx, false)
		}
		return nil
	}
	return tendAndWait(s, ctx, s.Types[addr.Type], addr, &tending{id: id, end: true})
}

// identify returns the connection of an actor that a resume token is for.
func identify(s *kernel.Kernel, addr host.Address, token string) (string, error) {
	if _, err := s.TypeOf(addr); err != nil {
		return "", err
	}
	unknown := host.Errorf(host.Unauthenticated, "there is no such connection")
	id, ok := tokenID(token)
	if !ok {
		return "", unknown
	}
	if l := liveConnection(s, addr, id); l != nil {
		if (&connectionRecord{Token: l.token[:]}).matches(token) {
			return id, nil
		}
		return "", unknown
	}
	actor, ok, err := s.Store.Lookup(s.Identity(addr))
	if err != nil {
		return "", s.StoreError(err)
	}
	if !ok {
		return "", unknown
	}
	snap := s.Store.Snapshot(actor)
	defer snap.Close()
	rec, ok, err := readConnection(snap, id)
	if err != nil {
		return "", s.StoreError(err)
	}
	if !ok || !rec.matches(token) {
		return "", unknown
	}
	return id, nil
}

// Methods implements call.Server.
func (*Part) Methods() []*call.Method {
	return []*call.Method{
		call.Unwoken(call.Ask(method.ConnectionList,
			func(r *call.Query, _ host.Codec, in *host.ConnectionListInput) (host.ConnectionListOutput, error) {
				out := host.ConnectionListOutput{Connections: []host.ConnectionInfo{}}
				limit := in.Limit
				if limit == 0 {
					limit = 100
				}
				list, err := Reads[*call.Query]{r}.Connections(in.After, limit+1)
				if err != nil {
					return out, err
				}
				if out.More = len(list) > limit; out.More {
					list = list[:limit]
				}
				for i := range list {
					out.Connections = append(out.Connections, connectionInfo(&list[i]))
				}
				return out, nil
			})),
		call.Run(method.ConnectionClose, closeByOperator),
	}
}

// liveConnection returns the connection of an id that a client has, or nil.
func liveConnection(s *kernel.Kernel, addr host.Address, id string) *LiveConnection {
	l, _ := event.HubOf(s).Recipient(string(address.Append(nil, addr)), id).(*LiveConnection)
	return l
}

func connectionInfo(c *host.ConnectionState) host.ConnectionInfo {
	info := host.ConnectionInfo{ID: c.ID, Events: c.Events, Transport: c.Transport, Connected: c.Connected}
	if !c.Lost.IsZero() {
		info.Lost = &c.Lost
	}
	return info
}

// closeByOperator runs connection.close: the disconnect hook runs, and if it fails, the connection
// still ends. An actor that does not wake cannot run the hook.
func closeByOperator(
	c *kernel.Core, w *kernel.Work, in *host.ConnectionCloseInput, reply func(host.CountOutput) ([]byte, error),
) ([]byte, error) {
	if n := len(in.Reason); n > maxCloseReason {
		return nil, host.OverLimit("reason bytes", maxCloseReason, int64(n)).With("field", "reason")
	}
	reason := connectionClosed("an operator closed the connection")
	if in.Reason != "" {
		reason.Message = in.Reason
	}
	return endConnection(c, w, in.Connection, reason, c.Bare, func(found bool) ([]byte, error) {
		out, _ := call.Counted(found, nil)
		return reply(out)
	})
}
