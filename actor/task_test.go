package actor_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/actor/handle"
)

func TestTaskEntersTurnsAndAppends(t *testing.T) {
	d := newDesks("desk")
	n := mustNode(t, d.definition())
	d.mustRun(t, n, func(s *desk, ctx *actor.Context) error {
		return ctx.Go("import", func(task *actor.Task) error {
			if task.Type() != "desk" || !slices.Equal(task.Key(), []string{"a"}) || task.ID() != ctx.ID() || task.Log() == nil {
				return fmt.Errorf("the task is of %s %v", task.Type(), task.Key())
			}
			last, err := d.tokens.Append(task, "a", "b")
			if err != nil || last != 2 {
				return fmt.Errorf("append: %d, %w", last, err)
			}
			if _, err := d.jobs.Of(d.typ.Ref(task, "b")).Send(task, job{Name: "x"}); err != nil {
				return err
			}
			return actor.Enter(task, func(s *desk, ctx *actor.Context) error {
				s.logf("entered")
				_, err := d.jobs.Put(ctx, job{Name: "from the task"})
				return err
			})
		})
	})
	if err := n.runTasks(t.Context()); err != nil {
		t.Fatal(err)
	}
	n.sleep()
	if err := n.deliver(t.Context()); err != nil {
		t.Fatal(err)
	}
	d.logged(t, n, "entered", "jobs from the task")
	if items := n.actors["desk/a"].holding.streams["tokens"].items; len(items) != 2 {
		t.Errorf("%v", items)
	}
}

func TestFailedEntryLeavesNothing(t *testing.T) {
	d := newDesks("desk")
	n := mustNode(t, d.definition())
	own := errors.New("not after all")
	other := newDesks("other")
	d.mustRun(t, n, func(_ *desk, ctx *actor.Context) error {
		return ctx.Go("t", func(task *actor.Task) error {
			if err := actor.Enter(task, func(s *desk, ctx *actor.Context) error { s.logf("lost"); return own }); err != own {
				return fmt.Errorf("its own error came as %w", err)
			}
			err := actor.Enter(task, func(s *desk, ctx *actor.Context) error { s.logf("lost"); d.said.EmitTo(ctx, "", "x"); return nil })
			if actor.CodeOf(err) != actor.InvalidArgument {
				return fmt.Errorf("a refused write: %w", err)
			}
			err = actor.Enter(task, func(*probe, *actor.Context) error { return nil })
			if actor.CodeOf(err) != actor.Internal || !strings.Contains(err.Error(), `"desk"`) {
				return fmt.Errorf("another state: %w", err)
			}
			if err := actor.Enter[desk](task, nil); actor.CodeOf(err) != actor.InvalidArgument {
				return fmt.Errorf("no function: %w", err)
			}
			if _, err := other.tokens.Append(task, "x"); actor.CodeOf(err) != actor.Internal {
				return fmt.Errorf("another type's stream: %w", err)
			}
			if _, err := d.lines.Append(task, job{}); actor.CodeOf(err) != actor.InvalidArgument {
				return fmt.Errorf("a stream without a name: %w", err)
			}
			return nil
		})
	})
	if err := n.runTasks(t.Context()); err != nil {
		t.Error(err)
	}
	d.logged(t, n)
	if len(n.emitted) > 0 {
		t.Errorf("%q", n.emitted)
	}
}

func TestTaskOfAFailedTurnDoesNotStart(t *testing.T) {
	d := newDesks("desk")
	n := mustNode(t, d.definition())
	err := d.run(t, n, func(_ *desk, ctx *actor.Context) error {
		ctx.Go("t", func(*actor.Task) error { return errors.New("it runs") })
		return errors.New("no")
	})
	if err == nil || len(n.tasks) > 0 {
		t.Errorf("%v, %d tasks", err, len(n.tasks))
	}
	err = d.run(t, n, func(_ *desk, ctx *actor.Context) error { ctx.Go("t", nil); return nil })
	if actor.CodeOf(err) != actor.InvalidArgument {
		t.Errorf("no function: %v", err)
	}
}

func TestTaskIsAContext(t *testing.T) {
	d := newDesks("desk")
	n := mustNode(t, d.definition())
	d.mustRun(t, n, func(_ *desk, ctx *actor.Context) error {
		return ctx.Go("t", func(task *actor.Task) error {
			if _, ok := task.Deadline(); ok || task.Err() != nil || task.Done() == nil || task.Value("k") != nil {
				return errors.New("another context")
			}
			if _, err := d.typ.Ref(task, "nobody").Lookup(task); actor.CodeOf(err) != actor.NotFound {
				return err
			}
			for s, err := range d.typ.List(task, task) {
				if err != nil || s.Type != "desk" {
					return fmt.Errorf("list: %v, %w", s, err)
				}
			}
			if err := d.typ.Ref(task, "nobody").Destroy(task); actor.CodeOf(err) != actor.NotFound {
				return err
			}
			return nil
		})
	})
	if err := n.runTasks(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestRefusedWritesOfTheNewKindsFailTheTurnEvenIfIgnored(t *testing.T) {
	full := actor.Errorf(actor.Overloaded, "full").Retry()
	d := newDesks("desk")
	n := mustNode(t, d.definition())
	joining(d)
	mustConnect(t, n, "one")
	a := n.actors["desk/a"]
	for name, write := range map[string]func(*actor.Context){
		"put":      func(ctx *actor.Context) { d.jobs.Put(ctx, job{}) },
		"cron":     func(ctx *actor.Context) { d.nightly.Set(ctx, actor.Rule{Cron: "@daily"}, 1) },
		"every":    func(ctx *actor.Context) { d.nightly.Set(ctx, actor.Rule{Every: time.Hour}, 1) },
		"at":       func(ctx *actor.Context) { d.nightly.Set(ctx, actor.Rule{At: n.now}, 1) },
		"cancel":   func(ctx *actor.Context) { d.nightly.Cancel(ctx) },
		"append":   func(ctx *actor.Context) { d.tokens.Append(ctx, "x") },
		"close":    func(ctx *actor.Context) { d.tokens.Close(ctx) },
		"emit to":  func(ctx *actor.Context) { d.said.EmitTo(ctx, "one", "x") },
		"except":   func(ctx *actor.Context) { d.said.EmitExcept(ctx, "x") },
		"go":       func(ctx *actor.Context) { ctx.Go("t", func(*actor.Task) error { return nil }) },
		"save":     func(ctx *actor.Context) { c, _, _ := d.clients.Get(ctx, "one"); c.Save(ctx) },
		"close it": func(ctx *actor.Context) { c, _, _ := d.clients.Get(ctx, "one"); c.Close(ctx, nil) },
	} {
		d.script = func(_ *desk, ctx *actor.Context) (string, error) { write(ctx); return "fine", nil }
		turn := &fakeTurn{Context: t.Context(), Node: n, node: n, actor: a, holding: a.holding.clone(), refuse: full}
		if _, err := a.behavior.New().Act(turn, 0, 2, nil, nil); !errors.Is(err, full) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestNewContractsOfAnotherTypeAreRefused(t *testing.T) {
	d, other := newDesks("desk"), newDesks("other")
	n := mustNode(t, d.definition(), other.definition())
	joining(d)
	mustConnect(t, n, "one")
	for name, use := range map[string]func(*actor.Context) error{
		"put":    func(ctx *actor.Context) error { return second(other.jobs.Put(ctx, job{})) },
		"stats":  func(ctx *actor.Context) error { return second(other.jobs.Stats(ctx)) },
		"send":   func(ctx *actor.Context) error { return second(d.jobs.Of(other.typ.Ref(ctx)).Send(ctx, job{})) },
		"ask":    func(*actor.Context) error { return second(d.price.Of(other.typ.Ref(n)).Ask(t.Context(), "x")) },
		"every":  func(ctx *actor.Context) error { return other.nightly.Set(ctx, actor.Rule{Every: time.Hour}, 1) },
		"cancel": func(ctx *actor.Context) error { return second(other.nightly.Cancel(ctx)) },
		"list":   func(ctx *actor.Context) error { return second(other.nightly.List(ctx)) },
		"get":    func(ctx *actor.Context) error { _, _, err := other.nightly.Get(ctx); return err },
		"set": func(ctx *actor.Context) error {
			return second(d.nightly.Of(other.typ.Ref(n)).Set(ctx, actor.Rule{Every: time.Hour}, 1))
		},
		"append": func(ctx *actor.Context) error { return second(other.tokens.Append(ctx, "x")) },
		"close":  func(ctx *actor.Context) error { return other.tokens.Close(ctx) },
		"info":   func(ctx *actor.Context) error { return second(other.tokens.Info(ctx)) },
		"read": func(ctx *actor.Context) error {
			return second(d.tokens.Of(other.typ.Ref(n)).Read(ctx, handle.Position{}, handle.ReadConfig{}))
		},
		"emit to":     func(ctx *actor.Context) error { return other.said.EmitTo(ctx, "one", "x") },
		"emit except": func(ctx *actor.Context) error { return other.said.EmitExcept(ctx, "x") },
		"connection":  func(ctx *actor.Context) error { _, _, err := other.clients.Get(ctx, "one"); return err },
		"caller":      func(ctx *actor.Context) error { _, _, err := other.clients.Caller(ctx); return err },
		"close from it": func(*actor.Context) error {
			return second(d.clients.Of(other.typ.Ref(n)).Close(t.Context(), "one", ""))
		},
		"range": func(ctx *actor.Context) error {
			for _, err := range other.tokens.Range(ctx, 0) {
				return err
			}
			return nil
		},
		"all": func(ctx *actor.Context) error {
			for _, err := range other.clients.All(ctx) {
				return err
			}
			return nil
		},
	} {
		err := d.run(t, n, func(_ *desk, ctx *actor.Context) error { return use(ctx) })
		if err == nil || !strings.Contains(err.Error(), `"other"`) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
