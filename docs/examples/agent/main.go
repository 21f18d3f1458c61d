// Agent holds sessions with a model that calls tools. Each session is an actor with a workflow:
// what the model has said and what tools have returned is in its history, so a session goes on
// after a crash without asking, or paying for, anything again. Tokens are streamed while the model
// speaks. A session can be forked: another one begins with what was said up to the point at which a
// recording of the first was made, and both go on by themselves.
//
//	go run ./docs/examples/agent
//
// holds a session, forks it at the point after its first answer, and prints both. The model is a
// toy in this process: no network is used.
//
// session.go has the actor and the workflow.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/actor/handle"
	"github.com/cairn-run/cairn/runtime"
)

func main() {
	if err := open(context.Background(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "agent:", err)
		os.Exit(1)
	}
}

func open(ctx context.Context, out io.Writer) error {
	dir, err := os.MkdirTemp("", "agent")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	rt, err := runtime.Open(ctx, runtime.Options{Dir: dir, Actors: []actor.Definition{agent{toy, thermometer}.definition()}})
	if err != nil {
		return err
	}
	defer rt.Close()
	return demonstrate(ctx, rt, out)
}

// demonstrate holds a session and a fork of it.
func demonstrate(ctx context.Context, node actor.Node, out io.Writer) error {
	first, second := Sessions.Ref(node, "first"), Sessions.Ref(node, "second")
	if _, err := Chat.Of(first).Start(ctx, actor.None{}); err != nil {
		return err
	}
	if err := talk(ctx, first, 0, "What is the weather in Oslo and Rome?", out); err != nil {
		return err
	}
	// A recording is the present run with its history. A program keeps it to return to this point
	// later.
	bookmark, err := Chat.Of(first).Export(ctx)
	if err != nil {
		return err
	}
	if err := talk(ctx, first, 1, "What is the weather in Lima?", out); err != nil {
		return err
	}
	if _, err := Chat.Of(second).Import(ctx, bookmark); err != nil {
		return err
	}
	if err := talk(ctx, second, 0, "What is the weather in Kyoto?", out); err != nil {
		return err
	}
	for _, session := range []actor.Ref[Session]{first, second} {
		if _, err := Says.Of(session).Send(ctx, "bye", actor.DedupID("bye")); err != nil {
			return err
		}
		n, err := Chat.Of(session).Result(ctx)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "%s: %d messages\n", session.Key()[0], n)
	}
	return nil
}

// talk says something and waits for the answer, of which there have been some before.
func talk(ctx context.Context, session actor.Ref[Session], before uint64, text string, out io.Writer) error {
	if _, err := Says.Of(session).Send(ctx, text, actor.DedupID(text)); err != nil {
		return err
	}
	for answer, err := range Answers.Of(session).Follow(ctx, handle.Position{After: before}) {
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "%s> %s\n%s< %s\n", session.Key()[0], text, session.Key()[0], answer.Value)
		return nil
	}
	return errors.New("the stream of answers has ended")
}
