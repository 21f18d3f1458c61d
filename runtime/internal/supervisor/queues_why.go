package supervisor

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/runtime/internal/queue"
)

// explain implements explainer.
func (*queuePart) explain(q *inquiry, rows *engine.Snapshot) error {
	queues, err := queue.AllStats(rows)
	if err != nil {
		return err
	}
	explainQueues(q, queues)
	return nil
}

// explainQueues adds what the counts of the queues, in the order of their names, say.
func explainQueues(q *inquiry, queues []host.QueueStats) {
	for _, st := range queues {
		if st.NextDue != nil && st.Delayed > 0 {
			q.appoint(*st.NextDue, "a delayed message of queue "+st.Queue, "queue", st.Queue)
		}
	}
	first := func(r rank, is func(st host.QueueStats) bool, explain func(st *host.QueueStats) *host.Explanation) {
		if i := slices.IndexFunc(queues, is); i >= 0 {
			q.ask(r, func() *host.Explanation { return explain(&queues[i]) })
		}
	}
	t := q.typ
	first(rankQueue, func(st host.QueueStats) bool { return st.Pending > 0 && t.handled(st.Queue) }, explainQueued)
	first(rankWorkers, func(st host.QueueStats) bool { return st.Pending > 0 && t.forWorkers(st.Queue) }, explainForWorkers)
	first(rankLocked, func(st host.QueueStats) bool { return st.Processing > 0 }, explainLocked)
}

// forWorkers reports that neither the actor nor its run takes the messages of a queue.
func (t *actorType) forWorkers(name string) bool {
	i := t.queueIndex(name)
	return i < 0 || t.Queues[i].Handler == "" && !t.Queues[i].ByRun
}

func explainQueued(st *host.QueueStats) *host.Explanation {
	return &host.Explanation{Why: host.WhyQueue, Since: st.Oldest, Remedy: "skip",
		Text:    fmt.Sprintf("%s in its queue %s for its own handler.", count(int(st.Pending), "message waits", "messages wait"), st.Queue),
		Details: map[string]string{"queue": st.Queue, "pending": strconv.FormatInt(st.Pending, 10)}}
}

func explainForWorkers(st *host.QueueStats) *host.Explanation {
	return &host.Explanation{Why: host.WhyWorkers, Since: st.Oldest, // what helps is no verb: start workers
		Text:    fmt.Sprintf("%s for workers in its queue %s: start workers that receive from it.", count(int(st.Pending), "message waits", "messages wait"), st.Queue),
		Details: map[string]string{"queue": st.Queue, "pending": strconv.FormatInt(st.Pending, 10)}}
}

func explainLocked(st *host.QueueStats) *host.Explanation {
	x := &host.Explanation{Why: host.WhyLocked,
		Text:    fmt.Sprintf("Workers hold %s of its queue %s.", count(int(st.Processing), "message", "messages"), st.Queue),
		Details: map[string]string{"queue": st.Queue, "processing": strconv.FormatInt(st.Processing, 10)}}
	if st.Delayed == 0 { // else the next time may be that of a delayed message
		x.Until = st.NextDue
	}
	return x
}
