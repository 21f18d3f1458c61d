package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/cairn-run/cairn/actor/host/audit"
	"github.com/cairn-run/cairn/runtime/client"
)

// Defaults of the flags that every command has.
const (
	defaultURL      = "http://127.0.0.1:6420"
	defaultTimeout  = 30 * time.Second
	defaultAttempts = client.DefaultAttempts
)

// The exit statuses.
const (
	exitOK    = 0
	exitError = 1 // the node answered with an error, or could not be reached
	exitUsage = 2 // the command line is wrong; nothing was sent
)

// A cli is one run of the command: its streams, its environment and the flags that every command
// has.
type cli struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	getenv         func(string) string

	url, token string
	reason     string
	json       bool
	timeout    time.Duration
	attempts   int

	// running is set when a command's own code begins: an error before that is about the command
	// line.
	running bool
	// connected is set when the command talks to a node: not to a directory.
	connected bool
}

// run parses args, runs the command that they name and returns the exit status.
func (c *cli) run(ctx context.Context, args []string) int {
	root := c.root()
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitOK
	}
	if !c.running {
		err = usageError{err}
		c.json = c.json || slices.Contains(args, "--json") // the flags may not have been read that far
	}
	return c.fail(ctx, cmd, err)
}

// root builds the tree of commands.
func (c *cli) root() *cobra.Command {
	root := &cobra.Command{
		Use:           "cairn",
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetIn(c.stdin)
	root.SetOut(c.stdout)
	root.SetErr(c.stderr)
	root.CompletionOptions.SetDefaultShellCompDirective(cobra.ShellCompDirectiveNoFileComp)

	flags := root.PersistentFlags()
	flags.StringVar(&c.url, "url", envOr(c.getenv, "CAIRN_URL", defaultURL),
		"address of the node (environment: CAIRN_URL)")
	flags.StringVar(&c.token, "token", "", "token that the node asks for (environment: CAIRN_TOKEN)")
	flags.BoolVar(&c.json, "json", false, "print JSON, one document a line; its shape is stable")
	flags.DurationVar(&c.timeout, "timeout", defaultTimeout, "time limit of each request, repeats included; 0 for none")
	flags.StringVar(&c.reason, "reason", "", "why you do it, for the audit log of the node; up to 1000 characters")
	flags.IntVar(&c.attempts, "attempts", defaultAttempts,
		"how often a request is sent at most, if the node is away or says that it did nothing")
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		if err := audit.CheckReason(c.reason, "reason"); err != nil {
			return usagef("--reason: %s", err.Message)
		}
		if c.reason != "" {
			cmd.SetContext(audit.WithReason(cmd.Context(), c.reason))
		}
		if c.attempts < 1 {
			return usagef("--attempts %d: at least 1", c.attempts)
		}
		c.running = true
		return nil
	}

	root.AddGroup(
		&cobra.Group{ID: "node", Title: "Node:"},
		&cobra.Group{ID: "actor", Title: "One actor:"},
		&cobra.Group{ID: "part", Title: "Parts of an actor:"},
		&cobra.Group{ID: "operate", Title: "Getting actors going:"},
		&cobra.Group{ID: "look", Title: "Looking inside:"},
		&cobra.Group{ID: "tool", Title: "The tool itself:"},
	)
	for _, group := range []struct {
		id   string
		cmds []*cobra.Command
	}{
		{"node", []*cobra.Command{c.serveCommand(), c.benchCommand()}},
		{"actor", []*cobra.Command{c.callCommand(), c.createCommand(), c.eventsCommand(), c.connectCommand()}},
		{"part", []*cobra.Command{c.queueCommand(), c.sendCommand(), c.scheduleCommand(),
			c.alarmCommand(), c.stateCommand(), c.streamCommand(), c.kvCommand(), c.tokenCommand(), c.sqlCommand(), c.connectionsCommand(), c.workflowCommand()}},
		{"operate", []*cobra.Command{c.whyCommand(), c.skipCommand(), c.pauseCommand(),
			c.resumeCommand(), c.limitsCommand(), c.wakeCommand(), c.sleepCommand(),
			c.retryCommand(), c.destroyCommand()}},
		{"look", []*cobra.Command{c.dashboardCommand(), c.actorsCommand(), c.statusCommand(),
			c.inspectCommand(), c.inspectorCommand(), c.tracesCommand(), c.usageCommand(),
			c.topCommand(), c.auditCommand(), c.changesCommand(), c.queryCommand(), c.checkCommand()}},
		{"tool", []*cobra.Command{c.versionCommand()}},
	} {
		for _, cmd := range group.cmds {
			cmd.GroupID = group.id
			root.AddCommand(cmd)
		}
	}
	describe(root)
	root.SetHelpCommandGroupID("tool")
	root.SetCompletionCommandGroupID("tool")
	return root
}

// nodeToken is the token for the node. The environment's is not the flag's default, because help
// prints defaults.
func (c *cli) nodeToken() string { return cmp.Or(c.token, c.getenv("CAIRN_TOKEN")) }

// requestContext bounds one request by --timeout.
func (c *cli) requestContext(ctx context.Context) (context.Context, context.CancelFunc) {
	if c.timeout <= 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, c.timeout)
}

// note prints a line for the person at the terminal, beside the result.
func (c *cli) note(format string, args ...any) {
	fmt.Fprintf(c.stderr, format+"\n", args...)
}

// colour reports whether w is a terminal whose owner does not mind colour.
func (c *cli) colour(w io.Writer) bool {
	return c.getenv("NO_COLOR") == "" && c.getenv("TERM") != "dumb" && terminal(w)
}

// terminal reports whether stream is a device that a person may sit at: a character device other
// than the null device.
func terminal(stream any) bool {
	f, ok := stream.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return false
	}
	null, err := os.Stat(os.DevNull)
	return err != nil || !os.SameFile(info, null)
}

func envOr(getenv func(string) string, name, fallback string) string {
	if v := strings.TrimSpace(getenv(name)); v != "" {
		return v
	}
	return fallback
}
