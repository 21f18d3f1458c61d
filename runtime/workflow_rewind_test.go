package runtime_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/actor/actortest"
	"github.com/cairn-run/cairn/actor/handle"
	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/workflow"
	wfhost "github.com/cairn-run/cairn/workflow/host"
)

// claimEntry returns the id of the entry of a claim's run that is at a path.
func claimEntry(t *testing.T, d actor.Ref[desk], path string) wfhost.EntryID {
	t.Helper()
	for e, err := range deskRun.Of(d).History(context.Background()) {
		must(t, err)
		if e.Path == path {
			return e.ID
		}
	}
	t.Fatalf("the history has no entry %s", path)
	return ""
}

// rounds is a claim that takes three rounds, each with a paper, and keeps their history. bodies counts what it did outside.
func rounds(bodies *atomic.Int64) way {
	return func(ctx workflow.Context, c claim) (string, error) {
		out, err := workflow.Loop(ctx, "round", "", func(it *workflow.Iter[string, string]) error {
			s, err := workflow.Step(it, "s", func(*workflow.StepCtx) (int64, error) { return bodies.Add(1), nil })
			if err != nil {
				return err
			}
			m, err := workflow.Receive(it, "paper", papers)
			it.State += fmt.Sprint(s, m.Body, " ")
			if it.Iteration() < 2 || err != nil {
				return err
			}
			return it.Break(it.State)
		}, workflow.Keep(5))
		if err == nil {
			err = workflow.Sleep(ctx, "nap", time.Hour)
		}
		return out, err
	}
}

func sendPapers(t *testing.T, d actor.Ref[desk], list ...string) {
	t.Helper()
	for _, paper := range list {
		must(t, errOf(papers.Of(d).Send(context.Background(), paper)))
	}
}

// A run that has completed is rewound into a kept iteration: its result is gone, requests for it
// wait, and it goes on by itself, wherever the node stops or loses power.
func TestWorkflowRewindsARunThatHasCompleted(t *testing.T) {
	for name, stop := range map[string]func(h *actortest.Harness){
		"":            func(*actortest.Harness) {},
		"and crashes": func(h *actortest.Harness) { h.Crash() },
		"and stops":   func(h *actortest.Harness) { h.Restart() },
	} {
		for _, to := range []string{"round~1", "round~1/s"} {
			t.Run(to+" "+name, func(t *testing.T) {
				var bodies atomic.Int64
				does("rounds", rounds(&bodies))
				withDesk(t, func(t *testing.T, h *actortest.Harness, d actor.Ref[desk]) {
					ctx := t.Context()
					startClaim(t, d, claim{"rounds", 1})
					sendPapers(t, d, "a", "b", "c")
					wantResult(t, d, "1a 2b 3c ")
					before := claimStatus(t, d)
					entry := claimEntry(t, d, to)
					sendPapers(t, d, "late") // for the run to come
					h.Settle()
					must(t, deskRun.Of(d).Rewind(ctx, entry))
					asked := make(chan string, 1)
					go func() { out, err := deskRun.Of(d).Result(ctx); asked <- fmt.Sprint(out, err) }()
					stop(h)
					h.Settle()
					if st := claimStatus(t, d); st.State != wfhost.StateSleeping || st.ID != before.ID || st.Output != nil || !st.Ended.IsZero() || st.Epoch != 1 {
						t.Errorf("rewound: %+v", st)
					}
					if out, err := deskRun.Of(d).Start(ctx, claim{"rounds", 1}); err != nil || out.Started || out.Run != before.ID {
						t.Errorf("started again: %+v, %v", out, err)
					}
					if _, err := deskRun.Of(d).Start(ctx, claim{"rounds", 2}, handle.Replace()); actor.CodeOf(err) != actor.AlreadyExists {
						t.Errorf("replaced: %v", err)
					}
					select {
					case got := <-asked:
						t.Errorf("the result is there already: %s", got)
					default:
					}
					time.Sleep(time.Hour)
					// A crash may have cut off a step that was done again.
					if got := <-asked; got != "1a 4b 5c <nil>" && (name != "and crashes" || got != "1a 5b 6c <nil>" && got != "1a 4b 6c <nil>") {
						t.Errorf("%q", got)
					}
					if st, err := papers.Of(d).Stats(ctx); err != nil || st.Dead != 1 { // the late one was not received
						t.Errorf("%+v, %v", st, err)
					}
				})
			})
		}
	}
}

// A crash after the rewind and before the run has gone on leaves a run that goes on.
func TestWorkflowThatWasRewoundIsFoundByARestart(t *testing.T) {
	var bodies atomic.Int64
	does("rounds", rounds(&bodies))
	withDesk(t, func(t *testing.T, h *actortest.Harness, d actor.Ref[desk]) {
		startClaim(t, d, claim{"rounds", 1})
		sendPapers(t, d, "a", "b", "c")
		claimResult(t, d)
		askDesk(t, h, host.ActorPause, &host.PauseInput{Reason: "stocktaking"}, nil)
		must(t, deskRun.Of(d).Rewind(t.Context(), claimEntry(t, d, "round~2/s")))
		h.Crash()
		h.Settle()
		if n := bodies.Load(); n != 3 {
			t.Fatalf("it has gone on: %d bodies", n)
		}
		askDesk(t, h, host.ActorResume, nil, nil)
		time.Sleep(time.Minute)
		if n := bodies.Load(); n != 4 {
			t.Errorf("%d bodies", n)
		}
		wantResult(t, d, "1a 2b 4c ")
	})
}

// Messages that the run did not receive before it completed are dead letters, which an operator gives back; requests to it are
// accepted again; and what it owed is undone if it is cancelled.
func TestWorkflowThatWasRewoundReceivesAndUndoesAgain(t *testing.T) {
	does("asked", func(ctx workflow.Context, c claim) (string, error) {
		if err := workflow.Do(ctx, "pay", func(*workflow.StepCtx) error { return nil }, workflow.UndoBy("repay", 7)); err != nil {
			return "", err
		}
		m, err := workflow.Receive(ctx, "paper", papers)
		if err != nil || m.Body == "enough" {
			return m.Body, err
		}
		q, err := workflow.Receive(ctx, "consent", consent)
		if err != nil {
			return "", err
		}
		if _, err := actor.UpdateState(ctx, "yes", func(_ *desk, ctx *actor.Context) (actor.None, error) {
			return actor.None{}, consent.Reply(ctx, q, true)
		}); err != nil {
			return "", err
		}
		return q.Body, workflow.Sleep(ctx, "nap", time.Hour)
	})
	var repaid atomic.Int64
	undo := workflow.WithUndo("repay", func(_ *workflow.StepCtx, n int) error { repaid.Add(int64(n)); return nil })
	actortest.Run(t, func(t *testing.T, h *actortest.Harness) {
		d, ctx := desks.Ref(h, "a"), t.Context()
		startClaim(t, d, claim{"asked", 1})
		sendPapers(t, d, "enough", "more")
		claimResult(t, d)
		h.Settle()
		if _, err := consent.Of(d).Ask(ctx, "may I?"); actor.CodeOf(err) != actor.FailedPrecondition {
			t.Errorf("a request to a run that is over: %v", err)
		}
		if st := claimStatus(t, d); st.Undo != 0 {
			t.Errorf("it owes: %+v", st)
		}
		must(t, deskRun.Of(d).Rewind(ctx, claimEntry(t, d, "paper")))
		if got := claimResult(t, d); got != "enough" { // the same message again
			t.Errorf("%q", got)
		}
		// The message that it got is deleted, and the dead letter is given back instead.
		askDesk(t, h, host.ActorPause, &host.PauseInput{}, nil)
		must(t, deskRun.Of(d).Rewind(ctx, claimEntry(t, d, "paper")))
		var purged, back host.CountOutput
		askDesk(t, h, host.QueuePurge, &host.QueueInput{Queue: "papers"}, &purged)
		askDesk(t, h, host.QueueDeadRequeue, &host.QueueSelectInput{Queue: "papers", All: true}, &back)
		fatalIf(t, purged.Count != 1 || back.Count != 1, "purged %d, requeued %d", purged.Count, back.Count)
		askDesk(t, h, host.ActorResume, nil, nil)
		if ok, err := consent.Of(d).Ask(ctx, "may I?"); err != nil || !ok {
			t.Errorf("a request to the run that lives: %v, %v", ok, err)
		}
		if st := claimStatus(t, d); st.State != wfhost.StateSleeping || st.Undo != 1 {
			t.Errorf("%+v", st)
		}
		must(t, deskRun.Of(d).Cancel(ctx, "enough"))
		h.Settle()
		if st := claimStatus(t, d); st.State != wfhost.StateCancelled || repaid.Load() != 7 {
			t.Errorf("repaid %d, %+v", repaid.Load(), st)
		}
	}, deskDefinition(undo))
}

// Rewinding over HTTP answers as the other verbs do, and shows in the result and in what watches the run.
func TestWorkflowIsRewoundOverHTTP(t *testing.T) {
	var bodies atomic.Int64
	does("rounds", rounds(&bodies))
	withDesk(t, func(t *testing.T, h *actortest.Harness, d actor.Ref[desk]) {
		startClaim(t, d, claim{"rounds", 1})
		sendPapers(t, d, "a", "b", "c")
		claimResult(t, d)
		changes := func() int { return len(h.Events("desk", "a")) }
		before := changes()
		entry := claimEntry(t, d, "nap")
		if code, body := overHTTP(t, h, "workflow.rewind", fmt.Sprintf(`{"entry":%q}`, entry)); code != 204 && code != 200 {
			t.Fatal(code, body)
		}
		if code, body := overHTTP(t, h, "workflow.result", ``); code != 200 || !strings.Contains(body, `"done":false`) || !strings.Contains(body, `"state":"running"`) {
			t.Error(code, body)
		}
		errorIf(t, changes() < before, "events are gone")
		if code, body := overHTTP(t, h, "workflow.rewind", `{"entry":"1501"}`); code != 412 && code != 400 && code != 409 || !strings.Contains(body, "no entry") {
			t.Error(code, body)
		}
		if got := claimResult(t, d); got != "1a 2b 3c " || bodies.Load() != 3 {
			t.Errorf("%q, %d bodies", got, bodies.Load())
		}
	})
}
