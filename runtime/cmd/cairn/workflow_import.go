package main

import (
	"context"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/method"
	"github.com/cairn-run/cairn/runtime/cmd/cairn/internal/bind"
)

// forkFlags are the flags of the commands that make a run of a recording.
var forkFlags = []bind.Flag{
	{Member: "up_to", Usage: "the last `entry` of the history that the new run has, by its id"},
	{Member: "replace", Usage: "replace a run of the actor that has ended"},
}

// started prints the run that was made of a recording.
func started(t *target, _ *host.WorkflowImportInput, out *host.RunStarted) error {
	return t.result(out, "%s: run %s\n", t, out.Run)
}

// readRecording reads the file of a recording; - is standard input.
func (c *cli) readRecording(file string) ([]byte, error) {
	if file == "-" {
		return io.ReadAll(c.stdin)
	}
	return os.ReadFile(file)
}

func (c *cli) workflowForkCommand() *cobra.Command {
	var in host.WorkflowImportInput
	cmd := &cobra.Command{
		Use:  "fork TYPE/KEY... TYPE/KEY...",
		Args: cobra.ExactArgs(2), ValidArgsFunction: c.completeAddress,
	}
	check, read := bind.Flags(cmd.Flags(), forkFlags, &in, c.input)
	cmd.RunE = c.on(func(ctx context.Context, t *target, args []string) error {
		a, err := parseAddress(args[0])
		if err != nil {
			return usageError{err}
		}
		if err := check(); err != nil {
			return usageError{err}
		}
		if err := read(); err != nil {
			return err
		}
		recorded, err := ask(ctx, t, method.WorkflowExport, nil, askOptions{})
		if err != nil {
			return err
		}
		in.Recording = recorded.Recording
		to := &target{c: c, n: t.n, a: a}
		out, err := ask(ctx, to, method.WorkflowImport, &in, askOptions{})
		if err != nil {
			return err
		}
		return started(to, &in, &out)
	})
	return cmd
}
