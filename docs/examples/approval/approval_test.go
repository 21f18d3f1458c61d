package main

import (
	"bytes"
	"testing"
	"time"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/actor/actortest"
	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/workflow"
	wfhost "github.com/cairn-run/cairn/workflow/host"
)

const printed = `ann is too late: permission_denied: it is not for "ann" to decide
a chair (completed)
  day 0: ann is asked
  day 0: approved by ann
a press (completed)
  day 0: ann is asked
  day 1: ann is reminded
  day 2: ann is reminded
  day 3: bob is asked
  day 3: refused by bob
  "next year"
a yacht (cancelled)
  day 0: ann is asked
  day 1: ann is reminded
  day 1: withdrawn
a party (failed)
  day 0: ann is asked
  day 1: ann is reminded
  day 2: ann is reminded
  day 3: bob is asked
  day 4: bob is reminded
  day 5: nobody has answered
`

// Days of two hours, in virtual time.
var calm = office{day: 2 * time.Hour}

func TestApproval(t *testing.T) {
	actortest.Run(t, func(t *testing.T, h *actortest.Harness) {
		var out bytes.Buffer
		if err := demonstrate(t.Context(), h, calm, &out); err != nil {
			t.Fatal(err)
		}
		if got := out.String(); got != printed {
			t.Errorf("got\n%s\nexpected\n%s", got, printed)
		}
	}, calm.definition())
}

// The same, with a power cut every 37 minutes, which is never when demonstrate makes a call.
func TestApprovalThroughPowerCuts(t *testing.T) {
	actortest.Run(t, func(t *testing.T, h *actortest.Harness) {
		end := make(chan struct{})
		cuts := make(chan struct{})
		go func() {
			defer close(cuts)
			for {
				select {
				case <-time.After(37 * time.Minute):
					h.Crash()
				case <-end:
					return
				}
			}
		}()
		var out bytes.Buffer
		err := demonstrate(t.Context(), h, calm, &out)
		close(end)
		<-cuts
		if err != nil {
			t.Fatal(err)
		}
		if got := out.String(); got != printed {
			t.Errorf("got\n%s\nexpected\n%s", got, printed)
		}
	}, calm.definition())
}

// While it waits, a request is asleep, and its status says what it waits for and until when.
func TestRequestSleepsWhileItWaits(t *testing.T) {
	actortest.Run(t, func(t *testing.T, h *actortest.Harness) {
		begun := time.Now()
		ref := Requests.Ref(h, "1")
		if _, err := Approval.Of(ref).Start(t.Context(), Ask{What: "a lamp", Approver: "ann", Boss: "bob"}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		h.Settle()
		if st := h.Status("request", "1"); st.State != host.Asleep {
			t.Errorf("the actor is %s", st.State)
		}
		status, err := Approval.Of(ref).Status(t.Context())
		if err != nil || status.State != wfhost.StateWaiting || len(status.Waiting) != 1 {
			t.Fatalf("%+v, %v", status, err)
		}
		w := status.Waiting[0]
		if w.Path != "approver/day~0/verdict" || w.Kind != workflow.KindReceive || !w.Until.Equal(begun.Add(calm.day)) {
			t.Errorf("%+v", w)
		}
		// A decision wakes it.
		if _, err := Decide.Call(t.Context(), ref, Verdict{By: "ann", Yes: true}); err != nil {
			t.Fatal(err)
		}
		if v, err := Approval.Of(ref).Result(t.Context()); err != nil || !v.Yes {
			t.Errorf("%v, %v", v, err)
		}
		if _, err := Decide.Call(t.Context(), ref, Verdict{By: "ann"}); actor.CodeOf(err) != actor.PermissionDenied {
			t.Error("decided twice:", err)
		}
	}, calm.definition())
}
