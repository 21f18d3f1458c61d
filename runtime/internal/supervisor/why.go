package supervisor

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cairn-run/cairn/actor/host"
)

// why implements actor.why: what an actor waits for, found out without waking it.
func why(s *Supervisor, ctx context.Context, on target, _ *none) (host.Explanation, error) {
	q, err := inquire(s, ctx, on.typ, on.addr)
	if err != nil {
		return host.Explanation{}, err
	}
	return q.explain(), nil
}

// A question is an inquiry with the answers that no other part has.
type question struct{ *inquiry }

// inquire finds out about an actor. One that is about to be created counts as awake, for its first turn may take long.
func inquire(s *Supervisor, ctx context.Context, t *actorType, addr host.Address) (question, error) {
	q := question{&inquiry{s: s, typ: t, addr: addr, a: s.find(addr)}}
	var err error
	if q.status, err = s.status(addr); err != nil {
		if host.CodeOf(err) != host.NotFound || q.a == nil || q.a.turn.Load() == nil && q.a.waiting.Load() == 0 && !rising(q.a) {
			return q, err
		}
		q.status = host.Status{Type: addr.Type, Key: q.a.addr.Key, State: host.Awake, Mailbox: int(q.a.waiting.Load())}
	}
	if err := q.read(); err != nil {
		return q, s.storeError(err)
	}
	return q, nil
}

// read asks the parts, if the actor is in the store.
func (q question) read() error {
	id, ok, err := q.s.store.Lookup(q.s.identity(q.addr))
	if err != nil || !ok {
		return err
	}
	snap := q.s.store.Snapshot(id)
	defer snap.Close()
	for p := range partsAs[explainer](q.s.parts) {
		if err := p.explain(q.inquiry, snap); err != nil {
			return err
		}
	}
	return nil
}

// explain picks the first cause that applies.
func (q question) explain() host.Explanation {
	q.ask(rankType, q.retired)
	q.ask(rankFailed, q.failed)
	q.ask(rankPaused, q.paused)
	q.ask(rankCall, q.calling)
	q.ask(rankTurn, q.running)
	q.ask(rankDisk, q.syncing)
	q.ask(rankUnwritable, q.unwritable)
	q.ask(rankMailbox, q.waiting)
	q.ask(rankAlarm, q.appointed)
	slices.SortStableFunc(q.causes, func(x, y cause) int { return cmp.Compare(x.rank, y.rank) })
	x := &host.Explanation{Why: host.WhyCalls, Text: "It has nothing to do until somebody calls it."}
	for _, c := range q.causes {
		if found := c.probe(); found != nil {
			x = found
			break
		}
	}
	for _, remark := range q.remarks {
		remark(x)
	}
	x.Status = q.status
	return *x
}

func (q question) retired() *host.Explanation {
	if !q.typ.retired {
		return nil
	}
	text := fmt.Sprintf("The program has no actor type %q. What the actor stores is kept; it does nothing until a program with its type runs, or it is destroyed.", q.typ.Type)
	return &host.Explanation{Why: host.WhyType, Text: text, Remedy: "destroy", Details: map[string]string{"type": q.typ.Type}}
}

func (q question) failed() *host.Explanation {
	f := q.status.Failure
	if f == nil {
		return nil
	}
	text := fmt.Sprintf("It has failed %s: %s. It is tried again when something wants it after %s.", times(f.Attempts), f.Reason, moment(f.RetryAt))
	return &host.Explanation{Why: host.WhyFailed, Text: text, Since: &f.Since, Until: &f.RetryAt, Remedy: "retry",
		Details: map[string]string{"reason": f.Reason, "retry_at": moment(f.RetryAt), "attempts": strconv.Itoa(f.Attempts)}}
}

func (q question) paused() *host.Explanation {
	p := q.status.Pause
	if p == nil {
		return nil
	}
	text := "It was paused by an operator."
	if p.Reason != "" {
		text = fmt.Sprintf("It was paused by an operator: %s.", strings.TrimRight(p.Reason, ". "))
	}
	return &host.Explanation{Why: host.WhyPaused, Text: text, Since: &p.Since, Remedy: "resume", Details: map[string]string{"reason": p.Reason}}
}

// calling explains a turn that waits for another actor, to the end of the chain of those who wait.
func (q question) calling() *host.Explanation {
	if q.a == nil {
		return nil
	}
	chain := q.s.waits.chain(q.a)
	if len(chain) < 2 {
		return nil
	}
	names := make([]string, len(chain))
	for i, a := range chain {
		names[i] = a.String()
	}
	end := chain[len(chain)-1]
	x := &host.Explanation{Why: host.WhyCall, Details: map[string]string{
		"chain": strings.Join(names, " -> "), "target": names[1], "end": names[len(names)-1],
	}}
	aboutTurn(x, q.a)
	x.Text = fmt.Sprintf("Its turn waits for %s.", strings.Join(names[1:], ", which waits for "))
	if last, err := inquire(q.s, context.Background(), end.typ, end.addr); err == nil {
		why := last.explain()
		x.Details["end_why"] = string(why.Why)
		x.Text += fmt.Sprintf(" Of %s: %s", names[len(names)-1], why.Text)
	}
	return x
}

// aboutTurn adds the turn that an actor runs, and returns it; nil if there is none.
func aboutTurn(x *host.Explanation, a *activation) *turn {
	t := a.turn.Load()
	if t == nil {
		return nil
	}
	since, until := t.start.UTC(), t.start.Add(a.typ.base.TurnTimeout).UTC()
	x.Since, x.Until = &since, &until
	x.Details["handler"] = t.handler
	x.Details["running_for_ms"] = strconv.FormatInt(time.Since(t.start).Milliseconds(), 10)
	return t
}

func (q question) running() *host.Explanation {
	if q.a == nil {
		return nil
	}
	x := &host.Explanation{Why: host.WhyTurn, Details: map[string]string{}}
	t := aboutTurn(x, q.a)
	if t == nil {
		return nil
	}
	x.Text = fmt.Sprintf("Its handler %s has been running for %s; %d more calls wait.",
		t.handler, time.Since(t.start).Round(time.Millisecond), q.status.Mailbox)
	return x
}

func (q question) syncing() *host.Explanation {
	if q.a == nil {
		return nil
	}
	n := q.a.pending.Load()
	if n == 0 {
		return nil
	}
	return &host.Explanation{Why: host.WhyDisk,
		Text:    fmt.Sprintf("%s of it are not on the disk yet; their replies wait for that.", count(int(n), "commit", "commits")),
		Details: map[string]string{"commits": strconv.FormatInt(n, 10)}}
}

func (q question) unwritable() *host.Explanation {
	err := q.s.Err()
	if err == nil {
		return nil
	}
	e, _ := q.s.publicError(err)
	return &host.Explanation{Why: host.WhyUnwritable, Text: fmt.Sprintf("The node takes no writes: %s.", e.Message),
		Details: map[string]string{"reason": e.Message}}
}

func (q question) waiting() *host.Explanation {
	if q.status.Mailbox == 0 {
		if q.a != nil && rising(q.a) {
			return &host.Explanation{Why: host.WhyMailbox, Text: "It is being read from the store, for a call."}
		}
		return nil
	}
	return &host.Explanation{Why: host.WhyMailbox,
		Text:    fmt.Sprintf("%s in its mailbox; it is about to run.", count(q.status.Mailbox, "call waits", "calls wait")),
		Details: map[string]string{"calls": strconv.Itoa(q.status.Mailbox)}}
}

// appointed explains the next appointment: of several at one time that of the first part that has one.
func (q question) appointed() *host.Explanation {
	if len(q.next) == 0 {
		return nil
	}
	n := slices.MinFunc(q.next, func(x, y appointment) int { return x.due.Compare(y.due) })
	due := n.due.UTC()
	text := fmt.Sprintf("Its next appointment is at %s: %s.", moment(due), n.text)
	return &host.Explanation{Why: host.WhyAlarm, Text: text, Until: &due, Details: map[string]string{n.kind: n.detail}}
}

// rising reports that the goroutine that runs the actor is getting it into memory. That it runs and has no core does not say
// so: one that has put the actor to sleep, and has answered that, does so too until it is done.
func rising(a *activation) bool { return a.raised.Load() == a.epoch.Load()+1 }
