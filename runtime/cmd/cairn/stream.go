package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/method"
	"github.com/cairn-run/cairn/runtime/cmd/cairn/internal/retry"
	"github.com/cairn-run/cairn/runtime/cmd/cairn/internal/table"
)

func (c *cli) streamCommand() *cobra.Command {
	return group("stream",
		c.streamAppendCommand(), c.streamReadCommand(), c.streamFollowCommand(),
		row[host.StreamInput, host.StreamInfo]{
			use:    "close TYPE/KEY... STREAM",
			method: method.StreamClose,
			list: listed(streamHeadings,
				func(s *host.StreamInfo) []host.StreamInfo { return []host.StreamInfo{*s} }, streamCells),
		}.command(c),
		row[host.StreamListInput, host.StreamListOutput]{
			use:    "list TYPE/KEY... [STREAM]",
			method: method.StreamList,
			list: listed(streamHeadings,
				func(o *host.StreamListOutput) []host.StreamInfo { return o.Streams }, streamCells),
			none: "no streams",
		}.command(c))
}

func (c *cli) streamAppendCommand() *cobra.Command {
	var lines, close bool
	var key string
	cmd := &cobra.Command{
		Use:               "append TYPE/KEY... STREAM [JSON|-|@FILE]...",
		Args:              cobra.MinimumNArgs(2),
		ValidArgsFunction: c.completeNamed(completions["STREAM"]),
		RunE: func(cmd *cobra.Command, args []string) error {
			if lines && len(args) > 2 || !lines && !close && len(args) == 2 {
				return usagef("give the items as arguments, or with --lines as lines of standard input")
			}
			if lines && key != "" {
				return usagef("--idempotency-key is for one request, and --lines makes many")
			}
			items := []host.Raw{}
			for _, arg := range args[2:] {
				item, err := c.input(arg)
				if err != nil {
					return err
				}
				items = append(items, item)
			}
			return c.on(func(ctx context.Context, t *target, args []string) error {
				in := host.StreamAppendInput{Stream: args[0], Items: items, Close: close}
				if !lines {
					return t.appendItems(ctx, &in, key)
				}
				in.Close = false
				err := c.batches(host.MaxStreamBatch, func(batch []host.Raw) error {
					in.Items = batch
					return t.appendItems(ctx, &in, "")
				})
				if err != nil || !close {
					return err
				}
				in.Items, in.Close = []host.Raw{}, true
				return t.appendItems(ctx, &in, "")
			})(cmd, args)
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&lines, "lines", false, "read items from standard input, one a line")
	flags.BoolVar(&close, "close", false, "close the stream after them")
	flags.StringVar(&key, "idempotency-key", "", "make repeating this command safe for 24 hours")
	return cmd
}

func (t *target) appendItems(ctx context.Context, in *host.StreamAppendInput, key string) error {
	out, err := ask(ctx, t, method.StreamAppend, in, askOptions{key: key})
	if err != nil {
		return err
	}
	closed := ""
	if in.Close {
		closed = ", and closed"
	}
	return t.result(out, "appended up to %d%s\n", out.Last, closed)
}

func (c *cli) streamReadCommand() *cobra.Command {
	var after positionFlag
	var limit int
	cmd := &cobra.Command{
		Use:               "read TYPE/KEY... STREAM",
		Args:              cobra.ExactArgs(2),
		ValidArgsFunction: c.completeNamed(completions["STREAM"]),
		RunE: func(cmd *cobra.Command, args []string) error {
			if limit < 0 {
				return usagef("--limit %d: at least 1, or 0 for all", limit)
			}
			return c.on(func(ctx context.Context, t *target, args []string) error {
				f := follower{target: t, stream: args[0], at: after.Position, most: limit}
				for {
					more, err := f.page(ctx, 0)
					if err != nil || !more {
						return err
					}
				}
			})(cmd, args)
		},
	}
	cmd.Flags().Var(&after, "after", "begin after this position: a sequence number, or SEQUENCE@LIFE")
	cmd.Flags().IntVar(&limit, "limit", 0, "how many items to print; 0 prints all")
	return cmd
}

func (c *cli) streamFollowCommand() *cobra.Command {
	var after positionFlag
	var limit int
	var latest bool
	cmd := &cobra.Command{
		Use:               "follow TYPE/KEY... STREAM",
		Args:              cobra.ExactArgs(2),
		ValidArgsFunction: c.completeNamed(completions["STREAM"]),
		RunE: func(cmd *cobra.Command, args []string) error {
			if limit < 0 {
				return usagef("--count %d: at least 1, or 0 for no end", limit)
			}
			if latest && cmd.Flags().Changed("after") {
				return usagef("--new and --after are two places to begin at")
			}
			return c.on(func(ctx context.Context, t *target, args []string) error {
				f := follower{target: t, stream: args[0], at: after.Position, most: limit}
				if latest {
					known, err := ask(ctx, t, method.StreamList, &host.StreamListInput{Stream: args[0]}, askOptions{})
					if err != nil {
						return err
					}
					for _, info := range known.Streams {
						f.at = host.Position{Sequence: info.Last, Life: info.Life}
					}
				}
				return f.follow(ctx)
			})(cmd, args)
		},
	}
	flags := cmd.Flags()
	flags.Var(&after, "after", "begin after this position: a sequence number, or SEQUENCE@LIFE")
	flags.BoolVar(&latest, "new", false, "begin with the next item that is appended")
	flags.IntVar(&limit, "count", 0, "end after this many items; 0 for no end")
	return cmd
}

// A follower prints a stream.
type follower struct {
	*target
	stream  string
	at      host.Position
	most    int // items to print in all; 0 for no end
	printed int
	opened  bool // a page was read
	closed  bool
}

// page prints one page and reports whether there may be more to read at once. With wait it waits
// for the first item.
func (f *follower) page(ctx context.Context, wait time.Duration) (more bool, err error) {
	in := host.StreamReadInput{
		Stream: f.stream, After: f.at.Sequence, Life: f.at.Life, Limit: host.MaxStreamBatch, WaitMS: wait.Milliseconds(),
	}
	if f.most > 0 {
		in.Limit = min(in.Limit, f.most-f.printed)
	}
	out, err := ask(ctx, f.target, method.StreamRead, &in, askOptions{wait: wait})
	if err != nil {
		return false, err
	}
	if f.opened && out.Life != f.at.Life {
		return false, host.Errorf(host.Destroyed, "the actor was destroyed, and created again")
	}
	if err := f.print(&out); err != nil {
		return false, err
	}
	f.at, f.opened, f.closed = host.Position{Sequence: out.Next, Life: out.Life}, true, out.Closed
	full := f.most > 0 && f.printed >= f.most
	return len(out.Items) > 0 && !full && !out.Closed, nil
}

func (f *follower) print(out *host.StreamReadOutput) error {
	if err := f.c.printMissed(out.Missed, out.Reset, "item"); err != nil {
		return err
	}
	for _, item := range out.Items {
		f.printed++
		if f.c.json {
			if err := f.c.printJSON(struct {
				Sequence uint64    `json:"sequence"`
				Life     string    `json:"life,omitempty"`
				Time     time.Time `json:"time"`
				Value    host.Raw  `json:"value"`
			}{item.Sequence, out.Life, item.Time, item.Value}); err != nil {
				return err
			}
			continue
		}
		_, err := fmt.Fprintf(f.c.stdout, "%6d  %s  %s\n", item.Sequence, table.Clock(item.Time),
			table.OneLine(string(item.Value)))
		if err != nil {
			return err
		}
	}
	return nil
}

// follow prints what comes until the stream is closed, enough is printed or ctx ends. It waits for
// a node that is away.
func (f *follower) follow(ctx context.Context) error {
	var away retry.Backoff
	for {
		_, err := f.page(ctx, waitPiece)
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil && f.closed:
			if !f.c.json {
				f.c.note("stream %s is closed", f.stream)
			}
			return nil
		case err == nil && f.most > 0 && f.printed >= f.most:
			return nil
		case errors.Is(err, &host.Error{Code: host.Destroyed}):
			f.c.note("%s was destroyed", f)
			return nil
		case err != nil && !(f.opened && retry.Passes(err)):
			return err // at first an error is an answer; later it may be an outage
		case err != nil:
			away.Wait(ctx)
		default:
			away.Reset()
		}
	}
}

const streamHeadings = "STREAM,FIRST,LAST,SIZE,STATE,UPDATED"

func streamCells(s *host.StreamInfo) []string {
	state := "open"
	if s.Closed {
		state = "closed"
	}
	return []string{
		table.OneLine(s.Stream), strconv.FormatUint(s.First, 10), strconv.FormatUint(s.Last,
			10), table.Size(s.Bytes), state, table.Clock(s.Updated),
	}
}
