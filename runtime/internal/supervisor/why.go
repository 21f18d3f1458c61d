package supervisor

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/workflow"
)

// storedWaits read what an actor waits for in those parts of its keyspace that other packages keep. A nil one knows nothing.
type storedWaits struct {
	queues    func(engine.Reader) ([]host.QueueStats, error)
	schedules func(engine.Reader) ([]host.Schedule, error)
}

// An inquiry is what is known of an actor while it is explained. a is nil if it is not in memory.
type inquiry struct {
	s      *Supervisor
	typ    *actorType
	addr   host.Address
	a      *activation
	status host.Status
	queues []host.QueueStats
	next   []appointment
	run    *workflow.RunStatus // nil if it has none that lives
	oldest *messageRecord      // the first message to another actor that is not handled yet
	dead   map[string]string   // about the first message to another actor that was given up, at died
	died   time.Time
}

// An appointment is a time at which the actor will have something to do.
type appointment struct {
	due          time.Time
	text         string
	kind, detail string
}

// why implements actor.why: what an actor waits for, found out without waking it.
func (s *Supervisor) why(ctx context.Context, on target, _ *none) (host.Explanation, error) {
	q, err := s.inquire(ctx, on.typ, on.addr)
	if err != nil {
		return host.Explanation{}, err
	}
	return q.explain(), nil
}

// inquire finds out about an actor. One that is about to be created counts as awake, for its first turn may take long.
func (s *Supervisor) inquire(ctx context.Context, t *actorType, addr host.Address) (*inquiry, error) {
	q := &inquiry{s: s, typ: t, addr: addr, a: s.find(addr)}
	var err error
	if q.status, err = s.status(addr); err != nil {
		if host.CodeOf(err) != host.NotFound || q.a == nil || q.a.turn.Load() == nil && q.a.waiting.Load() == 0 && !q.a.rising() {
			return nil, err
		}
		q.status = host.Status{Type: addr.Type, Key: q.a.addr.Key, State: host.Awake, Mailbox: int(q.a.waiting.Load())}
	}
	if err := q.read(); err != nil {
		return nil, s.storeError(err)
	}
	return q, nil
}

// read reads what the actor's keyspace says.
func (q *inquiry) read() error {
	id, ok, err := q.s.store.Lookup(q.s.identity(q.addr))
	if err != nil || !ok {
		return err
	}
	snap := q.s.store.Snapshot(id)
	defer snap.Close()
	if f := q.s.stored.queues; f != nil {
		if q.queues, err = f(snap); err != nil {
			return err
		}
	}
	if q.status.PendingSends > 0 {
		start, end := keyspace.KindRange(keyspace.KindOutgoing)
		page, err := snap.List(engine.ListQuery{Start: start, End: end, Limit: 1})
		if err != nil {
			return err
		}
		found, err := appendOutgoing(nil, page.Entries)
		if err != nil {
			return err
		}
		if len(found) > 0 {
			q.oldest = &found[0].record
		}
	}
	if err := q.readDead(snap); err != nil {
		return err
	}
	alarms, err := listAlarms(snap, "")
	if err != nil {
		return err
	}
	for _, al := range alarms {
		text := "alarm " + label(al.Name, al.Instance)
		if al.Attempts > 0 {
			text += ", which has failed " + times(al.Attempts)
		}
		q.next = append(q.next, appointment{al.Due, text, "alarm", al.Name})
	}
	if _, _, live, err := readRun(snap); err != nil {
		return err
	} else if live {
		st, err := workflow.ReadStatus(storedRun{snap})
		if err != nil {
			return err
		}
		q.run = &st
	}
	if f := q.s.stored.schedules; f != nil {
		schedules, err := f(snap)
		if err != nil {
			return err
		}
		for _, sc := range schedules {
			if sc.Next != nil {
				q.next = append(q.next, appointment{*sc.Next, "schedule " + label(sc.Name, sc.Instance), "schedule", sc.Name})
			}
		}
	}
	for _, st := range q.queues {
		if st.NextDue != nil && st.Delayed > 0 {
			q.next = append(q.next, appointment{*st.NextDue, "a delayed message of queue " + st.Queue, "queue", st.Queue})
		}
	}
	slices.SortStableFunc(q.next, func(x, y appointment) int { return x.due.Compare(y.due) })
	return nil
}

// explain picks the first answer that applies, in the order of the constants of package host.
func (q *inquiry) explain() host.Explanation {
	for _, probe := range []func(*inquiry) *host.Explanation{
		(*inquiry).retired, (*inquiry).failed, (*inquiry).paused, (*inquiry).calling, (*inquiry).running, (*inquiry).syncing, (*inquiry).unwritable,
		(*inquiry).unpublished, (*inquiry).waiting, (*inquiry).working, (*inquiry).sending, (*inquiry).runPaused, (*inquiry).queued, (*inquiry).forWorkers,
		(*inquiry).locked, (*inquiry).runWaits, (*inquiry).appointed, (*inquiry).connected,
	} {
		if x := probe(q); x != nil {
			q.undelivered(x)
			x.Status = q.status
			return *x
		}
	}
	x := host.Explanation{Why: host.WhyCalls, Text: "It has nothing to do until somebody calls it.", Status: q.status}
	q.undelivered(&x)
	return x
}

func (q *inquiry) retired() *host.Explanation {
	if !q.typ.retired {
		return nil
	}
	text := fmt.Sprintf("The program has no actor type %q. What the actor stores is kept; it does nothing until a program with its type runs, or it is destroyed.", q.typ.Type)
	return &host.Explanation{Why: host.WhyType, Text: text, Remedy: "destroy", Details: map[string]string{"type": q.typ.Type}}
}

func (q *inquiry) failed() *host.Explanation {
	f := q.status.Failure
	if f == nil {
		return nil
	}
	text := fmt.Sprintf("It has failed %s: %s. It is tried again when something wants it after %s.", times(f.Attempts), f.Reason, moment(f.RetryAt))
	return &host.Explanation{Why: host.WhyFailed, Text: text, Since: &f.Since, Until: &f.RetryAt, Remedy: "retry",
		Details: map[string]string{"reason": f.Reason, "retry_at": moment(f.RetryAt), "attempts": strconv.Itoa(f.Attempts)}}
}

func (q *inquiry) paused() *host.Explanation {
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
func (q *inquiry) calling() *host.Explanation {
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
	if last, err := q.s.inquire(context.Background(), end.typ, end.addr); err == nil {
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

func (q *inquiry) running() *host.Explanation {
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

func (q *inquiry) syncing() *host.Explanation {
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

func (q *inquiry) unwritable() *host.Explanation {
	err := q.s.Err()
	if err == nil {
		return nil
	}
	e, _ := publicError(err)
	return &host.Explanation{Why: host.WhyUnwritable, Text: fmt.Sprintf("The node takes no writes: %s.", e.Message),
		Details: map[string]string{"reason": e.Message}}
}

func (q *inquiry) unpublished() *host.Explanation {
	sink := q.s.options.Changes
	if sink == nil || !slices.ContainsFunc(q.typ.Events, func(e host.Event) bool { return e.Durable }) {
		return nil
	}
	err := sink.Refuse()
	if err == nil {
		return nil
	}
	e, _ := publicError(err)
	return &host.Explanation{Why: host.WhyPublisher, Text: fmt.Sprintf("Turns that emit durable events are refused: %s.", e.Message),
		Details: map[string]string{"reason": e.Message}}
}

func (q *inquiry) waiting() *host.Explanation {
	if q.status.Mailbox == 0 {
		if q.a != nil && q.a.rising() {
			return &host.Explanation{Why: host.WhyMailbox, Text: "It is being read from the store, for a call."}
		}
		return nil
	}
	return &host.Explanation{Why: host.WhyMailbox,
		Text:    fmt.Sprintf("%s in its mailbox; it is about to run.", count(q.status.Mailbox, "call waits", "calls wait")),
		Details: map[string]string{"calls": strconv.Itoa(q.status.Mailbox)}}
}

func (q *inquiry) working() *host.Explanation {
	if q.a == nil {
		return nil
	}
	tasks, leaving := currentCrew(q.a).roll()
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

// rising reports that the goroutine that runs the actor is getting it into memory. That it runs and has no core does not say
// so: one that has put the actor to sleep, and has answered that, does so too until it is done.
func (a *activation) rising() bool { return a.raised.Load() == a.epoch.Load()+1 }

// label names an alarm or schedule for people.
func label(name, instance string) string {
	if instance == "" {
		return name
	}
	return name + " " + strconv.Quote(instance)
}

func moment(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

func times(n int) string { return count(n, "time", "times") }

func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + many
}
