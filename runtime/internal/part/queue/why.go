package queue

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/runtime/internal/kernel"
	queuerows "github.com/cairn-run/cairn/runtime/internal/part/queue/rows"
	"github.com/cairn-run/cairn/runtime/internal/survey"
)

// Explain implements survey.Explainer.
func (*Part) Explain(q *survey.Inquiry, rows *engine.Snapshot) error {
	queues, err := queuerows.AllStats(rows)
	if err != nil {
		return err
	}
	ExplainQueues(q, queues)
	return nil
}

// ExplainQueues adds explanations from the counts of the queues, in the order of their names.
func ExplainQueues(q *survey.Inquiry, queues []host.QueueStats) {
	for _, st := range queues {
		if st.NextDue != nil && st.Delayed > 0 {
			q.Appoint(*st.NextDue, "a delayed message of queue "+st.Queue, "queue", st.Queue)
		}
	}
	first := func(r survey.Rank, is func(st host.QueueStats) bool, explain func(st *host.QueueStats) *host.Explanation) {
		if i := slices.IndexFunc(queues, is); i >= 0 {
			q.Ask(r, func() *host.Explanation { return explain(&queues[i]) })
		}
	}
	t := q.Typ
	first(survey.RankQueue,
		func(st host.QueueStats) bool { return st.Pending > 0 && handled(t, st.Queue) }, explainQueued)
	first(survey.RankWorkers,
		func(st host.QueueStats) bool { return st.Pending > 0 && forWorkers(t, st.Queue) }, explainForWorkers)
	first(survey.RankLocked, func(st host.QueueStats) bool { return st.Processing > 0 }, explainLocked)
}

// forWorkers reports whether neither the actor nor its run takes the messages of a queue.
func forWorkers(t *kernel.Type, name string) bool {
	i := queueIndex(t, name)
	return i < 0 || t.Queues[i].Handler == "" && !t.Queues[i].ByRun
}

func explainQueued(st *host.QueueStats) *host.Explanation {
	return &host.Explanation{Why: host.WhyQueue, Since: st.Oldest, Remedy: "skip",
		Text: fmt.Sprintf("%s in its queue %s for its own handler.",
			survey.Count(int(st.Pending), "message waits", "messages wait"), st.Queue),
		Details: map[string]string{"queue": st.Queue, "pending": strconv.FormatInt(st.Pending, 10)}}
}

func explainForWorkers(st *host.QueueStats) *host.Explanation {
	return &host.Explanation{Why: host.WhyWorkers, Since: st.Oldest, // no verb helps: start workers
		Text: fmt.Sprintf("%s for workers in its queue %s: start workers that receive from it.",
			survey.Count(int(st.Pending), "message waits", "messages wait"), st.Queue),
		Details: map[string]string{"queue": st.Queue, "pending": strconv.FormatInt(st.Pending, 10)}}
}

func explainLocked(st *host.QueueStats) *host.Explanation {
	x := &host.Explanation{Why: host.WhyLocked,
		Text: fmt.Sprintf("Workers hold %s of its queue %s.",
			survey.Count(int(st.Processing), "message", "messages"), st.Queue),
		Details: map[string]string{"queue": st.Queue, "processing": strconv.FormatInt(st.Processing, 10)}}
	if st.Delayed == 0 { // else the next time may be that of a delayed message
		x.Until = st.NextDue
	}
	return x
}
