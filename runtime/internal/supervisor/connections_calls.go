package supervisor

import (
	"context"

	"github.com/cairn-run/cairn/actor/host"
)

// CallOver implements host.Connector. A client that was lost a moment ago, and may come back, is heard too.
func (s *Supervisor) CallOver(ctx context.Context, token string, r *host.Request) (host.Reply, error) {
	id, err := s.identify(r.Address, token)
	if err != nil {
		return host.Reply{}, err
	}
	q := *r
	q.Connection, q.Existing = id, r.Existing || !r.Create
	return s.Call(ctx, &q)
}

// Disconnect implements host.Connector. The error code is Unauthenticated if there is no such connection.
func (s *Supervisor) Disconnect(ctx context.Context, addr host.Address, token string) error {
	id, err := s.identify(addr, token)
	if err != nil {
		return err
	}
	if err := s.outside(ctx); err != nil {
		return err
	}
	if l := s.liveConnection(addr, id); l != nil {
		// Whoever reads the connection still gets what was there for it, and closes it.
		if l.leave() {
			return l.quit(ctx, false)
		}
		return nil
	}
	return s.tendAndWait(ctx, s.types[addr.Type], addr, &tending{id: id, end: true})
}

// identify returns the connection of an actor that a resume token is for.
func (s *Supervisor) identify(addr host.Address, token string) (string, error) {
	if _, err := s.typeOf(addr); err != nil {
		return "", err
	}
	unknown := host.Errorf(host.Unauthenticated, "there is no such connection")
	id, ok := tokenID(token)
	if !ok {
		return "", unknown
	}
	if l := s.liveConnection(addr, id); l != nil {
		if (&connectionRecord{Token: l.token[:]}).matches(token) {
			return id, nil
		}
		return "", unknown
	}
	actor, ok, err := s.store.Lookup(s.identity(addr))
	if err != nil {
		return "", s.storeError(err)
	}
	if !ok {
		return "", unknown
	}
	snap := s.store.Snapshot(actor)
	defer snap.Close()
	rec, ok, err := readConnection(snap, id)
	if err != nil {
		return "", s.storeError(err)
	}
	if !ok || !rec.matches(token) {
		return "", unknown
	}
	return id, nil
}

// methods implements server.
func (*connPart) methods() []*builtin {
	return []*builtin{
		ask(host.ConnectionList, func(r *reader, _ host.Codec, in *host.ConnectionListInput) (host.ConnectionListOutput, error) {
			out := host.ConnectionListOutput{Connections: []host.ConnectionInfo{}}
			limit := in.Limit
			if limit == 0 {
				limit = 100
			}
			list, err := connReads{r}.Connections(in.After, limit+1)
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
		}),
		{name: host.ConnectionClose, existing: true, sturdy: true, run: closeByOperator},
	}
}

// liveConnection returns the connection of an id that a client has, or nil.
func (s *Supervisor) liveConnection(addr host.Address, id string) *liveConnection {
	l, _ := hubOf(s).recipient(string(appendAddress(nil, addr)), id).(*liveConnection)
	return l
}

func connectionInfo(c *host.ConnectionState) host.ConnectionInfo {
	info := host.ConnectionInfo{ID: c.ID, Events: c.Events, Transport: c.Transport, Connected: c.Connected}
	if !c.Lost.IsZero() {
		info.Lost = &c.Lost
	}
	return info
}

// closeByOperator runs connection.close: the disconnect hook runs, and if it fails, the connection ends all the same. An actor
// that does not wake cannot run the hook.
func closeByOperator(c *core, w *work) ([]byte, error) {
	var in host.ConnectionCloseInput
	if err := decodeInput(host.ConnectionClose, w.codec, w.input, &in); err != nil {
		return nil, err
	}
	if n := len(in.Reason); n > maxCloseReason {
		return nil, host.OverLimit("reason bytes", maxCloseReason, int64(n)).With("field", "reason")
	}
	reason := connectionClosed("an operator closed the connection")
	if in.Reason != "" {
		reason.Message = in.Reason
	}
	return c.endConnection(w, in.Connection, reason, c.bare, func(found bool) ([]byte, error) {
		out := host.CountOutput{}
		if found {
			out.Count = 1
		}
		return encodeOutput(w.codec, &out)
	})
}
