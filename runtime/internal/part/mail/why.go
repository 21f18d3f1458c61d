package mail

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/runtime/internal/kernel"
	"github.com/cairn-run/cairn/runtime/internal/kernel/address"
	"github.com/cairn-run/cairn/runtime/internal/kernel/clock"
	"github.com/cairn-run/cairn/runtime/internal/survey"
)

// Report implements survey.Reporter.
func (*Part) Report(rows *engine.Snapshot, st *host.Status) (err error) {
	if st.PendingSends, err = survey.CountKeys(rows, keyspace.Outgoing.Kind); err != nil {
		return err
	}
	st.FailedSends, err = survey.CountKeys(rows, keyspace.FailedSend.Kind)
	return err
}

// Keeps implements kernel.Keeper.
func (*Part) Keeps(a *kernel.Actor) error {
	if !Mail(a).Busy() {
		return nil
	}
	return host.Errorf(host.FailedPrecondition,
		"actor %s is sending messages to other actors, which keeps it awake", a).
		With("why", string(host.WhySends))
}

// Explain implements survey.Explainer.
func (*Part) Explain(q *survey.Inquiry, rows *engine.Snapshot) error {
	oldest, err := oldestSend(q.Status.PendingSends, rows)
	if err != nil {
		return err
	}
	q.Ask(survey.RankSends, func() *host.Explanation { return ExplainSends(q, oldest) })
	if q.Status.FailedSends > 0 {
		dead, err := oldestDead(rows)
		if err != nil {
			return err
		}
		q.Remark(func(x *host.Explanation) { undelivered(x, q.Status.FailedSends, dead) })
	}
	return nil
}

// oldestSend reads the first message to another actor that is not handled yet; nil if there is
// none.
func oldestSend(pending int, rows *engine.Snapshot) (*MessageRecord, error) {
	if pending == 0 {
		return nil, nil
	}
	start, end := keyspace.Outgoing.Range()
	page, err := rows.List(engine.ListQuery{Start: start, End: end, Limit: 1})
	if err != nil {
		return nil, err
	}
	found, err := AppendOutgoing(nil, page.Entries)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	return &found[0].Record, nil
}

// A pendingSend describes an actor's unhandled messages to one target.
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

// outstanding describes the sender's unhandled messages, the oldest message first.
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
			sent: clock.TimeMS(ch.queue[0].Record.Sent).UTC(), cause: ch.cause, reason: ch.reason,
		})
	}
	slices.SortFunc(all, func(x, y pendingSend) int {
		if x.held != y.held { // waiting channels come first
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

// ExplainSends explains messages that are not handled yet. oldest is the first of them in the
// store.
func ExplainSends(q *survey.Inquiry, oldest *MessageRecord) *host.Explanation {
	var all []pendingSend
	if q.A != nil {
		all = Mail(q.A).outstanding()
	}
	if len(all) == 0 {
		if oldest == nil {
			return nil
		}
		// They are in the store only: their target is paused, or the node has just started.
		all = []pendingSend{{target: oldest.Address(), messages: q.Status.PendingSends,
			sent: clock.TimeMS(oldest.Sent).UTC(),
			held: q.S.Pauses.At(oldest.Address()) != nil}}
	}
	p := all[0]
	to := address.Format(p.target)
	x := &host.Explanation{Why: host.WhySends, Since: &p.sent, Details: map[string]string{
		"target": to, "messages": strconv.Itoa(p.messages), "attempts": strconv.Itoa(p.attempts),
	}}
	x.Text = fmt.Sprintf("%s with %s and not handled yet.", survey.Count(p.messages, "message is", "messages are"), to)
	if p.cause != nil {
		e, _ := q.S.PublicError(p.cause)
		x.Details["error"], x.Details["code"] = cmp.Or(p.reason, e.Message), string(e.Code)
	}
	switch {
	case !p.held:
	case p.next.IsZero():
		x.Remedy = "skip"
		x.Text = fmt.Sprintf("%s for %s, which is paused.",
			survey.Count(p.messages, "message waits", "messages wait"), to)
	default:
		x.Remedy = "skip"
		next := p.next.UTC()
		x.Until = &next
		x.Details["next_attempt"] = survey.Moment(next)
		x.Text = fmt.Sprintf("%s for %s. The first failed in %s and is tried again at %s.",
			survey.Count(p.messages, "message waits", "messages wait"), to, survey.Count(p.attempts,
				"attempt", "attempts"), survey.Moment(next))
		if e := x.Details["error"]; e != "" {
			x.Text = x.Text[:len(x.Text)-1] + ": " + e + "."
		}
	}
	return x
}

// oldestDead reads the oldest message that was given up; nil if there is none.
func oldestDead(rows *engine.Snapshot) (*host.DeadLetter, error) {
	start, end := keyspace.FailedSend.Range()
	page, err := rows.List(engine.ListQuery{Start: start, End: end, Limit: 1})
	if err != nil || len(page.Entries) == 0 {
		return nil, err
	}
	var m host.DeadLetter
	if err := showDeadSend(&page.Entries[0], host.CBOR, &m); err != nil {
		return nil, err
	}
	return &m, nil
}

// undelivered adds to an explanation that n messages to other actors were given up. That becomes
// the explanation if the actor waits for nothing else.
func undelivered(x *host.Explanation, n int, oldest *host.DeadLetter) {
	if x.Details == nil {
		x.Details = make(map[string]string)
	}
	x.Details["dead_letters"] = survey.Count(n, "message", "messages")
	if x.Why != host.WhyCalls {
		return
	}
	x.Why, x.Remedy = host.WhyDead, "requeue"
	x.Text = survey.Count(n, "message", "messages") + " to other actors could not be delivered and were given up."
	if n == 1 {
		x.Text = "1 message to another actor could not be delivered and was given up."
	}
	if oldest == nil {
		return
	}
	died := oldest.Died.Truncate(time.Millisecond)
	x.Since = &died
	maps.Copy(x.Details, map[string]string{
		"target": address.Format(host.Address{Type: oldest.Type,
			Key: oldest.Key}), "method": oldest.Method, "code": string(oldest.Code), "error": oldest.Error,
	})
}
