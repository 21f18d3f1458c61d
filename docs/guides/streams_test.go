package guides_test

import (
	"context"
	"strings"
	"testing"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/actor/actortest"
	"github.com/cairn-run/cairn/actor/handle"
)

var (
	Chats  = actor.NewType[Chat]("chat")
	Ask    = actor.NewAction[string, actor.None](Chats, "ask")
	Tokens = actor.NewStream[string](Chats, "tokens", actor.StreamConfig{MaxItems: 10_000})
)

type Chat struct{ Questions int }

func (c *Chat) ask(ctx *actor.Context, question string) (actor.None, error) {
	c.Questions++
	_, err := Tokens.Append(ctx, strings.SplitAfter("You asked: "+question, " ")...)
	return actor.None{}, err
}

func chat() actor.Definition {
	return actor.Define(Chats, actor.Spec[Chat]{}, actor.On(Ask, (*Chat).ask))
}

func TestStreams(t *testing.T) {
	actortest.Run(t, func(t *testing.T, h *actortest.Harness) {
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		mine := Chats.Ref(h, "mine")
		if _, err := Ask.Call(ctx, mine, "why"); err != nil {
			t.Fatal(err)
		}
		h.Crash()
		var text strings.Builder
		print := func(token string) {
			if text.WriteString(token); strings.HasSuffix(text.String(), "why") {
				stop()
			}
		}

		after := uint64(0) // what the reader has already
		for item, err := range Tokens.Of(mine).Follow(ctx, handle.Position{After: after}) {
			if err != nil {
				break // ctx ended, or the actor is gone
			}
			print(item.Value)
			after = item.Sequence
		}

		if text.String() != "You asked: why" || after != 3 {
			t.Errorf("%q after %d", &text, after)
		}
		page, err := Tokens.Of(mine).Read(t.Context(), handle.Position{After: 1}, handle.ReadConfig{Max: 1})
		if err != nil || len(page.Items) != 1 || page.Items[0].Value != "asked: " {
			t.Errorf("%+v %v", page, err)
		}
	}, chat())
}
