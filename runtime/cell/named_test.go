package cell_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/actor/actortest"
	"github.com/cairn-run/cairn/actor/handle"
	"github.com/cairn-run/cairn/runtime/cell"
)

func TestJobsInCBORMayNestAsDocumentsDo(t *testing.T) {
	for depth, fits := range map[int]bool{400: true, 600: false} {
		var j cell.Job
		err := j.UnmarshalCBOR([]byte("\xa2\x65queue\x61q\x64body" + strings.Repeat("\x81", depth) + "\x01"))
		errorIf(t, fits != (err == nil) || fits && len(j.Body) != 2*depth+1, "%d levels: %v", depth, err)
	}
}

func TestGoCallersUseQueuesStreamsAndSchedules(t *testing.T) {
	actortest.Run(t, func(t *testing.T, h *actortest.Harness) {
		ctx, ref := t.Context(), cell.Type.Ref(h, "go")
		answer := make(chan string, 1)
		go func() {
			got, err := cell.Queues.Named("jobs").Of(ref).Ask(ctx, cell.Document(`{"a":1}`))
			answer <- fmt.Sprint(string(got), err)
		}()
		got, err := cell.Queues.Named("jobs").Of(ref).Receive(ctx, handle.ReceiveConfig{Wait: time.Minute})
		fatalIf(t, err != nil || len(got) != 1 || string(got[0].Body) != `{"a":1}`, "%v %v", got, err)
		must(t, got[0].Ack(ctx, cell.Document(`3`)))
		if got := <-answer; got != "3<nil>" {
			t.Error(got)
		}
		must(t, errOf(cell.Streams.Named("log").Of(ref).Append(ctx, cell.Document(`[1]`), nil)))
		page, err := cell.Streams.Named("log").Of(ref).Read(ctx, handle.Position{}, handle.ReadConfig{})
		errorIf(t, err != nil || len(page.Items) != 2 || string(page.Items[0].Value) != `[1]` || page.Items[1].Value != nil,
			"%v %v", page, err)
		set, err := cell.Schedules.Named("s").Of(ref).Set(ctx, actor.Rule{Every: time.Minute}, cell.Job{Event: true})
		errorIf(t, err != nil || !set.Payload.Event || set.Next.IsZero(), "%v %v", set, err)
		if _, err := cell.Schedules.Named("s").Of(ref).Set(ctx, actor.Rule{Every: time.Minute}, cell.Job{}); actor.CodeOf(err) != actor.InvalidArgument {
			t.Errorf("a job that does nothing: %v", err)
		}
	}, cell.Definition())
}
