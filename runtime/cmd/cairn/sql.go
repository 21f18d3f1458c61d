package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/cairn-run/cairn/actor/host"
)

const (
	// maxRows is how many rows a node gives at most, and defaultRows how many a shell asks for.
	maxRows     = 10_000
	defaultRows = 1000
	// maxReason bounds --reason.
	maxReason = 1024
)

// A sqlRun is what the flags of cairn sql say.
type sqlRun struct {
	commands, args []string
	mode, reason   string
	write          bool
	limit          int
}

func (c *cli) sqlCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "sql TYPE/KEY...",
		Short: "Read and write the SQLite database of an actor",
		Long: "sql runs SQL on an actor's database. On a terminal it is an interactive shell: statements end with a semicolon, and\n" +
			".help lists commands such as .tables and .schema. With -c it runs what is given and ends, one transaction for each\n" +
			"-c; otherwise it runs the statements of standard input until one fails, each a transaction of its own, or all from\n" +
			"BEGIN to COMMIT.\n\n" +
			"It only reads, the last commit that is there, unless --write and --reason are given; the reason of each change is\n" +
			"logged by the node. An actor that does not exist is not created.\n\n" +
			"export, import, migrate, shell and status are commands of their own. An actor whose type has such a name and whose\n" +
			"key has no parts is named to the shell as: cairn sql shell TYPE.\n\n" +
			"With --json, or --mode json, each line is a row: an object with a member for each column; bytes are {\"base64\":...}.\n" +
			"A statement that writes and returns no rows prints {\"changes\":N,\"last_insert_id\":N}.",
		Example: "  cairn sql cell/acme\n" +
			"  cairn sql cell/acme -c 'SELECT * FROM note WHERE id = ?1' --arg 7\n" +
			"  cairn sql cell/acme --write --reason 'ticket 4711' -c \"UPDATE note SET body = 'x' WHERE id = 7\"\n" +
			"  cairn sql cell/acme --mode csv < report.sql > report.csv",
	}
	c.shellOn(cmd)
	shell := &cobra.Command{
		Use:   "shell TYPE/KEY...",
		Short: "The same as sql without a command, for every name of a type",
		Long: "shell is what cairn sql TYPE/KEY... does, with the same flags and --json. It takes actors too whose type has the name\n" +
			"of a command of sql.",
		Example: "  cairn sql shell export",
	}
	c.shellOn(shell)
	cmd.AddCommand(shell, c.sqlStatusCommand(), c.sqlExportCommand(), c.sqlImportCommand(), c.sqlMigrateCommand())
	return cmd
}

// shellOn makes cmd run the shell.
func (c *cli) shellOn(cmd *cobra.Command) {
	var r sqlRun
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) != 1 {
			return usagef("name one actor, TYPE/PART/PART, or a command: export, import, migrate, shell, status")
		}
		return nil
	}
	cmd.ValidArgsFunction = c.completeAddress
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		values, err := r.check(c.json, cmd.Flags().Changed("mode"))
		if err != nil {
			return err
		}
		return c.on(func(ctx context.Context, t *target, _ []string) error { return c.sql(ctx, t, &r, values) })(cmd, args)
	}
	flags := cmd.Flags()
	flags.StringArrayVarP(&r.commands, "command", "c", nil, "run these statements as one transaction, and end; may be given more than once")
	flags.StringArrayVar(&r.args, "arg", nil, "value of ?1, then ?2 and so on, for -c: JSON, or text if it is not that; bytes are {\"base64\":...}")
	flags.StringVar(&r.mode, "mode", modeTable, "how rows are printed: table, csv, json or line")
	flags.BoolVar(&r.write, "write", false, "let statements write; needs --reason")
	flags.StringVar(&r.reason, "reason", "", "why something is written; the node logs it; at most 1,024 bytes")
	flags.IntVar(&r.limit, "limit", defaultRows, "how many rows of a statement to print at most, 1 to 10,000")
}

// check checks the flags and reads the values of --arg.
func (r *sqlRun) check(json, mode bool) ([]any, error) {
	switch {
	case r.write && r.reason == "":
		return nil, usagef("--write needs --reason TEXT: why the database is changed, which the node logs")
	case !r.write && r.reason != "":
		return nil, usagef("--reason is for --write: without it nothing is changed")
	case len(r.reason) > maxReason:
		return nil, usagef("--reason has %d bytes: at most %s", len(r.reason), count(maxReason))
	case !slices.Contains(sqlModes, r.mode):
		return nil, usagef("--mode %q: one of %s", r.mode, strings.Join(sqlModes, ", "))
	case json && mode && r.mode != modeJSON:
		return nil, usagef("--json and --mode %s contradict each other", r.mode)
	case r.limit < 1 || r.limit > maxRows:
		return nil, usagef("--limit %d: 1 to %s", r.limit, count(maxRows))
	case len(r.args) > 0 && len(r.commands) == 0:
		return nil, usagef("--arg is for the statements of -c")
	}
	var values []any
	for _, arg := range r.args {
		v, err := sqlArg(arg)
		if err != nil {
			return nil, err
		}
		values = append(values, v)
	}
	return values, nil
}

// sql runs what the command line says.
func (c *cli) sql(ctx context.Context, t *target, r *sqlRun, values []any) error {
	if c.json {
		r.mode = modeJSON
	}
	s := &shell{
		target: t, write: r.write, reason: r.reason, limit: r.limit, now: time.Now,
		resultPrinter: resultPrinter{w: c.stdout, mode: r.mode, headers: true, colour: c.colour(c.stdout)},
	}
	if len(r.commands) > 0 {
		for _, text := range r.commands {
			if err := s.together(ctx, text, values); err != nil {
				return err
			}
		}
		return nil
	}
	if in, ok := c.stdin.(*os.File); ok && term.IsTerminal(int(in.Fd())) {
		return c.atTerminal(ctx, s, in)
	}
	if err := s.script(ctx, "standard input", c.stdin); !errors.Is(err, errQuit) {
		return err
	}
	return nil
}

// atTerminal runs the shell on a terminal, which is put into raw mode and back.
func (c *cli) atTerminal(ctx context.Context, s *shell, in *os.File) error {
	// What is typed is echoed where the person sees it, also if the results go to a file.
	screen, ok := c.stdout.(*os.File)
	if !ok || !term.IsTerminal(int(screen.Fd())) {
		if screen, ok = c.stderr.(*os.File); !ok || !term.IsTerminal(int(screen.Fd())) {
			return usagef("there is no terminal to print on: give statements with -c or on standard input that is not a terminal")
		}
	}
	if err := s.banner(ctx); err != nil {
		return err
	}
	before, err := term.MakeRaw(int(in.Fd()))
	if err != nil {
		return fmt.Errorf("the terminal cannot be used: %w", err)
	}
	defer term.Restore(int(in.Fd()), before)
	return s.interact(ctx, &console{
		in: in, screen: screen, history: openHistory(historyFile()),
		size: func() (int, int) {
			width, height, err := term.GetSize(int(screen.Fd()))
			if err != nil {
				return 80, 24
			}
			return width, height
		},
	})
}

func (c *cli) sqlStatusCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "status TYPE/KEY...",
		Short: "Show what is known of an actor's database",
		Long: "status shows how large an actor's database is, how many commits changed it, and which migrations of the type it has\n" +
			"and lacks.\n\n" +
			"With --json it prints {\"exists\",\"bytes\",\"sequence\",\"migrations\",\"pending\"}.",
		Example:           "  cairn sql status cell/acme",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: c.completeAddress,
		RunE: c.on(func(ctx context.Context, t *target, _ []string) error {
			return t.printStatus(ctx, c.stdout)
		}),
	}
}

// printStatus prints what sql.status says.
func (t *target) printStatus(ctx context.Context, w io.Writer) error {
	var status host.SQLStatusOutput
	if err := t.ask(ctx, host.SQLStatus, nil, &status, askOptions{existing: true}); err != nil {
		return err
	}
	if t.c.json {
		return t.c.printJSON(status)
	}
	exists := "no"
	if status.Exists {
		exists = "yes"
	}
	pending := "none"
	if len(status.Pending) > 0 {
		pending = oneLine(strings.Join(status.Pending, ", "))
	}
	for _, line := range [][2]string{
		{"actor", t.String()}, {"database", exists}, {"size", size(status.Bytes)}, {"commits", count(status.Sequence)},
		{"migrations", strconv.Itoa(status.Migrations)}, {"pending", pending},
	} {
		if _, err := fmt.Fprintf(w, "%-10s  %s\n", line[0], line[1]); err != nil {
			return err
		}
	}
	return nil
}

// unbounded is ctx without a limit of time, unless --timeout was given: files take as long as they take.
func (c *cli) unbounded(cmd *cobra.Command) (context.Context, context.CancelFunc) {
	if cmd.Flags().Changed("timeout") {
		return c.requestContext(cmd.Context())
	}
	return context.WithCancel(cmd.Context())
}

func (c *cli) sqlExportCommand() *cobra.Command {
	var dir string
	var force bool
	cmd := &cobra.Command{
		Use:   "export TYPE/KEY... FILE",
		Short: "Write an actor's database to a SQLite file",
		Long: "export writes an actor's database, as it is at one commit, to a file that every SQLite program opens; - is standard\n" +
			"output. The actor is not woken and goes on working. The file appears when it is complete, and one that is there is\n" +
			"replaced only with --force. --timeout applies only if it is given.\n\n" +
			"With --data it reads the directory of a node that is stopped.\n\n" +
			"With --json it prints {\"file\",\"bytes\"}.",
		Example: "  cairn sql export cell/acme acme.sqlite\n" +
			"  cairn sql export cell/acme - | gzip > acme.sqlite.gz\n" +
			"  cairn sql export cell/acme acme.sqlite --data ./data",
		Args:              cobra.ExactArgs(2),
		ValidArgsFunction: c.completeFile,
		RunE: func(cmd *cobra.Command, args []string) error {
			a, err := parseAddress(args[0])
			if err != nil {
				return usageError{err}
			}
			if args[1] == "-" && terminal(c.stdout) {
				return usagef("standard output is a terminal: name a file, or send the output to one")
			}
			n, done, err := c.open(cmd.Context(), dir)
			if err != nil {
				return err
			}
			defer done()
			return c.export(cmd, n, a, args[1], force)
		},
	}
	cmd.Flags().BoolVar(&force, "force", false, "replace the file if it is there")
	dataFlag(cmd, &dir)
	return cmd
}

// export writes a database to the file of that name.
func (c *cli) export(cmd *cobra.Command, n reader, a host.Address, name string, force bool) error {
	ctx, cancel := c.unbounded(cmd)
	defer cancel()
	write := func(w io.Writer) error {
		err := n.ExportSQL(ctx, a, w)
		return c.explain(ctx, n, host.Request{Address: a}, err)
	}
	if name == "-" {
		return write(c.stdout)
	}
	bytes, err := writeFile(name, force, write)
	switch {
	case errors.Is(err, os.ErrExist):
		return hintedError{fmt.Errorf("%s exists", name), []string{"to replace it, give --force"}}
	case err != nil:
		return err
	case c.json:
		return c.printJSON(struct {
			File  string `json:"file"`
			Bytes int64  `json:"bytes"`
		}{name, bytes})
	}
	_, err = fmt.Fprintf(c.stdout, "exported %s to %s: %s\n", formatAddress(a.Type, a.Key), oneLine(name), size(bytes))
	return err
}

func (c *cli) sqlImportCommand() *cobra.Command {
	var reason string
	var yes bool
	cmd := &cobra.Command{
		Use:   "import TYPE/KEY... FILE",
		Short: "Replace an actor's database by a SQLite file",
		Long: "import checks a SQLite file, or standard input (-), and makes it the actor's database, in one commit. What was in the\n" +
			"database before is gone: if there is one it asks first on a terminal, and elsewhere needs --yes. An actor that does\n" +
			"not exist is created. The reason is logged by the node. --timeout applies only if it is given.\n\n" +
			"With --json it prints {\"exists\",\"bytes\",\"sequence\",\"migrations\",\"pending\"}.",
		Example: "  cairn sql import cell/acme acme.sqlite --reason 'restored from last night'\n" +
			"  zcat acme.sqlite.gz | cairn sql import cell/acme - --reason 'ticket 4711' --yes",
		Args:              cobra.ExactArgs(2),
		ValidArgsFunction: c.completeFile,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case reason == "":
				return usagef("--reason TEXT is needed: why the database is replaced, which the node logs")
			case len(reason) > maxReason:
				return usagef("--reason has %d bytes: at most %s", len(reason), count(maxReason))
			}
			return c.on(func(_ context.Context, t *target, args []string) error {
				return t.importFile(cmd, args[0], reason, yes)
			})(cmd, args)
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why; the node logs it; at most 1,024 bytes")
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	return cmd
}

// importFile imports the file of that name.
func (t *target) importFile(cmd *cobra.Command, name, reason string, yes bool) error {
	ctx, cancel := t.c.unbounded(cmd)
	defer cancel()
	in := t.c.stdin
	if name != "-" {
		file, err := os.Open(name)
		if err != nil {
			return err
		}
		defer file.Close()
		if err := wholeDatabase(name); err != nil {
			return err
		}
		in = file
	}
	if !yes {
		if err := t.consentToReplace(ctx, name); err != nil {
			return err
		}
	}
	status, err := t.n.ImportSQL(ctx, t.a, in, reason)
	switch {
	case err != nil:
		return t.c.explain(ctx, t.n, host.Request{Address: t.a}, err)
	case t.c.json:
		return t.c.printJSON(status)
	}
	_, err = fmt.Fprintf(t.c.stdout, "imported %s into %s: %s\n", oneLine(name), t, size(status.Bytes))
	return err
}

// wholeDatabase refuses a file that is not the whole database: one that a program has open in WAL mode, or that was left in the
// middle of a transaction, has the rest in a file beside it.
func wholeDatabase(name string) error {
	if info, err := os.Stat(name); err != nil {
		return err
	} else if info.IsDir() {
		return fmt.Errorf("%s is a directory", name)
	}
	for _, beside := range []string{name + "-wal", name + "-journal"} {
		if info, err := os.Stat(beside); err == nil && info.Size() > 0 {
			return fmt.Errorf("a part of the database is in %s, which would be lost: close it in the programs that use it, or import the result of\n"+
				"  sqlite3 %s \"VACUUM INTO 'copy.sqlite'\"", oneLine(beside), oneLine(name))
		}
	}
	return nil
}

// consentToReplace asks whether the actor's database may go, if it has one.
func (t *target) consentToReplace(ctx context.Context, name string) error {
	var status host.SQLStatusOutput
	err := t.ask(ctx, host.SQLStatus, nil, &status, askOptions{existing: true})
	switch {
	case host.CodeOf(err) == host.NotFound:
		return nil
	case err != nil:
		return err
	case !status.Exists:
		return nil
	case name == "-" || !terminal(t.c.stdin):
		return usagef("%s has a database of %s that would be replaced: confirm with --yes", t, size(status.Bytes))
	case !t.c.confirm(fmt.Sprintf("Replace the database of %s (%s)?", t, size(status.Bytes))):
		return errors.New("not confirmed: everything is left as it is")
	}
	return nil
}

// completeFile completes an actor and then a file.
func (c *cli) completeFile(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
	if len(args) == 1 {
		return nil, cobra.ShellCompDirectiveDefault
	}
	return c.completeAddress(cmd, args, word)
}
