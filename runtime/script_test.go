package runtime_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/actor/actortest"
	"github.com/cairn-run/cairn/actor/handle"
	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime"
	"github.com/cairn-run/cairn/workflow"
	wfhost "github.com/cairn-run/cairn/workflow/host"
)

// Each file of testdata holds scenarios: the lives of workflow runs on a node. README.md has the
// commands. `go test -run WorkflowScripts -rewrite ./runtime` writes the results anew.

func TestWorkflowScripts(t *testing.T) {
	for _, file := range []string{"lives", "messages", "operators", "lists", "children"} {
		datadriven.RunTest(t, "testdata/"+file, func(t *testing.T, d *datadriven.TestData) string {
			if d.Cmd != "scenario" || len(d.CmdArgs) == 0 {
				d.Fatalf(t, "a file holds scenarios with names, not %q", d.Cmd)
			}
			out := d.Expected // of a scenario that -run excludes
			t.Run(d.CmdArgs[0].Key, func(t *testing.T) {
				out, _ = play(t, d.Pos, d.Input, 0, false)
				if d.HasArg("crashes") {
					playCut(t, d.Pos, d.Input, out)
				}
			})
			return out
		})
	}
}

// playCut plays a scenario again with a power cut right before every sixth sync, each in its own
// play, and right after every sixth sync, halfway between those. The first sync depends on the
// scenario. `make soak` cuts before and after every sync. The output must be the same.
func playCut(t *testing.T, at, input, want string) {
	cuts := 0
	for i, before := range []bool{true, false} {
		n, step := int64(1+(3*i+len(input))%6), int64(6)
		if os.Getenv("CAIRN_LONG") != "" {
			n, step = 1, 1
		}
		for ; n < 200; n += step {
			got, cut := play(t, at, input, n, before)
			fatalIf(t, got != want, "%s: with a power cut at sync %d (before it: %t)\n%s\nwithout it\n%s", at, n, before, got, want)
			if !cut {
				break
			}
			cuts++
		}
		fatalIf(t, n >= 200, "%s: the power was cut at %d syncs", at, n-1) // commits share syncs, as it happens
	}
	fatalIf(t, cuts == 0, "%s: the power was never cut", at)
}

// play plays a scenario, with a power cut at the sync of a number, or without one for 0. It returns
// the output.
func play(t *testing.T, at, input string, sync int64, before bool) (out string, cut bool) {
	s := &scene{at: at, retries: sync > 0, namespace: "default", bodies: map[string]*bodies{}, flags: map[string]bool{},
		gates: map[string]chan struct{}{}, jobs: map[string]chan string{}}
	s.bureau = s.newBureau(nil)
	actortest.Config{Options: func(o *runtime.Options) {
		o.Namespace = s.namespace
		o.Logger = slog.New(slog.NewTextHandler(&s.log, nil))
		o.Traces.Off, o.Usage.Off = sync > 0, sync > 0 // their syncs depend on time, not on the work
		o.Authorize = func(_ context.Context, r runtime.AuthRequest) error {
			if r.Operation == runtime.OpOperate && r.Header.Get("Role") == "reader" {
				return actor.Errorf(actor.PermissionDenied, "operators only")
			}
			return nil
		}
	}}.Run(t, func(t *testing.T, h *actortest.Harness) {
		s.t, s.h = t, h
		over := s.cutPower(sync, before)
		for _, line := range s.lines(input) {
			s.print(s.command(line))
		}
		cut = over()
		for name := range s.gates {
			s.open(name)
		}
		h.Settle()
		exactCounts(t, h)
	}, s.bureau.definition())
	return s.out.String(), cut
}

// lines splits the input into commands; it joins lines while braces are open.
func (s *scene) lines(input string) (all []string) {
	depth := 0
	for line := range strings.Lines(input) {
		line = strings.TrimSpace(line)
		if depth > 0 {
			all[len(all)-1] += "; " + line
		} else {
			all = append(all, line)
		}
		depth += strings.Count(line, "{") - strings.Count(line, "}")
	}
	return all
}

// cutPower cuts the power at a sync. The function that it returns ends that and reports whether the
// power was cut.
func (s *scene) cutPower(sync int64, before bool) (over func() bool) {
	if sync == 0 {
		return func() bool { return false }
	}
	var syncs atomic.Int64
	var cut atomic.Bool
	now, dead, end, done := make(chan struct{}), make(chan struct{}), make(chan struct{}), make(chan struct{})
	disk := s.h.Disk()
	disk.Fail(func(op, _ string) error {
		if op != "sync" {
			return nil
		}
		switch n := syncs.Add(1); {
		case before && n == sync, !before && n == sync+1:
			close(now)
			<-dead
		case n > sync:
			<-dead
		}
		return nil
	})
	go func() {
		defer close(done)
		select {
		case <-now:
			cut.Store(true)
			go func() { time.Sleep(time.Millisecond); close(dead) }()
			s.h.Crash()
		case <-end:
			close(dead)
		}
		disk.Fail(nil)
	}()
	return func() bool { close(end); <-done; return cut.Load() }
}

// A scene is the state of a scenario.
type scene struct {
	t         *testing.T
	at        string // the position in its file
	h         *actortest.Harness
	bureau    *bureau
	namespace string
	retries   bool // calls are repeated until a node answers
	commits   float64
	sent      int
	out       strings.Builder
	log       logBook

	mu     sync.Mutex
	flags  map[string]bool
	gates  map[string]chan struct{}
	jobs   map[string]chan string
	bodies map[string]*bodies
}

// bodies counts the functions that ran outside of turns.
type bodies struct{ ran, now, most int }

// A logBook is a log that tests read.
type logBook struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBook) Write(p []byte) (int, error) { l.mu.Lock(); defer l.mu.Unlock(); return l.b.Write(p) }

func (l *logBook) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.b.String(), text)
}

// newBureau makes the program of a command "deploy" or "desk".
func (s *scene) newBureau(words []string) *bureau {
	l := &statement{words: append([]string{"desk"}, words...)}
	papers := "papers"
	if q := l.option("papers"); q != "" {
		papers = q
	}
	b := newBureau(papers, workflow.WithVersion(l.option("version")), workflow.WithUndo("repay", func(*workflow.StepCtx, string) error {
		_, end := s.count("repay")
		end()
		return nil
	}))
	b.wake = func(_ *desk, ctx *actor.Context) error {
		if s.is("sick") || s.is("sick-"+ctx.Key()[0]) {
			return fmt.Errorf("dial tcp 10.0.0.7:5432")
		}
		return nil
	}
	b.gate = s.gate
	if l.is("awake") {
		b.idle = -1
	}
	if n, _ := strconv.Atoi(l.option("storage")); n > 0 {
		b.limits.StorageBytes = int64(n)
	}
	if n, _ := strconv.Atoi(l.option("state")); n > 0 {
		b.limits.StateBytes = n
	}
	return b
}

// count records that a body begins. It returns the count of begun bodies, and a function to end it.
func (s *scene) count(name string) (n int, end func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.bodies[name] == nil {
		s.bodies[name] = new(bodies)
	}
	b := s.bodies[name]
	b.ran++
	b.now++
	b.most = max(b.most, b.now)
	return b.ran, func() { s.mu.Lock(); b.now--; s.mu.Unlock() }
}

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

func (s *scene) open(name string) {
	select {
	case <-s.gate(name):
	default:
		close(s.gate(name))
	}
}

// unstable matches text that differs from run to run: ids, and places in the code.
var unstable = regexp.MustCompile(`[0-9a-f]{32}|[0-9a-f]{8}-[0-9a-f-]{27}|\berror [0-9a-f]{8,}|"error_id":"[0-9a-f]+"|"[0-9a-z]{26}"|\(\S*_test\.go:\d+\)`)

func masked(text string) string { return unstable.ReplaceAllString(text, "ID") }

func (s *scene) print(result string) {
	s.h.Settle()
	if result != "" {
		s.out.WriteString(masked(result) + "\n")
	}
}

// describe prints an error: its code, the message, and metadata that callers use.
func describe(err error) string {
	if err == nil {
		return "ok"
	}
	text := shorten(err.Error())
	if e, ok := errors.AsType[*actor.Error](err); ok {
		for _, name := range []string{"limit", "actual", "state"} {
			if v := e.Metadata[name]; v != "" {
				text += " " + name + "=" + v
			}
		}
	}
	return text
}

// shorten returns the first line of a text, up to 160 bytes.
func shorten(text string) string {
	text, _, _ = strings.Cut(text, "\n")
	return fmt.Sprintf("%.160s", text)
}

func result(what string, err error) string {
	if err == nil {
		return ""
	}
	return what + ": " + describe(err)
}

// again repeats a call until a node answers, if the power may be cut meanwhile.
func (s *scene) again(f func() error) (err error) {
	for {
		if err = f(); !s.retries || actor.CodeOf(err) != actor.Unavailable {
			return err
		}
		time.Sleep(time.Second)
	}
}

// entry returns the id of the entry of a run's history at a path.
func (s *scene) entry(r handle.Run[claim, string], path string) wfhost.EntryID {
	for e, err := range r.History(context.Background()) {
		if err == nil && e.Path == path {
			return e.ID
		}
	}
	s.t.Fatalf("%s: no entry %s", s.at, path)
	return ""
}

// pick returns the members of JSON with the names, at any depth.
func pick(v any, names []string) (all []string) {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			all = append(all, pick(e, names)...)
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			if slices.Contains(names, name) {
				if text, ok := v[name].(string); ok {
					v[name] = shorten(text)
				}
				text, _ := json.Marshal(v[name])
				all = append(all, name+"="+string(text))
			} else {
				all = append(all, pick(v[name], names)...)
			}
		}
	}
	return all
}

// command runs a line and returns what it prints.
func (s *scene) command(line string) string {
	w := strings.Fields(line)
	if len(w) == 0 || w[0][0] == '#' {
		return ""
	}
	ctx, cancel := context.WithTimeout(context.Background(), 1000*time.Hour)
	defer cancel()
	rest := func(n int) string { return strings.Join(w[min(n, len(w)):], " ") }
	key := ""
	if len(w) > 1 {
		key = w[1]
	}
	r, ref := s.bureau.at(s.h, key), s.bureau.typ.Ref(s.h, key)
	n := func(i int) int { n, _ := strconv.Atoi(rest(i)); return n }
	control := func(f func(context.Context, string) error) string {
		return result(w[0]+" "+key, s.again(func() error { return f(ctx, rest(2)) }))
	}
	switch w[0] {
	case "code": // the code of runs of that name
		tokens := token.FindAllString(line[strings.Index(line, "{")+1:], -1)
		body, _ := parse(tokens)
		does(key, s.code(body))
	case "desk": // the program, from now on
		s.bureau = s.newBureau(w[1:])
		s.h.Restart(s.bureau.definition())
	case "gone": // the program has no desks from now on
		s.h.Restart(botDefinition(actor.Spec[bot]{}))
	case "namespace": // of the node, from the next start on
		s.namespace = key
	case "start": // start KEY CODE [N] [replace]
		c, options := claim{How: w[2]}, []handle.StartOption(nil)
		if len(w) > 3 {
			c.N, _ = strconv.Atoi(w[3])
		}
		if w[len(w)-1] == "replace" {
			options = append(options, handle.Replace())
		}
		tries := 0
		return result("start "+key, s.again(func() error {
			out, err := r.Start(ctx, c, options...)
			if tries++; err == nil && tries == 1 && !out.Started {
				s.print(key + " has this run")
			}
			return err
		}))
	case "begin", "stuff", "unlock", "chore", "wedge": // actions of the desk
		o := order{What: w[0], N: n(2), How: rest(2)}
		if w[0] == "unlock" {
			o.What = "open"
		}
		return result(w[0], s.again(func() error { return errOf(s.bureau.order.Call(ctx, ref, o)) }))
	case "send":
		for _, text := range w[2:] {
			s.sent++
			options := []handle.SendOption{actor.DedupID(fmt.Sprint(s.sent))}
			if text, d, ok := strings.Cut(text, "@"); ok {
				after, _ := time.ParseDuration(d)
				must(s.t, errOf(s.bureau.papers.Of(ref).Send(ctx, text, append(options, actor.Delay(after))...)))
				continue
			}
			must(s.t, s.again(func() error { return errOf(s.bureau.papers.Of(ref).Send(ctx, text, options...)) }))
		}
	case "ask":
		ok, err := s.bureau.consent.Of(ref).Ask(ctx, rest(2))
		return fmt.Sprintf("%s answers %t, %s", key, ok, describe(err))
	case "result":
		var out string
		err := s.again(func() (err error) { out, err = r.Result(ctx); return err })
		if err != nil {
			return key + " ended with " + describe(err)
		}
		return key + " returned " + shorten(out)
	case "status":
		return s.status(key, r)
	case "state":
		var d desk
		err := s.again(func() (err error) { d, err = s.bureau.see.Call(ctx, ref, actor.None{}, actor.Existing()); return err })
		slices.Sort(d.Notes)
		if err != nil {
			return result("state "+key, err)
		}
		return fmt.Sprintf("%s: paid %d, notes %q", key, d.Paid, d.Notes)
	case "actor":
		st, err := s.h.Lookup(ctx, deskAt(key))
		if err != nil {
			return result("actor", err)
		}
		text := fmt.Sprintf("actor %s is %s, %d tasks, %d pending, %d failed", key, st.State, st.Tasks, st.PendingSends, st.FailedSends)
		if st.Run != nil {
			text += fmt.Sprintf(", run %s %s", st.Run.State, st.Run.Reason)
		}
		return text
	case "ran":
		s.mu.Lock()
		defer s.mu.Unlock()
		b := s.bodies[key]
		if b == nil {
			b = new(bodies)
		}
		return fmt.Sprintf("%s ran %d times, %d at once", key, b.ran, b.most)
	case "commits": // since the last time; the first prints nothing
		now := metric(s.t, s.h, "cairn_commits_total", "")
		before := s.commits
		if s.commits = now; before == 0 {
			return ""
		}
		return fmt.Sprintf("%v commits", now-before)
	case "runs": // that are listed
		return s.runs(ctx, w[1:])
	case "counts":
		counts, err := s.h.Runtime().CountRuns(ctx)
		text := fmt.Sprintf("counts %v%s, gauge", counts.Counts, result("", err))
		for _, reason := range []string{"diverged", "misuse", "operator", "panicked"} {
			if v := metric(s.t, s.h, "cairn_workflow_runs_paused", reason); v > 0 {
				text += fmt.Sprintf(" %s %v", reason, v)
			}
		}
		return text
	case "logged":
		return fmt.Sprintf("logged %d times: %s", s.log.count(rest(1)), rest(1))
	case "queue": // queue KEY: of papers and requests
		st := queueStats(s.t, s.bureau.papers.Of(ref).Stats)
		rq := queueStats(s.t, s.bureau.consent.Of(ref).Stats)
		return fmt.Sprintf("%s has papers %d+%d, %d dead; requests %d, %d dead", key, st.Pending, st.Delayed, st.Dead, rq.Pending, rq.Dead)
	case "verb": // verb KEY METHOD [key=IDEMPOTENCY] [JSON] [> NAMES]: a built-in method, and the members of its answer with the names
		return s.verb(w)
	case "http": // http ROLE METHOD PATH [BODY] [> NAMES]
		return s.http(w)
	case "pause":
		return control(r.Pause)
	case "cancel":
		return control(r.Cancel)
	case "terminate":
		return control(r.Terminate)
	case "resume":
		return result("resume "+key, r.Resume(ctx))
	case "rewind":
		return result("rewind "+key, r.Rewind(ctx, s.entry(r, w[2])))
	case "destroy":
		return result("destroy", s.h.Destroy(ctx, deskAt(key)))
	case "advance":
		d, err := time.ParseDuration(w[1])
		must(s.t, err)
		time.Sleep(d)
	case "now":
		return "it is " + time.Since(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)).Round(time.Second).String()
	case "crash":
		s.h.Crash()
	case "restart":
		s.h.Restart()
	case "set", "unset":
		s.set(key, w[0] == "set")
	case "open":
		s.open(key)
	case "disk": // full, free, or held until a gate opens
		free := uint64(1 << 40)
		if key == "full" {
			free = 1 << 10
		}
		s.h.Disk().SetFree(free)
		s.h.Disk().Fail(nil)
		if key == "held" {
			gate := s.gate("disk")
			s.h.Disk().Fail(func(op, _ string) error {
				if op == "sync" {
					<-gate
				}
				return nil
			})
		}
	case "repeat":
		var all []string
		for i := range number(w[1]) {
			all = append(all, s.command(strings.ReplaceAll(rest(2), "$", fmt.Sprintf("%03d", i))))
		}
		return strings.Trim(strings.Join(all, "\n"), "\n")
	case "bg": // a command in the background; "join" prints its result
		job := make(chan string, 1)
		s.jobs[key] = job
		go func() { job <- s.command(rest(2)) }()
	case "join":
		return key + ": " + <-s.jobs[key]
	case "pending":
		return fmt.Sprintf("%s has not ended: %t", key, len(s.jobs[key]) == 0)
	default:
		s.t.Fatalf("%s: no command %q", s.at, line)
	}
	return ""
}

func number(text string) int { n, _ := strconv.Atoi(text); return n }

func (s *scene) status(key string, r handle.Run[claim, string]) string {
	st, err := r.Status(context.Background())
	if err != nil {
		return result("status "+key, err)
	}
	text := fmt.Sprintf("%s is %s", key, st.State)
	for _, x := range st.Waiting {
		text += fmt.Sprintf(", waits for %s %s", x.Kind, x.Path)
	}
	if st.Epoch > 0 {
		text += fmt.Sprintf(", epoch %d", st.Epoch)
	}
	if st.Undo > 0 {
		text += fmt.Sprintf(", owes %d", st.Undo)
	}
	if p := st.Pause; p != nil {
		text += fmt.Sprintf(", %s: %s (%d KB, tried again: %t)", p.Reason, shorten(p.Text), len(p.Text)>>10, !p.Next.IsZero())
	}
	if f := st.Failure; f != nil {
		text += fmt.Sprintf(", %s (%d KB)", shorten(f.Message), len(f.Message)>>10)
	}
	return text
}

// runs lists runs, page by page. Words are State=failed, Reason=diverged, Type=desk, Limit=1,
// Before=1h (ago) or Cursor=x.
func (s *scene) runs(ctx context.Context, words []string) string {
	l := statement{words: append([]string{"runs"}, words...)}
	q := host.RunQuery{State: wfhost.State(l.option("State")), Reason: wfhost.PauseReason(l.option("Reason")),
		Type: l.option("Type"), Limit: number(l.option("Limit")), Cursor: l.option("Cursor")}
	if d, err := time.ParseDuration(l.option("Before")); err == nil {
		q.Before = time.Now().Add(-d)
	}
	all := map[string]bool{}
	for {
		page, err := s.h.Runtime().Runs(ctx, q)
		if err != nil {
			return result("runs", err)
		}
		for _, r := range page.Runs {
			errorIf(s.t, r.Run == "" || r.Workflow != "handle" || r.Since.IsZero(), "%+v", r)
			all[strings.TrimSpace(fmt.Sprint(r.Key[0], " ", r.State, " ", r.Reason))] = true
		}
		if q.Cursor = page.Cursor; q.Cursor == "" {
			return "runs: " + strings.Join(slices.Sorted(maps.Keys(all)), ", ")
		}
	}
}

// metric returns the sum of a metric of the node, or its value for a label.
func metric(t *testing.T, h *actortest.Harness, name, label string) (sum float64) {
	t.Helper()
	families, err := h.Runtime().Gatherer().Gather()
	must(t, err)
	for _, f := range families {
		for _, m := range f.Metric {
			if f.GetName() == name && (label == "" || m.Label[0].GetValue() == label) {
				sum += m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	return sum
}

// shown prints JSON, or the members with the names after ">".
func shown(text string, w []string) string {
	var v any
	if i := slices.Index(w, ">"); i >= 0 && json.Unmarshal([]byte(text), &v) == nil {
		return strings.Join(pick(v, w[i+1:]), " ")
	}
	return text
}

// body returns the words of a command before ">".
func body(w []string) string {
	if i := slices.Index(w, ">"); i >= 0 {
		w = w[:i]
	}
	return strings.Join(w, " ")
}

func (s *scene) verb(w []string) string {
	r := host.Request{Address: deskAt(w[1]), Method: w[2], Codec: host.JSON, Input: []byte(body(w[3:]))}
	again := ""
	if len(w) > 3 && strings.HasPrefix(w[3], "key=") {
		r.IdempotencyKey, r.Input = w[3], []byte(body(w[4:]))
	}
	reply, err := s.h.Call(context.Background(), &r)
	if err != nil {
		return result(w[2], err)
	}
	if reply.Replayed {
		again = " again"
	}
	return strings.TrimSuffix(w[2]+again+": "+shown(string(reply.Output), w), ": ")
}

func (s *scene) http(w []string) string {
	began := time.Now()
	rec := httptest.NewRecorder()
	path := w[3]
	if !strings.HasPrefix(path, "/") {
		path = "/actors/desk/" + path
	}
	r := httptest.NewRequest(w[2], "http://127.0.0.1"+path, strings.NewReader(body(w[4:])))
	r.Header.Set("Role", w[1])
	r.Header.Set("Content-Type", "application/json")
	s.h.Runtime().Handler().ServeHTTP(rec, r)
	synctest.Wait()
	took := ""
	if d := time.Since(began); d > time.Second {
		took = " after " + d.String()
	}
	return strings.TrimSpace(fmt.Sprintf("%d%s %s", rec.Code, took, strings.TrimSpace(shown(rec.Body.String(), w))))
}
