package admin

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/method"
	"github.com/cairn-run/cairn/runtime/internal/kernel"
	"github.com/cairn-run/cairn/runtime/internal/kernel/attach"
	"github.com/cairn-run/cairn/runtime/internal/survey"
)

// why implements actor.why: it returns what an actor waits for, without waking it.
func why(s *kernel.Kernel, ctx context.Context, on kernel.Target, _ *method.None) (host.Explanation, error) {
	q, err := Inquire(s, ctx, on.Typ, on.Addr)
	if err != nil {
		return host.Explanation{}, err
	}
	return q.Explain(), nil
}

// A Question is an inquiry with the answers that no other part has.
type Question struct{ *survey.Inquiry }

// Inquire collects the facts about an actor. An actor that is being created counts as awake,
// because its first turn may take long.
func Inquire(s *kernel.Kernel, ctx context.Context, t *kernel.Type, addr host.Address) (Question, error) {
	q := Question{&survey.Inquiry{S: s, Typ: t, Addr: addr, A: s.Find(addr)}}
	var err error
	if q.Status, err = survey.Status(s, addr); err != nil {
		if host.CodeOf(err) != host.NotFound || q.A == nil ||
			q.A.Turn.Load() == nil && q.A.Mailbox.Count() == 0 && !rising(q.A) {
			return q, err
		}
		q.Status = host.Status{Type: addr.Type, Key: q.A.Address.Key, State: host.Awake,
			Mailbox: int(q.A.Mailbox.Count())}
	}
	if err := q.read(); err != nil {
		return q, s.StoreError(err)
	}
	return q, nil
}

// read asks the parts, if the actor is in the store.
func (q Question) read() error {
	id, ok, err := q.S.Store.Lookup(q.S.Identity(q.Addr))
	if err != nil || !ok {
		return err
	}
	snap := q.S.Store.Snapshot(id)
	defer snap.Close()
	for p := range attach.As[survey.Explainer](q.S.Parts) {
		if err := q.Explained(p, snap); err != nil {
			return err
		}
	}
	return nil
}

// Explain picks the first cause that applies.
func (q Question) Explain() host.Explanation {
	q.Ask(survey.RankType, q.retired)
	q.Ask(survey.RankFailed, q.failed)
	q.Ask(survey.RankPaused, q.paused)
	q.Ask(survey.RankCall, q.calling)
	q.Ask(survey.RankTurn, q.running)
	q.Ask(survey.RankDisk, q.syncing)
	q.Ask(survey.RankUnwritable, q.unwritable)
	q.Ask(survey.RankMailbox, q.waiting)
	q.Ask(survey.RankAlarm, q.appointed)
	slices.SortStableFunc(q.Causes, func(x, y survey.Cause) int { return cmp.Compare(x.Rank, y.Rank) })
	x := &host.Explanation{Why: host.WhyCalls, Text: "It has nothing to do until it is called."}
	for _, c := range q.Causes {
		if found := c.Probe(); found != nil {
			x = found
			break
		}
	}
	for _, remark := range q.Remarks {
		remark(x)
	}
	x.Status = q.Status
	return *x
}

func (q Question) retired() *host.Explanation {
	if !q.Typ.Retired {
		return nil
	}
	text := fmt.Sprintf("The program has no actor type %q. The actor keeps its data and does nothing until a program with its type runs, or it is destroyed.", q.Typ.Type)
	return &host.Explanation{Why: host.WhyType, Text: text, Remedy: "destroy",
		Details: map[string]string{"type": q.Typ.Type}}
}

func (q Question) failed() *host.Explanation {
	f := q.Status.Failure
	if f == nil {
		return nil
	}
	text := fmt.Sprintf("It has failed %s: %s. It is tried again on demand after %s.",
		survey.Times(f.Attempts), f.Reason, survey.Moment(f.RetryAt))
	return &host.Explanation{Why: host.WhyFailed, Text: text, Since: &f.Since, Until: &f.RetryAt, Remedy: "retry",
		Details: map[string]string{"reason": f.Reason, "retry_at": survey.Moment(f.RetryAt),
			"attempts": strconv.Itoa(f.Attempts)}}
}

func (q Question) paused() *host.Explanation {
	p := q.Status.Pause
	if p == nil {
		return nil
	}
	text := "It was paused by an operator."
	if p.Reason != "" {
		text = fmt.Sprintf("It was paused by an operator: %s.", strings.TrimRight(p.Reason, ". "))
	}
	return &host.Explanation{Why: host.WhyPaused, Text: text, Since: &p.Since, Remedy: "resume",
		Details: map[string]string{"reason": p.Reason}}
}

// calling explains a turn that waits for another actor, to the end of the chain.
func (q Question) calling() *host.Explanation {
	if q.A == nil {
		return nil
	}
	chain := q.S.Waits.Chain(q.A, func(a, b *kernel.Actor) bool { return a.Key < b.Key })
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
	aboutTurn(x, q.A)
	x.Text = fmt.Sprintf("Its turn waits for %s.", strings.Join(names[1:], ", which waits for "))
	if last, err := Inquire(q.S, context.Background(), end.Type, end.Address); err == nil {
		why := last.Explain()
		x.Details["end_why"] = string(why.Why)
		x.Text += fmt.Sprintf(" %s: %s", names[len(names)-1], why.Text)
	}
	return x
}

// aboutTurn adds the turn that an actor runs, and returns it; nil if there is none.
func aboutTurn(x *host.Explanation, a *kernel.Actor) *kernel.Turn {
	t := a.Turn.Load()
	if t == nil {
		return nil
	}
	since, until := t.Start.UTC(), t.Start.Add(a.Type.Base.TurnTimeout).UTC()
	x.Since, x.Until = &since, &until
	x.Details["handler"] = t.Handler
	x.Details["running_for_ms"] = strconv.FormatInt(time.Since(t.Start).Milliseconds(), 10)
	return t
}

func (q Question) running() *host.Explanation {
	if q.A == nil {
		return nil
	}
	x := &host.Explanation{Why: host.WhyTurn, Details: map[string]string{}}
	t := aboutTurn(x, q.A)
	if t == nil {
		return nil
	}
	x.Text = fmt.Sprintf("Its handler %s has been running for %s; %d more calls wait.",
		t.Handler, time.Since(t.Start).Round(time.Millisecond), q.Status.Mailbox)
	return x
}

func (q Question) syncing() *host.Explanation {
	if q.A == nil {
		return nil
	}
	n := q.A.Pending.Load()
	if n == 0 {
		return nil
	}
	return &host.Explanation{Why: host.WhyDisk,
		Text: fmt.Sprintf("%s not synced yet; replies wait for the disk.",
			survey.Count(int(n), "commit is", "commits are")),
		Details: map[string]string{"commits": strconv.FormatInt(n, 10)}}
}

func (q Question) unwritable() *host.Explanation {
	err := q.S.Err()
	if err == nil {
		return nil
	}
	e, _ := q.S.PublicError(err)
	return &host.Explanation{Why: host.WhyUnwritable, Text: fmt.Sprintf("The node takes no writes: %s.", e.Message),
		Details: map[string]string{"reason": e.Message}}
}

func (q Question) waiting() *host.Explanation {
	if q.Status.Mailbox == 0 {
		if q.A != nil && rising(q.A) {
			return &host.Explanation{Why: host.WhyMailbox, Text: "It is loading from the store for a call."}
		}
		return nil
	}
	return &host.Explanation{Why: host.WhyMailbox,
		Text: fmt.Sprintf("%s in its mailbox; it is about to run.",
			survey.Count(q.Status.Mailbox, "call waits", "calls wait")),
		Details: map[string]string{"calls": strconv.Itoa(q.Status.Mailbox)}}
}

// appointed explains the next appointment. Of several at one time it takes the first part's.
func (q Question) appointed() *host.Explanation {
	if len(q.Next) == 0 {
		return nil
	}
	n := slices.MinFunc(q.Next, func(x, y survey.Appointment) int { return x.Due.Compare(y.Due) })
	due := n.Due.UTC()
	text := fmt.Sprintf("Its next appointment is at %s: %s.", survey.Moment(due), n.Text)
	return &host.Explanation{Why: host.WhyAlarm, Text: text, Until: &due, Details: map[string]string{n.Kind: n.Detail}}
}

// rising reports whether the goroutine that runs the actor is loading it. To run without a core
// does not prove that: an actor that was just put to sleep also runs without a core, until its
// goroutine is done.
func rising(a *kernel.Actor) bool { return a.Raised.Load() == a.Epoch.Load()+1 }
