package node

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/keyspace"
)

// Each file of testdata holds scenarios: life cycles of actors, as commands and what they print.
// See testdata/README.md. `go test -run Scripts -rewrite ./runtime/internal/node` writes the
// results anew.

func TestTurnScripts(t *testing.T)        { runScripts(t, "turns") }
func TestAlarmScripts(t *testing.T)       { runScripts(t, "alarms") }
func TestQueueScripts(t *testing.T)       { runScripts(t, "queues") }
func TestControlScripts(t *testing.T)     { runScripts(t, "control") }
func TestScheduleScripts(t *testing.T)    { runScripts(t, "schedules") }
func TestStreamScripts(t *testing.T)      { runScripts(t, "streams") }
func TestTaskScripts(t *testing.T)        { runScripts(t, "tasks") }
func TestKVScripts(t *testing.T)          { runScripts(t, "kv") }
func TestWatchScripts(t *testing.T)       { runScripts(t, "watch") }
func TestMessageScripts(t *testing.T)     { runScripts(t, "messages") }
func TestConnectionScripts(t *testing.T)  { runScripts(t, "connections") }
func TestExplanationScripts(t *testing.T) { runScripts(t, "why") }
func TestLimitScripts(t *testing.T)       { runScripts(t, "limits") }
func TestSQLScripts(t *testing.T)         { runScripts(t, "sql") }
func TestChangeScripts(t *testing.T)      { runScripts(t, "changes") }

// The promises of docs/guarantees.md name these.
func TestChangesOfAMapAreHandledInOrder(t *testing.T) { runScripts(t, "handlers") }
func TestFollowersWaitWithoutTheActor(t *testing.T)   { runScripts(t, "followers") }

func runScripts(t *testing.T, file string) {
	datadriven.RunTest(t, "testdata/"+file, func(t *testing.T, d *datadriven.TestData) string {
		if d.Cmd != "scenario" || len(d.CmdArgs) != 1 {
			d.Fatalf(t, "a file holds scenarios with names, not %q", d.Cmd)
		}
		out := d.Expected // of a scenario that -run leaves out
		t.Run(d.CmdArgs[0].Key, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { out = newScene(t, d.Pos).play(d.Input) })
		})
		return out
	})
}

func newScene(t *testing.T, at string) *scene {
	return &scene{t: t, at: at, flags: make(map[string]bool), gates: make(map[string]chan struct{}), jobs: make(map[string]chan string),
		clients: make(map[string]host.LiveConnection), watchers: make(map[string]*watcher), followers: make(map[string]*follower), once: make(map[string][]byte), files: make(map[string][]byte)}
}

// play runs the commands of a scenario and returns what they print.
func (s *scene) play(input string) string {
	for line := range strings.Lines(input) {
		if line, _, _ = strings.Cut(strings.TrimSpace(line), "# "); line != "" {
			s.print(s.command(line))
		}
	}
	for name := range s.gates {
		s.open(name)
	}
	for _, w := range s.watchers {
		w.Close()
	}
	synctest.Wait()
	return strings.Join(shorten(strings.Split(s.out.String(), "\n"), 0), "\n")
}

// A scene is the state of a scenario.
type scene struct {
	t       *testing.T
	at      string // the position in its file
	g       *stage // nil before the first command that needs a node
	types   []*puppetType
	fields  []string // of the options
	changes *changeLog
	out     strings.Builder
	ledger
	clients map[string]host.LiveConnection

	watchers  map[string]*watcher // of entries
	followers map[string]*follower

	life keyspace.ActorID
	once map[string][]byte // inputs of calls with an idempotency key, by their lines

	log   bytes.Buffer      // of the node
	files map[string][]byte // that were exported

	// The idempotency key of calls, if any, and the last request that had one.
	key, last, input string

	mu    sync.Mutex
	said  []string // by steps since the last command
	flags map[string]bool
	gates map[string]chan struct{}
	jobs  map[string]chan string
}

// unstable matches what differs from run to run: ids, and the size of an input, which is the number
// of a closure.
var unstable = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f-]{27}|\b(?:[0-9a-z]{26}|[0-9A-Z]{26})\b|\berror [0-9a-f]{8,}|is full: [0-9]+ bytes|cairn_[0-9a-z]{30,}|"id":"[a-z2-7]{16}"`)

// longText is how scenarios write a text of so many bytes, and longX such a text.
var longText, longX = regexp.MustCompile(`x\*[0-9]+`), regexp.MustCompile(`x{100,}`)

// print adds a result, after the output of steps meanwhile, in the order of the text.
func (s *scene) print(result string) {
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	slices.Sort(s.said)
	for _, line := range append(s.said, result) {
		line = longX.ReplaceAllStringFunc(line, func(text string) string { return fmt.Sprint("x*", len(text)) })
		if line = unstable.ReplaceAllString(s.numbered(line), "ID"); line != "" {
			s.out.WriteString(line + "\n")
		}
	}
	s.said = nil
}

func (s *scene) say(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.said = append(s.said, fmt.Sprintf(format, args...))
}

func (s *scene) fatal(format string, args ...any) { s.t.Fatalf(s.at+": "+format, args...) }

func (s *scene) set(flag string, on bool) { s.mu.Lock(); s.flags[flag] = on; s.mu.Unlock() }
func (s *scene) is(flag string) bool      { s.mu.Lock(); defer s.mu.Unlock(); return s.flags[flag] }

// gate returns the channel that "open" closes.
func (s *scene) gate(name string) chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gates[name] == nil {
		s.gates[name] = make(chan struct{})
	}
	return s.gates[name]
}

// open opens a gate for good.
func (s *scene) open(name string) {
	gate := s.gate(name)
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-gate:
	default:
		close(gate)
	}
}

func (s *scene) number(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		s.fatal("%v", err)
	}
	return n
}

func (s *scene) duration(text string) time.Duration {
	d, err := time.ParseDuration(text)
	if err != nil {
		s.fatal("%v", err)
	}
	return d
}

// fill sets fields of a struct, given as "Name=value" or "Name.Name=value".
func (s *scene) fill(v any, fields []string) {
	for _, field := range fields {
		path, text, _ := strings.Cut(field, "=")
		f := reflect.ValueOf(v).Elem()
		for name := range strings.SplitSeq(path, ".") {
			f = f.FieldByName(name)
		}
		switch {
		case f.Type() == reflect.TypeFor[time.Duration]():
			f.SetInt(int64(s.duration(text)))
		case f.CanInt():
			f.SetInt(int64(s.number(text)))
		case f.CanFloat():
			x, _ := strconv.ParseFloat(text, 64)
			f.SetFloat(x)
		case f.Kind() == reflect.Bool:
			f.SetBool(text == "true")
		default:
			s.fatal("%s cannot be set", path)
		}
	}
}

// addr reads "a" or "type/a".
func addr(text string) host.Address {
	typ, key, ok := strings.Cut(text, "/")
	if !ok {
		typ, key = "p", text
	}
	return host.Address{Type: typ, Key: []string{key}}
}

var word = regexp.MustCompile(`"[^"]*"|[{};]|[^\s{};"]+`)

// words splits a line; quotes hold a word together.
func words(line string) []string {
	all := word.FindAllString(line, -1)
	for i, w := range all {
		if len(w) > 1 && w[0] == '"' {
			all[i] = w[1 : len(w)-1]
		}
	}
	return all
}

// steps splits words at each semicolon that is not within braces.
func steps(all []string) (out [][]string) {
	depth, from := 0, 0
	for i, w := range append(all[:len(all):len(all)], ";") {
		switch {
		case w == "{":
			depth++
		case w == "}":
			depth--
		case w == ";" && depth == 0:
			out, from = append(out, all[from:i]), i+1
		}
	}
	return slices.DeleteFunc(out, func(step []string) bool { return len(step) == 0 })
}

// block splits a step into its words and the content of its braces.
func block(step []string) (args, body []string) {
	if i := slices.Index(step, "{"); i >= 0 {
		return step[:i], step[i+1 : len(step)-1]
	}
	return step, nil
}

// describe prints an error: its code and the message.
func describe(err error) string {
	e, ok := errors.AsType[*host.Error](err)
	if !ok {
		return err.Error()
	}
	text := fmt.Sprintf("%s: %.160s", e.Code, e.Message)
	for _, name := range []string{"field", "what", "limit", "actual", "why"} {
		if v := e.Metadata[name]; v != "" {
			text += " " + name + "=" + v
		}
	}
	if at, err := time.Parse(time.RFC3339Nano, e.Metadata["retry_at"]); err == nil {
		text += " until " + since(&at)
	}
	if e.Retryable {
		text += " (retryable)"
	}
	return text
}

// result prints an outcome that is not plain success.
func result(what string, err error) string {
	if err == nil {
		return ""
	}
	return what + ": " + describe(err)
}

// since prints a time as the time since the scenario began, at the first instant of the year 2000.
func since(t *time.Time) string {
	if t == nil {
		return "-"
	}
	return t.Sub(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)).Round(time.Millisecond).String()
}

func (s *scene) stage() *stage {
	if s.g == nil {
		if s.types == nil {
			s.command("type p")
		}
		s.g = newStage(s.t, func(o *Options) {
			o.Logger = slog.New(slog.NewTextHandler(&s.log, nil))
			if s.fill(o, s.fields); s.changes != nil {
				o.Changes = s.changes
			}
		}, s.types...)
	}
	return s.g
}

func (s *scene) call(a host.Address, method, input string) (string, error) {
	r, err := s.stage().
		Call(s.t.Context(),
			&host.Request{Address: a, Method: method, Codec: host.JSON, Input: []byte(input), IdempotencyKey: s.key, Traceparent: s.from})
	return string(r.Output), err
}

func (s *scene) turn(key string, body []string) error {
	input := s.input
	if s.key == "" || s.key != s.last {
		input = string(remember(s.deed(body)))
	}
	if s.key != "" { // a request that is repeated has the same input
		s.last, s.input = s.key, input
	}
	_, err := s.call(addr(key), "do", input)
	return err
}

func (s *scene) look(key string, f glance) error {
	_, err := s.call(addr(key), "look", string(remember(f)))
	return err
}
