package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/workflow"
)

// Sessions are actors with one key part, a name.
var (
	Sessions = actor.NewType[Session]("session")
	// Chat is the life of a session: it ends when the user says bye, and returns how many messages
	// there were.
	Chat = actor.NewWorkflow[actor.None, int](Sessions, "chat")
	// Says brings the user's messages to the run.
	Says = actor.NewQueue[string](Sessions, "says", actor.QueueConfig{ByRun: true})
	// Tokens has the pieces of an answer as the model returns them: a reader sees the answer grow.
	// An attempt that was cut off has tokens too; the next attempt has another number.
	Tokens = actor.NewStream[Token](Sessions, "tokens", actor.StreamConfig{})
	// Answers has each answer once.
	Answers = actor.NewStream[string](Sessions, "answers", actor.StreamConfig{})
)

// Session is the state of a session.
type Session struct{ Answers int }

// A Token is a piece of an answer.
type Token struct {
	Attempt int    `json:"attempt"`
	Text    string `json:"text"`
}

// A Message is one of the conversation.
type Message struct {
	From string `json:"from"` // "user", "model" or "tool"
	Text string `json:"text"`
}

// A Reply is what the model wants: tools to be called, or to say something.
type Reply struct {
	Tools []string `json:"tools,omitempty"`
	Text  string   `json:"text,omitempty"`
}

// An agent is what the workflow has beside its actor.
type agent struct {
	// model continues a conversation; it hands over what it says in pieces.
	model func(ctx context.Context, talk []Message, say func(token string) error) (Reply, error)
	// tool calls a tool.
	tool func(ctx context.Context, call string) (string, error)
}

func (a agent) definition() actor.Definition {
	return actor.Define(Sessions, actor.Spec[Session]{}, actor.OnRun(Chat, a.chat))
}

// chat is the workflow. The conversation is the state of its loop: it is in the history, so that a
// fork has it as well.
func (a agent) chat(ctx workflow.Context, _ actor.None) (int, error) {
	return workflow.Loop(ctx, "turn", []Message{}, func(it *workflow.Iter[[]Message, int]) error {
		said, err := workflow.Receive(it, "user", Says)
		if err != nil {
			return err
		}
		if said.Body == "bye" {
			return it.Break(len(it.State))
		}
		it.State, err = a.answer(it, append(it.State, Message{"user", said.Body}))
		if err != nil {
			return err
		}
		_, err = actor.UpdateState(it, "answer", func(s *Session, ctx *actor.Context) (int, error) {
			s.Answers++
			_, err := Answers.Append(ctx, it.State[len(it.State)-1].Text)
			return s.Answers, err
		})
		return err
	})
}

// answer lets the model think, and calls the tools that it asks for, until it has an answer.
func (a agent) answer(ctx workflow.Context, talk []Message) ([]Message, error) {
	return workflow.Loop(ctx, "think", talk, func(it *workflow.Iter[[]Message, []Message]) error {
		reply, err := workflow.Step(it, "model", func(sc *workflow.StepCtx) (Reply, error) {
			task := actor.StepTask(sc)
			return a.model(sc, it.State, func(token string) error {
				_, err := Tokens.Append(task, Token{sc.Attempt(), token})
				return err
			})
		})
		if err != nil {
			return err
		}
		if len(reply.Tools) == 0 {
			return it.Break(append(it.State, Message{"model", reply.Text}))
		}
		// All tools at once. Each call is its own step, so a call that has ended is not repeated
		// after a crash.
		results, err := workflow.ForEach(it, "tools", reply.Tools, func(ctx workflow.Context, _ int, call string) (string, error) {
			return workflow.Step(ctx, "call", func(sc *workflow.StepCtx) (string, error) { return a.tool(sc, call) })
		})
		if err != nil {
			return err
		}
		for _, text := range results {
			it.State = append(it.State, Message{"tool", text})
		}
		return nil
	})
}

// toy is a model that knows one thing: to ask a tool for the weather.
func toy(_ context.Context, talk []Message, say func(token string) error) (Reply, error) {
	last := talk[len(talk)-1]
	if _, places, ok := strings.Cut(last.Text, "weather in "); ok && last.From == "user" {
		return Reply{Tools: strings.Split(strings.TrimRight(places, "?"), " and ")}, nil
	}
	var known []string
	for _, m := range talk {
		if m.From == "tool" {
			known = append(known, m.Text)
		}
	}
	text := "I know this: " + strings.Join(known, ", ") + "."
	for _, token := range strings.SplitAfter(text, " ") {
		if err := say(token); err != nil {
			return Reply{}, err
		}
	}
	return Reply{Text: text}, nil
}

// thermometer is a tool.
func thermometer(_ context.Context, place string) (string, error) {
	return fmt.Sprintf("%s has %d degrees", place, 5*len(place)), nil
}
