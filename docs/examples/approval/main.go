// Approval is an office in which requests wait for a decision: for days, through restarts, with
// reminders, with an escalation to the boss, and with a way to withdraw. Each request is an actor
// with a workflow.
//
//	go run ./docs/examples/approval
//
// makes four requests, in an office whose days last a second, decides about some, and prints what
// happened to each. With --serve the office stays open, with days of 24 hours:
//
//	go run ./docs/examples/approval --serve --data data/approval &
//	curl --json '{"workflow":"approval","input":{"what":"a press","approver":"ann","boss":"bob"}}' localhost:6420/actors/request/9/-/call/workflow.start
//	curl --json '{"by":"ann","yes":true}' localhost:6420/actors/request/9/-/call/decide
//	curl -X POST localhost:6420/actors/request/9/-/call/workflow.status
//
// approval.go has the actor and the workflow.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/runtime"
)

func main() {
	dir := flag.String("data", "", "`directory` of the data; a temporary one unless it is given")
	serve := flag.Bool("serve", false, "stay open, for requests over HTTP")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := open(ctx, *dir, *serve, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "approval:", err)
		os.Exit(1)
	}
}

func open(ctx context.Context, dir string, serve bool, out io.Writer) error {
	o, listen := office{day: time.Second}, ""
	if serve {
		o.day, listen = 24*time.Hour, runtime.DefaultListen
	}
	if dir == "" {
		temporary, err := os.MkdirTemp("", "approval")
		if err != nil {
			return err
		}
		defer os.RemoveAll(temporary)
		dir = temporary
	}
	rt, err := runtime.Open(ctx, runtime.Options{Dir: dir, Listen: listen, Actors: []actor.Definition{o.definition()}})
	if err != nil {
		return err
	}
	defer rt.Close()
	if serve {
		<-ctx.Done()
		return nil
	}
	return demonstrate(ctx, rt, o, out)
}

// demonstrate makes requests, and prints each when it has come to its end.
func demonstrate(ctx context.Context, node actor.Node, o office, out io.Writer) error {
	requests := []string{"a chair", "a press", "a yacht", "a party"}
	for _, what := range requests {
		if _, err := Approval.Of(Requests.Ref(node, what)).Start(ctx, Ask{What: what, Approver: "ann", Boss: "bob"}); err != nil {
			return err
		}
	}
	begun := time.Now()
	at := func(day float64) { time.Sleep(time.Until(begun.Add(time.Duration(day * float64(o.day))))) }

	at(0.5)
	if _, err := Decide.Call(ctx, Requests.Ref(node, "a chair"), Verdict{By: "ann", Yes: true}); err != nil {
		return err
	}
	at(1.5)
	if err := Approval.Of(Requests.Ref(node, "a yacht")).Cancel(ctx, "too expensive after all"); err != nil {
		return err
	}
	at(3.5) // by now it is for the boss to decide
	_, err := Decide.Call(ctx, Requests.Ref(node, "a press"), Verdict{By: "ann", Yes: true})
	fmt.Fprintf(out, "ann is too late: %v\n", err)
	if _, err := Decide.Call(ctx, Requests.Ref(node, "a press"), Verdict{By: "bob", Comment: "next year"}); err != nil {
		return err
	}
	for _, what := range requests {
		ref := Requests.Ref(node, what)
		verdict, err := Approval.Of(ref).Result(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		r, serr := Show.Call(ctx, ref, actor.None{})
		status, terr := Approval.Of(ref).Status(ctx)
		if serr != nil || terr != nil {
			return fmt.Errorf("%w, %w", serr, terr)
		}
		fmt.Fprintf(out, "%s (%s)\n", what, status.State)
		for _, line := range r.Log {
			fmt.Fprintf(out, "  %s\n", line)
		}
		if err == nil && verdict.Comment != "" {
			fmt.Fprintf(out, "  %q\n", verdict.Comment)
		}
	}
	return nil
}
