package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/kv"
	"github.com/cairn-run/cairn/actor/host/method"
	"github.com/cairn-run/cairn/runtime"
	"github.com/cairn-run/cairn/runtime/client"
	"github.com/cairn-run/cairn/runtime/cmd/cairn/internal/table"
)

// A target is the actor whose built-in methods a command calls.
type target struct {
	c *cli
	n *client.Client // nil if the node is stopped
	a host.Address
	// stopped is the data of a node that is stopped.
	stopped *stoppedNode
}

// A stoppedNode answers reads from the data of a stopped node.
type stoppedNode struct{ *runtime.Offline }

// Call implements host.Node.
func (n *stoppedNode) Call(ctx context.Context, r *host.Request) (host.Reply, error) {
	return n.Read(ctx, r)
}

// Destroy implements host.Node.
func (n *stoppedNode) Destroy(context.Context, host.Address) error {
	return host.Errorf(host.FailedPrecondition, "the node is stopped")
}

// node returns the node, which may be a stopped one.
func (t *target) node() interface {
	reader
	host.Node
} {
	if t.stopped != nil {
		return t.stopped
	}
	return t.n
}

// askOptions say how to call a method.
type askOptions struct {
	// existing requires that the actor exists, even for a method that creates it.
	existing bool
	// wait is how long the node may take besides --timeout.
	wait time.Duration
	// key is the idempotency key, if the caller has one.
	key string
}

// on returns the run function of a command whose first argument is an actor. f gets the others.
func (c *cli) on(f func(ctx context.Context, t *target, args []string) error) func(*cobra.Command, []string) error {
	return c.onData(new(string), f)
}

// onData is on for a command that can read the data of a stopped node, if dir is not "".
func (c *cli) onData(dir *string,
	f func(ctx context.Context, t *target, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		a, err := parseAddress(args[0])
		if err != nil {
			return usageError{err}
		}
		n, done, err := c.open(cmd.Context(), *dir)
		if err != nil {
			return err
		}
		defer done()
		t := &target{c: c, a: a}
		if offline, is := n.(*runtime.Offline); is {
			t.stopped = &stoppedNode{offline}
		} else {
			t.n = n.(*client.Client)
		}
		return f(cmd.Context(), t, args[1:])
	}
}

// String returns the actor as it is written on the command line.
func (t *target) String() string { return formatAddress(t.a.Type, t.a.Key) }

// ask is t.ask with the types of the method, and little more, as it is compiled for each of them.
func ask[In, Out any](ctx context.Context, t *target, m method.Typed[In, Out], in *In,
	o askOptions) (out Out, err error) {
	err = t.ask(ctx, m.Row, in, &out, o)
	return out, err
}

// ask calls a built-in method with the types of in and out. The actor must exist unless the method
// creates it. A method that counts is called again while there is more to do than one turn can.
func (t *target) ask(ctx context.Context, m *method.Row, in, out any, o askOptions) error {
	err := t.askOnce(ctx, m, in, out, o)
	switch sum := out.(type) {
	case *kv.CountOutput:
		from := *in.(*kv.CountInput)
		for err == nil && sum.Cursor != "" {
			var more kv.CountOutput
			from.Cursor = sum.Cursor
			err = t.askOnce(ctx, m, &from, &more, o)
			sum.Count, sum.Cursor = sum.Count+more.Count, more.Cursor
		}
	case *host.CountOutput:
		for err == nil && sum.More {
			var more host.CountOutput
			if err = t.askOnce(ctx, m, in, &more, o); err != nil && sum.Count > 0 {
				err = fmt.Errorf("after %s: %w", table.Plural(sum.Count, "message"), err)
			}
			sum.Count, sum.More = sum.Count+more.Count, more.More
		}
	}
	return err
}

// askOnce is ask for one turn.
func (t *target) askOnce(ctx context.Context, m *method.Row, in, out any, o askOptions) error {
	r := &host.Request{Address: t.a, Method: m.Name, Codec: host.JSON, IdempotencyKey: o.key, Existing: o.existing}
	if m.Input != nil {
		var b bytes.Buffer // in it, raw JSON keeps its characters as they were given
		if err := writeJSON(&b, in); err != nil {
			return err
		}
		r.Input = bytes.TrimSuffix(b.Bytes(), []byte("\n"))
	}
	limited, cancel := t.c.requestContext(ctx)
	if t.c.timeout > 0 && o.wait > 0 {
		cancel()
		limited, cancel = context.WithTimeout(ctx, t.c.timeout+o.wait)
	}
	defer cancel()
	reply, err := t.node().Call(limited, r)
	if err != nil {
		return t.c.explain(ctx, t.node(), *r, err)
	}
	if m.Output == nil || len(reply.Output) == 0 {
		return nil
	}
	if err := json.Unmarshal(reply.Output, out); err != nil {
		return host.Errorf(host.Internal, "the node's answer to %s is not what was expected: %v", m.Name, err)
	}
	return nil
}

// group makes a command that only holds others.
func group(use string, cmds ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{Use: use, Args: cobra.NoArgs, ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var names []string
			for _, sub := range cmd.Commands() {
				names = append(names, sub.Name())
			}
			return usagef("%s what? One of: %s", cmd.CommandPath(), strings.Join(names, ", "))
		},
	}
	cmd.AddCommand(cmds...)
	return cmd
}

// completions list the names that an argument of a command may be.
var completions = map[string]func(context.Context, *target) []string{
	"QUEUE": named(method.QueueStats,
		func(o *host.QueueStatsOutput) []host.QueueStats { return o.Queues }, func(q *host.QueueStats) string { return q.Queue }),
	"NAME": named(method.ScheduleList,
		func(o *host.ScheduleListOutput) []host.Schedule { return o.Schedules }, func(s *host.Schedule) string { return s.Name }),
	"STREAM": named(method.StreamList,
		func(o *host.StreamListOutput) []host.StreamInfo { return o.Streams }, func(s *host.StreamInfo) string { return s.Stream }),
	"CONNECTION": named(method.ConnectionList,
		func(o *host.ConnectionListOutput) []host.ConnectionInfo { return o.Connections }, func(i *host.ConnectionInfo) string { return i.ID }),
}

// named returns what lists the names of the items that a method lists.
func named[In, Out, Item any](m method.Typed[In, Out], items func(*Out) []Item,
	name func(*Item) string) func(context.Context, *target) []string {
	return func(ctx context.Context, t *target) (names []string) {
		out, err := ask(ctx, t, m, new(In), askOptions{})
		if err != nil {
			return nil
		}
		all := items(&out)
		for i := range all {
			names = append(names, name(&all[i]))
		}
		return slices.Compact(names) // schedules of one name stand together
	}
}

// completeNamed completes an actor and then the name of one of its queues, schedules or streams,
// from list.
func (c *cli) completeNamed(list func(ctx context.Context, t *target) []string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
		if len(args) != 1 {
			return c.completeAddress(cmd, args, word)
		}
		a, err := parseAddress(args[0])
		n, ctx, done := c.completionNode(cmd)
		defer done()
		remote, ok := n.(*client.Client)
		if err != nil || !ok {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return withPrefix(list(ctx, &target{c: c, n: remote, a: a}), word), cobra.ShellCompDirectiveNoFileComp
	}
}
