package runtime_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime"
	"github.com/cairn-run/cairn/workflow"
)

// A yard's run waits for an order in a queue that the program names, or sleeps.
type yard struct{}

// yardCode is a program with a yard whose queue of orders has a name.
type yardCode struct {
	typ        *actor.Type[yard]
	deal       *actor.Workflow[yard, string, string]
	orders     *actor.Queue[yard, string, actor.None]
	definition actor.Definition
	broken     error // of the wake hook
}

func yardWith(queue string, opts ...workflow.Option) *yardCode {
	c := &yardCode{typ: actor.NewType[yard]("yard")}
	c.deal = actor.NewWorkflow[string, string](c.typ, "deal")
	c.orders = actor.NewQueue[string](c.typ, queue, actor.QueueConfig{ByRun: true})
	c.definition = actor.Define(c.typ, actor.Spec[yard]{IdleTimeout: -1, OnWake: func(*yard, *actor.Context) error { return c.broken }}, actor.OnRun(c.deal, func(ctx workflow.Context, how string) (string, error) {
		if how == "naps" {
			return "", workflow.Sleep(ctx, "nap", 1000*time.Hour)
		}
		m, err := workflow.Receive(ctx, "order", c.orders)
		return m.Body, err
	}, opts...))
	return c
}

// openYard opens the node with a program.
func (n *node) openYard(t *testing.T, c *yardCode) *runtime.Runtime {
	t.Helper()
	return n.open(t, func(o *runtime.Options) { o.Actors = []actor.Definition{c.definition} })
}

// pausedYards says which runs are paused, and why.
func pausedYards(t *testing.T, rt *runtime.Runtime) string {
	t.Helper()
	page, err := rt.Runs(t.Context(), host.RunQuery{Limit: 1000})
	if err != nil || page.Cursor != "" {
		t.Fatal(page.Cursor, err)
	}
	all := []string{}
	for _, r := range page.Runs {
		all = append(all, fmt.Sprint(strings.Join(r.Key, "/"), " ", r.State, " ", r.Reason))
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

// A run that waits for messages in a queue which the new program names differently is paused after the start, although no message
// comes and nothing else wakes its actor. A start of the same program wakes nothing.
func TestParkedRunsAreComparedWithOtherCodeAfterAStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		ctx := t.Context()
		old, other := yardWith("orders"), yardWith("purchases")
		rt := n.openYard(t, old)
		defer func() { rt.Close() }()
		for _, how := range []string{"naps", "receives", "receives too"} {
			must(t, errOf(old.deal.Of(old.typ.Ref(rt, how)).Start(ctx, how)))
		}
		old.typ.Ref(rt, "without a run").Create(ctx)
		time.Sleep(time.Second) // the first start is one with other code, too
		reopen := func(c *yardCode) {
			t.Helper()
			must(t, rt.Close())
			rt = n.openYard(t, c)
			time.Sleep(time.Second)
			synctest.Wait()
		}
		states := func() (all string) {
			for _, key := range []string{"naps", "receives", "receives too", "without a run"} {
				st, err := rt.Lookup(ctx, host.Address{Type: "yard", Key: []string{key}})
				must(t, err)
				all += fmt.Sprintf("%s %d ", st.State, st.Version)
			}
			return all
		}
		reopen(old)
		before := states()
		if got := pausedYards(t, rt); got != "" || strings.Contains(before, "awake") {
			t.Fatalf("the same program: paused %q, actors %s", got, before)
		}
		reopen(yardWith("orders", workflow.WithVersion("2")))
		if got, want := states(), strings.Replace(before, "asleep", "awake", 3); pausedYards(t, rt) != "" || got != want {
			t.Errorf("another program that fits: paused %q, actors %s, want %s", pausedYards(t, rt), got, want)
		}
		reopen(other)
		if got := pausedYards(t, rt); got != "receives paused diverged, receives too paused diverged" {
			t.Errorf("the queue has another name: %q", got)
		}
		reopen(old)
		if got := pausedYards(t, rt); got != "" {
			t.Errorf("the queue has its name again: %q", got)
		}
		must(t, errOf(old.orders.Of(old.typ.Ref(rt, "receives")).Send(ctx, "bricks")))
		if out, err := old.deal.Of(old.typ.Ref(rt, "receives")).Result(ctx); out != "bricks" || err != nil {
			t.Fatal(out, err)
		}
	})
}

// park starts runs that wait for messages, in a node that it closes.
func (n *node) park(t *testing.T, runs int) {
	t.Helper()
	old := yardWith("orders")
	rt := n.openYard(t, old)
	for i := range runs {
		must(t, errOf(old.deal.Of(old.typ.Ref(rt, fmt.Sprintf("%03d", i))).Start(t.Context(), "receives")))
	}
	must(t, rt.Close())
}

// The comparison takes at most 200 runs a second, and goes on where it was after a restart.
func TestComparisonWithOtherCodeIsPacedAndGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, other := newNode(t), yardWith("purchases")
		const runs = 500
		n.park(t, runs)
		rt := n.openYard(t, other)
		defer func() { rt.Close() }()
		compared := func() int { return len(strings.Split(pausedYards(t, rt), ", ")) }
		time.Sleep(time.Second)
		first := compared()
		must(t, rt.Close())
		errorIf(t, first < 100 || first > 210, "%d runs compared in a second", first)
		rt = n.openYard(t, other)
		time.Sleep(3 * time.Second)
		if got := compared(); got != runs {
			t.Errorf("%d of %d runs compared", got, runs)
		}
	})
}

// An actor that cannot be woken is left to the next start of the code, and one that an operator has paused to its resumption.
func TestComparisonWithOtherCodeMissesNoRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		ctx := t.Context()
		old, other := yardWith("orders"), yardWith("purchases")
		rt := n.openYard(t, old)
		defer func() { rt.Close() }()
		for _, key := range []string{"a", "held"} {
			must(t, errOf(old.deal.Of(old.typ.Ref(rt, key)).Start(ctx, "receives")))
		}
		synctest.Wait() // a run that has not begun fits any code
		operate := func(verb, input string) {
			t.Helper()
			r := host.Request{Address: host.Address{Type: "yard", Key: []string{"held"}}, Method: verb, Codec: host.JSON, Input: []byte(input)}
			must(t, errOf(rt.Call(ctx, &r)))
		}
		operate(host.ActorPause, `{"reason":"stocktaking"}`)
		other.broken = errors.New("the hook does not work")
		for _, want := range []string{"", "a paused diverged", "a paused diverged, held paused diverged"} {
			must(t, rt.Close())
			rt = n.openYard(t, other)
			time.Sleep(time.Minute)
			if strings.Contains(want, "held") {
				operate(host.ActorResume, "{}")
				time.Sleep(time.Minute)
			}
			if got := pausedYards(t, rt); got != want {
				t.Errorf("paused %q, want %q", got, want)
			}
			other.broken = nil
		}
	})
}

func TestComparisonRemembersAfterARestartThatItSkippedRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, other := newNode(t), yardWith("purchases")
		const runs = 500
		n.park(t, runs)
		broken, compared := errors.New("the hook does not work"), 0
		for _, life := range []struct {
			hook error
			time time.Duration
		}{{broken, time.Second}, {nil, time.Minute}, {nil, time.Minute}} { // skips some, sees the rest, begins again
			other.broken = life.hook
			rt := n.openYard(t, other)
			time.Sleep(life.time)
			compared = len(strings.Split(pausedYards(t, rt), ", "))
			must(t, rt.Close())
		}
		errorIf(t, compared != runs, "%d of %d runs were compared", compared, runs)
	})
}
