package run

import (
	"fmt"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/runtime/internal/kernel"
	"github.com/cairn-run/cairn/runtime/internal/survey"
	wfhost "github.com/cairn-run/cairn/workflow/host"
)

// Report implements survey.Reporter.
func (*Part) Report(rows *engine.Snapshot, st *host.Status) (err error) {
	st.Run, err = runSummary(storedRun{rows})
	return err
}

// Lists implements survey.ListReporter.
func (*Part) Lists(t *kernel.Type) bool { return len(t.Workflows) > 0 }

// Resumed implements kernel.Resumer.
func (*Part) Resumed(t *kernel.Turn) error {
	c := t.Core
	if err := flowKnown(c); err != nil {
		return err
	}
	if flowOf(c).live { // compareRuns has left it out
		armRun(c, t, true)
		t.Then(RunOf(c.Actor).TakeUp)
	}
	return nil
}

// Explain implements survey.Explainer.
func (*Part) Explain(q *survey.Inquiry, rows *engine.Snapshot) error {
	_, _, live, err := readRun(rows)
	if err != nil || !live {
		return err
	}
	st, err := wfhost.ReadStatus(storedRun{rows})
	if err != nil {
		return err
	}
	ExplainRun(q, &st)
	return nil
}

// ExplainRun adds explanations from the status of a run.
func ExplainRun(q *survey.Inquiry, st *wfhost.RunStatus) {
	q.Ask(survey.RankRunPaused, func() *host.Explanation { return explainPause(st) })
	q.Ask(survey.RankRunWaits, func() *host.Explanation { return explainWait(st) })
}

// explainPause explains a run that is paused.
func explainPause(st *wfhost.RunStatus) *host.Explanation {
	p := st.Pause
	if p == nil {
		return nil
	}
	since := p.Since.UTC()
	x := &host.Explanation{Why: host.WhyRun, Since: &since, Remedy: "workflow resume", Details: map[string]string{
		"workflow": st.Workflow, "run": st.ID, "reason": string(p.Reason), "text": p.Text,
	}}
	x.Text = fmt.Sprintf("Its workflow %s is paused (%s): %s", st.Workflow, p.Reason, firstLine(p.Text))
	if p.Reason == wfhost.PausedOperator {
		x.Text = fmt.Sprintf("Its workflow %s was paused by an operator: %s", st.Workflow, firstLine(p.Text))
	}
	if !p.Next.IsZero() {
		next := p.Next.UTC()
		x.Until = &next
		x.Text += fmt.Sprintf(" It is tried again at %s.", survey.Moment(next))
	}
	return x
}

// firstLine returns the first line of a report, as a sentence.
func firstLine(s string) string {
	for i := range len(s) {
		if s[i] == '\n' {
			s = s[:i]
			break
		}
	}
	if s == "" {
		return "no reason is given."
	}
	if s[len(s)-1] != '.' {
		s += "."
	}
	return s
}

// explainWait explains what a run waits for: the first thing of several.
func explainWait(st *wfhost.RunStatus) *host.Explanation {
	if len(st.Waiting) == 0 {
		return nil
	}
	w := &st.Waiting[0]
	x := &host.Explanation{Why: host.WhyRun, Details: map[string]string{
		"workflow": st.Workflow, "run": st.ID, "entry": string(w.ID), "path": w.Path, "kind": w.Kind.String(),
	}}
	since := w.Since.UTC()
	x.Since = &since
	what := w.Kind.String() + " " + w.Path
	if len(w.Queues) > 0 {
		what = "a message in " + join(w.Queues)
		x.Details["queue"] = w.Queues[0]
	}
	x.Text = fmt.Sprintf("Its workflow %s waits for %s, since %s", st.Workflow, what, survey.Moment(since))
	if !w.Until.IsZero() {
		until := w.Until.UTC()
		x.Until = &until
		x.Text += fmt.Sprintf(", until %s", survey.Moment(until))
	}
	x.Text += "."
	if more := len(st.Waiting) - 1; more > 0 {
		x.Text += fmt.Sprintf(" It waits for %s as well.", survey.Count(more, "other thing", "other things"))
	}
	return x
}

// join lists names.
func join(names []string) string {
	s := "queue " + names[0]
	for i, n := range names[1:] {
		if i == len(names)-2 {
			s += " or " + n
		} else {
			s += ", " + n
		}
	}
	return s
}
