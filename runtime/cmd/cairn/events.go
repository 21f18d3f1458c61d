package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime/client"
	"github.com/cairn-run/cairn/runtime/cmd/cairn/internal/table"
)

func (c *cli) eventsCommand() *cobra.Command {
	var s host.Subscription
	var after positionFlag
	var count int
	cmd := &cobra.Command{
		Use:               "events TYPE/KEY...",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: c.completeAddress,
		RunE: func(cmd *cobra.Command, args []string) error {
			a, err := parseAddress(args[0])
			if err != nil {
				return usageError{err}
			}
			if count < 0 {
				return usagef("--count %d: at least 1, or 0 for no end", count)
			}
			s.Resume, s.After, s.Life = cmd.Flags().Changed("after"), after.Sequence, after.Life
			return c.follow(cmd.Context(), a, s, count)
		},
	}
	flags := cmd.Flags()
	flags.StringSliceVar(&s.Names, "names", nil, "only events of these names, separated by commas")
	flags.Var(&after, "after", "begin after this position instead of now: a sequence number, or SEQUENCE@LIFE")
	flags.IntVar(&count, "count", 0, "end after this many events; 0 for no end")
	return cmd
}

// follow prints count events, all if count is 0. The end of ctx and of the actor are no errors.
func (c *cli) follow(ctx context.Context, a host.Address, s host.Subscription, count int) error {
	n, err := c.connect(client.Options{})
	if err != nil {
		return err
	}
	defer n.Close()
	opening, cancel := c.requestContext(ctx)
	stream, err := n.Subscribe(opening, a, s)
	cancel()
	if err != nil {
		return c.explain(ctx, n, host.Request{Address: a}, err)
	}
	defer stream.Close()
	asking, cancel := c.requestContext(ctx)
	_, err = n.Lookup(asking, a)
	cancel()
	if host.CodeOf(err) == host.NotFound {
		c.note("%s does not exist yet: waiting for its first event", formatAddress(a.Type, a.Key))
	}
	printed := 0
	for {
		d, err := stream.Next(ctx)
		switch {
		case err != nil && ctx.Err() != nil:
			return nil
		case errors.Is(err, &host.Error{Code: host.Destroyed}):
			c.note("%s was destroyed", formatAddress(a.Type, a.Key))
			return nil
		case err != nil:
			return err
		}
		if err := c.printMissed(d.Missed, d.Reset, "event"); err != nil {
			return err
		}
		for _, e := range d.Events {
			if err := c.printEvent(e); err != nil {
				return err
			}
			if printed++; printed == count {
				return nil
			}
		}
	}
}

// A positionFlag is a position on the command line.
type positionFlag struct{ host.Position }

// Set implements pflag.Value.
func (p *positionFlag) Set(text string) error {
	at, err := host.ParsePosition(text)
	if err != nil {
		return errors.New(err.Message)
	}
	p.Position = at
	return nil
}

// Type implements pflag.Value.
func (p *positionFlag) Type() string { return "position" }

// printMissed says how many events or items are no longer kept, and that the position was one of
// another life.
func (c *cli) printMissed(missed uint64, reset bool, noun string) error {
	switch {
	case missed == 0 && !reset:
		return nil
	case c.json:
		return c.printJSON(struct {
			Missed uint64 `json:"missed"`
			Reset  bool   `json:"reset,omitempty"`
		}{missed, reset})
	case reset:
		if _, err := fmt.Fprintf(c.stdout,
			"— the position belongs to another life of the actor: from the beginning —\n"); err != nil || missed == 0 {
			return err
		}
	}
	_, err := fmt.Fprintf(c.stdout, "— %s no longer kept —\n", table.Plural(missed, noun))
	return err
}

func (c *cli) printEvent(e host.EmittedEvent) error {
	data := json.RawMessage(e.Data)
	if !json.Valid(data) {
		data = json.RawMessage("null")
	}
	if c.json {
		return c.printJSON(struct {
			host.EmittedEvent
			Data json.RawMessage `json:"data"`
		}{e, data})
	}
	// No table: a line is printed when its event happens, before the widths of the next are known.
	_, err := fmt.Fprintf(c.stdout, "%6d  %s  v%-6d  %-10s  %s\n", e.Sequence, table.Clock(e.Time),
		e.Version, e.Name, table.OneLine(string(data)))
	return err
}
