package main

import (
	"context"
	"encoding/hex"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime/cmd/cairn/internal/table"
)

// previewBytes is how much of a value is read to show some characters of it. A value that is longer
// is shown as text or bytes, not decoded.
const previewBytes = 16 << 10

func (c *cli) inspectCommand() *cobra.Command {
	var dir, after string
	var limit, values int
	cmd := &cobra.Command{
		Use:               "inspect TYPE/KEY...",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: c.completeAddress,
		RunE: func(cmd *cobra.Command, args []string) error {
			a, err := parseAddress(args[0])
			if err != nil {
				return usageError{err}
			}
			q := host.InspectQuery{}
			if q.After, err = hex.DecodeString(after); err != nil {
				return usagef("--after %q: a key in hexadecimal is needed", after)
			}
			if len(q.After) == 0 {
				q.After = nil
			}
			if limit < 0 {
				return usagef("--limit %d: at least 1, or 0 for all", limit)
			}
			if values < 0 {
				return usagef("--values %d: at least 0", values)
			}
			n, done, err := c.open(cmd.Context(), dir)
			if err != nil {
				return err
			}
			defer done()
			return c.inspect(cmd.Context(), n, a, q, limit, values)
		},
	}
	flags := cmd.Flags()
	flags.IntVar(&values, "values", 60,
		"how much of each value to show, in characters (with --json, bytes); 0 shows none")
	flags.IntVar(&limit, "limit", 0, "how many keys to print; 0 prints all")
	flags.StringVar(&after, "after", "", "begin after this key, in hexadecimal")
	dataFlag(cmd, &dir)
	return cmd
}

// inspect prints at most limit keys, all if limit is 0, page by page.
func (c *cli) inspect(ctx context.Context, n reader, a host.Address, q host.InspectQuery, limit, values int) error {
	if values > 0 {
		q.ValueBytes = max(values, previewBytes)
		if c.json {
			q.ValueBytes = values
		}
	}
	d, err := newDescriber()
	if err != nil {
		return err
	}
	t := c.table()
	defer t.Flush()
	printed := 0
	for {
		q.Limit = 100
		if limit > 0 {
			q.Limit = min(q.Limit, limit-printed)
		}
		requestCtx, cancel := c.requestContext(ctx)
		page, err := n.Inspect(requestCtx, a, q)
		cancel()
		if err != nil {
			return c.explain(ctx, n, host.Request{Address: a}, err)
		}
		for i := range page.Keys {
			k := &page.Keys[i]
			if c.json {
				if err := c.printJSON(k); err != nil {
					return err
				}
				continue
			}
			if printed == 0 && i == 0 {
				headings := []string{"KEY", "SIZE", "VERSION", "UPDATED"}
				if values > 0 {
					headings = append(headings, "VALUE")
				}
				t.Row(headings...)
			}
			cells := []string{table.OneLine(k.Text), strconv.Itoa(k.Size),
				strconv.FormatUint(k.Version, 10), table.Clock(k.Updated)}
			if values > 0 {
				cells = append(cells, d.preview(k, values))
			}
			t.Row(cells...)
		}
		printed += len(page.Keys)
		q.After = page.Next
		if len(page.Next) == 0 {
			return nil
		}
		if limit > 0 && printed >= limit {
			t.Flush()
			if !c.json {
				c.note("there are more: --after %s", hex.EncodeToString(page.Next))
			}
			return nil
		}
		t.Flush()
	}
}

// preview shows the value of a key in at most n characters.
func (d describer) preview(k *host.StoredKey, n int) string {
	if k.Size == 0 {
		return "empty"
	}
	return table.Cut(table.OneLine(d.describe(k.Key, k.Value, k.Size == len(k.Value))), n)
}
