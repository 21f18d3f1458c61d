package shell

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/cairn-run/cairn/runtime/cmd/cairn/internal/slip"
	"github.com/cairn-run/cairn/runtime/cmd/cairn/internal/table"
)

// A dotCommand is a command of the shell that is not SQL.
type dotCommand struct {
	name, usage, about string
	least, most        int // arguments
	run                func(s *Shell, ctx context.Context, args []string) error
}

// dotCommands lists them in the order of .help.
func dotCommands() []dotCommand {
	return []dotCommand{
		{".tables", "[PATTERN]", "list tables and views: all, or those LIKE the pattern", 0, 1, (*Shell).dotTables},
		{".schema", "[NAME]",
			"print what made the database, or a table and its indexes and triggers", 0, 1, (*Shell).dotSchema},
		{".indexes", "[TABLE]", "list indexes: all, or those of a table", 0, 1, (*Shell).dotIndexes},
		{".columns", "TABLE", "list the columns of a table or view", 1, 1, (*Shell).dotColumns},
		{".status", "", "print the size, commits and migrations of the database", 0, 0, (*Shell).dotStatus},
		{".mode", "table|csv|json|line", "choose how rows are printed", 1, 1, (*Shell).dotMode},
		{".headers", "on|off", "print the names of columns, or not", 1, 1, (*Shell).dotHeaders},
		{".limit", "N", "print at most so many rows of a statement, 1 to 10,000", 1, 1, (*Shell).dotLimit},
		{".timer", "on|off", "print how long each statement took", 1, 1, (*Shell).dotTimer},
		{".read", "FILE", "run the statements and commands of a file", 1, 1, (*Shell).dotRead},
		{".export", "FILE", "write the database to a new SQLite file", 1, 1, (*Shell).dotExport},
		{".help", "", "print this list", 0, 0, (*Shell).dotHelp},
		{".quit", "", "leave; so does Ctrl-D", 0, 0, func(*Shell, context.Context, []string) error { return errQuit }},
	}
}

// command runs a line that begins with a dot.
func (s *Shell) command(ctx context.Context, line string) error {
	fields, err := dotFields(line)
	if err != nil {
		return err
	}
	all := dotCommands()
	name, args := fields[0], fields[1:]
	if name == ".exit" {
		name = ".quit"
	}
	i := slices.IndexFunc(all, func(c dotCommand) bool { return c.name == name })
	if i < 0 {
		var names []string
		for _, c := range all {
			names = append(names, c.name)
		}
		err := fmt.Errorf("there is no command %s; .help lists them", table.OneLine(name))
		if meant, ok := slip.Nearest(name, names); ok {
			err = fmt.Errorf("there is no command %s; did you mean %s?", table.OneLine(name), meant)
		}
		return err
	}
	if c := all[i]; len(args) < c.least || len(args) > c.most {
		return errors.New(strings.TrimSpace("usage: " + c.name + " " + c.usage))
	}
	return all[i].run(s, ctx, args)
}

// dotFields splits a command at white space. What stands in single or double quotes is one field.
func dotFields(line string) ([]string, error) {
	var fields []string
	for rest := strings.TrimSpace(line); rest != ""; rest = strings.TrimSpace(rest) {
		if quote := rest[0]; quote == '\'' || quote == '"' {
			field, after, ok := strings.Cut(rest[1:], string(quote))
			if !ok {
				return nil, fmt.Errorf("the %c is not closed", quote)
			}
			fields, rest = append(fields, field), after
			continue
		}
		i := strings.IndexAny(rest, " \t")
		if i < 0 {
			i = len(rest)
		}
		fields, rest = append(fields, rest[:i]), rest[i:]
	}
	return fields, nil
}

// look runs a query of the shell's own.
func (s *Shell) look(ctx context.Context, sql string, args ...any) (*Answer, error) {
	return s.Database.Run(ctx, Query{SQL: sql, Args: args, Limit: MaxRows})
}

// show prints the answer to a query of the shell's own, or a note if there are no rows.
func (s *Shell) show(ctx context.Context, none, sql string, args ...any) error {
	out, err := s.look(ctx, sql, args...)
	if err != nil {
		return err
	}
	if len(out.Rows) == 0 && !s.JSON {
		s.note("%s", none)
		return nil
	}
	return s.printer.print(out)
}

// first returns the first of the arguments, nil without any.
func first(args []string) any {
	if len(args) == 0 {
		return nil
	}
	return args[0]
}

// notInternal leaves out the names that SQLite keeps for itself.
const notInternal = ` AND name NOT LIKE 'sqlite\_%' ESCAPE '\'`

func (s *Shell) dotTables(ctx context.Context, args []string) error {
	return s.show(ctx, "no tables",
		`SELECT name, type FROM sqlite_schema WHERE type IN ('table', 'view') AND name LIKE coalesce(?1, '%')`+
			notInternal+` ORDER BY name`, first(args))
}

func (s *Shell) dotIndexes(ctx context.Context, args []string) error {
	return s.show(ctx, "no indexes", `SELECT name, tbl_name AS "table", (SELECT group_concat(name, ', ') FROM pragma_index_info(i.name)) AS columns
FROM sqlite_schema AS i WHERE type = 'index' AND (?1 IS NULL OR tbl_name = ?1 COLLATE NOCASE) ORDER BY 2, 1`, first(args))
}

func (s *Shell) dotColumns(ctx context.Context, args []string) error {
	return s.show(ctx, "there is no table "+table.OneLine(args[0]),
		`SELECT name, type, "notnull" AS not_null, dflt_value AS "default", pk AS key FROM pragma_table_xinfo(?1) ORDER BY cid`, args[0])
}

// dotSchema prints statements. Of the modes only JSON changes how.
func (s *Shell) dotSchema(ctx context.Context, args []string) error {
	out, err := s.look(ctx,
		`SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL AND (?1 IS NULL OR name = ?1 COLLATE NOCASE OR tbl_name = ?1 COLLATE NOCASE)`+
			notInternal+` ORDER BY rowid`, first(args))
	if err != nil {
		return err
	}
	if s.printer.mode == ModeJSON {
		return s.printer.print(out)
	}
	if len(out.Rows) == 0 {
		s.note("nothing of that name, or nothing at all")
	}
	for _, row := range out.Rows {
		if _, err := fmt.Fprintf(s.Out, "%s;\n", plainLines(row[0].text(""))); err != nil {
			return err
		}
	}
	return nil
}

func (s *Shell) dotStatus(ctx context.Context, _ []string) error {
	return s.Database.Status(ctx, s.Out)
}

func (s *Shell) dotMode(_ context.Context, args []string) error {
	if !slices.Contains(Modes, args[0]) {
		return fmt.Errorf("the modes are %s", strings.Join(Modes, ", "))
	}
	s.printer.mode = args[0]
	return nil
}

func (s *Shell) dotLimit(_ context.Context, args []string) error {
	n, err := strconv.Atoi(args[0])
	if err != nil || n < 1 || n > MaxRows {
		return fmt.Errorf("the limit is a number from 1 to %s", table.Count(MaxRows))
	}
	s.Limit = n
	return nil
}

func (s *Shell) dotHeaders(_ context.Context, args []string) error {
	return toggle(&s.printer.headers, args[0])
}

func (s *Shell) dotTimer(_ context.Context, args []string) error { return toggle(&s.timer, args[0]) }

func toggle(field *bool, to string) error {
	if to != "on" && to != "off" {
		return fmt.Errorf("%q is neither on nor off", to)
	}
	*field = to == "on"
	return nil
}

func (s *Shell) dotRead(ctx context.Context, args []string) error { return s.readFile(ctx, args[0]) }

func (s *Shell) dotExport(ctx context.Context, args []string) error {
	n, err := s.Database.Export(ctx, args[0])
	if err != nil {
		return err
	}
	s.note("exported %s: %s", table.OneLine(args[0]), table.Size(n))
	return nil
}

func (s *Shell) dotHelp(context.Context, []string) error {
	all := dotCommands()
	wide := 0
	for _, c := range all {
		wide = max(wide, len(c.name)+1+len(c.usage))
	}
	for _, c := range all {
		if _, err := fmt.Fprintf(s.Out, "%-*s  %s\n", wide, c.name+" "+c.usage, c.about); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintln(s.Out, "Statements end with a semicolon. Ctrl-C cancels a statement or clears the line.")
	return err
}
