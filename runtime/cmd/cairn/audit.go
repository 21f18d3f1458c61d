package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/audit"
	"github.com/cairn-run/cairn/runtime/cmd/cairn/internal/table"
)

func (c *cli) auditCommand() *cobra.Command {
	var q audit.Query
	var since, until, dir, prefix string
	var follow bool
	var limit int
	cmd := &cobra.Command{
		Use:               "audit [TYPE[/KEY...]]",
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: c.completeAddress,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := auditQuery(&q, args, prefix, since, until); err != nil {
				return err
			}
			switch {
			case limit < 0:
				return usagef("--limit %d: at least 1, or 0 for all", limit)
			case follow && (until != "" || dir != "" || cmd.Flags().Changed("limit")):
				return usagef("--follow goes without --until, --limit and --data")
			}
			n, done, err := c.open(cmd.Context(), dir)
			if err != nil {
				return err
			}
			defer done()
			if follow {
				err := n.(audit.Log).FollowAudit(cmd.Context(), q, c.printRecord)
				if cmd.Context().Err() != nil {
					return nil
				}
				return err
			}
			return c.listAudit(cmd.Context(), n, q, limit)
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&follow, "follow", false, "print records as they are made, from now on or from --since")
	flags.StringVar(&q.Verb, "verb", "", "only records of this method, such as queue.purge")
	flags.StringVar(&since, "since", "",
		"only records of this time or later, such as 2027-01-01T00:00:00Z, or a time ago, such as 24h")
	flags.StringVar(&until, "until", "", "only records before this time")
	flags.StringVar(&prefix, "prefix", "", "only keys that begin with these whole parts, PART/PART")
	flags.IntVar(&limit, "limit", 100, "how many records to print, the latest; 0 prints all")
	dataFlag(cmd, &dir)
	return cmd
}

// auditQuery reads the selection of records.
func auditQuery(q *audit.Query, args []string, prefix, since, until string) error {
	if len(args) == 1 {
		if _, _, q.Exact = strings.Cut(args[0], "/"); q.Exact {
			a, err := parseAddress(args[0])
			if err != nil {
				return usageError{err}
			}
			q.Type, q.Prefix = a.Type, a.Key
		} else if err := checkType(args[0]); err != nil {
			return usageError{err}
		} else {
			q.Type = args[0]
		}
	}
	if prefix != "" {
		if q.Type == "" || q.Exact {
			return usagef("--prefix needs a TYPE")
		}
		var err error
		if q.Prefix, err = parsePrefix(prefix); err != nil {
			return err
		}
	}
	for flag, text := range map[string]string{"since": since, "until": until} {
		if text == "" {
			continue
		}
		at, err := time.Parse(time.RFC3339, text)
		if ago, derr := time.ParseDuration(text); err != nil && derr == nil && ago > 0 {
			at, err = time.Now().Add(-ago), nil
		}
		if err != nil {
			return usagef("--%s %q: a time such as 2027-01-01T00:00:00Z, or a time ago, such as 24h", flag, text)
		}
		if flag == "since" {
			q.Since = at
		} else {
			q.Until = at
		}
	}
	return nil
}

// listAudit prints records, the latest last, at most limit of them unless limit is 0.
func (c *cli) listAudit(ctx context.Context, n reader, q audit.Query, limit int) error {
	var all []audit.Record
	for limit == 0 || len(all) < limit {
		q.Limit = audit.MaxPage
		if limit > 0 {
			q.Limit = min(audit.MaxPage, limit-len(all))
		}
		limited, cancel := c.requestContext(ctx)
		page, err := n.Audit(limited, q)
		cancel()
		if err != nil {
			return c.explain(ctx, n, host.Request{Address: host.Address{Type: q.Type}}, err)
		}
		all = append(all, page.Records...)
		if q.Before = page.Cursor; q.Before == 0 {
			break
		}
	}
	if len(all) == 0 && !c.json {
		c.note("there are no such records")
	}
	slices.Reverse(all)
	for i := range all {
		if err := c.printRecord(&all[i]); err != nil {
			return err
		}
	}
	if q.Before != 0 && !c.json {
		c.note("there are older ones: --limit 0 lists them")
	}
	return nil
}

// printRecord prints a record.
func (c *cli) printRecord(r *audit.Record) error {
	if c.json {
		return c.printJSON(r)
	}
	of := cmp.Or(formatAddress(r.Type, r.Key), "-") // what no actor is about
	if r.Damaged {
		_, err := fmt.Fprintf(c.stdout, "%s  %s  record %d is damaged and cannot be read\n",
			r.Time.Format(time.RFC3339), of, r.ID)
		return err
	}
	_, err := fmt.Fprintf(c.stdout, "%s  %s  %s  by %s over %s%s\n", r.Time.Format(time.RFC3339), of, r.Verb,
		table.OneLine(cmp.Or(r.Principal, r.Remote, "unknown")), r.Channel, because(r.Reason))
	for _, line := range []struct {
		name string
		text []byte
	}{{"input", r.Input}, {"before", r.Before}, {"after", r.After}} {
		if err == nil && len(line.text) > 0 {
			_, err = fmt.Fprintf(c.stdout, "    %-6s  %s\n", line.name, table.OneLine(string(line.text)))
		}
	}
	return err
}

// because shows a reason, if there is one.
func because(reason string) string {
	if reason == "" {
		return ""
	}
	return ": " + table.OneLine(reason)
}
