package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/workflow"
)

// Requests are actors with one key part, the number of the request.
var (
	Requests = actor.NewType[Request]("request")
	// Approval is the life of a request. It ends with a decision, when neither approver nor boss
	// answers, or when the request is cancelled, which withdraws it.
	Approval = actor.NewWorkflow[Ask, Verdict](Requests, "approval")
	// Decide takes the decision of the approver or boss that is asked now.
	Decide = actor.NewAction[Verdict, actor.None](Requests, "decide")
	Show   = actor.NewQuery[actor.None, Request](Requests, "show")
	// Verdicts brings decisions to the run.
	Verdicts = actor.NewQueue[Verdict](Requests, "verdicts", actor.QueueConfig{ByRun: true})
	// Told is emitted with each question, reminder and end. A program that sends mail can follow
	// it.
	Told = actor.NewEvent[string](Requests, "told", actor.EventConfig{})
)

// An Ask is a request for a decision by Approver, or by Boss if the approver does not answer.
type Ask struct {
	What     string `json:"what"`
	Approver string `json:"approver"`
	Boss     string `json:"boss"`
}

// A Verdict is a decision.
type Verdict struct {
	By      string `json:"by"`
	Yes     bool   `json:"yes"`
	Comment string `json:"comment,omitempty"`
}

func (v Verdict) String() string {
	if v.Yes {
		return "approved by " + v.By
	}
	return "refused by " + v.By
}

// Request is the state of a request.
type Request struct {
	// Asked is the name of the person that may decide now, or "".
	Asked string
	// Log has a line for each question, reminder and end.
	Log []string
}

// An office decides requests. Its days have this length: a second in the demonstration.
type office struct{ day time.Duration }

// The days until an answer is no longer awaited. There is a reminder on each day.
const (
	approverDays = 3
	bossDays     = 2
)

func (o office) definition() actor.Definition {
	return actor.Define(Requests, actor.Spec[Request]{},
		actor.On(Decide, (*Request).decide),
		actor.OnQuery(Show, Request.show),
		actor.OnRun(Approval, o.approve, workflow.WithErrorValue("no answer", errNoAnswer)),
	)
}

func (r Request) show(*actor.ReadContext, actor.None) (Request, error) { return r, nil }

// decide answers at once whether the decision counts. Its commit contains the message to the run,
// so the run receives every decision that was accepted, sooner or later.
func (r *Request) decide(ctx *actor.Context, v Verdict) (actor.None, error) {
	if v.By != r.Asked || v.By == "" {
		return actor.None{}, actor.Errorf(actor.PermissionDenied, "it is not for %q to decide", v.By)
	}
	r.Asked = ""
	_, err := Verdicts.Put(ctx, v)
	return actor.None{}, err
}

var errNoAnswer = errors.New("nobody has answered")

// approve is the workflow. While it waits, for days, its actor sleeps: it is a few rows on the
// disk.
func (o office) approve(ctx workflow.Context, ask Ask) (Verdict, error) {
	verdict, err := workflow.Scope(ctx, "approver", func(ctx workflow.Context) (Verdict, error) {
		return o.ask(ctx, ask.Approver, approverDays)
	})
	if errors.Is(err, errNoAnswer) {
		verdict, err = workflow.Scope(ctx, "boss", func(ctx workflow.Context) (Verdict, error) {
			return o.ask(ctx, ask.Boss, bossDays)
		})
	}
	end := verdict.String()
	switch {
	case errors.Is(err, workflow.ErrCanceled):
		end = "withdrawn"
	case err != nil:
		end = err.Error()
	}
	// A cancelled run must tidy up too. Operations of a detached context are not cancelled.
	return verdict, errors.Join(err, o.note(workflow.Detach(ctx), "end", "", end))
}

// ask waits for one person's decision. It reminds each day, and fails with errNoAnswer after the
// given number of days.
func (o office) ask(ctx workflow.Context, who string, days int) (Verdict, error) {
	return workflow.Loop(ctx, "day", 0, func(it *workflow.Iter[int, Verdict]) error {
		text := who + " is asked"
		if it.State > 0 {
			text = who + " is reminded"
		}
		if err := o.note(it, "tell", who, text); err != nil {
			return err
		}
		m, err := workflow.Receive(it, "verdict", Verdicts, workflow.Within(o.day))
		switch {
		case err == nil:
			return it.Break(m.Body)
		case !errors.Is(err, workflow.ErrTimeout):
			return err
		}
		if it.State++; it.State == days {
			return errNoAnswer
		}
		return nil
	})
}

// note records the asked person and a line of the log in the actor's state, and emits the line.
func (o office) note(ctx workflow.Context, name, asked, text string) error {
	// The run's time is the time of its last operation, so a replay gets the same time.
	day := int(ctx.Now().Sub(ctx.Info().Started) / o.day)
	_, err := actor.UpdateState(ctx, name, func(r *Request, ctx *actor.Context) (actor.None, error) {
		r.Asked = asked
		r.Log = append(r.Log, fmt.Sprintf("day %d: %s", day, text))
		return actor.None{}, Told.Emit(ctx, text)
	})
	return err
}
