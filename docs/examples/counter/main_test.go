package main

import (
	"os"
	"strings"
	"testing"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/actor/actortest"
)

// TestREADMEShowsThisProgram keeps the program in the README the one that compiles: all of main.go
// but its doc comment.
func TestREADMEShowsThisProgram(t *testing.T) {
	program, err := os.ReadFile("main.go")
	if err != nil {
		t.Fatal(err)
	}
	readme, err := os.ReadFile("../../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, code, _ := strings.Cut(string(program), "\npackage main\n")
	if want := "```go\npackage main\n" + code + "```\n"; !strings.Contains(string(readme), want) {
		t.Errorf("README.md does not contain\n%s", want)
	}
}

func TestCounterKeepsWhatItAnswered(t *testing.T) {
	actortest.Run(t, func(t *testing.T, h *actortest.Harness) {
		ctx, visits := t.Context(), Counters.Ref(h, "visits")
		for _, want := range []int{42, 84, 126} {
			if n, err := Add.Call(ctx, visits, 42); err != nil || n != want {
				t.Fatalf("add: %d (%v), expected %d", n, err, want)
			}
			h.Crash() // A power cut.
		}
		if n, err := Value.Call(ctx, visits, actor.None{}); err != nil || n != 126 {
			t.Errorf("value: %d (%v), expected 126", n, err)
		}
		if _, err := Add.Call(ctx, visits, 0); actor.CodeOf(err) != actor.InvalidArgument {
			t.Errorf("add 0: error %v, expected %s", err, actor.InvalidArgument)
		}
		if events := h.Events("counter", "visits"); len(events) != 1 || string(events[0].Data) != "126" {
			t.Errorf("events %+v, expected one with 126", events)
		}
	}, definition())
}
