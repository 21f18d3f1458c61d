package supervisor

import (
	"fmt"
	"strings"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
)

// present implements presenter.
func (*taskPart) present(_ *Supervisor, a *activation, st *host.Status) {
	if a != nil {
		st.Tasks = currentCrew(a).size()
	}
}

// explain implements explainer.
func (*taskPart) explain(q *inquiry, _ *engine.Snapshot) error {
	if a := q.a; a != nil {
		q.ask(rankTasks, func() *host.Explanation { return explainTasks(currentCrew(a).roll()) })
	}
	return nil
}

// explainTasks explains tasks that run; leaving: they were told to return.
func explainTasks(tasks []*task, leaving bool) *host.Explanation {
	if len(tasks) == 0 {
		return nil
	}
	since := tasks[0].started.UTC()
	var names []string
	for _, t := range tasks[:min(len(tasks), maxNamedTasks)] {
		names = append(names, t.name)
	}
	list := strings.Join(names, ", ")
	text := fmt.Sprintf("%s beside it: %s.", count(len(tasks), "task runs", "tasks run"), list)
	if leaving {
		text = fmt.Sprintf("It goes to sleep when %s returned: %s.", count(len(tasks), "task has", "tasks have"), list)
	}
	return &host.Explanation{Why: host.WhyTasks, Text: text, Since: &since, Details: map[string]string{"tasks": strings.Join(names, ",")}}
}

// maxNamedTasks is how many tasks an explanation names.
const maxNamedTasks = 16
