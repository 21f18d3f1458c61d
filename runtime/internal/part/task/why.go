package task

import (
	"fmt"
	"strings"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/runtime/internal/kernel"
	"github.com/cairn-run/cairn/runtime/internal/survey"
)

// Present implements survey.Presenter.
func (*Part) Present(_ *kernel.Kernel, a *kernel.Actor, st *host.Status) {
	if a != nil {
		st.Tasks = currentCrew(a).Size()
	}
}

// Explain implements survey.Explainer.
func (*Part) Explain(q *survey.Inquiry, _ *engine.Snapshot) error {
	if a := q.A; a != nil {
		q.Ask(survey.RankTasks, func() *host.Explanation { return ExplainTasks(currentCrew(a).roll()) })
	}
	return nil
}

// ExplainTasks explains tasks that run; leaving: they were told to return.
func ExplainTasks(tasks []*Task, leaving bool) *host.Explanation {
	if len(tasks) == 0 {
		return nil
	}
	since := tasks[0].Started.UTC()
	var names []string
	for _, t := range tasks[:min(len(tasks), maxNamedTasks)] {
		names = append(names, t.Name)
	}
	list := strings.Join(names, ", ")
	text := fmt.Sprintf("%s beside it: %s.", survey.Count(len(tasks), "task runs", "tasks run"), list)
	if leaving {
		text = fmt.Sprintf("It goes to sleep when %s returned: %s.",
			survey.Count(len(tasks), "task has", "tasks have"), list)
	}
	return &host.Explanation{Why: host.WhyTasks, Text: text, Since: &since,
		Details: map[string]string{"tasks": strings.Join(names, ",")}}
}

// maxNamedTasks is how many tasks an explanation names.
const maxNamedTasks = 16
