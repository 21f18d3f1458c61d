package shell

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// A screen keeps what is printed on it and lets others wait for that.
type screen struct {
	mu      sync.Mutex
	changed chan struct{}
	text    []byte
	seen    int // what was waited for already
}

func newScreen() *screen { return &screen{changed: make(chan struct{})} }

func (s *screen) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.text = append(s.text, b...)
	close(s.changed)
	s.changed = make(chan struct{})
	return len(b), nil
}

// wait waits until text is printed after what was waited for before, and returns what came until then.
func (s *screen) wait(t *testing.T, text string) string {
	t.Helper()
	late := time.After(2 * time.Minute)
	for {
		s.mu.Lock()
		if i := bytes.Index(s.text[s.seen:], []byte(text)); i >= 0 {
			before := string(s.text[s.seen : s.seen+i])
			s.seen += i + len(text)
			s.mu.Unlock()
			return before
		}
		changed, rest := s.changed, string(s.text[s.seen:])
		s.mu.Unlock()
		select {
		case <-changed:
		case <-late:
			t.Fatalf("%q is not printed, but %q", text, rest)
		}
	}
}

// A fake is a database that answers what it is told to, by the text of the query.
type fake struct {
	queries []string
	// running, if set, is told when a query begins and may keep it waiting.
	running func(ctx context.Context, sql string) error
}

// Run answers a query that begins with a text below; a name of a column and, after it, the values.
func (f *fake) Run(ctx context.Context, q Query) (*Answer, error) {
	f.queries = append(f.queries, q.SQL)
	if f.running != nil {
		if err := f.running(ctx, q.SQL); err != nil {
			return nil, err
		}
	}
	var a Answer
	if m := number.FindStringSubmatch(q.SQL); m != nil {
		return &a, json.Unmarshal(fmt.Appendf(nil, `{"columns":[{"name":%q}],"rows":[[%s]]}`, m[2], m[1]), &a)
	}
	for sql, answer := range map[string]string{
		"SELECT id, ';\n' AS x":                `{"columns":[{"name":"id"},{"name":"x"}],"rows":[[1,";\n"]]}`,
		"SELECT name, type FROM sqlite_schema": `{"columns":[{"name":"name"},{"name":"type"}],"rows":[["note","table"],["short","view"]]}`,
		"SELECT name FROM sqlite_schema":       `{"columns":[{"name":"name"}],"rows":[["note"],["short"]]}`,
		"SELECT 'a\nb'":                        `{"columns":[{"name":"'a\nb'"}],"rows":[["a\nb"]]}`,
		"SELECT 'tab":                          `{"columns":[{"name":"text"}],"rows":[["tab\tin a paste"]]}`,
		"SELECT count(*) AS n":                 `{"columns":[{"name":"n"}],"rows":[[3]]}`,
	} {
		if strings.HasPrefix(q.SQL, sql) {
			return &a, json.Unmarshal([]byte(answer), &a)
		}
	}
	return nil, fmt.Errorf("no answer to %q", q.SQL)
}

// number matches queries of a number.
var number = regexp.MustCompile(`^SELECT (\d)\s+AS (\w+)`)

func (f *fake) Status(context.Context, io.Writer) error       { return errors.New("no status") }
func (f *fake) Export(context.Context, string) (int64, error) { return 0, errors.New("no file") }

// A sitting is a person at a shell.
type sitting struct {
	t      *testing.T
	screen *screen
	keys   *io.PipeWriter
	done   chan error
	fake   *fake
}

// sit starts a shell on a fake database. The history is in file.
func sit(t *testing.T, ctx context.Context, write bool, file string) *sitting {
	t.Helper()
	s := &sitting{t: t, screen: newScreen(), done: make(chan error, 1), fake: &fake{}}
	in, keys := io.Pipe()
	s.keys = keys
	sh := New(Options{Database: s.fake, Name: "cell/acme", Write: write, Limit: 100, Mode: ModeTable, Out: s.screen, Notes: s.screen})
	go func() {
		s.done <- sh.Interact(ctx, &Console{
			In: in, Screen: s.screen, History: OpenHistory(file), OnScreen: true, Size: func() (int, int) { return 200, 50 },
			Fail: func(w io.Writer, err error) { fmt.Fprintf(w, "error: %s\n", err) },
		})
	}()
	t.Cleanup(func() { keys.Close() })
	s.screen.wait(t, "cell/acme")
	s.screen.wait(t, "> ")
	return s
}

func (s *sitting) typed(keys string) {
	s.t.Helper()
	if _, err := io.WriteString(s.keys, keys); err != nil {
		s.t.Fatal(err)
	}
}

// play types keys and waits for what is printed, in turn.
func (s *sitting) play(steps ...string) {
	s.t.Helper()
	for i := 0; i < len(steps); i += 2 {
		s.typed(steps[i])
		s.screen.wait(s.t, steps[i+1])
	}
}

// leave ends the shell with keys.
func (s *sitting) leave(keys string) {
	s.t.Helper()
	s.typed(keys)
	select {
	case err := <-s.done:
		if err != nil {
			s.t.Error(err)
		}
	case <-time.After(2 * time.Minute):
		s.t.Fatal("the shell does not end")
	}
}

func TestAStatementMayHaveSeveralLinesAndErrorsDoNotEndTheShell(t *testing.T) {
	t.Parallel()
	s := sit(t, t.Context(), false, "")
	s.play("SELECT id, ';\r", "...> ",
		"' AS x FROM note WHERE id = 1; SELECT 2 AS b;\r", "\r\nid  x\r\n--  ---\r\n 1  ;\\n\r\nb\r\n-\r\n2\r\n",
		"", "cell/acme> ",
		"DELETE FROM note;\r", "error: no answer to \"DELETE FROM note\"\r\n",
		".nonsense\r", "error: there is no command .nonsense",
		".headers off\rSELECT 'tab\tin a paste';\r", "tab\\tin a paste\r\n")
	s.leave("\r.quit\r")
}

func TestCtrlCClearsTheLineOrCancelsTheStatement(t *testing.T) {
	t.Parallel()
	s := sit(t, t.Context(), true, "")
	started := make(chan struct{}, 1)
	s.fake.running = func(ctx context.Context, sql string) error {
		if !strings.Contains(sql, "forever") {
			return nil
		}
		started <- struct{}{}
		<-ctx.Done()
		return ctx.Err()
	}
	s.play("SELECT 'not this", "not this", "\x03", "^C\r\n", "", "cell/acme (write)> ",
		"SELECT '\r", "...> ", "\x03", "(write)> ")
	s.typed("SELECT 'forever';\r")
	<-started
	s.play("typed ahead \x03", "error: context canceled", "", "(write)> ",
		"BEGIN; DELETE FROM note;\r", "(write)*> ", "\x03", "given up\r\n", "", "(write)> ",
		"SELECT count(*) AS n FROM note;\r", "n\r\n-\r\n3\r\n", "BEGIN;\r", "*> ")
	s.leave("\x04")
	s.screen.wait(t, "no COMMIT: nothing of it was done")
	for _, input := range s.fake.queries {
		if strings.Contains(input, "DELETE") || strings.Contains(input, "not this") {
			t.Errorf("%q was sent", input)
		}
	}
}

func TestTheEndOfTheContextEndsTheShell(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	s := sit(t, ctx, false, "")
	cancel()
	if err := <-s.done; err != nil {
		t.Error(err)
	}
}

func TestTabCompletesCommandsAndNames(t *testing.T) {
	t.Parallel()
	s := sit(t, t.Context(), false, "")
	s.play(".tab\t\r", ".tables ", "", "note   table",
		"SELECT count(*) AS n FROM NO\t;\r", "FROM note ;", "", "n\r\n-\r\n3\r\n",
		".\t", ".tables  .schema  .indexes")
	s.leave("\x15\x04")
}

func TestStatementsAreRememberedInAFile(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "deep", "down", "history")
	s := sit(t, t.Context(), false, file)
	s.typed("SELECT 1\r  AS first; -- really\r.headers on\rSELECT 2 AS second;\rSELECT 2 AS second;\rSELECT 'a\rb';\r")
	s.screen.wait(t, "a\\nb")
	s.leave("\x04")
	text, err := os.ReadFile(file)
	info, _ := os.Stat(file)
	if want := "SELECT 1 AS first;\nSELECT 2 AS second;\n"; err != nil || string(text) != want || info.Mode().Perm() != 0o600 {
		t.Errorf("%q %v %v", text, err, info.Mode())
	}

	s = sit(t, t.Context(), false, file)
	s.typed("\x1b[A\x1b[A\r") // up, up
	s.screen.wait(t, "first\r\n-----\r\n    1\r\n")
	s.leave("\x04")
}

func TestTheHistoryIsBoundedAndSkipsWhatIsNoStatement(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "history")
	var long strings.Builder
	long.WriteString("\xff\n\nbell \a\n")
	for i := range maxHistory + 5 {
		fmt.Fprintf(&long, "SELECT %d;\n", i)
	}
	if err := os.WriteFile(file, []byte(long.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	h := OpenHistory(file)
	if h.Len() != maxHistory || h.At(0) != fmt.Sprintf("SELECT %d;", maxHistory+4) || h.At(maxHistory-1) != "SELECT 5;" {
		t.Errorf("%d entries, %q to %q", h.Len(), h.At(h.Len()-1), h.At(0))
	}
	h.keep("x")
	if text, err := os.ReadFile(file); err != nil || bytes.Count(text, []byte("\n")) != maxHistory+1 {
		t.Errorf("%d lines, %v", bytes.Count(text, []byte("\n")), err)
	}
	if again := OpenHistory(file); !slices.Equal(again.entries, h.entries) {
		t.Error("what is read is not what was written")
	}
	// A place that cannot be written to is done without.
	h = OpenHistory(filepath.Join(file, "below a file"))
	h.keep("SELECT 1")
	if h.Len() != 1 || h.file != "" {
		t.Errorf("%+v", h)
	}
	if h := OpenHistory(""); h.Len() != 0 {
		t.Errorf("%+v", h)
	}
}
