package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/cairn-run/cairn/actor/host"
)

// forkOptions are the flags of the commands that make a run of a recording.
type forkOptions struct {
	upTo    string
	replace bool
}

func (o *forkOptions) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&o.upTo, "up-to", "", "the last `entry` of the history that the new run has, by its id")
	cmd.Flags().BoolVar(&o.replace, "replace", false, "replace a run of the actor that has ended")
}

// importRun makes a run of a recording in an actor, and prints it.
func (o *forkOptions) importRun(ctx context.Context, t *target, recording []byte) error {
	in := host.WorkflowImportInput{Recording: recording, UpTo: o.upTo, Replace: o.replace}
	var out host.RunStarted
	if err := t.ask(ctx, host.WorkflowImport, &in, &out, askOptions{}); err != nil {
		return err
	}
	if t.c.json {
		return t.c.printJSON(out)
	}
	_, err := fmt.Fprintf(t.c.stdout, "%s: run %s\n", t, out.Run)
	return err
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

func (c *cli) workflowImportCommand() *cobra.Command {
	var o forkOptions
	cmd := &cobra.Command{
		Use:   "import TYPE/KEY... FILE",
		Short: "Make a run of a recording",
		Long: "import makes a run of a file that export has written, and the run goes on from there. For FILE - it reads standard\n" +
			"input.\n\n" + forkHelp,
		Example: "  cairn workflow import shop/acme-copy acme.run\n  cairn workflow import shop/acme-copy acme.run --up-to 1503",
		Args:    cobra.ExactArgs(2), ValidArgsFunction: c.completeAddress,
		RunE: c.on(func(ctx context.Context, t *target, args []string) error {
			recording, err := c.readRecording(args[0])
			if err != nil {
				return usageError{err}
			}
			return o.importRun(ctx, t, recording)
		}),
	}
	o.flags(cmd)
	return cmd
}

func (c *cli) workflowForkCommand() *cobra.Command {
	var o forkOptions
	cmd := &cobra.Command{
		Use:   "fork TYPE/KEY... TYPE/KEY...",
		Short: "Copy the run of an actor to another actor",
		Long: "fork exports the run of the first actor and imports it into the second one, where it goes on. The first one is neither\n" +
			"changed nor woken.\n\n" + forkHelp,
		Example: "  cairn workflow fork shop/acme shop/acme-copy\n  cairn workflow fork shop/acme shop/acme-copy --up-to 1503",
		Args:    cobra.ExactArgs(2), ValidArgsFunction: c.completeAddress,
		RunE: c.on(func(ctx context.Context, t *target, args []string) error {
			to, err := parseAddress(args[0])
			if err != nil {
				return usageError{err}
			}
			var out host.WorkflowRecording
			if err := t.ask(ctx, host.WorkflowExport, nil, &out, askOptions{existing: true}); err != nil {
				return err
			}
			return o.importRun(ctx, &target{c, t.n, to}, out.Recording)
		}),
	}
	o.flags(cmd)
	return cmd
}
