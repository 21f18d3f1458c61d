package supervisor

import (
	"fmt"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/workflow"
)

// report implements reporter.
func (*runPart) report(rows *engine.Snapshot, st *host.Status) (err error) {
	st.Run, err = runSummary(storedRun{rows})
	return err
}

// lists implements listReporter.
func (*runPart) lists(t *actorType) bool { return len(t.Workflows) > 0 }

// resumed implements resumer.
func (*runPart) resumed(t *turn) error {
	c := t.c
	if err := c.flowKnown(); err != nil {
		return err
	}
	if c.flow().live { // compareRuns has left it out
		c.armRun(t, true)
		t.then(runOf(c.a).takeUp)
	}
	return nil
}

// storeMethods implements storeServer. They are bare, because nothing wakes there, and there is no run in memory that they
// would have to tell.
func (*runPart) storeMethods() []*builtin {
	return []*builtin{bare(runVerb(host.WorkflowPause)), bare(runVerb(host.WorkflowTerminate))}
}

// explain implements explainer.
func (*runPart) explain(q *inquiry, rows *engine.Snapshot) error {
	_, _, live, err := readRun(rows)
	if err != nil || !live {
		return err
	}
	st, err := workflow.ReadStatus(storedRun{rows})
	if err != nil {
		return err
	}
	explainRun(q, &st)
	return nil
}

// explainRun adds what the status of a run says.
func explainRun(q *inquiry, st *workflow.RunStatus) {
	q.ask(rankRunPaused, func() *host.Explanation { return explainPause(st) })
	q.ask(rankRunWaits, func() *host.Explanation { return explainWait(st) })
}

// explainPause explains a run that does not go on.
func explainPause(st *workflow.RunStatus) *host.Explanation {
	p := st.Pause
	if p == nil {
		return nil
	}
	since := p.Since.UTC()
	x := &host.Explanation{Why: host.WhyRun, Since: &since, Remedy: "workflow resume", Details: map[string]string{
		"workflow": st.Workflow, "run": st.ID, "reason": string(p.Reason), "text": p.Text,
	}}
	x.Text = fmt.Sprintf("Its workflow %s is paused (%s): %s", st.Workflow, p.Reason, firstLine(p.Text))
	if p.Reason == workflow.PausedOperator {
		x.Text = fmt.Sprintf("Its workflow %s was paused by an operator: %s", st.Workflow, firstLine(p.Text))
	}
	if !p.Next.IsZero() {
		next := p.Next.UTC()
		x.Until = &next
		x.Text += fmt.Sprintf(" It is tried again at %s.", moment(next))
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
func explainWait(st *workflow.RunStatus) *host.Explanation {
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
	x.Text = fmt.Sprintf("Its workflow %s waits for %s, since %s", st.Workflow, what, moment(since))
	if !w.Until.IsZero() {
		until := w.Until.UTC()
		x.Until = &until
		x.Text += fmt.Sprintf(", until %s", moment(until))
	}
	x.Text += "."
	if more := len(st.Waiting) - 1; more > 0 {
		x.Text += fmt.Sprintf(" It waits for %s as well.", count(more, "other thing", "other things"))
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
