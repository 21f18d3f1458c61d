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
	return c.forkingCommand("import TYPE/KEY... FILE", "Make a run of a recording",
		"import makes a run of a file that export has written, and the run goes on from there. For FILE - it reads standard\ninput.",
		"  cairn workflow import shop/acme-copy acme.run\n  cairn workflow import shop/acme-copy acme.run --up-to 1503",
		func(_ context.Context, t *target, file string) (*target, []byte, error) {
			recording, err := c.readRecording(file)
			if err != nil {
				return nil, nil, usageError{err}
			}
			return t, recording, nil
		})
}

func (c *cli) workflowForkCommand() *cobra.Command {
	return c.forkingCommand("fork TYPE/KEY... TYPE/KEY...", "Copy the run of an actor to another actor",
		"fork exports the run of the first actor and imports it into the second one, where it goes on. The first one is neither\n"+
			"changed nor woken.",
		"  cairn workflow fork shop/acme shop/acme-copy\n  cairn workflow fork shop/acme shop/acme-copy --up-to 1503",
		func(ctx context.Context, t *target, address string) (*target, []byte, error) {
			to, err := parseAddress(address)
			if err != nil {
				return nil, nil, usageError{err}
			}
			var out host.WorkflowRecording
			err = t.ask(ctx, host.WorkflowExport, nil, &out, askOptions{existing: true})
			return &target{c, t.n, to}, out.Recording, err
		})
}

// forkingCommand makes a command that makes a run of a recording. read returns the recording, and the actor that it is for, by the
// actor and the other argument of the command line.
func (c *cli) forkingCommand(use, short, long, example string, read func(ctx context.Context, t *target, arg string) (*target, []byte, error)) *cobra.Command {
	var o forkOptions
	cmd := &cobra.Command{
		Use: use, Short: short, Long: long + "\n\n" + forkHelp, Example: example,
		Args: cobra.ExactArgs(2), ValidArgsFunction: c.completeAddress,
		RunE: c.on(func(ctx context.Context, t *target, args []string) error {
			to, recording, err := read(ctx, t, args[0])
			if err != nil {
				return err
			}
			return o.importRun(ctx, to, recording)
		}),
	}
	o.flags(cmd)
	return cmd
}
