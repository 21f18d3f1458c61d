package runtime_test

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/runtime"
)

// The goroutines that run queries make small answers in a buffer of theirs, which the next answer must not show through.
func TestAnswersOfQueriesShareNoMemory(t *testing.T) {
	typ := actor.NewType[actor.None]("echoer")
	echo := actor.NewQuery[string, string](typ, "echo")
	none := actor.NewQuery[string, actor.None](typ, "none")
	def := actor.Define(typ, actor.Spec[actor.None]{},
		actor.OnQuery(echo, func(_ actor.None, _ *actor.ReadContext, in string) (string, error) { return in, nil }),
		actor.OnQuery(none, func(actor.None, *actor.ReadContext, string) (actor.None, error) { return actor.None{}, nil }))
	rt, err := runtime.Open(t.Context(), runtime.Options{
		Dir: "data", Disk: engine.NewDisk(), Actors: []actor.Definition{def}, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close()
	var answers [][]byte
	var want []string
	for i, n := range []int{1, 0, 3, 500, 507, 508, 509, 510, 511, 512, 513, 5000, 2} {
		text := strings.Repeat(string(rune('a'+i)), n)
		method, out := "echo", `"`+text+`"`
		if n == 0 {
			method, out = "none", ""
		}
		r, err := rt.Call(t.Context(), &host.Request{
			Address: host.Address{Type: "echoer", Key: []string{"a"}}, Method: method, Codec: host.JSON, Input: []byte(`"` + text + `"`),
		})
		if err != nil {
			t.Fatal(err)
		}
		_ = append(r.Output, "what a caller appends"...)
		answers, want = append(answers, r.Output), append(want, out)
	}
	for i, a := range answers {
		if string(a) != want[i] {
			t.Errorf("answer %d is %q by now, want %q", i, a, want[i])
		}
	}
}
