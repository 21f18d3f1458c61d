package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime"
	"github.com/cairn-run/cairn/runtime/cell"
	"github.com/cairn-run/cairn/runtime/internal/gateway"
	front "github.com/cairn-run/cairn/runtime/internal/gateway/serve"
	"github.com/cairn-run/cairn/workflow"
)

// The files of testdata/scripts hold scenarios: commands and what they print. See
// testdata/scripts/README.md. `go test -run Scripts ./runtime/cmd/cairn -update` writes the results
// anew.
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/scripts/*.txt")
	fatalIf(t, err != nil || len(files) == 0, "%v %v", files, err)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			must(t, err)
			head, rest, _ := strings.Cut(string(text), "\n=== ")
			now := head
			for part := range strings.SplitSeq(rest, "\n=== ") {
				name, body, _ := strings.Cut(part, "\n")
				played := body // of a scenario that -run leaves out
				t.Run(name, func(t *testing.T) { played = play(t, body) })
				now += "\n=== " + name + "\n" + played
			}
			if *update && now != string(text) {
				must(t, os.WriteFile(file, []byte(now), 0o644))
			}
		})
	}
}

// A scene is a scenario that is played: a node, and commands that are run against it.
type scene struct {
	t      *testing.T
	node   *scriptNode // nil while it is stopped
	server *httptest.Server
	data   string // the node's directory
	schema int    // how many migrations the type room has
	token  string
	vars   []string // names with a "$" and values, in turn
	last   result
	jobs   map[string]chan result
}

// play runs the lines of a scenario and compares what they print with what follows them. It returns
// the scenario with the results of this run, where they differ by more than what changes from run
// to run.
func play(t *testing.T, body string) string {
	s := newScene(t)
	lines := strings.SplitAfter(body, "\n")
	var now strings.Builder
	for i := 0; i < len(lines); {
		command := lines[i]
		now.WriteString(command)
		i++
		if !strings.HasPrefix(command, "$ ") && !strings.HasPrefix(command, "@ ") {
			continue
		}
		stdin, want := "", ""
		for ; i < len(lines) && strings.HasPrefix(lines[i], "< "); i++ {
			now.WriteString(lines[i])
			stdin += strings.NewReplacer(s.vars...).Replace(lines[i][2:])
		}
		for ; i < len(lines) && lines[i] != "\n" && !strings.HasPrefix(lines[i], "$ ") && !strings.HasPrefix(lines[i], "@ "); i++ {
			want += lines[i]
		}
		now.WriteString(kept(t, command, s.line(command[:1], s.words(command[2:]), stdin), want))
	}
	return now.String()
}

// newScene starts a node, which the end of the test stops.
func newScene(t *testing.T) *scene {
	t.Helper()
	s := &scene{t: t, data: t.TempDir(), schema: 1, jobs: make(map[string]chan result)}
	s.vars = []string{"$DATA", s.data, "$DIR", t.TempDir()}
	s.start()
	t.Cleanup(s.stop)
	return s
}

var word = regexp.MustCompile(`(?:'[^']*'|[^\s'])+`)

// words splits a line as a shell does that knows no quotes but single ones, and puts in the
// variables.
func (s *scene) words(line string) []string {
	all := word.FindAllString(line, -1)
	for i, w := range all {
		all[i] = strings.NewReplacer(s.vars...).Replace(strings.ReplaceAll(w, "'", ""))
	}
	return all
}

// line runs a command ("$ cairn ...") or a directive ("@ ...") and returns what it prints.
func (s *scene) line(mark string, w []string, stdin string) string {
	if mark == "$" {
		s.last = s.run(w[1:], stdin)
		return s.show(s.last)
	}
	switch w[0] {
	case "bg": // bg NAME cairn ...
		job, args := make(chan result, 1), w[3:]
		s.jobs[w[1]] = job
		go func() { job <- s.run(args, stdin) }()
	case "ok": // ok cairn ...: a command that succeeds
		if r := s.run(w[2:], stdin); r.status != 0 {
			return s.show(r)
		}
	case "create": // create ADDRESS ...: actors
		for _, address := range w[1:] {
			args := []string{"create", address}
			if strings.HasPrefix(address, "room/") {
				args = append(args, "create", "1")
			}
			s.run(args, "").want(s.t, 0, "", "created "+address)
		}
	case "sorted": // sorted cairn ...: a command that prints lines in any order
		s.last = s.run(w[2:], stdin)
		lines := strings.SplitAfter(s.last.stdout, "\n")
		slices.Sort(lines)
		s.last.stdout = strings.Join(lines, "")
		return s.show(s.last)
	case "local": // local cairn ...: a command that is not told where the node is
		return s.show(runCommand(s.t, stdin, nil, w[2:]...))
	case "configured": // configured KEY = VALUE: a node with this configuration, or that of the standard input
		dir := s.vars[len(s.vars)-1]
		file := filepath.Join(dir, "cairn.toml")
		check(s.t, os.WriteFile(file, []byte(stdin+strings.Join(w[1:], " ")), 0o600))
		return s.show(runCommand(s.t, "", nil, "serve", "--listen", "127.0.0.1:0", "--data", filepath.Join(dir, "data"), "--config", file))
	case "join":
		return s.show(<-s.jobs[w[1]])
	case "let": // let NAME REGEXP: its group in what the last command printed
		found := regexp.MustCompile(w[2]).FindStringSubmatch(s.last.stdout)
		if found == nil {
			s.t.Fatalf("nothing like %s was printed", w[2])
		}
		s.vars = append([]string{"$" + w[1], found[1]}, s.vars...)
	case "file": // file NAME, with the lines of the standard input
		check(s.t, os.WriteFile(w[1], []byte(stdin), 0o600))
	case "files":
		return s.files()
	case "stop":
		s.stop()
	case "deploy": // deploy N: the node starts anew, and the type room has N migrations
		s.stop()
		s.schema = s.number(w[1])
		s.start()
	case "token":
		s.stop()
		s.token = w[1]
		s.start()
	case "fail": // fail METHOD CODE TEXT: the next call of the method
		e := host.Errorf(host.Code(w[2]), "%s", strings.Join(w[3:], " "))
		if e.Code == host.Unavailable || e.Code == host.Overloaded {
			e = e.Retry()
		}
		s.node.mu.Lock()
		defer s.node.mu.Unlock()
		s.node.failures[w[1]] = append(s.node.failures[w[1]], e)
	case "cut": // cut N: streams of events end after N deliveries
		s.node.cut = s.number(w[1])
	case "uncertain": // uncertain N: pages leave out N actors
		for i := range s.number(w[1]) {
			s.node.uncertain = append(s.node.uncertain, host.Address{Type: "cell", Key: []string{fmt.Sprintf("lost %02d", i)}})
		}
	case "await": // await METHOD N: until it was called N times
		s.node.mu.Lock()
		defer s.node.mu.Unlock()
		for n := s.number(w[2]); s.node.counts[w[1]] < n; {
			s.node.called.Wait()
		}
	case "calls": // since the last time, sorted
		s.node.mu.Lock()
		defer s.node.mu.Unlock()
		slices.Sort(s.node.calls)
		all := strings.Join(s.node.calls, "")
		s.node.calls = nil
		return all
	default:
		s.t.Errorf("no directive %q", w)
	}
	return ""
}

func (s *scene) number(text string) int {
	n, err := strconv.Atoi(text)
	check(s.t, err)
	return n
}

// run runs the command in this process.
func (s *scene) run(args []string, stdin string) result {
	if s.server != nil {
		args = append([]string{"--url=" + s.server.URL}, args...)
	}
	return runCommand(s.t, stdin, nil, args...)
}

// show is a result as scenarios have it.
func (s *scene) show(r result) string {
	out := r.stdout
	if out != "" && !strings.HasSuffix(out, "\n") {
		out += "\n"
	}
	mark, status := "! ", 0
	if failed.MatchString(r.stderr) {
		status = 1
	}
	if r.status == exitUsage && status > 0 {
		mark, status = "? ", exitUsage
	}
	for line := range strings.Lines(withoutEnd(r)) {
		out += mark + line
	}
	if r.status != status {
		out += fmt.Sprintf("exit %d\n", r.status)
	}
	out = strings.ReplaceAll(out, "\n\n", "\n.\n") // an empty line ends a result
	return strings.NewReplacer(s.data, "$DATA", s.vars[len(s.vars)-1], "$DIR").Replace(out)
}

// failed is how an error begins, errorCode one of the node, errorPage how that ends, and directive
// what completion says of its last line.
var (
	failed    = regexp.MustCompile(`(?m)^(error: |{"error":)`)
	errorCode = regexp.MustCompile(`(?m)^error: ([a-z_]+): `)
	errorPage = regexp.MustCompile(`  see docs/errors/(\w+)\.md\n$`)
	directive = regexp.MustCompile(`Completion ended with directive: .*\n`)
)

// withoutEnd returns the standard error without what each error ends with: the usage and the help
// of its command, and the page of its code, and without an actor that is named twice. It says so if
// one of them is missing.
func withoutEnd(r result) string {
	text, end := directive.ReplaceAllString(r.stderr, ""), ""
	code := errorCode.FindStringSubmatch(text)
	if page := errorPage.FindStringSubmatch(text); page != nil && strings.Contains(text, page[1]+": ") {
		text = strings.TrimSuffix(text, page[0])
		if _, actor, ok := strings.Cut(text, "there is no actor "); ok {
			name, _, _ := strings.Cut(actor, "\n")
			text = strings.Replace(text, "\n  actor: "+name+"\n", "\n", 1)
		}
	} else if code != nil && host.Code(code[1]).Known() {
		text += "without its page\n"
	}
	if r.status == exitUsage && !strings.HasPrefix(text, "{") {
		cmd, _, _ := newCLI(nil, nil, nil).root().Find(r.args)
		end = fmt.Sprintf("usage: %s\nhelp:  %s --help\n", cmd.UseLine(), cmd.CommandPath())
	}
	rest, ok := strings.CutSuffix(text, end)
	if !ok {
		rest += "without its usage\n"
	}
	return rest
}

func (s *scene) files() string {
	var out strings.Builder
	all, err := os.ReadDir(s.vars[len(s.vars)-1])
	for _, e := range all {
		info, _ := e.Info()
		fmt.Fprintln(&out, e.Name(), info.Mode())
	}
	check(s.t, err)
	return out.String()
}

func (s *scene) start() {
	rt, err := runtime.Open(context.Background(), runtime.Options{
		Dir: s.data, IdleTimeout: time.Hour, Traces: runtime.TraceOptions{Off: true}, Usage: runtime.UsageOptions{Off: true},
		Logger: slog.New(slog.DiscardHandler), Actors: scriptActors(s.schema),
	})
	must(s.t, err)
	s.node = &scriptNode{Runtime: rt, failures: make(map[string][]error), counts: make(map[string]int)}
	s.node.called.L = &s.node.mu
	o := front.Options{Token: s.token}
	for _, d := range scriptActors(s.schema) {
		o.Behaviors = append(o.Behaviors, d.Behavior())
	}
	f, err := front.New(o)
	must(s.t, err)
	s.server = httptest.NewServer(gateway.New(f, gateway.Options{Node: s.node}))
}

func (s *scene) stop() {
	if s.node == nil {
		return
	}
	s.server.CloseClientConnections()
	s.server.Close()
	check(s.t, s.node.Close())
	s.node = nil
}

// A scriptNode is a real node that writes down calls, and can be told to fail.
type scriptNode struct {
	*runtime.Runtime
	mu        sync.Mutex
	calls     []string
	counts    map[string]int // by method
	called    sync.Cond
	failures  map[string][]error // by method
	cut       int
	uncertain []host.Address
	watch     func(method string, input, output int) // nil for none; called before a call, with no output, and after it
}

var recording = regexp.MustCompile(`("recording":")[^"]+`)

func (n *scriptNode) Call(ctx context.Context, r *host.Request) (host.Reply, error) {
	n.mu.Lock()
	input := recording.ReplaceAllString(strings.TrimSpace(string(r.Input)), "$1...")
	n.calls = append(n.calls, fmt.Sprintf("%s of %s: %.300s\n", r.Method, formatAddress(r.Type, r.Key), input))
	n.counts[r.Method]++
	n.called.Broadcast()
	if all := n.failures[r.Method]; len(all) > 0 {
		n.failures[r.Method] = all[1:]
		n.mu.Unlock()
		return host.Reply{}, all[0]
	}
	n.mu.Unlock()
	if n.watch == nil {
		return n.Runtime.Call(ctx, r)
	}
	n.watch(r.Method, len(r.Input), 0)
	reply, err := n.Runtime.Call(ctx, r)
	n.watch(r.Method, len(r.Input), len(reply.Output))
	return reply, err
}

// Subscribe returns a stream that ends soon, if the node was told so.
func (n *scriptNode) Subscribe(ctx context.Context, a host.Address, q host.Subscription) (host.EventStream, error) {
	s, err := n.Runtime.Subscribe(ctx, a, q)
	if err == nil && n.cut > 0 {
		s = &cutStream{EventStream: s, left: n.cut}
	}
	return s, err
}

func (n *scriptNode) Lookup(ctx context.Context, a host.Address) (host.Status, error) {
	st, err := n.Runtime.Lookup(ctx, a)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.counts["lookup"]++ // a follower of events looks whether the actor exists
	n.called.Broadcast()
	return st, err
}

type cutStream struct {
	host.EventStream
	left int
}

func (s *cutStream) Next(ctx context.Context) (host.Delivery, error) {
	if s.left--; s.left < 0 {
		return host.Delivery{}, host.Errorf(host.Unavailable, "the node is shutting down").Retry()
	}
	return s.EventStream.Next(ctx)
}

// List returns short pages, so that a list takes several.
func (n *scriptNode) List(ctx context.Context, q host.ListQuery) (host.ListPage, error) {
	if !q.Brief {
		q.Limit = min(q.Limit, 2)
	}
	p, err := n.Runtime.List(ctx, q)
	p.Uncertain = append(p.Uncertain, n.uncertain...)
	return p, err
}

// Runs returns short pages as well.
func (n *scriptNode) Runs(ctx context.Context, q host.RunQuery) (host.RunPage, error) {
	q.Limit = min(q.Limit, 2)
	p, err := n.Runtime.Runs(ctx, q)
	p.Uncertain = append(p.Uncertain, n.uncertain...)
	return p, err
}

func (n *scriptNode) CountRuns(ctx context.Context) (host.RunCounts, error) {
	c, err := n.Runtime.CountRuns(ctx)
	c.Uncertain = append(c.Uncertain, n.uncertain...)
	return c, err
}

// ExportSQL breaks off if it was told to fail.
func (n *scriptNode) ExportSQL(ctx context.Context, a host.Address, w io.Writer) error {
	if len(n.failures["export"]) > 0 {
		_, err := w.Write(make([]byte, 1<<20))
		return errors.Join(err, n.failures["export"][0])
	}
	var b bytes.Buffer // nothing is sent before an error
	if err := n.Runtime.ExportSQL(ctx, a, &b); err != nil {
		return err
	}
	_, err := w.Write(b.Bytes())
	return err
}

// A room is an actor that can be broken, sends messages and lets clients in.
type room struct{ Broken bool }

// An errand is an actor whose run waits for a message.
type errand struct{}

var (
	rooms    = actor.NewType[room]("room")
	roomMade = actor.NewCreate[int](rooms)
	said     = actor.NewEvent[string](rooms, "said", actor.EventConfig{})
	_        = actor.NewEvent[string](rooms, "left", actor.EventConfig{})
	say      = actor.NewAction[string, string](rooms, "say")
	spoil    = actor.NewAction[bool, actor.None](rooms, "spoil")
	tell     = actor.NewAction[string, actor.None](rooms, "tell")
	kick     = actor.NewAction[string, actor.None](rooms, "kick")
	door     = actor.NewStream[string](rooms, "door", actor.StreamConfig{})
	guests   = actor.NewConnections[map[string]string, actor.None](rooms)

	errands  = actor.NewType[errand]("errand")
	notes    = actor.NewQueue[string](errands, "notes", actor.QueueConfig{ByRun: true})
	arrivals = actor.NewStream[string](errands, "arrivals", actor.StreamConfig{})
	deliver  = actor.NewWorkflow[string, string](errands, "deliver")
)

func scriptActors(schema int) []actor.Definition {
	migrations := []actor.Migration{
		{Name: "1_seat", SQL: "CREATE TABLE seat (row INTEGER, name TEXT)"},
		{Name: "2_price", SQL: "ALTER TABLE seat ADD price REAL"},
		{Name: "3_one", SQL: "CREATE UNIQUE INDEX seat_row ON seat (row)"},
	}
	return []actor.Definition{cell.Definition(),
		actor.Define(rooms, actor.Spec[room]{
			Migrations: migrations[:schema],
			OnWake: func(r *room, _ *actor.Context) error {
				if r.Broken {
					return errors.New("the door\nis stuck")
				}
				return nil
			},
		},
			actor.OnCreate(roomMade, func(*room, *actor.Context, int) error { return nil }),
			actor.OnConnect(guests, func(_ *room, ctx *actor.Context, _ *actor.Connection[actor.None], p map[string]string) error {
				if p["name"] == "nobody" {
					return actor.Errorf(actor.PermissionDenied, "nobody may connect")
				}
				_, err := door.Append(ctx, "in")
				return err
			}),
			actor.On(say, func(_ *room, ctx *actor.Context, text string) (string, error) { return text, said.Emit(ctx, text) }),
			actor.On(spoil, func(r *room, _ *actor.Context, on bool) (actor.None, error) { r.Broken = on; return actor.None{}, nil }),
			actor.On(tell, func(_ *room, ctx *actor.Context, to string) (actor.None, error) {
				return actor.None{}, say.Send(ctx, rooms.Ref(ctx, to), "hello")
			}),
			actor.On(kick, func(_ *room, ctx *actor.Context, why string) (actor.None, error) {
				for c, err := range guests.All(ctx) {
					if err == nil {
						_, err = c.Close(ctx, actor.Errorf(actor.FailedPrecondition, "%s", why))
					}
					if err != nil {
						return actor.None{}, err
					}
				}
				return actor.None{}, nil
			})),
		actor.Define(errands, actor.Spec[errand]{}, actor.OnRun(deliver, func(ctx workflow.Context, to string) (string, error) {
			door, err := workflow.Step(ctx, "find", func(*workflow.StepCtx) (string, error) {
				if to == "nowhere" {
					return "", workflow.Permanent(errors.New("no such street"))
				}
				return "door of " + to, nil
			})
			if err != nil {
				return "", err
			}
			if _, err := actor.UpdateState(ctx, "arrive", func(_ *errand, ctx *actor.Context) (uint64, error) {
				return arrivals.Append(ctx, door) // others can wait for it
			}); err != nil {
				return "", err
			}
			m, err := workflow.Receive(ctx, "note", notes)
			return door + ": " + m.Body, err
		}))}
}
