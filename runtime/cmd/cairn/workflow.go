package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/method"
	"github.com/cairn-run/cairn/runtime/cmd/cairn/internal/bind"
	"github.com/cairn-run/cairn/runtime/cmd/cairn/internal/file"
	"github.com/cairn-run/cairn/runtime/cmd/cairn/internal/table"
	wfhost "github.com/cairn-run/cairn/workflow/host"
)

func (c *cli) workflowCommand() *cobra.Command {
	return group("workflow",
		c.workflowListCommand(),
		row[method.None, wfhost.RunStatus]{
			use:    "status TYPE/KEY...",
			method: method.WorkflowStatus,
			print: func(t *target, _ *method.None, st *wfhost.RunStatus) error {
				if t.c.json {
					return t.c.printJSON(st)
				}
				t.c.printRun(st)
				return nil
			},
		}.command(c),
		row[host.WorkflowHistoryInput, host.WorkflowHistoryOutput]{
			use:    "history TYPE/KEY...",
			method: method.WorkflowHistory,
			flags:  []bind.Flag{{Member: "under", Usage: "only an `entry`, by its id, and what it encloses"}},
			list: listed("ID,PATH,KIND,STATUS,ENDED,ATTEMPTS,OUTPUT,FAILURE",
				func(o *host.WorkflowHistoryOutput) []wfhost.HistoryEntry { return o.Entries }, entryCells),
			next: func(in *host.WorkflowHistoryInput, out *host.WorkflowHistoryOutput) bool {
				if n := len(out.Entries); n > 0 {
					in.After = string(out.Entries[n-1].ID)
				}
				return out.More
			},
			whole: true,
		}.command(c),
		c.workflowWatchCommand(),
		c.workflowVerb(method.WorkflowCancel, "cancel", "cancelled"),
		c.workflowVerb(method.WorkflowTerminate, "terminate", "terminated"),
		c.workflowVerb(method.WorkflowPause, "pause", "paused"),
		c.workflowVerb(method.WorkflowResume, "resume", "resumed"),
		row[host.WorkflowControlInput, method.None]{
			use:    "retry TYPE/KEY... ENTRY",
			method: method.WorkflowRetry,
			print:  doneTo("retried"),
		}.command(c),
		row[host.WorkflowControlInput, method.None]{
			use:    "rewind TYPE/KEY... ENTRY",
			method: method.WorkflowRewind,
			print:  doneTo("rewound"),
		}.command(c),
		c.workflowExportCommand(),
		row[host.WorkflowImportInput, host.RunStarted]{
			use:    "import TYPE/KEY... FILE",
			method: method.WorkflowImport,
			flags:  forkFlags,
			check: func(l line, in *host.WorkflowImportInput) (err error) {
				if in.Recording, err = l.readRecording(l.args[0]); err != nil {
					return usageError{err}
				}
				return nil
			},
			print: started,
		}.command(c),
		c.workflowForkCommand(), c.workflowVerifyCommand())
}

// doneTo returns what prints that something was done to the run of an actor.
func doneTo(done string) func(*target, *host.WorkflowControlInput, *method.None) error {
	return func(t *target, _ *host.WorkflowControlInput, _ *method.None) error {
		return t.result(map[string]string{"done": done}, "%s: %s\n", t, done)
	}
}

// workflowVerb makes a command that does something to one run or to many.
func (c *cli) workflowVerb(m method.Typed[host.WorkflowControlInput, method.None], name, done string) *cobra.Command {
	var in host.WorkflowControlInput
	var dir string
	many := &runBulk{bulk: bulk{cli: c, verb: verb{name: name, done: done, field: done}}, method: m, in: &in}
	cmd := &cobra.Command{
		Use: name + " [TYPE/KEY...]", Args: cobra.MaximumNArgs(1),
		ValidArgsFunction: c.completeAddress,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case len(args) > 0 && many.runs.given():
				return usagef("name an actor, or select runs with --type, --state, --paused-for and --older, but not both")
			case dir != "" && (len(args) == 0 || many.dryRun):
				return usagef("--data needs an actor, and knows no --dry-run")
			case dir != "":
				return c.controlOffline(cmd.Context(), dir, args[0], done,
					host.RunControl{Verb: m.Row.Name, Reason: in.Reason})
			case len(args) > 0:
				return c.on(func(ctx context.Context, t *target, _ []string) error {
					out, err := ask(ctx, t, m, &in, askOptions{})
					if err != nil {
						return err
					}
					return doneTo(done)(t, &in, &out)
				})(cmd, args)
			case !many.runs.given():
				return usagef("name an actor, or select runs with --type, --state, --paused-for and --older")
			}
			return many.run(cmd.Context())
		},
	}
	many.flags(cmd.Flags())
	if m.Row.Offline {
		cmd.Flags().StringVar(&dir, "data", "",
			"do it in the data `directory` of a node that is stopped, instead of asking a node")
		_ = cmd.MarkFlagDirname("data")
	}
	if m.Row.Name != host.WorkflowResume {
		cmd.Flags().StringVar(&in.Reason, "reason", "", "the reason, which status shows; at most 1,024 bytes")
	}
	return cmd
}

// printRun prints what a run does.
func (c *cli) printRun(st *wfhost.RunStatus) {
	rows := c.table()
	rows.Row("workflow", table.OneLine(st.Workflow))
	rows.Row("run", st.ID)
	rows.Row("state", string(st.State))
	rows.Row("started", table.Clock(st.Started))
	if !st.Ended.IsZero() {
		rows.Row("ended", table.Clock(st.Ended))
	}
	if st.Cancel != nil {
		rows.Row("cancelled", table.Clock(st.Cancel.Time)+"  "+reason(st.Cancel.Reason))
	}
	if p := st.Pause; p != nil {
		rows.Row("paused", table.Clock(p.Since)+"  "+string(p.Reason))
		if !p.Next.IsZero() {
			rows.Row("tried again", table.Clock(p.Next))
		}
	}
	if st.Failure != nil {
		rows.Row("failure", table.OneLine(st.Failure.Message))
	}
	for _, payload := range []struct {
		name  string
		value json.RawMessage
	}{{"input", st.InputJSON}, {"published", st.PublishedJSON}, {"output", st.OutputJSON}} {
		if payload.value != nil {
			rows.Row(payload.name, brief(host.Raw(payload.value)))
		}
	}
	rows.Row("entries", strconv.Itoa(st.Entries))
	rows.Row("bytes", strconv.FormatInt(st.Bytes, 10))
	rows.Flush()
	for _, w := range st.Waiting {
		line := fmt.Sprintf("waits for %s %s since %s", w.Kind, table.OneLine(w.Path), table.Clock(w.Since))
		if !w.Until.IsZero() {
			line += ", until " + table.Clock(w.Until)
		}
		for _, q := range w.Queues {
			line += ", queue " + table.OneLine(q)
		}
		fmt.Fprintln(c.stdout, line)
	}
	if p := st.Pause; p != nil && p.Text != "" {
		fmt.Fprintf(c.stdout, "\n%s\n", p.Text)
	}
}

// entryCells is an entry of a history as a row.
func entryCells(e *wfhost.HistoryEntry) []string {
	failure, attempts := "", ""
	if e.Failure != nil {
		failure = e.Failure.Message
	}
	if e.Attempts > 0 {
		attempts = strconv.Itoa(int(e.Attempts))
	}
	return []string{
		string(e.ID), table.OneLine(e.Path), e.Kind.String(), e.Status.String(), table.Clock(e.Ended), attempts,
		reason(brief(host.Raw(e.OutputJSON))), reason(failure),
	}
}

func (c *cli) workflowWatchCommand() *cobra.Command {
	var after uint64
	cmd := &cobra.Command{
		Use:  "watch TYPE/KEY...",
		Args: cobra.ExactArgs(1), ValidArgsFunction: c.completeAddress,
		RunE: c.on(func(ctx context.Context, t *target, _ []string) error {
			const wait = 30 * time.Second
			in := host.WorkflowWatchInput{After: after, WaitMS: wait.Milliseconds()}
			for {
				out, err := ask(ctx, t, method.WorkflowWatch, &in, askOptions{wait: wait})
				if err != nil {
					return err
				}
				if out.Version > in.After {
					if err := c.printChange(&out); err != nil {
						return err
					}
				}
				if in.After = out.Version; out.Status.State.Over() {
					return nil
				}
			}
		}),
	}
	cmd.Flags().Uint64Var(&after, "after", 0, "go on after a `version`")
	return cmd
}

func (c *cli) printChange(out *host.WorkflowWatchOutput) error {
	if c.json {
		return c.printJSON(out)
	}
	for i := range out.Changed {
		e := &out.Changed[i]
		line := fmt.Sprintf("%-10s %s %s", e.Status, e.Kind, table.OneLine(e.Path))
		if e.Failure != nil {
			line += ": " + table.OneLine(e.Failure.Message)
		}
		fmt.Fprintln(c.stdout, line)
	}
	_, err := fmt.Fprintf(c.stdout, "%-10s %s\n", out.Status.State, table.OneLine(out.Status.Workflow))
	return err
}

func (c *cli) workflowExportCommand() *cobra.Command {
	var name string
	var force bool
	cmd := &cobra.Command{
		Use:  "export TYPE/KEY...",
		Args: cobra.ExactArgs(1), ValidArgsFunction: c.completeAddress,
		RunE: c.on(func(ctx context.Context, t *target, _ []string) error {
			out, err := ask(ctx, t, method.WorkflowExport, nil, askOptions{})
			if err != nil {
				return err
			}
			if name == "" {
				_, err := c.stdout.Write(out.Recording)
				return err
			}
			if _, err := file.Write(name, force,
				func(w io.Writer) error { _, err := w.Write(out.Recording); return err }); err != nil {
				return err
			}
			return t.result(map[string]any{"file": name, "bytes": len(out.Recording)},
				"%s: %d bytes\n", name, len(out.Recording))
		}),
	}
	cmd.Flags().StringVar(&name, "out", "", "the `file` to write")
	cmd.Flags().BoolVar(&force, "force", false, "replace a file that exists")
	return cmd
}

func (c *cli) workflowVerifyCommand() *cobra.Command {
	return &cobra.Command{
		Use:  "verify",
		Args: cobra.ArbitraryArgs, DisableFlagParsing: true,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(*cobra.Command, []string) error {
			return usagef("the workflows are in your own program: run PROGRAM workflow verify --data DIR")
		},
	}
}
