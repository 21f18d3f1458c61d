package supervisor

import (
	"fmt"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/workflow"
)

// runPaused explains a run that does not go on.
func (q *inquiry) runPaused() *host.Explanation {
	st := q.run
	if st == nil || st.Pause == nil {
		return nil
	}
	p := st.Pause
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

// runWaits explains what a run waits for: the first thing of several.
func (q *inquiry) runWaits() *host.Explanation {
	st := q.run
	if st == nil || len(st.Waiting) == 0 {
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
