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
	return group("send", "Look into the messages that an actor sends to other actors",
		"send is about messages between actors that were given up. The messages of queues are under queue.\n\n"+
			"With --json each line is one message or one count.",
		"  cairn send dead list tenant/acme",
		group("dead", "List, send again and delete messages to other actors that were given up",
			"dead messages are those that the target did not handle in the last attempt, that it can never handle, or that were\n"+
				"skipped. Their sender keeps them for 14 days, and 10,000 of them.\n\nWith --json each line is one message or one count.",
			"  cairn send dead list tenant/acme\n  cairn send dead requeue tenant/acme --all",
			row[host.SendListInput, host.SendListOutput]{
				use:   "list TYPE/KEY... [ID...]",
				short: "List messages to other actors that were given up",
				long: "list prints messages in the order in which they were sent, with the actor and the action that they were for and why\n" +
					"the last attempt failed.\n\n" +
					"With --json each line is one message: {\"id\",\"type\",\"key\",\"method\",\"input\",\"attempts\",\"sent\",\"died\",\"expires\",\n" +
					"\"code\",\"error\"}.",
				example: "  cairn send dead list tenant/acme",
				method:  method.SendDeadList, flags: listFlags, none: "no messages",
				list: listed("ID,TO,METHOD,ATTEMPTS,SENT,DIED,ERROR,INPUT",
					func(o *host.SendListOutput) []host.DeadMessage { return o.Messages },
					func(m *host.DeadMessage) []string {
						return []string{
							strconv.FormatUint(m.ID, 10), table.OneLine(formatAddress(m.Type, m.Key)), table.OneLine(m.Method), table.Count(m.Attempts),
							table.Clock(m.Sent), table.Clock(m.Died), reason(string(m.Code) + ": " + m.Error), brief(m.Input),
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
				use:   "requeue TYPE/KEY... [ID...]",
				short: "Send messages again that were given up",
				long: "requeue sends messages again, as new ones behind the waiting ones. Name them by id, or take --all.\n\n" +
					"With --json it prints {\"count\":N}.",
				example: "  cairn send dead requeue tenant/acme 5242880\n  cairn send dead requeue tenant/acme --all",
				method:  method.SendDeadRequeue, flags: allFlag, check: check, print: counted[host.SendSelectInput]("requeued", "message"),
			}.command(c),
			row[host.SendSelectInput, host.CountOutput]{
				use:   "delete TYPE/KEY... [ID...]",
				short: "Delete messages that were given up",
				long: "delete removes messages for good. Name them by id, or take --all, which asks on a terminal and needs --yes elsewhere.\n\n" +
					"With --json it prints {\"count\":N}.",
				example: "  cairn send dead delete tenant/acme 5242880",
				method:  method.SendDeadDelete, flags: allFlag, check: check, print: counted[host.SendSelectInput]("deleted", "message"),
				grave: func(in *host.SendSelectInput, actor string) string {
					if !in.All {
						return ""
					}
					return fmt.Sprintf("delete all messages of %s that were given up", actor)
				},
			}.command(c)))
}
