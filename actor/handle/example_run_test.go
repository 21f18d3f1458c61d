package handle_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/actor/handle"
	"github.com/cairn-run/cairn/workflow"
	wfhost "github.com/cairn-run/cairn/workflow/host"
)

// A release is compiled, answers two questions, and waits for an approval.
var (
	projects  = actor.NewType[project]("project")
	release   = actor.NewWorkflow[string, string](projects, "release")
	questions = actor.NewRequestQueue[string, string](projects, "questions", actor.QueueConfig{ByRun: true})
	approve   = actor.NewAction[string, actor.None](projects, "approve")
)

type project struct {
	Compiled int
	Approver string
}

func (p *project) approve(_ *actor.Context, by string) (actor.None, error) {
	p.Approver = by
	return actor.None{}, nil
}

var repaired atomic.Bool // the compiler

func releasing(ctx workflow.Context, version string) (string, error) {
	if err := workflow.Do(ctx, "compile", func(sc *workflow.StepCtx) error {
		if !repaired.Load() {
			return workflow.Permanent(errors.New("the compiler is broken"))
		}
		actor.OnCommit(sc, func(p *project, _ *actor.Context) error { p.Compiled++; return nil })
		return nil
	}); err != nil {
		return "", err
	}
	for _, name := range []string{"first", "second"} {
		question, err := workflow.Receive(ctx, name, questions)
		if err != nil {
			return "", err
		}
		if _, err := actor.UpdateState(ctx, "answer "+name, func(p *project, ctx *actor.Context) (actor.None, error) {
			if question.Body == "" {
				return actor.None{}, questions.Refuse(ctx, question, actor.Errorf(actor.InvalidArgument, "ask something"))
			}
			return actor.None{}, questions.Reply(ctx, question, fmt.Sprintf("%s is compiled: %d", version, p.Compiled))
		}); err != nil {
			return "", err
		}
	}
	by, err := actor.AwaitState(ctx, "approval", func(p project) (string, bool) { return p.Approver, p.Approver != "" })
	return version + ", approved by " + by, err
}

func ExampleRun() {
	node, stop := open(actor.Define(projects, actor.Spec[project]{}, actor.On(approve, (*project).approve),
		actor.OnRun(release, releasing)))
	defer stop()
	ctx, cairn := context.Background(), projects.Ref(node, "cairn")
	run := release.Of(cairn)
	entry := func(path string) wfhost.EntryID {
		for e, err := range run.History(ctx) {
			if err == nil && e.Path == path {
				return e.ID
			}
		}
		return ""
	}

	must(run.Start(ctx, "v1"))
	_, err := run.Result(ctx)
	fmt.Println(err)
	repaired.Store(true)
	fmt.Println(run.Retry(ctx, entry("compile")), run.Pause(ctx, "lunch"), must(run.Status(ctx)).State, run.Resume(ctx))

	_, err = questions.Of(cairn).Ask(ctx, "")
	fmt.Println(err)
	fmt.Println(questions.Of(cairn).Ask(ctx, "how far?"))

	again := release.Of(projects.Ref(node, "fork")) // asks both questions again
	must(run.Fork(ctx, again, handle.UpTo(entry("compile"))))
	fmt.Println(again.Terminate(ctx, "not needed"))
	_, err = again.Result(ctx)
	fmt.Println(actor.CodeOf(err))

	must(approve.Call(ctx, cairn, "Ada"))
	var last handle.Change
	for change, err := range run.Watch(ctx, 0) { // until the run ends
		if err != nil {
			fmt.Println(err)
		}
		last = change
	}
	fmt.Println(last.Status.State, must(run.Result(ctx)))
	fmt.Println(run.Rewind(ctx, entry("approval")), must(run.Result(ctx))) // waits for the approval anew, and finds it
	// Output:
	// failed_precondition: the run is failed: step "compile" failed: the compiler is broken
	// <nil> <nil> paused <nil>
	// invalid_argument: ask something
	// v1 is compiled: 1 <nil>
	// <nil>
	// canceled
	// completed v1, approved by Ada
	// <nil> v1, approved by Ada
}
