package main

import (
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/method"
	"github.com/cairn-run/cairn/runtime/cmd/cairn/internal/table"
)

func (c *cli) sendCommand() *cobra.Command {
	check := func(_ line, in *host.SendSelectInput) error {
		return idsOrAll(in.IDs, in.All)
	}
	return group("send",
		group("dead",
			row[host.SendListInput, host.SendListOutput]{
				use:    "list TYPE/KEY... [ID...]",
				method: method.SendDeadList, flags: listFlags, none: "no messages",
				list: listed("ID,TO,METHOD,ATTEMPTS,SENT,DIED,ERROR,INPUT",
					func(o *host.SendListOutput) []host.DeadLetter { return o.Messages },
					func(m *host.DeadLetter) []string {
						return []string{
							strconv.FormatUint(m.ID,
								10), table.OneLine(formatAddress(m.Type, m.Key)),
							table.OneLine(m.Method), table.Count(m.Attempts),
							table.Clock(m.Sent), table.Clock(m.Died), reason(string(m.Code) + ": " +
								m.Error), brief(m.Input),
						}
					}),
				next: func(in *host.SendListInput, out *host.SendListOutput) bool {
					if n := len(out.Messages); n > 0 {
						in.After = out.Messages[n-1].ID
					}
					return out.More && len(out.Messages) > 0
				},
			}.command(c),
			row[host.SendSelectInput, host.CountOutput]{
				use:    "requeue TYPE/KEY... [ID...]",
				method: method.SendDeadRequeue, flags: allFlag, check: check, print: counted[host.SendSelectInput]("requeued", "message"),
			}.command(c),
			row[host.SendSelectInput, host.CountOutput]{
				use:    "delete TYPE/KEY... [ID...]",
				method: method.SendDeadDelete, flags: allFlag, check: check, print: counted[host.SendSelectInput]("deleted", "message"),
				grave: func(in *host.SendSelectInput, actor string) string {
					if !in.All {
						return ""
					}
					return fmt.Sprintf("delete all messages of %s that were given up", actor)
				},
			}.command(c)))
}
