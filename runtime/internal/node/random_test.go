package node

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/runtime/internal/part/sqlite"
	"github.com/cairn-run/cairn/runtime/internal/part/trace"
)

// A manner is a way to run a scenario that must not change what it prints.
type manner struct {
	name    string
	options func(o *Options)
	ready   func(r *rerun)              // each time that the node has started
	after   func(r *rerun)              // a command
	through func(r *rerun, line string) // runs the command, instead of scene.command
}

var manners = []manner{
	{name: "asleep", options: func(o *Options) { o.IdleTimeout = time.Millisecond }},
	{name: "traced and asleep", options: func(o *Options) {
		o.Traces, o.IdleTimeout = trace.Options{PerSecond: 1 << 40, MaxBytes: 1 << 16}, time.Millisecond
	}},
	{name: "restarted", after: func(r *rerun) { r.g.restart() }},
	{name: "crashed at once", through: func(r *rerun, line string) {
		text := r.perform(line)
		r.g.crash()
		r.print(text)
	}},
	{name: "crowded", options: func(o *Options) {
		o.MaxAwake, o.AlarmConcurrency = 1, 1
		o.SQL = sqlite.Options{MaxOpen: 2}
	}},
	{name: "on a slow disk", ready: func(r *rerun) { // turns share commits, and read what is not durable
		r.g.disk.Fail(func(op, _ string) error {
			if op == "sync" {
				time.Sleep(20 * time.Millisecond)
			}
			return nil
		})
	}},
	{name: "cut off, nothing unsynced left", through: (*rerun).cutOff},
	{name: "cut off, half of the unsynced left", through: (*rerun).cutOff},
}

// TestRandomScenariosEndAlike runs random scenarios, each in many manners. They print the same,
// although actors fall asleep after every turn, the node restarts or crashes after every command,
// or the power fails at a random write and sync within commands, and the caller repeats the command
// with its idempotency key. The seed of a failure gives the scenario.
func TestRandomScenariosEndAlike(t *testing.T) {
	seeds := uint64(2)
	if long() {
		seeds = 200
	}
	for seed := range seeds {
		lines := randomScenario(rand.New(rand.NewPCG(seed, 1)))
		var want []string
		for i, m := range append([]manner{{name: "plain"}}, manners...) {
			if i > 0 && i%2 != int(seed) && !long() { // each manner runs one of the two
				continue
			}
			t.Run(fmt.Sprintf("seed %d, %s", seed, m.name), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					r := &rerun{scene: newScene(t, "random"), manner: m, r: rand.New(rand.NewPCG(seed, 2))}
					got := r.play(lines)
					if want == nil {
						want = got
					}
					for i := range want {
						is, wants := strings.Split(got[i], "\n"), strings.Split(want[i], "\n")
						for n := range min(len(is), len(wants)) {
							if is[n] != wants[n] {
								t.Fatalf("after\n%s\nit prints\n%s\nand not\n%s",
									strings.Join(lines[:min(i+1, len(lines))], "\n"), is[n], wants[n])
							}
						}
					}
				})
			})
		}
	}
}

// A rerun is a scenario in a manner.
type rerun struct {
	*scene
	manner
	r    *rand.Rand
	ears map[string]*ear
}

// An ear is a client of an actor that comes back whenever its connection ends.
type ear struct {
	l      host.LiveConnection
	token  string
	cursor uint64
	away   bool
	left   string // the key of the command with which it left
	heard  []string
}

// passing matches parts that may differ: instants, because recovery takes its time, whether an
// actor is in memory, and whether clients of a paused actor, which admits none, were there before.
var passing = regexp.MustCompile(`\d{4}-\d\d-\d\dT[0-9:.]+Z|next at [0-9hms.]+|awake|asleep|paused at [0-9hms.]+|paused(, \d connections)?`)

// play returns what each line prints, and then the state of the actors.
func (r *rerun) play(lines []string) (printed []string) {
	r.command("type p message { add 100; log message } tick { log tick $run; put tick 10 } alarm { add 1000; log ring } queue jobs")
	r.g = newStage(r.t, r.options, r.types...)
	r.begun()
	r.ears = map[string]*ear{"x": {}, "y": {}}
	for i, line := range lines {
		start := time.Now()
		r.key = fmt.Sprint("line ", i)
		r.out.Reset()
		if r.through != nil {
			r.through(r, line)
		} else {
			r.print(r.perform(line))
		}
		time.Sleep(5*time.Second - time.Since(start)) // messages of the command are handled
		r.print(r.hear())
		printed = append(printed, passing.ReplaceAllString(r.out.String(), "T"))
		if r.after != nil {
			r.after(r)
			r.begun()
			r.listen() // before the time passes in which a lost client may come back
		}
		time.Sleep(20*time.Second - time.Since(start)%(20*time.Second))
	}
	r.key = ""
	r.out.Reset()
	time.Sleep(time.Hour)
	r.print(r.hear())
	for _, key := range actors {
		for _, line := range []string{
			"n KEY", "state KEY", "keys KEY", "verb KEY stream.read {\"stream\":\"s\"}", "verb KEY queue.stats {\"queue\":\"jobs\"}",
			"verb KEY schedule.runs {\"name\":\"tick\"}", "verb KEY sql.query {\"sql\":\"SELECT body FROM note ORDER BY id\"}",
		} {
			r.print(r.command(strings.ReplaceAll(line, "KEY", key)))
		}
		var log []string
		err := r.look(key, func(st *puppetState, _ host.Reader) error { log = slices.Clone(st.Log); return nil })
		r.print(fmt.Sprint(key, " has ", byWay(log), result("", err)))
	}
	return append(printed, passing.ReplaceAllString(r.out.String(), "T"))
}

// byWay sorts entries by the way of their messages, which is their first word. Between messages of
// two ways there is no order.
func byWay(entries []string) []string {
	way := func(entry string) string { w, _, _ := strings.Cut(entry, " "); return w }
	slices.SortStableFunc(entries, func(a, b string) int { return strings.Compare(way(a), way(b)) })
	return entries
}

func (r *rerun) begun() {
	if r.ready != nil {
		r.ready(r)
	}
}

// cutOff runs a command and cuts the power at one of its first writes and syncs. Then the command
// is repeated.
func (r *rerun) cutOff(line string) {
	percent := 0
	if strings.Contains(r.name, "half") {
		percent = 50
	}
	var mu sync.Mutex
	var left *engine.Disk
	n, at, seed := 0, 1+r.r.IntN(12), r.r.Uint64()
	disk := r.g.disk
	disk.Fail(func(op, _ string) error {
		mu.Lock()
		defer mu.Unlock()
		if op == "sync" || op == "write" {
			if n++; n == at {
				left = disk.Crash(seed, percent)
			}
		}
		return nil
	})
	text := r.perform(line)
	synctest.Wait()
	disk.Fail(nil)
	mu.Lock()
	defer mu.Unlock()
	if left == nil || strings.HasPrefix(line, "destroy") { // a second destruction says that there is nothing
		r.print(text)
		return
	}
	r.g.Kill()
	r.g.store.Close()
	r.g.disk = left
	r.g.start()
	if strings.HasPrefix(line, "advance") { // the time has passed
		line = "advance 0s"
	}
	r.mu.Lock()
	r.said = nil
	r.mu.Unlock()
	r.print(r.perform(line))
}

// perform runs a command of a node or a client.
func (r *rerun) perform(line string) string {
	name, deed, _ := strings.Cut(line, " ")
	c := r.ears[name]
	if c == nil {
		return r.command(line)
	}
	err := r.come(c)
	switch {
	case err != nil: // it comes later
	case deed == "loses" || deed == "leaves":
		err = c.l.Close(r.t.Context(), deed == "loses")
		if c.l, c.away = nil, true; deed == "leaves" {
			c.left = r.key
		}
	case deed == "subscribes":
		err = c.l.Subscribe(r.t.Context(), "private")
	case deed == "unsubscribes":
		err = c.l.Unsubscribe(r.t.Context(), "private")
	}
	return result(line, err)
}

// come connects a client that is not.
func (r *rerun) come(c *ear) error {
	if c.left != "" && c.left != r.key { // it has left for good, and repeats that if the power fails
		c.token, c.left = "", ""
	}
	if c.away = false; c.l != nil {
		texts, last, _, err := heard(c.l)
		c.heard, c.cursor = append(c.heard, texts...), max(c.cursor, last)
		if err == nil {
			return nil
		}
		if host.CodeOf(err) == host.Destroyed {
			c.token = ""
		}
	}
	var err error
	if c.l, err = r.stage().Connect(r.t.Context(), addr("a"), host.ConnectRequest{
		Events: []string{"said"}, Token: c.token, After: c.cursor, HasAfter: c.token != "",
	}); err == nil {
		c.token, c.cursor = c.l.Welcome().Token, c.l.Welcome().Cursor
	}
	return err
}

// listen reads the clients' events, and reconnects clients that were cut off.
func (r *rerun) listen() {
	for _, c := range r.ears {
		if !c.away {
			_ = r.come(c)
			_ = r.come(c)
		}
	}
}

// hear returns what the clients have received, the events of each way in order.
func (r *rerun) hear() string {
	r.listen()
	var all []string
	for _, name := range []string{"x", "y"} {
		c := r.ears[name]
		all = append(all, fmt.Sprintf("%s heard %q", name, byWay(c.heard)))
		c.heard = nil
	}
	return strings.Join(all, "\n")
}

var actors = []string{"a", "b", "c"}

// randomScenario makes commands. Alarms are due seconds away from any command.
func randomScenario(r *rand.Rand) (lines []string) {
	g, paused := &generator{Rand: r}, false
	lines = append(lines, "do a add 1", "do b add 1", "do c add 1")
	for range 40 {
		k, n := actors[r.IntN(len(actors))], r.IntN(100)
		switch {
		case n < 62:
			lines = append(lines, fmt.Sprintf("do %s %s", k, g.steps(k, k, 0)))
		case n < 75:
			lines = append(lines, "advance "+[]string{"10s", "60s", "600s"}[r.IntN(3)])
		case n < 78:
			lines, paused = append(lines, "destroy "+k), paused && k != "a"
		case n < 82:
			lines, paused = append(lines, fmt.Sprintf("verb %s actor.pause {\"reason\":\"rest\"}", k)), paused || k == "a"
		case n < 87:
			lines, paused = append(lines, fmt.Sprintf("verb %s actor.resume", k)), paused && k != "a"
		case n < 97 && !paused: // a client of an actor that is paused waits, if it is connected
			lines = append(lines,
				[]string{"x ", "y "}[r.IntN(2)]+[]string{"comes", "loses", "leaves", "subscribes", "unsubscribes"}[r.IntN(5)])
		default:
			lines = append(lines, fmt.Sprintf("verb %s stream.read {\"stream\":\"s\",\"limit\":2}", k))
		}
	}
	return lines
}

// A generator makes steps.
type generator struct {
	*rand.Rand
	entries int
}

// steps makes the steps of a turn of an actor. Messages that come another way have no order, so the
// effect of a message does not depend on others: it names its writes after its way.
func (g *generator) steps(self, way string, depth int) string {
	var steps []string
	for range 1 + g.IntN(4) {
		other := actors[g.IntN(len(actors))]
		n := g.IntN(32)
		if depth > 0 {
			n = g.IntN(20)
		}
		switch {
		case n < 3:
			steps = append(steps, fmt.Sprintf("add %d", 1+g.IntN(9)))
		case n < 6:
			g.entries++
			steps = append(steps, fmt.Sprintf("log %s %d", way, g.entries))
		case n < 10:
			steps = append(steps, fmt.Sprintf("put %s-%d %d", way, g.IntN(5), g.IntN(3000)))
		case n < 11:
			steps = append(steps, fmt.Sprintf("delete %s-%d", way, g.IntN(5)))
		case n < 13:
			steps = append(steps, fmt.Sprintf("ring %s-%d %ds", way, g.IntN(3), 7+10*g.IntN(9)))
		case n < 15:
			g.entries++
			steps = append(steps, fmt.Sprintf("emit %s %s %d", []string{"said", "private"}[g.IntN(2)], way, g.entries))
		case n < 16:
			steps = append(steps, "enqueue jobs")
		case n < 20 && depth < 3:
			steps = append(steps, fmt.Sprintf("send %s { %s }", other, g.steps(other, way+">"+other, depth+1)))
		case n < 20:
		case n < 21:
			steps = append(steps, "clear")
		case n < 22:
			steps = append(steps, "schedule 107s all")
		case n < 23:
			steps = append(steps, "try { cancel }")
		case n < 26:
			steps = append(steps, fmt.Sprintf("append s v%d", g.IntN(100)))
		case n < 29:
			steps = append(steps, fmt.Sprintf("note n%d", g.IntN(100)))
		case n < 30 && other != self: // an effect that may be repeated, because a call is made at least once
			steps = append(steps, fmt.Sprintf("call %s { put called 10 }", other))
		case n < 31:
			return strings.Join(append(steps, "error boom"), "; ")
		}
	}
	if len(steps) == 0 {
		return "add 1"
	}
	return strings.Join(steps, "; ")
}
