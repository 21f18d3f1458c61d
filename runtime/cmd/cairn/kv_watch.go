package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/kv"
	"github.com/cairn-run/cairn/runtime/client"
	"github.com/cairn-run/cairn/runtime/cmd/cairn/internal/bind"
)

func (c *cli) kvWatchCommand() *cobra.Command {
	var w kv.Watching
	var prefixes []string
	var count int
	cmd := &cobra.Command{
		Use:               "watch TYPE/KEY... [ENTRY...]",
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: c.completeAddress,
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			a, err := parseAddress(args[0])
			if err != nil {
				return usageError{err}
			}
			if count < 0 {
				return usagef("--count %d: at least 1, or 0 for no end", count)
			}
			if w.Keys, err = keysOf(args[1:]); err != nil {
				return err
			}
			if w.Prefixes, err = keysOf(prefixes); err != nil {
				return err
			}
			if len(w.Keys)+len(w.Prefixes) == 0 {
				w.Prefixes = []kv.Key{{}}
			}
			return c.watch(cmd.Context(), a, w, count)
		},
	}
	flags := cmd.Flags()
	flags.StringArrayVar(&prefixes, "prefix", nil,
		"the entries whose keys begin with these parts; may be given more than once")
	flags.BoolVar(&w.Initial, "initial", false, "print what is there first")
	flags.IntVar(&count, "count", 0, "end after this many changes; 0 for no end")
	return cmd
}

// keysOf reads keys of the command line.
func keysOf(texts []string) (keys []kv.Key, err error) {
	for _, text := range texts {
		key, err := bind.Key(text)
		if err != nil {
			return nil, usageError{err}
		}
		keys = append(keys, key)
	}
	return keys, nil
}

// watch prints count changes of entries, all if count is 0. The end of ctx and of the actor are no
// errors.
func (c *cli) watch(ctx context.Context, a host.Address, w kv.Watching, count int) error {
	n, err := c.connect(client.Options{})
	if err != nil {
		return err
	}
	defer n.Close()
	opening, cancel := c.requestContext(ctx)
	watch, err := n.WatchKV(opening, a, w)
	cancel()
	if err != nil {
		return c.explain(ctx, n, host.Request{Address: a}, err)
	}
	defer watch.Close()
	printed := 0
	for {
		out, err := watch.Next(ctx)
		switch {
		case err != nil && ctx.Err() != nil:
			return nil
		case errors.Is(err, &host.Error{Code: host.Destroyed}):
			c.note("%s was destroyed", formatAddress(a.Type, a.Key))
			return nil
		case err != nil:
			return err
		}
		for i := range out.Changes {
			if err := c.printEntryChange(&out.Changes[i], out.Version); err != nil {
				return err
			}
			if printed++; printed == count {
				return nil
			}
		}
	}
}

func (c *cli) printEntryChange(ch *kv.Change, version uint64) error {
	if c.json {
		return c.printJSON(struct {
			*kv.Change
			Version uint64 `json:"version"`
		}{ch, version})
	}
	text := "is not there"
	if ch.Entry != nil {
		version, text = ch.Entry.Version, brief(ch.Entry.Value)
	}
	_, err := fmt.Fprintf(c.stdout, "v%d  %s  %s\n", version, formatKey(ch.Key), text)
	return err
}
