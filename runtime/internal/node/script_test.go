package node

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
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
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/runtime/internal/kernel"
	"github.com/cairn-run/cairn/runtime/internal/part/event"
	"github.com/cairn-run/cairn/runtime/internal/part/schedule"
)

// Each file of testdata holds scenarios: life cycles of actors, as commands and what they print. See testdata/README.md.
// `go test -run Scripts -rewrite ./runtime/internal/node` writes the results anew.

func TestTurnScripts(t *testing.T)        { runScripts(t, "turns") }
func TestAlarmScripts(t *testing.T)       { runScripts(t, "alarms") }
func TestQueueScripts(t *testing.T)       { runScripts(t, "queues") }
func TestControlScripts(t *testing.T)     { runScripts(t, "control") }
func TestScheduleScripts(t *testing.T)    { runScripts(t, "schedules") }
func TestStreamScripts(t *testing.T)      { runScripts(t, "streams") }
func TestTaskScripts(t *testing.T)        { runScripts(t, "tasks") }
func TestMessageScripts(t *testing.T)     { runScripts(t, "messages") }
func TestConnectionScripts(t *testing.T)  { runScripts(t, "connections") }
func TestExplanationScripts(t *testing.T) { runScripts(t, "why") }
func TestLimitScripts(t *testing.T)       { runScripts(t, "limits") }
func TestSQLScripts(t *testing.T)         { runScripts(t, "sql") }
func TestChangeScripts(t *testing.T)      { runScripts(t, "changes") }

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
		clients: make(map[string]host.LiveConnection), once: make(map[string][]byte)}
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
	synctest.Wait()
	return s.out.String()
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
	clients map[string]host.LiveConnection
	life    keyspace.ActorID
	once    map[string][]byte // inputs of calls with an idempotency key, by their lines

	// The idempotency key of calls, if any, and the last request that had one.
	key, last, input string

	mu    sync.Mutex
	said  []string // by steps since the last command
	flags map[string]bool
	gates map[string]chan struct{}
	jobs  map[string]chan string
}

// unstable is what differs from run to run: ids, and the size of an input, which is the number of a closure.
var unstable = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f-]{27}|\b[0-9a-z]{26}\b|\berror [0-9a-f]{8,}|is full: [0-9]+ bytes`)

// print adds a result, after what steps have said meanwhile, whose order is that of the text.
func (s *scene) print(result string) {
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	slices.Sort(s.said)
	for _, line := range append(s.said, result) {
		if line = unstable.ReplaceAllString(line, "ID"); line != "" {
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

// block cuts a step into its words and what is in its braces.
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
			if s.fill(o, s.fields); s.changes != nil {
				o.Changes = s.changes
			}
		}, s.types...)
	}
	return s.g
}

func (s *scene) call(a host.Address, method, input string) (string, error) {
	r, err := s.stage().Call(s.t.Context(), &host.Request{Address: a, Method: method, Codec: host.JSON, Input: []byte(input), IdempotencyKey: s.key})
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

// command runs a line and returns what it prints.
func (s *scene) command(line string) string {
	w := words(line)
	arg := func(i int) string {
		if i < len(w) {
			return w[i]
		}
		return ""
	}
	rest := func(n int) string { return strings.Join(strings.Fields(line)[n:], " ") }
	switch w[0] {
	case "type":
		s.types = append(s.types, s.puppets(w[1], w[2:]))
	case "types": // the program has only these from the next start on
		s.g.types = slices.DeleteFunc(slices.Clone(s.types), func(d *puppetType) bool { return !slices.Contains(w[1:], d.name) })
	case "node":
		s.fields = w[1:]
	case "migrations": // of the type p, from the next start on
		s.stage().types[0].migrations = schema[:s.number(w[1])]
	case "publish": // what "published" prints from now on
		s.changes = new(changeLog)
	case "published":
		synctest.Wait()
		return strings.Join(s.changes.take(""), "\n")
	case "set", "unset":
		s.set(w[1], w[0] == "set")
	case "open":
		s.open(w[1])
	case "advance":
		time.Sleep(s.duration(w[1]))
	case "restart":
		s.stage().restart()
	case "crash":
		s.stage().crash()
	case "stop":
		s.stage().stop()
	case "start":
		s.stage().start()
	case "do": // a turn
		s.stage()
		return result("do "+w[1], s.turn(w[1], w[2:]))
	case "repeat":
		var all []string
		for range s.number(w[1]) {
			all = append(all, s.command(rest(2)))
		}
		return strings.Trim(strings.Join(all, "\n"), "\n")
	case "bg": // a command that takes its time; "join" prints its result
		job := make(chan string, 1)
		s.jobs[w[1]] = job
		s.stage()
		go func() { job <- s.command(rest(2)) }()
	case "join":
		return w[1] + ": " + cmp.Or(<-s.jobs[w[1]], "ok")
	case "pending":
		return fmt.Sprintf("%s has not ended: %t", w[1], len(s.jobs[w[1]]) == 0)
	case "verb": // a built-in method
		input := ""
		if len(strings.Fields(line)) > 3 {
			input = rest(3)
		}
		out, err := s.call(addr(w[1]), w[2], input)
		if err != nil {
			return result(w[2], err)
		}
		return strings.TrimSuffix(w[2]+": "+out, ": ")
	case "destroy":
		return result("destroy", s.stage().Destroy(s.t.Context(), addr(w[1])))
	case "n":
		return strings.Join(s.each(w[1:], func(st *puppetState) string { return fmt.Sprint(st.N) }), ", ")
	case "log":
		return strings.Join(s.each(w[1:], func(st *puppetState) string { return fmt.Sprint(st.Log) }), ", ")
	case "notes":
		return fmt.Sprintf("%s noted %v", w[1], s.stage().notes(w[1]))
	case "look":
		return result("look", s.look(w[1], func(_ *puppetState, r host.Reader) error { return exec(r, cmp.Or(arg(2), "SELECT 1")) }))
	case "state":
		return s.state(w[1])
	case "why":
		return s.why(w[1])
	case "events": // that are kept
		return s.events(w[1])
	case "now":
		now := time.Now().Round(time.Second)
		return "it is " + since(&now)
	case "once": // once KEY ACTOR STEPS: a call with an idempotency key
		input, ok := s.once[line]
		if !ok {
			input = remember(s.deed(w[3:]))
			s.once[line] = input
		}
		r := host.Request{Address: addr(w[2]), Method: "do", Codec: host.JSON, Input: input, IdempotencyKey: w[1]}
		reply, err := s.stage().Call(s.t.Context(), &r)
		if err == nil {
			return fmt.Sprintf("once %s: replayed %t", w[1], reply.Replayed)
		}
		return result("once "+w[1], err)
	case "version":
		return fmt.Sprintf("%s has version %d", w[1], s.stage().status(w[1]).Version)
	case "keys":
		return fmt.Sprintf("%s has %d keys", w[1], s.stage().status(w[1]).Keys)
	case "wakes":
		rows, err := s.stage().store.Wakes(nil, 1<<60, 1000)
		return fmt.Sprintf("%d wake rows, %d at 0%s", len(rows), len(s.g.atZero()), result("", err))
	case "life": // remembers the life of an actor; "rows" counts what is left of it in the store
		if err := s.life.UnmarshalText([]byte(s.stage().status(w[1]).ID)); err != nil {
			s.fatal("%v", err)
		}
	case "rows":
		return s.rows()
	case "parked":
		parked := 0
		for _, n := range s.stage().Pauses.Parked() {
			parked += n
		}
		return fmt.Sprintf("%d wait for the end of a pause", parked)
	case "memory":
		return fmt.Sprintf("%d awake, %d remains, %d signals, %d failures", s.stage().Memory.Awake.Load(), s.g.Remains.Len(), s.g.Signals.Len(),
			s.g.Failures.Len()+len(kernel.PartOf[*schedule.Part](s.g.Kernel).FailedRuns))
	case "disk": // full, free, held or broken
		s.disk(w[1])
	case "connect", "resume", "takeover": // connect CLIENT ACTOR EVENTS..., resume CLIENT ACTOR AFTER
		return s.connect(w)
	case "heard":
		texts, _, missed, err := heard(s.clients[w[1]])
		out := fmt.Sprintf("%s heard %v", w[1], texts)
		if missed > 0 {
			out += fmt.Sprintf(", missed %d", missed)
		}
		if err != nil {
			out += ", " + describe(err)
		}
		return out
	case "lose", "leave":
		return result(w[0], s.clients[w[1]].Close(s.t.Context(), w[0] == "lose"))
	case "subscribe":
		return result(w[0], s.clients[w[1]].Subscribe(s.t.Context(), w[2:]...))
	case "unsubscribe":
		return result(w[0], s.clients[w[1]].Unsubscribe(s.t.Context(), w[2:]...))
	case "end": // by the token
		return result(w[0], s.stage().Disconnect(s.t.Context(), addr(w[2]), s.clients[w[1]].Welcome().Token))
	case "close": // by an operator
		return s.command("verb " + w[2] + " connection.close {\"connection\":\"" + s.clients[w[1]].Welcome().Connection + "\"}")
	case "clients":
		return s.records(w[1])
	default:
		s.fatal("no command %q", line)
	}
	return ""
}

// each reads the state of actors.
func (s *scene) each(keys []string, f func(st *puppetState) string) (all []string) {
	for _, key := range keys {
		text := ""
		err := s.look(key, func(st *puppetState, _ host.Reader) error { text = f(st); return nil })
		all = append(all, cmp.Or(result(key, err), key+" = "+text))
	}
	return all
}

func (s *scene) state(key string) string {
	st, err := s.stage().Lookup(s.t.Context(), addr(key))
	if err != nil {
		return result(key, err)
	}
	out := fmt.Sprintf("%s is %s", key, st.State)
	for _, c := range []struct {
		name string
		n    int
	}{{"connections", st.Connections}, {"pending", st.PendingSends}, {"failed", st.FailedSends}, {"tasks", st.Tasks}, {"in the mailbox", st.Mailbox}} {
		if c.n > 0 {
			out += fmt.Sprintf(", %d %s", c.n, c.name)
		}
	}
	if st.Alarms > 0 {
		out += fmt.Sprintf(", %d alarms, next at %s", st.Alarms, since(st.NextAlarm))
	}
	if st.Pause != nil {
		out += fmt.Sprintf(", paused at %s: %q", since(&st.Pause.Since), st.Pause.Reason)
	}
	if st.Failure != nil {
		out += fmt.Sprintf(", failed: %.100s", st.Failure.Reason)
	}
	if st.Limits != nil {
		b, _ := json.Marshal(st.Limits)
		out += ", limits " + string(b)
	}
	return out
}

func (s *scene) why(key string) string {
	out, err := s.call(addr(key), host.ActorWhy, "")
	var x host.Explanation
	if err = cmp.Or(err, json.Unmarshal([]byte(out), &x)); err != nil {
		return result("why", err)
	}
	text := fmt.Sprintf("why %s: %s (%s to %s", x.Why, x.Text, since(x.Since), since(x.Until))
	if x.Remedy != "" {
		text += "; " + x.Remedy
	}
	text += ")"
	for _, name := range slices.Sorted(maps.Keys(x.Details)) {
		text += " " + name + "=" + x.Details[name]
	}
	return text
}

func (s *scene) events(key string) string {
	stream, err := s.stage().Subscribe(s.t.Context(), addr(key), host.Subscription{Resume: true})
	if err != nil {
		return result("events", err)
	}
	defer stream.Close()
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Second)
	defer cancel()
	all := []string{}
	for {
		d, err := stream.Next(ctx)
		if err != nil {
			return fmt.Sprintf("%s has emitted %v", key, all)
		}
		for _, e := range d.Events {
			all = append(all, fmt.Sprintf("%d:%s", e.Sequence, e.Data))
		}
	}
}

// rows counts the rows of the life that "life" remembered.
func (s *scene) rows() string {
	snap := s.stage().store.Snapshot(s.life)
	defer snap.Close()
	page, err := snap.List(engine.ListQuery{})
	head, herr := snap.Head()
	_, _, named, ierr := s.g.store.Identity(s.life)
	if err = errors.Join(err, herr, ierr); err != nil {
		s.fatal("%v", err)
	}
	return fmt.Sprintf("%d rows of that life, a head: %t, an identity: %t", len(page.Entries), head != engine.Head{}, named)
}

func (s *scene) disk(how string) {
	s.stage().disk.Fail(nil)
	switch how {
	case "full":
		s.g.disk.SetFree(1)
	case "free":
		s.g.disk.SetFree(1 << 40)
	default:
		s.g.disk.Fail(func(op, path string) error {
			if op == "sync" && strings.HasSuffix(path, ".log") {
				if how == "broken" {
					return errors.New("the disk is broken")
				}
				<-s.gate("disk")
			}
			return nil
		})
	}
}

func (s *scene) connect(w []string) string {
	from := w[1]
	r, to := host.ConnectRequest{Events: w[min(3, len(w)):]}, w[2]
	if w[0] != "connect" {
		r.Events = []string{"said"}
		switch {
		case w[0] == "takeover": // takeover NEW OLD ACTOR
			from, to, r.HasAfter = w[2], w[3], true
		case len(w) > 3:
			r.After, r.HasAfter = uint64(s.number(w[3])), true
		}
		r.Token = s.clients[from].Welcome().Token
	}
	l, err := s.stage().Connect(s.t.Context(), addr(to), r)
	if err != nil {
		return result(w[0], err)
	}
	out := ""
	if w[0] != "connect" {
		same := s.clients[from].Welcome().Connection == l.Welcome().Connection
		out = fmt.Sprintf("%s resumed: %t, the same connection: %t, cursor %d", w[1], l.Welcome().Resumed, same, l.Welcome().Cursor)
	}
	s.clients[w[1]] = l
	return out
}

func (s *scene) records(key string) string {
	var list []string
	err := s.look(key, func(_ *puppetState, r host.Reader) error {
		all, err := r.Connections("", 0)
		for _, c := range all {
			text := fmt.Sprint(c.Events)
			if !c.Lost.IsZero() {
				text += " lost at " + since(&c.Lost)
			}
			list = append(list, text)
		}
		return err
	})
	slices.Sort(list)
	return fmt.Sprintf("clients %v, %d live%s", list, event.HubOf(s.g.Kernel).Total(), result("", err))
}
