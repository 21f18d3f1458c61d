package runtime_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/actor/actortest"
	"github.com/cairn-run/cairn/actor/handle"
	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/keyspace/tuple"
	"github.com/cairn-run/cairn/workflow"
	wfhost "github.com/cairn-run/cairn/workflow/host"
)

// A desk handles claims, each by a workflow.
type desk struct {
	Paid  int
	Open  bool
	Notes []string
}

// A claim is the input of the workflow. How names what it does.
type claim struct {
	How string
	N   int
}

var (
	desks   = actor.NewType[desk]("desk")
	deskRun = actor.NewWorkflow[claim, string](desks, "handle")
	papers  = actor.NewQueue[string](desks, "papers", actor.QueueConfig{ByRun: true})
	consent = actor.NewRequestQueue[string, bool](desks, "consent", actor.QueueConfig{ByRun: true})
	begin   = actor.NewAction[claim, string](desks, "begin")
	unlock  = actor.NewAction[actor.None, actor.None](desks, "unlock")
	seeDesk = actor.NewQuery[actor.None, desk](desks, "see")
	rowsOf  = actor.NewQuery[actor.None, []string](desks, "rows")
	tidings = actor.NewQueue[string](desks, "tidings", actor.QueueConfig{})
	chore   = actor.NewAction[actor.None, actor.None](desks, "chore")
	stuff   = actor.NewAction[int, actor.None](desks, "stuff")
	wedge   = actor.NewAction[actor.None, actor.None](desks, "wedge")

	// wedged is the channel that the action wedge waits for, whatever becomes of its context.
	wedged atomic.Value

	// chores is what the action chore starts as a task.
	chores atomic.Value

	// ways are what workflows do, by the name in the claim; bodies counts what ran outside.
	ways sync.Map
)

type way = func(ctx workflow.Context, c claim) (string, error)

func does(name string, f way) { ways.Store(name, f) }

func runClaim(ctx workflow.Context, c claim) (string, error) {
	f, ok := ways.Load(c.How)
	if !ok {
		return "", fmt.Errorf("no way %q", c.How)
	}
	return f.(way)(ctx, c)
}

func (d *desk) begin(ctx *actor.Context, c claim) (string, error) {
	out, err := deskRun.Begin(ctx, c)
	d.Notes = append(d.Notes, "begun")
	return out.Run, err
}

func (d *desk) unlock(*actor.Context, actor.None) (actor.None, error) {
	d.Open = true
	return actor.None{}, nil
}

func (d *desk) chore(ctx *actor.Context, _ actor.None) (actor.None, error) {
	return actor.None{}, ctx.Go("chore", chores.Load().(func(*actor.Task) error))
}

// stuff makes the actor store so many useless bytes.
func (d *desk) stuff(ctx *actor.Context, n int) (actor.None, error) {
	if n == 0 {
		_, err := ctx.KV().Delete(tuple.Tuple{"filler"})
		return actor.None{}, err
	}
	return actor.None{}, ctx.KV().Put(tuple.Tuple{"filler"}, make([]byte, n))
}

func (d *desk) wedge(*actor.Context, actor.None) (actor.None, error) {
	<-wedged.Load().(chan struct{})
	return actor.None{}, nil
}

func (d desk) see(*actor.ReadContext, actor.None) (desk, error) { return d, nil }

func (d desk) rows(ctx *actor.ReadContext, _ actor.None) ([]string, error) {
	all := []string{}
	rows, err := ctx.SQL().QueryContext(ctx, "SELECT note FROM paid ORDER BY rowid")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var s string
		if err := rows.Scan(&s); err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, rows.Err()
}

func (d *desk) tidings(_ *actor.Context, s string) error {
	d.Notes = append(d.Notes, s)
	return nil
}

func deskDefinition(opts ...workflow.Option) actor.Definition {
	return limitedDesk(actor.Limits{TurnTimeout: 10 * time.Second}, opts...)
}

func limitedDesk(limits actor.Limits, opts ...workflow.Option) actor.Definition {
	return actor.Define(desks, actor.Spec[desk]{
		IdleTimeout: time.Second, Limits: limits,
		Migrations: []actor.Migration{{Name: "1", SQL: "CREATE TABLE paid(note TEXT)"}},
	},
		actor.On(begin, (*desk).begin), actor.On(unlock, (*desk).unlock), actor.On(chore, (*desk).chore), actor.On(stuff, (*desk).stuff), actor.On(wedge, (*desk).wedge),
		actor.OnQuery(seeDesk, desk.see), actor.OnQuery(rowsOf, desk.rows),
		actor.OnMessage(tidings, (*desk).tidings), actor.OnRun(deskRun, runClaim, opts...))
}

func withDesk(t *testing.T, f func(t *testing.T, h *actortest.Harness, d actor.Ref[desk])) {
	t.Helper()
	actortest.Run(t, func(t *testing.T, h *actortest.Harness) {
		f(t, h, desks.Ref(h, "a"))
		h.Settle()
		exactCounts(t, h)
	}, deskDefinition())
}

// exactCounts compares the number of keys and bytes that each actor knows of itself with its rows: its run tells the
// store how large the old rows are that it writes over.
func exactCounts(t *testing.T, h *actortest.Harness) {
	t.Helper()
	page, err := h.List(t.Context(), host.ListQuery{Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	for _, st := range page.Actors {
		var keys, bytes int64
		for q := (host.InspectQuery{}); ; {
			rows, err := h.Runtime().Inspect(t.Context(), host.Address{Type: st.Type, Key: st.Key}, q)
			if err != nil {
				t.Fatal(err)
			}
			for _, k := range rows.Keys {
				if keyspace.Kind(k.Key[0]) == keyspace.Expiry.Kind {
					continue // the index of keys that expire does not count
				}
				keys++
				bytes += int64(len(k.Key) + k.Size)
			}
			if q.After = rows.Next; q.After == nil {
				break
			}
		}
		if st.Keys != keys || st.Bytes != bytes {
			t.Errorf("actor %s%q says that it has %d keys and %d bytes; it has %d and %d", st.Type, st.Key, st.Keys, st.Bytes, keys, bytes)
		}
	}
}

func startClaim(t *testing.T, d actor.Ref[desk], c claim) {
	t.Helper()
	if _, err := deskRun.Of(d).Start(context.Background(), c); err != nil {
		t.Fatal(err)
	}
}

func claimResult(t *testing.T, d actor.Ref[desk]) string {
	t.Helper()
	out, err := deskRun.Of(d).Result(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func claimStatus(t *testing.T, d actor.Ref[desk]) wfhost.RunStatus {
	t.Helper()
	st, err := deskRun.Of(d).Status(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return st
}

func deskOf(t *testing.T, d actor.Ref[desk]) desk {
	t.Helper()
	got, err := seeDesk.Call(context.Background(), d, actor.None{})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// pay is an Update that touches everything that a turn has.
func pay(ctx workflow.Context, name string, n int) (int, error) {
	return actor.UpdateState(ctx, name, func(d *desk, ctx *actor.Context) (int, error) {
		d.Paid += n
		if _, err := ctx.SQL().ExecContext(ctx, "INSERT INTO paid(note) VALUES (?)", name); err != nil {
			return 0, err
		}
		if err := ctx.KV().Put(tuple.Tuple{"paid", name}, []byte("yes")); err != nil {
			return 0, err
		}
		_, err := tidings.Put(ctx, "tidings of "+name)
		return d.Paid, err
	})
}

func TestWorkflowRunsStepsAndUpdates(t *testing.T) {
	var bodies atomic.Int64
	does("steps", func(ctx workflow.Context, c claim) (string, error) {
		a, err := workflow.Step(ctx, "ask", func(sc *workflow.StepCtx) (int, error) { bodies.Add(1); return c.N * 2, nil })
		if err != nil {
			return "", err
		}
		if _, err := pay(ctx, "pay", a); err != nil {
			return "", err
		}
		b, err := workflow.Step(ctx, "tell", func(sc *workflow.StepCtx) (string, error) {
			bodies.Add(1)
			actor.OnCommit(sc, func(d *desk, _ *actor.Context) error { d.Notes = append(d.Notes, "told"); return nil })
			return fmt.Sprint(a), nil
		})
		return "paid " + b, err
	})
	withDesk(t, func(t *testing.T, h *actortest.Harness, d actor.Ref[desk]) {
		startClaim(t, d, claim{"steps", 21})
		if got := claimResult(t, d); got != "paid 42" {
			t.Fatalf("%q", got)
		}
		h.Settle()
		if got := deskOf(t, d); got.Paid != 42 || !slices.Contains(got.Notes, "told") || !slices.Contains(got.Notes, "tidings of pay") {
			t.Errorf("%+v", got)
		}
		// The same start finds the run; another is refused.
		out, err := deskRun.Of(d).Start(context.Background(), claim{"steps", 21})
		if err != nil || out.Started {
			t.Errorf("%+v, %v", out, err)
		}
		if _, err := deskRun.Of(d).Start(context.Background(), claim{"steps", 22}); actor.CodeOf(err) != actor.AlreadyExists {
			t.Error(err)
		}
		h.Restart()
		if got := claimResult(t, d); got != "paid 42" || bodies.Load() != 2 {
			t.Errorf("%q, %d bodies", got, bodies.Load())
		}
		if out, err := deskRun.Of(d).Start(context.Background(), claim{"steps", 1}, handle.Replace()); err != nil || !out.Started {
			t.Errorf("%+v, %v", out, err)
		}
		if got := claimResult(t, d); got != "paid 2" {
			t.Errorf("%q", got)
		}
	})
}

// What cannot be stored pauses the run with the reason, or is an error of the operation that wanted it; a text of an error is
// cut short.
func TestWorkflowThatWritesTooMuchIsPaused(t *testing.T) {
	large := strings.Repeat("x", 20<<20)
	does("output", func(ctx workflow.Context, _ claim) (string, error) { return large, nil })
	does("published", func(ctx workflow.Context, _ claim) (string, error) {
		workflow.Publish(ctx, large)
		return "", workflow.Sleep(ctx, "nap", time.Hour)
	})
	does("state", func(ctx workflow.Context, _ claim) (string, error) {
		return actor.UpdateState(ctx, "fill", func(d *desk, _ *actor.Context) (string, error) {
			d.Notes = append(d.Notes, large)
			return "", nil
		})
	})
	does("restart", func(ctx workflow.Context, c claim) (string, error) {
		c.How = large
		return "", workflow.Restart(ctx, c)
	})
	does("panic", func(workflow.Context, claim) (string, error) { panic(large) })
	does("error", func(workflow.Context, claim) (string, error) { return "", errors.New(large) })
	does("step", func(ctx workflow.Context, _ claim) (string, error) {
		return workflow.Step(ctx, "shout", func(*workflow.StepCtx) (string, error) { return "", workflow.Permanent(errors.New(large)) })
	})
	for how, want := range map[string]wfhost.PauseReason{
		"output": wfhost.PausedMisuse, "published": wfhost.PausedMisuse, "state": wfhost.PausedMisuse,
		"panic": wfhost.PausedPanicked, "error": "", "step": "", "restart": "",
	} {
		withDesk(t, func(t *testing.T, h *actortest.Harness, ref actor.Ref[desk]) {
			if _, err := deskRun.Of(ref).Start(t.Context(), claim{How: how}); err != nil {
				t.Fatal(err)
			}
			h.Settle()
			s, err := deskRun.Of(ref).Status(t.Context())
			switch {
			case err != nil:
				t.Fatal(err)
			case want == "":
				text := "xxx"
				if how == "restart" {
					text = "the input"
				}
				if s.State != wfhost.StateFailed || s.Failure == nil || !strings.Contains(s.Failure.Message, text) || len(s.Failure.Message) > 100_000 {
					t.Errorf("%s: %s %.200v", how, s.State, s.Failure)
				}
			case s.Pause == nil || s.Pause.Reason != want || s.Pause.Next.IsZero() || len(s.Pause.Text) > 100_000:
				t.Errorf("%s: %s %.300v", how, s.State, s.Pause)
			}
		})
	}
}

func TestWorkflowBeginsInAnActionOfItsActor(t *testing.T) {
	does("begun", func(ctx workflow.Context, c claim) (string, error) {
		return workflow.Step(ctx, "x", func(*workflow.StepCtx) (string, error) { return "done", nil })
	})
	withDesk(t, func(t *testing.T, h *actortest.Harness, d actor.Ref[desk]) {
		if _, err := begin.Call(context.Background(), d, claim{"begun", 1}); err != nil {
			t.Fatal(err)
		}
		if got := claimResult(t, d); got != "done" {
			t.Fatal(got)
		}
	})
}

func TestWorkflowWaitsWhileItsActorSleeps(t *testing.T) {
	does("waits", func(ctx workflow.Context, c claim) (string, error) {
		if err := workflow.Sleep(ctx, "nap", 72*time.Hour); err != nil {
			return "", err
		}
		m, err := workflow.Receive(ctx, "paper", papers)
		if err != nil {
			return "", err
		}
		n, err := actor.AwaitState(ctx, "open", func(d desk) (int, bool) { return d.Paid + 7, d.Open })
		return fmt.Sprint(m.Body, n), err
	})
	withDesk(t, func(t *testing.T, h *actortest.Harness, d actor.Ref[desk]) {
		asleep := func(when string) {
			t.Helper()
			time.Sleep(10 * time.Second)
			h.Settle()
			if st := h.Status("desk", "a"); st.State != host.Asleep {
				t.Fatalf("%s the actor is %s", when, st.State)
			}
		}
		startClaim(t, d, claim{"waits", 1})
		asleep("during the nap")
		if st := claimStatus(t, d); st.State != wfhost.StateSleeping || len(st.Waiting) != 1 {
			t.Errorf("%+v", st)
		}
		h.Restart()
		time.Sleep(71 * time.Hour)
		if st := claimStatus(t, d); st.State != wfhost.StateSleeping {
			t.Errorf("too early: %+v", st)
		}
		time.Sleep(2 * time.Hour)
		h.Settle()
		if st := claimStatus(t, d); st.State != wfhost.StateWaiting {
			t.Errorf("%+v", st)
		}
		asleep("while it waits for a message")
		if _, err := papers.Of(d).Send(context.Background(), "passport"); err != nil {
			t.Fatal(err)
		}
		h.Settle()
		if st := claimStatus(t, d); len(st.Waiting) != 1 || st.Waiting[0].Kind != workflow.KindAwait {
			t.Errorf("%+v", st)
		}
		asleep("while it waits for the state")
		if _, err := unlock.Call(context.Background(), d, actor.None{}); err != nil {
			t.Fatal(err)
		}
		if got := claimResult(t, d); got != "passport7" {
			t.Errorf("%q", got)
		}
	})
}

func TestWorkflowMessagesAreAnsweredInItsCommits(t *testing.T) {
	does("answers", func(ctx workflow.Context, c claim) (string, error) {
		m, err := workflow.Receive(ctx, "ask", consent)
		if err != nil {
			return "", err
		}
		if err := workflow.Sleep(ctx, "think", time.Hour); err != nil {
			return "", err
		}
		_, err = actor.UpdateState(ctx, "answer", func(_ *desk, ctx *actor.Context) (actor.None, error) {
			return actor.None{}, consent.Reply(ctx, m, m.Body == "please")
		})
		return m.Body, err
	})
	withDesk(t, func(t *testing.T, h *actortest.Harness, d actor.Ref[desk]) {
		startClaim(t, d, claim{"answers", 1})
		type answer struct {
			ok  bool
			err error
		}
		asked := make(chan answer)
		go func() {
			ok, err := consent.Of(d).Ask(context.Background(), "please")
			asked <- answer{ok, err}
		}()
		if got := claimResult(t, d); got != "please" {
			t.Errorf("%q", got)
		}
		if a := <-asked; !a.ok || a.err != nil {
			t.Errorf("%+v", a)
		}
	})
}

func TestTheErrorThatARunAnswersHasItsMetadata(t *testing.T) {
	does("refuses", func(ctx workflow.Context, c claim) (string, error) {
		m, err := workflow.Receive(ctx, "ask", consent)
		if err != nil {
			return "", err
		}
		_, err = workflow.Update(ctx, "answer", func(tx *workflow.Tx) (actor.None, error) {
			return actor.None{}, workflow.ReplyError(tx, m, fmt.Errorf("rows: %w", host.OverLimit("rows", 10, 11)))
		})
		return "", err
	})
	withDesk(t, func(t *testing.T, h *actortest.Harness, d actor.Ref[desk]) {
		startClaim(t, d, claim{"refuses", 1})
		_, err := consent.Of(d).Ask(context.Background(), "please")
		if e, ok := errors.AsType[*actor.Error](err); !ok || e.Code != actor.TooLarge || e.Metadata["limit"] != "10" || e.Metadata["actual"] != "11" {
			t.Errorf("%+v", err)
		}
	})
}

// Every commit of a run is survived or undone by a power cut as a whole, and the end is the same.
func TestWorkflowCommitsAreWhole(t *testing.T) {
	does("whole", func(ctx workflow.Context, c claim) (string, error) {
		for i := range 3 {
			name := fmt.Sprintf("round %d", i)
			if _, err := workflow.Step(ctx, name, func(*workflow.StepCtx) (int, error) { return i, nil }); err != nil {
				return "", err
			}
			if _, err := pay(ctx, "pay "+name, 1); err != nil {
				return "", err
			}
			m, err := workflow.Receive(ctx, "paper "+name, papers)
			if err != nil {
				return "", err
			}
			if _, err := pay(ctx, "note "+m.Body, 10); err != nil {
				return "", err
			}
		}
		return "whole", nil
	})
	for delay := range 12 {
		withDesk(t, func(t *testing.T, h *actortest.Harness, d actor.Ref[desk]) {
			ctx := context.Background()
			startClaim(t, d, claim{"whole", 1})
			for i := range 3 {
				if _, err := papers.Of(d).Send(ctx, fmt.Sprint("p", i), actor.DedupID(fmt.Sprint(i))); err != nil {
					t.Fatal(err)
				}
				if delay%4 == i {
					h.Crash() // at once: nothing that was not acknowledged need be there
				}
				if delay >= 4 {
					h.Settle()
				}
				if delay%4 == 3 || delay >= 8 {
					h.Crash()
				}
			}
			if got := claimResult(t, d); got != "whole" {
				t.Fatalf("%q", got)
			}
			h.Settle()
			if got := deskOf(t, d); got.Paid != 33 || len(got.Notes) != 6 {
				t.Errorf("%+v", got)
			}
			rows, err := rowsOf.Call(ctx, d, actor.None{})
			want := []string{"pay round 0", "note p0", "pay round 1", "note p1", "pay round 2", "note p2"}
			if err != nil || !slices.Equal(rows, want) {
				t.Errorf("%q, %v", rows, err)
			}
		})
	}
}

func TestWorkflowStepIsRepeatedAfterARestart(t *testing.T) {
	var bodies atomic.Int64
	block := true
	does("cut off", func(ctx workflow.Context, c claim) (string, error) {
		return workflow.Step(ctx, "long", func(sc *workflow.StepCtx) (string, error) {
			bodies.Add(1)
			if block {
				<-sc.Done()
				return "", sc.Err()
			}
			return "at last", nil
		}, workflow.Timeout(0))
	})
	withDesk(t, func(t *testing.T, h *actortest.Harness, d actor.Ref[desk]) {
		startClaim(t, d, claim{"cut off", 1})
		h.Settle()
		time.Sleep(time.Minute)
		if st := h.Status("desk", "a"); st.State != host.Awake || st.Tasks != 1 {
			t.Fatalf("%+v", st)
		}
		h.Restart()
		h.Settle()
		time.Sleep(time.Minute)
		if n := bodies.Load(); n != 2 {
			t.Fatalf("%d bodies after a restart", n)
		}
		h.Crash()
		h.Settle()
		if n := bodies.Load(); n != 3 {
			t.Fatalf("%d bodies after a crash", n)
		}
		// Put to sleep by an operator, it goes on by itself.
		block = false
		if _, err := h.Call(context.Background(), &host.Request{Address: host.Address{Type: "desk", Key: []string{"a"}}, Method: host.ActorSleep, Codec: host.JSON}); err != nil {
			t.Fatal(err)
		}
		if got := claimResult(t, d); got != "at last" || bodies.Load() != 4 {
			t.Errorf("%q, %d bodies", got, bodies.Load())
		}
	})
}

// The first commit creates the actor, starts the run and requests its first step; each other one has the result of a step
// and requests the next one, or ends the run.
func TestWorkflowOfFiveStepsTakesSixCommits(t *testing.T) {
	does("five", func(ctx workflow.Context, c claim) (string, error) {
		for i := range 5 {
			name := fmt.Sprint("step ", i)
			if _, err := workflow.Step(ctx, name, func(*workflow.StepCtx) (string, error) { return name, nil }); err != nil {
				return "", err
			}
		}
		return "done", nil
	})
	actortest.Run(t, func(t *testing.T, h *actortest.Harness) {
		commits := func(key string) float64 {
			before := nodeCounter(t, h, "cairn_commits_total")
			d := desks.Ref(h, key)
			startClaim(t, d, claim{"five", 1})
			if got := claimResult(t, d); got != "done" {
				t.Fatal(got)
			}
			h.Settle()
			return nodeCounter(t, h, "cairn_commits_total") - before
		}
		for range 20 { // until the turns of runs are known to be quick, so that they may share a commit
			commits(fmt.Sprint("before ", nodeCounter(t, h, "cairn_commits_total")))
		}
		if n := commits("a"); n != 6 {
			t.Errorf("%v commits", n)
		}
	}, deskDefinition())
}

// nodeCounter returns the value of a counter of the node.
func nodeCounter(t *testing.T, h *actortest.Harness, name string) (sum float64) {
	t.Helper()
	families, err := h.Runtime().Gatherer().Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			for _, m := range f.Metric {
				sum += m.GetCounter().GetValue()
			}
		}
	}
	return sum
}

func TestWorkflowThatDivergedGoesOnWithFixedCode(t *testing.T) {
	good := func(ctx workflow.Context, c claim) (string, error) {
		if _, err := workflow.Step(ctx, "first", func(*workflow.StepCtx) (int, error) { return 1, nil }); err != nil {
			return "", err
		}
		if err := workflow.Sleep(ctx, "nap", time.Hour); err != nil {
			return "", err
		}
		return "good", nil
	}
	withDesk(t, func(t *testing.T, h *actortest.Harness, d actor.Ref[desk]) {
		does("deployed", good)
		startClaim(t, d, claim{"deployed", 1})
		h.Settle()
		does("deployed", func(ctx workflow.Context, c claim) (string, error) {
			if _, err := workflow.Step(ctx, "renamed", func(*workflow.StepCtx) (int, error) { return 1, nil }); err != nil {
				return "", err
			}
			return "bad", workflow.Sleep(ctx, "nap", time.Hour)
		})
		h.Crash()
		time.Sleep(2 * time.Hour)
		h.Settle()
		st := claimStatus(t, d)
		if st.State != wfhost.StatePaused || st.Pause == nil || st.Pause.Reason != wfhost.PausedDiverged {
			t.Fatalf("%+v", st)
		}
		var why host.Explanation
		askDesk(t, h, host.ActorWhy, nil, &why)
		if why.Why != host.WhyRun || why.Details["reason"] != "diverged" {
			t.Errorf("%+v", why)
		}
		does("deployed", good)
		h.Restart() // a start tries the run at once
		if got := claimResult(t, d); got != "good" {
			t.Errorf("%q", got)
		}
	})
}

// askDesk calls a built-in method of the desk.
func askDesk(t *testing.T, n actor.Node, method string, in, out any) {
	t.Helper()
	askOf(t, n, host.Address{Type: "desk", Key: []string{"a"}}, method, in, out)
}

// askOf calls a built-in method of an actor.
func askOf(t *testing.T, n actor.Node, a host.Address, method string, in, out any) {
	t.Helper()
	var input []byte
	if in != nil {
		var err error
		if input, err = json.Marshal(in); err != nil {
			t.Fatal(err)
		}
	}
	reply, err := n.Call(context.Background(), &host.Request{Address: a, Method: method, Codec: host.JSON, Input: input})
	if err != nil {
		t.Fatal(err)
	}
	if out != nil {
		if err := json.Unmarshal(reply.Output, out); err != nil {
			t.Fatalf("%s answered %s: %v", method, reply.Output, err)
		}
	}
}
