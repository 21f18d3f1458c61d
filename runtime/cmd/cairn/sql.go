package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/method"
	"github.com/cairn-run/cairn/runtime/cmd/cairn/internal/file"
	"github.com/cairn-run/cairn/runtime/cmd/cairn/internal/shell"
	"github.com/cairn-run/cairn/runtime/cmd/cairn/internal/table"
)

// maxReason bounds --reason.
const maxReason = 1024

// A sqlRun holds the flags of cairn sql.
type sqlRun struct {
	commands, args []string
	mode, reason   string
	write          bool
	limit          int
}

func (c *cli) sqlCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "sql TYPE/KEY...",
	}
	c.shellOn(cmd)
	shell := &cobra.Command{
		Use: "shell TYPE/KEY...",
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
		return c.on(func(ctx context.Context, t *target,
			_ []string) error {
			return c.sql(ctx, t, &r, values)
		})(cmd, args)
	}
	flags := cmd.Flags()
	flags.StringArrayVarP(&r.commands, "command", "c", nil,
		"run these statements as one transaction, and end; may be given more than once")
	flags.StringArrayVar(&r.args, "arg", nil,
		"value of ?1, then ?2 and so on, for -c: JSON, or text if it is not that; bytes are {\"base64\":...}")
	flags.StringVar(&r.mode, "mode", shell.ModeTable, "how rows are printed: table, csv, json or line")
	flags.BoolVar(&r.write, "write", false, "let statements write; needs --reason")
	flags.StringVar(&r.reason, "reason", "", "why something is written; the node logs it; at most 1,024 bytes")
	flags.IntVar(&r.limit, "limit", 1000, "how many rows of a statement to print at most, 1 to 10,000")
}

// check checks the flags and reads the values of --arg.
func (r *sqlRun) check(json, mode bool) ([]any, error) {
	switch {
	case r.write && r.reason == "":
		return nil, usagef("--write needs --reason TEXT: why the database is changed, which the node logs")
	case !r.write && r.reason != "":
		return nil, usagef("--reason is for --write: without it nothing is changed")
	case len(r.reason) > maxReason:
		return nil, usagef("--reason has %d bytes: at most %s", len(r.reason), table.Count(maxReason))
	case !slices.Contains(shell.Modes, r.mode):
		return nil, usagef("--mode %q: one of %s", r.mode, strings.Join(shell.Modes, ", "))
	case json && mode && r.mode != shell.ModeJSON:
		return nil, usagef("--json and --mode %s contradict each other", r.mode)
	case r.limit < 1 || r.limit > shell.MaxRows:
		return nil, usagef("--limit %d: 1 to %s", r.limit, table.Count(shell.MaxRows))
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

// sqlArg reads a value of --arg: JSON, or text if it is not that.
func sqlArg(text string) (any, error) {
	var v any
	if json.Unmarshal([]byte(text), &v) != nil {
		return text, nil
	}
	switch v := v.(type) {
	case []any:
		return nil, usagef("--arg %s: a value of a database is a string, a number, true, false, null or {\"base64\":...}", text)
	case map[string]any:
		if _, ok := v["base64"].(string); !ok || len(v) != 1 {
			return nil, usagef("--arg %s: bytes are {\"base64\":...}", text)
		}
	}
	return json.RawMessage(text), nil // with all digits
}

// sql runs what the command line says.
func (c *cli) sql(ctx context.Context, t *target, r *sqlRun, values []any) error {
	if c.json {
		r.mode = shell.ModeJSON
	}
	s := shell.New(shell.Options{
		Database: &database{t, r.write,
			r.reason}, Name: t.String(), Write: r.write, Limit: r.limit, Mode: r.mode, JSON: c.json,
		Out: c.stdout, Notes: c.stderr, Colour: c.colour(c.stdout),
	})
	if len(r.commands) > 0 {
		for _, text := range r.commands {
			if err := s.Together(ctx, text, values); err != nil {
				return err
			}
		}
		return nil
	}
	if in, ok := c.stdin.(*os.File); ok && term.IsTerminal(int(in.Fd())) {
		return c.atTerminal(ctx, s, t, r, in)
	}
	return s.Script(ctx, "standard input", c.stdin)
}

// atTerminal runs the shell on a terminal, which is put into raw mode and back.
func (c *cli) atTerminal(ctx context.Context, s *shell.Shell, t *target, r *sqlRun, in *os.File) error {
	// Input is echoed on the terminal even if the results go to a file.
	out, onScreen := c.stdout.(*os.File)
	onScreen = onScreen && terminal(out)
	screen := out
	if out == nil || !term.IsTerminal(int(out.Fd())) {
		var ok bool
		if screen, ok = c.stderr.(*os.File); !ok || !term.IsTerminal(int(screen.Fd())) {
			return usagef("there is no terminal to print on: give statements with -c or on standard input that is not a terminal")
		}
	}
	if err := t.greet(ctx, r); err != nil {
		return err
	}
	before, err := term.MakeRaw(int(in.Fd()))
	if err != nil {
		return fmt.Errorf("the terminal cannot be used: %w", err)
	}
	defer term.Restore(int(in.Fd()), before)
	return s.Interact(ctx, &shell.Console{
		In: in, Screen: screen, History: shell.OpenHistory(shell.HistoryFile()), OnScreen: onScreen,
		Size: func() (int, int) {
			width, height, err := term.GetSize(int(screen.Fd()))
			if err != nil {
				return 80, 24
			}
			return width, height
		},
		Fail: func(w io.Writer, err error) {
			raw := *c
			raw.stderr = w
			raw.fail(ctx, nil, err)
		},
	})
}

// greet greets the person at the terminal. The error is that of the node if the actor does not
// exist, or it is away.
func (t *target) greet(ctx context.Context, r *sqlRun) error {
	status, err := ask(ctx, t, method.SQLStatus, nil, askOptions{})
	if err != nil {
		return err
	}
	database := "no database yet"
	if status.Exists {
		database = table.Size(status.Bytes)
	}
	may := "read-only"
	if r.write {
		may = "every change is logged with the reason " + table.OneLine(r.reason)
	}
	t.c.note("%s: %s; %s. .help lists the commands, Ctrl-D leaves.", t, database, may)
	return nil
}

// A database is an actor's database as a shell sees it.
type database struct {
	*target
	write  bool
	reason string
}

// Run implements shell.Database: a query that may write is sql.exec, every other one sql.query.
func (d *database) Run(ctx context.Context, q shell.Query) (*shell.Answer, error) {
	m, in := method.SQLQuery, host.SQLInput{SQL: q.SQL, Args: q.Args, Limit: q.Limit}
	if q.Write {
		m, in.Reason = method.SQLExec, d.reason
	}
	var out shell.Answer
	if err := d.ask(ctx, m.Row, &in, &out, askOptions{existing: true}); err != nil {
		return nil, d.hint(err)
	}
	for i, row := range out.Rows {
		if len(row) != len(out.Columns) {
			return nil, host.Errorf(host.Internal,
				"row %d of the node's answer has %d values, and there are %d columns", i+1, len(row), len(out.Columns))
		}
	}
	return &out, nil
}

// hint adds to an error what can be done about it.
func (d *database) hint(err error) error {
	var remote *host.Error
	if !errors.As(err, &remote) {
		return err
	}
	switch {
	case remote.Code == host.ReadOnly && !d.write:
		return hintedError{err, []string{"this shell only reads: to write, give --write and --reason TEXT"}}
	case remote.Code == host.TooLarge && remote.Metadata["what"] == "body":
		return hintedError{err, []string{"send less at a time; cairn sql import takes whole databases"}}
	}
	return err
}

// Status implements shell.Database.
func (d *database) Status(ctx context.Context, w io.Writer) error {
	status, err := ask(ctx, d.target, method.SQLStatus, nil, askOptions{})
	if err != nil {
		return err
	}
	return d.printDatabase(w, &status)
}

// Export implements shell.Database.
func (d *database) Export(ctx context.Context, name string) (int64, error) {
	return file.Write(name, false, func(w io.Writer) error { return d.n.ExportSQL(ctx, d.a, w) })
}

func (c *cli) sqlStatusCommand() *cobra.Command {
	return row[method.None, host.SQLStatusOutput]{
		use:    "status TYPE/KEY...",
		method: method.SQLStatus,
		print:  func(t *target, _ *method.None, s *host.SQLStatusOutput) error { return t.printDatabase(t.c.stdout, s) },
	}.command(c)
}

// printDatabase prints what is known of an actor's database.
func (t *target) printDatabase(w io.Writer, status *host.SQLStatusOutput) error {
	if t.c.json {
		return writeJSON(w, status)
	}
	exists := "no"
	if status.Exists {
		exists = "yes"
	}
	pending := "none"
	if len(status.Pending) > 0 {
		pending = table.OneLine(strings.Join(status.Pending, ", "))
	}
	for _, line := range [][2]string{
		{"actor", t.String()}, {"database", exists}, {"size", table.Size(status.Bytes)}, {"commits",
			table.Count(status.Sequence)},
		{"migrations", strconv.Itoa(status.Migrations)}, {"pending", pending},
	} {
		if _, err := fmt.Fprintf(w, "%-10s  %s\n", line[0], line[1]); err != nil {
			return err
		}
	}
	return nil
}

// unbounded is ctx without a limit of time, unless --timeout was given: files take as long as they
// take.
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
		Use:               "export TYPE/KEY... FILE",
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
	bytes, err := file.Write(name, force, write)
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
	_, err = fmt.Fprintf(c.stdout, "exported %s to %s: %s\n", formatAddress(a.Type, a.Key),
		table.OneLine(name), table.Size(bytes))
	return err
}

func (c *cli) sqlImportCommand() *cobra.Command {
	var reason string
	var yes bool
	cmd := &cobra.Command{
		Use:               "import TYPE/KEY... FILE",
		Args:              cobra.ExactArgs(2),
		ValidArgsFunction: c.completeFile,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case reason == "":
				return usagef("--reason TEXT is needed: why the database is replaced, which the node logs")
			case len(reason) > maxReason:
				return usagef("--reason has %d bytes: at most %s", len(reason), table.Count(maxReason))
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
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		defer f.Close()
		if err := wholeDatabase(name); err != nil {
			return err
		}
		in = f
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
	_, err = fmt.Fprintf(t.c.stdout, "imported %s into %s: %s\n", table.OneLine(name), t, table.Size(status.Bytes))
	return err
}

// wholeDatabase refuses a file that is not the whole database: one that a program has open in WAL
// mode, or that was left in the middle of a transaction, has the rest in a file beside it.
func wholeDatabase(name string) error {
	if info, err := os.Stat(name); err != nil {
		return err
	} else if info.IsDir() {
		return fmt.Errorf("%s is a directory", name)
	}
	for _, beside := range []string{name + "-wal", name + "-journal"} {
		if info, err := os.Stat(beside); err == nil && info.Size() > 0 {
			return fmt.Errorf("a part of the database is in %s, which would be lost: close it in the programs that use it, or import the result of\n"+
				"  sqlite3 %s \"VACUUM INTO 'copy.sqlite'\"", table.OneLine(beside), table.OneLine(name))
		}
	}
	return nil
}

// consentToReplace asks whether the actor's database may go, if it has one.
func (t *target) consentToReplace(ctx context.Context, name string) error {
	status, err := ask(ctx, t, method.SQLStatus, nil, askOptions{})
	switch {
	case host.CodeOf(err) == host.NotFound:
		return nil
	case err != nil:
		return err
	case !status.Exists:
		return nil
	case name == "-" || !terminal(t.c.stdin):
		return usagef("%s has a database of %s that would be replaced: confirm with --yes", t, table.Size(status.Bytes))
	case !t.c.confirm(fmt.Sprintf("Replace the database of %s (%s)?", t, table.Size(status.Bytes))):
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
