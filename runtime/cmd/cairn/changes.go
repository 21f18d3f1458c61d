package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/changes"
	"github.com/cairn-run/cairn/runtime/client"
	"github.com/cairn-run/cairn/runtime/cmd/cairn/internal/table"
)

func (c *cli) changesCommand() *cobra.Command {
	var q changes.Query
	var prefix string
	cmd := &cobra.Command{
		Use:               "changes [TYPE]",
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: c.completeType,
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if len(args) == 1 {
				q.Type = args[0]
				if err := checkType(q.Type); err != nil {
					return usageError{err}
				}
			}
			if prefix != "" {
				if q.Prefix, err = parsePrefix(prefix); err != nil {
					return err
				}
			}
			if fault := q.Check(); fault != nil {
				return usagef("%s", fault.Message)
			}
			n, err := c.connect(client.Options{})
			if err != nil {
				return err
			}
			defer n.Close()
			return c.followChanges(cmd.Context(), n, q)
		},
	}
	flags := cmd.Flags()
	flags.StringSliceVar(&q.Kinds, "kinds", nil, "only changes of these kinds, such as event,life")
	flags.StringVar(&prefix, "prefix", "", "only keys that begin with these whole parts, PART/PART")
	return cmd
}

func (c *cli) followChanges(ctx context.Context, n *client.Client, q changes.Query) error {
	err := n.FollowChanges(ctx, q, func(r *changes.Record) error {
		switch {
		case c.json:
			return c.printJSON(r)
		case r.Gap && r.Missed > 0:
			c.note("%d turns are left out: they came too fast", r.Missed)
			return nil
		case r.Gap:
			c.note("the connection was lost: what happened meanwhile is left out")
			return nil
		}
		for i := range r.Changes {
			ch := &r.Changes[i]
			data := string(ch.Data)
			if ch.Size > 0 {
				data = fmt.Sprintf("(%d bytes)", ch.Size)
			}
			if _, err := fmt.Fprintf(c.stdout, "%s  %s  %s  %s  %s\n",
				r.Time.Format(time.RFC3339Nano), formatAddress(r.Type,
					r.Key), ch.Kind, table.OneLine(ch.Name), table.OneLine(data)); err != nil {
				return err
			}
		}
		return nil
	})
	if ctx.Err() != nil {
		return nil
	}
	return c.explain(ctx, n, host.Request{Address: host.Address{Type: q.Type}}, err)
}
