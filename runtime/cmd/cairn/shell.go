package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/cairn-run/cairn/actor/host"
)

// A shell runs SQL on an actor's database, statement by statement.
//
//  1. A statement that may write goes to sql.exec if the shell may write, everything else to sql.query. Each is a
//     transaction of its own.
//  2. The statements from BEGIN to COMMIT are kept and sent together, because the node ends a transaction with its call.
//  3. In a script the first error ends the run. At a terminal it is printed.
type shell struct {
	*target
	resultPrinter
	write  bool
	reason string
	limit  int
	timer  bool
	now    func() time.Time

	input splitter
	// group are the statements since BEGIN; nil outside of a transaction.
	group []string
	// depth counts the files that are being read, one from within the other.
	depth int
	// keep, if set, takes a statement into the history.
	keep func(statement string)
	// names are those of tables and views, for completion; nil if they are not known.
	names []string
}

// errQuit ends the shell. It is no failure.
var errQuit = errors.New("quit")

// maxDepth bounds .read within what .read reads.
const maxDepth = 10

// line takes one line: a command if it begins with a dot where a statement could begin, otherwise SQL.
func (s *shell) line(ctx context.Context, line string) error {
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

// script runs what r has. name and the line stand in errors.
func (s *shell) script(ctx context.Context, name string, r io.Reader) error {
	lines := newLines(r)
	n := 0
	where := func(err error) error {
		if err == nil || errors.Is(err, errQuit) {
			return err
		}
		hints := []string{fmt.Sprintf("at line %d of %s", n, name)}
		var hinted hintedError
		if errors.As(err, &hinted) {
			hints = append(hints, hinted.hints...)
		}
		return hintedError{err, hints}
	}
	for {
		line, err := lines.raw()
		if errors.Is(err, errNoMoreLines) {
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
func (s *shell) statement(ctx context.Context, statement string) error {
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

// together runs a text as one transaction, which may say so itself.
func (s *shell) together(ctx context.Context, text string, args []any) error {
	all := statements(text)
	if n := len(all); n >= 2 && firstWord(all[0]) == "BEGIN" && (firstWord(all[n-1]) == "COMMIT" || firstWord(all[n-1]) == "END") {
		all = all[1 : n-1]
	}
	if len(all) == 0 {
		return nil
	}
	return s.run(ctx, all, args)
}

// run sends statements and prints the answer.
func (s *shell) run(ctx context.Context, all []string, args []any) error {
	method, in := host.SQLQuery, host.SQLInput{SQL: strings.Join(all, ";\n"), Args: args, Limit: s.limit}
	for _, statement := range all {
		if s.write && !reads(statement) {
			method, in.Reason = host.SQLExec, s.reason
		}
	}
	start := s.now()
	out, err := s.askSQL(ctx, method, &in)
	took := s.now().Sub(start)
	if method == host.SQLExec {
		s.names = nil
	}
	if err != nil {
		return s.hint(err)
	}
	if err := s.print(out); err != nil {
		return err
	}
	switch {
	case s.c.json && method == host.SQLExec && len(out.Columns) == 0:
		return s.c.printJSON(struct {
			Changes      int64 `json:"changes"`
			LastInsertID int64 `json:"last_insert_id,omitempty"`
		}{out.Changes, out.LastInsertID})
	case s.c.json:
	case out.Truncated:
		s.c.note("there are more rows than the %s shown: --limit takes up to 10,000, or give the statement a LIMIT", count(len(out.Rows)))
	case method == host.SQLExec && len(out.Columns) == 0:
		s.c.note("%s", done(all, out.Changes))
	}
	if s.timer {
		s.c.note("%s", took.Round(10*time.Microsecond))
	}
	return nil
}

// done says what statements without rows did.
func done(all []string, changes int64) string {
	for _, statement := range all {
		switch firstWord(statement) {
		case "INSERT", "UPDATE", "DELETE", "REPLACE", "WITH":
			return "done, " + plural(changes, "row") + " changed"
		}
	}
	return "done"
}

// askSQL calls sql.query or sql.exec on an actor that must exist.
func (t *target) askSQL(ctx context.Context, method string, in *host.SQLInput) (*sqlAnswer, error) {
	var out sqlAnswer
	if err := t.ask(ctx, method, in, &out, askOptions{existing: true}); err != nil {
		return nil, err
	}
	return &out, out.check()
}

// hint adds to an error what can be done about it.
func (s *shell) hint(err error) error {
	var remote *host.Error
	if !errors.As(err, &remote) {
		return err
	}
	switch {
	case remote.Code == host.ReadOnly && !s.write:
		return hintedError{err, []string{"this shell only reads: to write, give --write and --reason TEXT"}}
	case remote.Code == host.TooLarge && remote.Metadata["what"] == "body":
		return hintedError{err, []string{"send less at a time; cairn sql import takes whole databases"}}
	}
	return err
}

// tables returns the names of tables and views. A node that does not answer has none.
func (s *shell) tables(ctx context.Context) []string {
	if s.names != nil {
		return s.names
	}
	ctx, cancel := context.WithTimeout(ctx, completionTimeout)
	defer cancel()
	out, err := s.askSQL(ctx, host.SQLQuery, &host.SQLInput{
		SQL:   `SELECT name FROM sqlite_schema WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite\_%' ESCAPE '\' ORDER BY name`,
		Limit: maxPage,
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
func (s *shell) prompt() string {
	name := oneLine(s.String())
	if s.write {
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

// banner greets the person at the terminal. The error is that of the node if the actor does not exist, or it is away.
func (s *shell) banner(ctx context.Context) error {
	var status host.SQLStatusOutput
	if err := s.ask(ctx, host.SQLStatus, nil, &status, askOptions{existing: true}); err != nil {
		return err
	}
	database := "no database yet"
	if status.Exists {
		database = size(status.Bytes)
	}
	may := "read-only"
	if s.write {
		may = "every change is logged with the reason " + oneLine(s.reason)
	}
	s.c.note("%s: %s; %s. .help lists the commands, Ctrl-D leaves.", s.target, database, may)
	return nil
}

// A sqlArg is a value of --arg: JSON if it is that, and otherwise text.
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

// readFile runs the file of a .read.
func (s *shell) readFile(ctx context.Context, name string) error {
	if s.depth == maxDepth {
		return fmt.Errorf(".read: files are read %d deep", maxDepth)
	}
	file, err := os.Open(name)
	if err != nil {
		return err
	}
	defer file.Close()
	s.depth++
	defer func() { s.depth-- }()
	keep := s.keep
	s.keep = nil
	defer func() { s.keep = keep }()
	return s.script(ctx, oneLine(name), file)
}
