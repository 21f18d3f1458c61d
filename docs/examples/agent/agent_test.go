package main

import (
	"bytes"
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/actor/actortest"
	"github.com/cairn-run/cairn/actor/handle"
)

const printed = `first> What is the weather in Oslo and Rome?
first< I know this: Oslo has 20 degrees, Rome has 20 degrees.
first> What is the weather in Lima?
first< I know this: Oslo has 20 degrees, Rome has 20 degrees, Lima has 20 degrees.
second> What is the weather in Kyoto?
second< I know this: Oslo has 20 degrees, Rome has 20 degrees, Kyoto has 25 degrees.
first: 7 messages
second: 7 messages
`

func TestSessions(t *testing.T) {
	actortest.Run(t, func(t *testing.T, h *actortest.Harness) {
		var out bytes.Buffer
		if err := demonstrate(t.Context(), h, &out); err != nil {
			t.Fatal(err)
		}
		if got := out.String(); got != printed {
			t.Errorf("got\n%s\nexpected\n%s", got, printed)
		}
		if got := tokens(t, h, "second", 1); got != "I know this: Oslo has 20 degrees, Rome has 20 degrees, Kyoto has 25 degrees." {
			t.Errorf("tokens %q", got)
		}
	}, agent{toy, thermometer}.definition())
}

// tokens joins what an attempt of a session's model has streamed.
func tokens(t *testing.T, node actor.Node, session string, attempt int) string {
	t.Helper()
	page, err := Tokens.Of(Sessions.Ref(node, session)).Read(t.Context(), handle.Position{}, handle.ReadConfig{})
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, item := range page.Items {
		if item.Value.Attempt == attempt {
			b.WriteString(item.Value.Text)
		}
	}
	return b.String()
}

// The power fails when one of two tools has answered, and again in the middle of the model's
// answer. What had ended is not asked again.
func TestSessionGoesOnAfterPowerCuts(t *testing.T) {
	var (
		mu    sync.Mutex
		calls = make(map[string]int)
		block = map[string]bool{"Rome": true, "speech": true}
		at    = make(chan string, 10)
	)
	count := func(what string) (cut bool) {
		mu.Lock()
		defer mu.Unlock()
		calls[what]++
		cut = block[what]
		delete(block, what)
		return cut
	}
	a := agent{
		model: func(ctx context.Context, talk []Message, say func(string) error) (Reply, error) {
			count("model")
			return toy(ctx, talk, func(token string) error {
				if token == "this: " && count("speech") {
					at <- "speech"
					<-ctx.Done()
					return ctx.Err()
				}
				return say(token)
			})
		},
		tool: func(ctx context.Context, place string) (string, error) {
			if count(place) {
				at <- place
				<-ctx.Done()
				return "", ctx.Err()
			}
			return thermometer(ctx, place)
		},
	}
	actortest.Run(t, func(t *testing.T, h *actortest.Harness) {
		session := Sessions.Ref(h, "first")
		if _, err := Chat.Of(session).Start(t.Context(), actor.None{}); err != nil {
			t.Fatal(err)
		}
		if _, err := Says.Of(session).Send(t.Context(), "What is the weather in Oslo and Rome?"); err != nil {
			t.Fatal(err)
		}
		for _, where := range []string{"Rome", "speech"} {
			if got := <-at; got != where {
				t.Fatalf("blocked at %s", got)
			}
			h.Settle()
			h.Crash()
		}
		for answer, err := range Answers.Of(session).Follow(t.Context(), handle.Position{}) {
			if err != nil || answer.Value != "I know this: Oslo has 20 degrees, Rome has 20 degrees." {
				t.Errorf("%+v, %v", answer, err)
			}
			break
		}
		mu.Lock()
		defer mu.Unlock()
		if calls["Oslo"] != 1 || calls["Rome"] != 2 || calls["model"] != 3 {
			t.Errorf("%v", calls)
		}
		if cut := tokens(t, h, "first", 1); cut != "I know " {
			t.Errorf("the first attempt has said %q", cut)
		}
	}, a.definition())
}
