package main

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/method"
	"github.com/cairn-run/cairn/runtime/cmd/cairn/internal/bind"
	"github.com/cairn-run/cairn/runtime/cmd/cairn/internal/table"
)

func (c *cli) connectionsCommand() *cobra.Command {
	return group("connections",
		row[host.ConnectionListInput, host.ConnectionListOutput]{
			use:    "list TYPE/KEY...",
			method: method.ConnectionList,
			list: listed("CONNECTION,TRANSPORT,CONNECTED,LOST,EVENTS",
				func(o *host.ConnectionListOutput) []host.ConnectionInfo { return o.Connections },
				func(i *host.ConnectionInfo) []string {
					return []string{
						table.OneLine(i.ID), i.Transport, table.Clock(i.Connected), clockOf(i.Lost), table.Cut(table.OneLine(strings.Join(i.Events, ",")), 60),
					}
				}),
			next: func(in *host.ConnectionListInput, out *host.ConnectionListOutput) bool {
				if n := len(out.Connections); n > 0 {
					in.After = out.Connections[n-1].ID
				}
				return out.More && len(out.Connections) > 0
			},
			none: "no connections",
		}.command(c),
		row[host.ConnectionCloseInput, host.CountOutput]{
			use:    "close TYPE/KEY... CONNECTION",
			method: method.ConnectionClose,
			flags:  []bind.Flag{{Member: "reason", Usage: "what the client is told"}},
			print: func(t *target, in *host.ConnectionCloseInput, out *host.CountOutput) error {
				if out.Count == 0 {
					return host.Errorf(host.NotFound, "%s has no connection %s", t, in.Connection)
				}
				return t.result(out, "closed %s of %s\n", table.OneLine(in.Connection), t)
			},
		}.command(c))
}
