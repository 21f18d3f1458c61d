package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/runtime"
	"github.com/cairn-run/cairn/runtime/cell"
	"github.com/cairn-run/cairn/runtime/localnats"
)

func (c *cli) serveCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:               "serve",
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.String("listen", "127.0.0.1:6420", "address of the HTTP gateway; port 0 picks a free one")
	flags.String("data", "./data", "directory of the store")
	flags.String("nats-listen", "", "run a NATS server in the node and listen here")
	flags.String("nats-url", "", "publish change events to, and take calls from, this NATS server")
	flags.String("pprof-listen", "", "serve Go's profiles on this loopback address; see docs/operate/profile.md")
	flags.String("config", "", "TOML file with these settings; flags go before it")
	flags.Bool("accept-data-loss", false, "open damaged data without what was lost; see docs/operate/damaged-store.md")
	_ = cmd.MarkFlagDirname("data")
	_ = cmd.MarkFlagFilename("config", "toml")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		switch {
		case flags.Changed("token"):
			return usagef("serve takes the token from CAIRN_TOKEN or from the file of --config, because others can read the arguments of a process")
		case flags.Changed("url"):
			return usagef("--url names a node to talk to; serve listens on --listen")
		}
		return c.serve(cmd.Context(), flags)
	}
	return cmd
}

// serve hands the flags that were given to the runtime's own program, which knows their defaults,
// the configuration file and the environment.
func (c *cli) serve(ctx context.Context, flags *pflag.FlagSet) error {
	var args []string
	for _, name := range []string{"listen", "data", "nats-listen", "nats-url", "pprof-listen",
		"config", "accept-data-loss"} {
		if f := flags.Lookup(name); f.Changed {
			args = append(args, "--"+name+"="+f.Value.String())
		}
	}
	p := runtime.Program{
		Name:       "cairn serve",
		Actors:     []actor.Definition{cell.Definition()},
		NATSServer: localnats.Serve,
		Started: func(_ context.Context, rt *runtime.Runtime) error {
			if !c.json {
				return nil
			}
			return c.printJSON(struct {
				URL     string `json:"url"`
				NATSURL string `json:"nats_url,omitempty"`
			}{"http://" + rt.Addr(), rt.NATSURL()})
		},
	}
	err := p.Run(ctx, args, c.stdout, c.stderr)
	if errors.Is(err, runtime.ErrUsage) {
		return usageError{err}
	}
	return err
}
