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
	"github.com/cairn-run/cairn/runtime/cmd/cairn/internal/file"
	"github.com/cairn-run/cairn/runtime/cmd/cairn/internal/table"
	"github.com/cairn-run/cairn/workflow"
)

func (c *cli) workflowCommand() *cobra.Command {
	return group("workflow", "Look at and steer the workflow run of an actor",
		"workflow works on the run of an actor: what it has done, what it waits for and why, and what an operator does about it.\n"+
			"An actor has one run at a time. Each command explains itself with --help.\n\n"+
			"Whether the runs that live fit new code is asked of the program that has that code, before it is deployed:\n"+
			"PROGRAM workflow verify --data DIR.\n\nWith --json what is printed has the shapes of docs/cli.md.",
		"  cairn workflow status shop/acme\n  cairn workflow history shop/acme\n  cairn workflow cancel shop/acme --reason 'ordered twice'",
		c.workflowListCommand(), c.workflowStatusCommand(), c.workflowHistoryCommand(), c.workflowWatchCommand(),
		c.workflowVerb(host.WorkflowCancel, "cancel", "cancelled", false, "Ask a run to end, undoing what it says how to undo",
			"cancel asks a run to end. What it waits for is cancelled, its undo handlers run, and its state is cancelled in\nthe end. It returns when the request is durable."),
		c.workflowVerb(host.WorkflowTerminate, "terminate", "terminated", false, "End a run at once, undoing nothing",
			"terminate ends a run at once: none of its code runs any more."),
		c.workflowVerb(host.WorkflowPause, "pause", "paused", false, "Keep a run from going on",
			"pause keeps a run from going on until it is resumed. Attempts of steps that are under way are finished."),
		c.workflowVerb(host.WorkflowResume, "resume", "resumed", false, "Let a paused run go on",
			"resume lets a paused run go on, whatever paused it. A run that does not fit its code is paused again."),
		c.workflowVerb(host.WorkflowRetry, "retry", "retried", true, "Run a step again that has failed for good",
			"retry runs a step again that has failed for good, and what came after it. ENTRY is the id that history shows."),
		c.workflowVerb(host.WorkflowRewind, "rewind", "rewound", true, "Forget an entry of the history and what came after it",
			"rewind forgets an entry of the history and all that came after it, so that the run goes on from there. What\nsteps have done outside is not undone. A run that is over goes on, too, and its result is gone: not one that was\nterminated, or whose parent was told how it ended. ENTRY is the id that history shows."),
		c.workflowExportCommand(), c.workflowImportCommand(), c.workflowForkCommand(), c.workflowVerifyCommand())
}

// workflowVerb makes a command that does something to a run; entry says that it is about an entry of the history.
func (c *cli) workflowVerb(method, name, done string, entry bool, short, long string) *cobra.Command {
	var reason, dir string
	offline := method == host.WorkflowPause || method == host.WorkflowTerminate
	use, args := name+" TYPE/KEY...", cobra.MaximumNArgs(1)
	example := "  cairn workflow " + name + " shop/acme"
	long += "\n\nWith --json it prints {\"done\":\"" + done + "\"}."
	many := &runBulk{bulk: bulk{cli: c, verb: verb{name: name, done: done, field: done}}, method: method, reason: &reason}
	if entry {
		use, args = use+" ENTRY", cobra.ExactArgs(2)
		example += " 1503"
	} else {
		use = name + " [TYPE/KEY...]"
		example += "\n  cairn workflow " + name + " --type shop --paused-for diverged --limit 50 --dry-run"
		long += "\n\nWithout an actor it is done to the runs that are paused or have failed and that the flags select: --dry-run only\n" +
			"lists them. On a terminal it asks, elsewhere it needs --yes. One that fails does not keep it from the others; in the\n" +
			"end it says how many are done, and exits with 1 if one failed. With --json each line is then\n" +
			"{\"" + done + "\":true,\"type\":...,\"key\":[...]}, with false and an \"error\" if it failed."
	}
	if offline {
		long += "\n\n" + offlineHelp
		example += "\n  cairn workflow " + name + " shop/acme --data ./data"
	}
	cmd := &cobra.Command{
		Use: use, Short: short, Long: long, Example: example, Args: args,
		ValidArgsFunction: c.completeAddress,
	}
	one := c.on(func(ctx context.Context, t *target, args []string) error {
		in := host.WorkflowControlInput{Reason: reason}
		if entry {
			in.Entry = args[0]
		}
		if err := t.ask(ctx, method, &in, nil, askOptions{existing: true}); err != nil {
			return err
		}
		if c.json {
			return c.printJSON(map[string]string{"done": done})
		}
		_, err := fmt.Fprintf(c.stdout, "%s: %s\n", t, done)
		return err
	})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) > 0 && many.runs.given():
			return usagef("name an actor, or select runs with --type, --state, --paused-for and --older, but not both")
		case dir != "" && (len(args) == 0 || many.dryRun):
			return usagef("--data needs an actor, and knows no --dry-run")
		case dir != "":
			return c.controlOffline(cmd.Context(), dir, args[0], done, host.RunControl{Verb: method, Reason: reason})
		case len(args) > 0:
			return one(cmd, args)
		case !many.runs.given():
			return usagef("name an actor, or select runs with --type, --state, --paused-for and --older")
		}
		return many.run(cmd.Context())
	}
	if !entry {
		many.flags(cmd.Flags())
	}
	if offline {
		cmd.Flags().StringVar(&dir, "data", "", "do it in the data `directory` of a node that is stopped, instead of asking a node")
		_ = cmd.MarkFlagDirname("data")
	}
	if method != host.WorkflowResume && !entry {
		cmd.Flags().StringVar(&reason, "reason", "", "why, for those who wonder; at most 1,024 bytes")
	}
	return cmd
}

func (c *cli) workflowStatusCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "status TYPE/KEY...",
		Short: "Describe the run of an actor",
		Long: "status says what the run of an actor does, what it waits for since when, and why it is paused if it is. The actor is not\n" +
			"woken.\n\nWith --json it prints the status in the shape of docs/cli.md.",
		Example: "  cairn workflow status shop/acme", Args: cobra.ExactArgs(1), ValidArgsFunction: c.completeAddress,
		RunE: c.on(func(ctx context.Context, t *target, _ []string) error {
			var st workflow.RunStatus
			if err := t.ask(ctx, host.WorkflowStatus, nil, &st, askOptions{existing: true}); err != nil {
				return err
			}
			if c.json {
				return c.printJSON(st)
			}
			c.printRun(&st)
			return nil
		}),
	}
}

// printRun prints what a run does.
func (c *cli) printRun(st *workflow.RunStatus) {
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

func (c *cli) workflowHistoryCommand() *cobra.Command {
	var under string
	cmd := &cobra.Command{
		Use:   "history TYPE/KEY...",
		Short: "List the history of a run",
		Long: "history lists the entries of a run's history, each before those that it encloses, with the ids that retry, rewind and\n" +
			"--under take. The actor is not woken.\n\nWith --json each line is one entry.",
		Example: "  cairn workflow history shop/acme\n  cairn workflow history shop/acme --json | jq -r 'select(.status==\"failed\").id'",
		Args:    cobra.ExactArgs(1), ValidArgsFunction: c.completeAddress,
		RunE: c.on(func(ctx context.Context, t *target, _ []string) error {
			in := host.WorkflowHistoryInput{Under: under, Limit: 1000}
			rows := c.table()
			if !c.json {
				rows.Row("ID", "PATH", "KIND", "STATUS", "ENDED", "ATTEMPTS", "OUTPUT", "FAILURE")
			}
			for {
				var out host.WorkflowHistoryOutput
				if err := t.ask(ctx, host.WorkflowHistory, &in, &out, askOptions{existing: true}); err != nil {
					return err
				}
				for i := range out.Entries {
					e := &out.Entries[i]
					in.After = string(e.ID)
					if c.json {
						if err := c.printJSON(e); err != nil {
							return err
						}
						continue
					}
					failure, attempts := "", ""
					if e.Failure != nil {
						failure = e.Failure.Message
					}
					if e.Attempts > 0 {
						attempts = strconv.Itoa(int(e.Attempts))
					}
					rows.Row(string(e.ID), table.OneLine(e.Path), e.Kind.String(), e.Status.String(), table.Clock(e.Ended), attempts, reason(brief(host.Raw(e.OutputJSON))), reason(failure))
				}
				if !out.More {
					break
				}
			}
			if !c.json {
				rows.Flush()
			}
			return nil
		}),
	}
	cmd.Flags().StringVar(&under, "under", "", "only an `entry`, by its id, and what it encloses")
	return cmd
}

func (c *cli) workflowWatchCommand() *cobra.Command {
	var after uint64
	cmd := &cobra.Command{
		Use:   "watch TYPE/KEY...",
		Short: "Follow what changes in a run",
		Long: "watch prints the entries of a run as they change, until the run ends or the command is interrupted; first those that\n" +
			"are there. The actor is not woken.\n\n" +
			"With --json each line is {\"version\",\"status\",\"changed\",\"count\"}; --after VERSION goes on after one of them.",
		Example: "  cairn workflow watch shop/acme", Args: cobra.ExactArgs(1), ValidArgsFunction: c.completeAddress,
		RunE: c.on(func(ctx context.Context, t *target, _ []string) error {
			const wait = 30 * time.Second
			in := host.WorkflowWatchInput{After: after, WaitMS: wait.Milliseconds()}
			for {
				var out host.WorkflowWatchOutput
				if err := t.ask(ctx, host.WorkflowWatch, &in, &out, askOptions{existing: true, wait: wait}); err != nil {
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
		Use:   "export TYPE/KEY...",
		Short: "Write a run with its whole history to a file",
		Long: "export writes a recording of a run: for tests that replay it, and to look at it elsewhere. Without --out it goes to\n" +
			"standard output. The actor is not woken.\n\nWith --json and --out it prints {\"file\",\"bytes\"}.",
		Example: "  cairn workflow export shop/acme --out testdata/acme.run", Args: cobra.ExactArgs(1), ValidArgsFunction: c.completeAddress,
		RunE: c.on(func(ctx context.Context, t *target, _ []string) error {
			var out host.WorkflowRecording
			if err := t.ask(ctx, host.WorkflowExport, nil, &out, askOptions{existing: true}); err != nil {
				return err
			}
			if name == "" {
				_, err := c.stdout.Write(out.Recording)
				return err
			}
			if _, err := file.Write(name, force, func(w io.Writer) error { _, err := w.Write(out.Recording); return err }); err != nil {
				return err
			}
			if c.json {
				return c.printJSON(map[string]any{"file": name, "bytes": len(out.Recording)})
			}
			_, err := fmt.Fprintf(c.stdout, "%s: %d bytes\n", name, len(out.Recording))
			return err
		}),
	}
	cmd.Flags().StringVar(&name, "out", "", "the `file` to write")
	cmd.Flags().BoolVar(&force, "force", false, "replace a file that exists")
	return cmd
}

func (c *cli) workflowVerifyCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "verify",
		Short: "Say how runs are verified against new code",
		Long: "verify is a command of the program that has the workflows, because their code is in it: PROGRAM workflow verify\n" +
			"--data DIR replays every run that lives in a node's data, read-only, and lists those that the program's code does not\n" +
			"fit, with a report each. Its exit status is 1 if there are any. The data must not be in use: verify a copy of it.\n\nIt knows no --json.",
		Example: "  shop workflow verify --data /var/backups/shop", Args: cobra.ArbitraryArgs, DisableFlagParsing: true,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(*cobra.Command, []string) error {
			return usagef("the workflows are in your own program: run PROGRAM workflow verify --data DIR")
		},
	}
}
