package supervisor

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/cairn-run/cairn/actor/host"
)

// A pendingSend describes the messages to one target that an actor has not got rid of.
type pendingSend struct {
	target   host.Address
	first    uint64 // the sequence of the first
	messages int
	attempts int
	held     bool
	next     time.Time // when the first is tried again, if it waits for that
	sent     time.Time
	cause    error
	reason   string
}

// outstanding returns what the sender has not got rid of, the oldest message first.
func (s *sender) outstanding() []pendingSend {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []pendingSend
	for _, ch := range s.channels {
		if len(ch.queue) == 0 {
			continue
		}
		all = append(all, pendingSend{
			target: ch.addr, first: ch.queue[0].seq, messages: len(ch.queue), attempts: ch.attempts, held: ch.held, next: ch.next,
			sent: timeMS(ch.queue[0].record.Sent).UTC(), cause: ch.cause, reason: ch.reason,
		})
	}
	slices.SortFunc(all, func(x, y pendingSend) int {
		if x.held != y.held { // what waits before what is on its way
			if x.held {
				return -1
			}
			return 1
		}
		if x.first < y.first {
			return -1
		}
		return 1
	})
	return all
}

func (q *inquiry) sending() *host.Explanation {
	var all []pendingSend
	if q.a != nil {
		all = q.a.mail().outstanding()
	}
	if len(all) == 0 {
		if q.oldest == nil {
			return nil
		}
		// They are in the store only: their target is paused, or the node has just started.
		all = []pendingSend{{target: q.oldest.address(), messages: q.status.PendingSends, sent: timeMS(q.oldest.Sent).UTC(),
			held: q.s.pauses.at(q.oldest.address()) != nil}}
	}
	p := all[0]
	to := formatAddress(p.target)
	x := &host.Explanation{Why: host.WhySends, Since: &p.sent, Details: map[string]string{
		"target": to, "messages": strconv.Itoa(p.messages), "attempts": strconv.Itoa(p.attempts),
	}}
	x.Text = fmt.Sprintf("%s with %s, which has not handled it yet.", count(p.messages, "message is", "messages are"), to)
	if p.cause != nil {
		e, _ := publicError(p.cause)
		x.Details["error"], x.Details["code"] = cmp.Or(p.reason, e.Message), string(e.Code)
	}
	switch {
	case !p.held:
	case p.next.IsZero():
		x.Remedy = "skip"
		x.Text = fmt.Sprintf("%s for %s, which is paused.", count(p.messages, "message waits", "messages wait"), to)
	default:
		x.Remedy = "skip"
		next := p.next.UTC()
		x.Until = &next
		x.Details["next_attempt"] = moment(next)
		x.Text = fmt.Sprintf("%s for %s, the first of which was not handled in %s and is tried again at %s.",
			count(p.messages, "message waits", "messages wait"), to, count(p.attempts, "attempt", "attempts"), moment(next))
		if e := x.Details["error"]; e != "" {
			x.Text = x.Text[:len(x.Text)-1] + ": " + e + "."
		}
	}
	return x
}

// first returns the first queue, by name, that something is true of.
func (q *inquiry) first(is func(st host.QueueStats) bool) *host.QueueStats {
	for i := range q.queues {
		if is(q.queues[i]) {
			return &q.queues[i]
		}
	}
	return nil
}

func (q *inquiry) queued() *host.Explanation {
	st := q.first(func(st host.QueueStats) bool { return st.Pending > 0 && q.typ.handled(st.Queue) })
	if st == nil {
		return nil
	}
	return &host.Explanation{Why: host.WhyQueue, Since: st.Oldest, Remedy: "skip",
		Text:    fmt.Sprintf("%s in its queue %s for its own handler.", count(int(st.Pending), "message waits", "messages wait"), st.Queue),
		Details: map[string]string{"queue": st.Queue, "pending": strconv.FormatInt(st.Pending, 10)}}
}

func (q *inquiry) forWorkers() *host.Explanation {
	st := q.first(func(st host.QueueStats) bool {
		return st.Pending > 0 && !q.typ.handled(st.Queue) && !q.typ.byRun(st.Queue)
	})
	if st == nil {
		return nil
	}
	return &host.Explanation{Why: host.WhyWorkers, Since: st.Oldest, // what helps is no verb: start workers
		Text:    fmt.Sprintf("%s for workers in its queue %s: start workers that receive from it.", count(int(st.Pending), "message waits", "messages wait"), st.Queue),
		Details: map[string]string{"queue": st.Queue, "pending": strconv.FormatInt(st.Pending, 10)}}
}

func (q *inquiry) locked() *host.Explanation {
	st := q.first(func(st host.QueueStats) bool { return st.Processing > 0 })
	if st == nil {
		return nil
	}
	x := &host.Explanation{Why: host.WhyLocked,
		Text:    fmt.Sprintf("Workers hold %s of its queue %s.", count(int(st.Processing), "message", "messages"), st.Queue),
		Details: map[string]string{"queue": st.Queue, "processing": strconv.FormatInt(st.Processing, 10)}}
	if st.Delayed == 0 { // else the next time may be that of a delayed message
		x.Until = st.NextDue
	}
	return x
}

func (q *inquiry) appointed() *host.Explanation {
	if len(q.next) == 0 {
		return nil
	}
	n := q.next[0]
	due := n.due.UTC()
	text := fmt.Sprintf("Its next appointment is at %s: %s.", moment(due), n.text)
	return &host.Explanation{Why: host.WhyAlarm, Text: text, Until: &due, Details: map[string]string{n.kind: n.detail}}
}

func (q *inquiry) connected() *host.Explanation {
	n := q.status.Connections
	if n == 0 {
		return nil
	}
	return &host.Explanation{Why: host.WhyConnections,
		Text:    fmt.Sprintf("%s connected; it waits for what they do.", count(n, "client is", "clients are")),
		Details: map[string]string{"connections": strconv.Itoa(n)}}
}
