package shell

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/cairn-run/cairn/runtime/cmd/cairn/internal/file"
	"github.com/cairn-run/cairn/runtime/cmd/cairn/internal/table"
)

// A Database is what a shell works on.
type Database interface {
	// Run runs a statement, or several as one transaction, and returns the rows of the last.
	Run(ctx context.Context, q Query) (*Answer, error)
	// Status writes what is known of the database.
	Status(ctx context.Context, w io.Writer) error
	// Export writes the database to a file that must not exist, and returns its size.
	Export(ctx context.Context, file string) (int64, error)
}

// A Query is one transaction.
type Query struct {
	SQL   string
	Args  []any
	Limit int  // rows
	Write bool // it may write
}

// Options configure a shell.
type Options struct {
	Database Database
	// Name is the database's in the prompt.
	Name string
	// Write lets statements write.
	Write bool
	// Limit bounds the rows of a statement, up to MaxRows.
	Limit int
	// Mode is one of Modes.
	Mode string
	// JSON makes everything that is printed JSON, and leaves notes out.
	JSON bool
	// Out gets rows, in colour if Colour is set, and Notes what is said beside them.
	Out, Notes io.Writer
	Colour     bool
}

// A Shell runs SQL on a database, statement by statement.
//
//  1. A statement that may write does so only if the shell may write. Each is a transaction of its
//     own.
//  2. The statements from BEGIN to COMMIT are kept and sent together, because a transaction ends
//     with its call.
//  3. In a script the first error ends the run. At a terminal it is printed.
type Shell struct {
	Options
	printer printer
	timer   bool
	now     func() time.Time

	input splitter
	// group are the statements since BEGIN; nil outside of a transaction.
	group []string
	// depth counts the files that are being read, one from within the other.
	depth int
	// keep, if set, adds a statement to the history.
	keep func(statement string)
	// names are those of tables and views, for completion; nil if they are not known.
	names []string
}

// New returns a shell.
func New(o Options) *Shell {
	return &Shell{Options: o, printer: printer{w: o.Out, mode: o.Mode, headers: true, colour: o.Colour}, now: time.Now}
}

const (
	// MaxRows is how many rows of a statement a shell prints at most.
	MaxRows = 10_000
	// maxNames bounds the tables that are completed, and nameTimeout the wait for them.
	maxNames    = 1000
	nameTimeout = time.Second
	// maxDepth bounds .read within what .read reads.
	maxDepth = 10
)

// errQuit ends the shell. It is no failure.
var errQuit = errors.New("quit")

// A LineError is an error of a script, and where it is.
type LineError struct {
	Err   error
	Where string // such as: line 3 of standard input
}

func (e *LineError) Error() string { return e.Err.Error() }
func (e *LineError) Unwrap() error { return e.Err }

// note prints a line beside the result.
func (s *Shell) note(format string, args ...any) { fmt.Fprintf(s.Notes, format+"\n", args...) }

// Script runs the lines of r, whose name stands in errors, up to the first error.
func (s *Shell) Script(ctx context.Context, name string, r io.Reader) error {
	if err := s.script(ctx, name, r); !errors.Is(err, errQuit) {
		return err
	}
	return nil
}

// line takes one line: a command if it begins with a dot where a statement could begin, otherwise
// SQL.
func (s *Shell) line(ctx context.Context, line string) error {
	if !s.input.pending() && strings.HasPrefix(strings.TrimSpace(line), ".") {
		return s.command(ctx, strings.TrimSpace(line))
	}
	s.input.add(line + "\n")
	for {
		statement, ok := s.input.next()
		if !ok {
			return nil
		}
		if err := s.statement(ctx, statement); err != nil {
			return err
		}
	}
}

func (s *Shell) script(ctx context.Context, name string, r io.Reader) error {
	lines := file.NewLines(r)
	n := 0
	where := func(err error) error {
		if err == nil || errors.Is(err, errQuit) {
			return err
		}
		return &LineError{err, fmt.Sprintf("line %d of %s", n, name)}
	}
	for {
		line, err := lines.Raw()
		if errors.Is(err, file.ErrNoMore) {
			break
		}
		n++
		if err == nil {
			err = s.line(ctx, string(line))
		}
		if err != nil {
			return where(err)
		}
	}
	if rest := s.input.rest(); rest != "" { // the last statement needs no semicolon
		if err := s.statement(ctx, rest); err != nil {
			return where(err)
		}
	}
	if s.group != nil && s.depth == 0 {
		s.group = nil
		return where(errors.New("the transaction has no COMMIT: nothing of it was done"))
	}
	return nil
}

// statement runs a statement, or keeps it until its transaction is complete.
func (s *Shell) statement(ctx context.Context, statement string) error {
	if s.keep != nil {
		s.keep(statement)
	}
	switch first := firstWord(statement); {
	case first == "BEGIN" && s.group != nil:
		return errors.New("there is a transaction already; savepoints nest")
	case first == "BEGIN":
		s.group = []string{}
		return nil
	case s.group == nil:
		return s.run(ctx, []string{statement}, nil)
	case first == "ROLLBACK" && !strings.Contains(strings.ToUpper(onOneLine(statement)), " TO "):
		s.group = nil
		return nil
	case first == "COMMIT", first == "END":
		group := s.group
		s.group = nil
		if len(group) == 0 {
			return nil
		}
		return s.run(ctx, group, nil)
	}
	s.group = append(s.group, statement)
	return nil
}

// Together runs a text as one transaction, which may say so itself.
func (s *Shell) Together(ctx context.Context, text string, args []any) error {
	all := statements(text)
	if n := len(all); n >= 2 && firstWord(all[0]) == "BEGIN" &&
		(firstWord(all[n-1]) == "COMMIT" || firstWord(all[n-1]) == "END") {
		all = all[1 : n-1]
	}
	if len(all) == 0 {
		return nil
	}
	return s.run(ctx, all, args)
}

// run runs statements and prints the answer.
func (s *Shell) run(ctx context.Context, all []string, args []any) error {
	q := Query{SQL: strings.Join(all, ";\n"), Args: args, Limit: s.Limit}
	for _, statement := range all {
		q.Write = q.Write || s.Write && !reads(statement)
	}
	start := s.now()
	out, err := s.Database.Run(ctx, q)
	took := s.now().Sub(start)
	if q.Write {
		s.names = nil
	}
	if err != nil {
		return err
	}
	if err := s.printer.print(out); err != nil {
		return err
	}
	switch {
	case s.JSON && q.Write && len(out.Columns) == 0:
		return json.NewEncoder(s.Out).Encode(struct {
			Changes      int64 `json:"changes"`
			LastInsertID int64 `json:"last_insert_id,omitempty"`
		}{out.Changes, out.LastInsertID})
	case s.JSON:
	case out.Truncated:
		s.note("there are more rows than the %s shown: --limit takes up to 10,000, or give the statement a LIMIT", table.Count(len(out.Rows)))
	case q.Write && len(out.Columns) == 0:
		s.note("%s", done(all, out.Changes))
	}
	if s.timer {
		s.note("%s", took.Round(10*time.Microsecond))
	}
	return nil
}

// done says what statements without rows did.
func done(all []string, changes int64) string {
	for _, statement := range all {
		switch firstWord(statement) {
		case "INSERT", "UPDATE", "DELETE", "REPLACE", "WITH":
			return "done, " + table.Plural(changes, "row") + " changed"
		}
	}
	return "done"
}

// tables returns the names of tables and views. A database that does not answer has none.
func (s *Shell) tables(ctx context.Context) []string {
	if s.names != nil {
		return s.names
	}
	ctx, cancel := context.WithTimeout(ctx, nameTimeout)
	defer cancel()
	out, err := s.Database.Run(ctx, Query{
		SQL:   `SELECT name FROM sqlite_schema WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite\_%' ESCAPE '\' ORDER BY name`,
		Limit: maxNames,
	})
	if err != nil {
		return nil
	}
	s.names = []string{}
	for _, row := range out.Rows {
		s.names = append(s.names, row[0].text(""))
	}
	return s.names
}

// prompt is what a line begins with.
func (s *Shell) prompt() string {
	name := table.OneLine(s.Name)
	if s.Write {
		name += " (write)"
	}
	switch {
	case s.input.pending():
		return strings.Repeat(" ", max(width(name)-3, 0)) + "...> "
	case s.group != nil:
		return name + "*> "
	}
	return name + "> "
}

// readFile runs the file of a .read.
func (s *Shell) readFile(ctx context.Context, name string) error {
	if s.depth == maxDepth {
		return fmt.Errorf(".read: files are read %d deep", maxDepth)
	}
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	s.depth++
	defer func() { s.depth-- }()
	keep := s.keep
	s.keep = nil
	defer func() { s.keep = keep }()
	return s.script(ctx, table.OneLine(name), f)
}
