package handle

import (
	"context"
	"iter"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/method"
	"github.com/cairn-run/cairn/actor/internal/site"
)

// Connections are the connections of one actor, for operators. Made by actor.Connections.Of. Safe
// for concurrent use.
type Connections struct{ site site.Site }

// A ConnectionInfo describes a connection without its state.
type ConnectionInfo = host.ConnectionInfo

// List ranges over the connections in the order of their ids. It reads page by page. An error ends
// the loop.
func (c Connections) List(ctx context.Context) iter.Seq2[ConnectionInfo, error] {
	return func(yield func(ConnectionInfo, error) bool) {
		var in host.ConnectionListInput
		for {
			page, err := site.Ask(ctx, &c.site, method.ConnectionList, &in)
			if err != nil {
				yield(ConnectionInfo{}, err)
				return
			}
			for i := range page.Connections {
				if !yield(page.Connections[i], nil) {
					return
				}
				in.After = page.Connections[i].ID
			}
			if !page.More || len(page.Connections) == 0 {
				return
			}
		}
	}
}

// Close ends a connection and reports whether there was one. The client gets the reason, with the
// error code FailedPrecondition.
func (c Connections) Close(ctx context.Context, connection, reason string) (bool, error) {
	n, err := site.Count(ctx, &c.site, method.ConnectionClose,
		&host.ConnectionCloseInput{Connection: connection, Reason: reason})
	return n > 0, err
}
