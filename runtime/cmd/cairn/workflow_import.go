package main

import (
	"context"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/method"
)

// forkFlags are the flags of the commands that make a run of a recording.
var forkFlags = []option{
	{member: "up_to", usage: "the last `entry` of the history that the new run has, by its id"},
	{member: "replace", usage: "replace a run of the actor that has ended"},
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

const forkHelp = "The new run is another one than the recorded one: it has its own id, undoes nothing that the recorded one did, and\n" +
	"receives messages from the queues of its own actor.\nWith --up-to it goes on after an entry, whose id history shows, also if the\n" +
	"recorded run has ended. An actor that has a run is refused; --replace replaces a run that has ended. An actor that does\n" +
	"not exist is created.\n\nWith --json it prints {\"run\",\"started\"}."

func (c *cli) workflowForkCommand() *cobra.Command {
	var in host.WorkflowImportInput
	cmd := &cobra.Command{
		Use:   "fork TYPE/KEY... TYPE/KEY...",
		Short: "Copy the run of an actor to another actor",
		Long: "fork exports the run of the first actor and imports it into the second one, where it goes on. The first one is neither\n" +
			"changed nor woken.\n\n" + forkHelp,
		Example: "  cairn workflow fork shop/acme shop/acme-copy\n  cairn workflow fork shop/acme shop/acme-copy --up-to 1503",
		Args:    cobra.ExactArgs(2), ValidArgsFunction: c.completeAddress,
	}
	read := bindAll(c, cmd.Flags(), forkFlags, &in)
	cmd.RunE = c.on(func(ctx context.Context, t *target, args []string) error {
		a, err := parseAddress(args[0])
		if err != nil {
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
		to := &target{c, t.n, a}
		out, err := ask(ctx, to, method.WorkflowImport, &in, askOptions{})
		if err != nil {
			return err
		}
		return started(to, &in, &out)
	})
	return cmd
}
