package survey

import (
	"strconv"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/runtime/internal/kernel"
)

// An Inquiry finds out why an actor waits. It has the answers of the parts.
type Inquiry struct {
	S      *kernel.Kernel
	Typ    *kernel.Type
	Addr   host.Address
	A      *kernel.Actor // nil if it is not in memory
	Status host.Status
	Causes []Cause
	Next   []Appointment
	// Remarks are made on the answer, for any answer.
	Remarks []func(*host.Explanation)
}

// Explained calls Explain of one part.
func (q *Inquiry) Explained(p Explainer, rows *engine.Snapshot) (err error) {
	defer q.S.Contain(q.Addr, "Explain", p, &err)
	return p.Explain(q, rows)
}

// A Cause is a possible reason to wait. Probe returns nil if the actor does not wait for it.
type Cause struct {
	Rank  Rank
	Probe func() *host.Explanation
}

// A Rank orders the causes: the first that applies is the answer.
type Rank int

// The ranks, in the order in which package host lists the answers. A paused run goes before the
// queues, and the wait of a run after them.
const (
	RankType Rank = iota
	RankFailed
	RankPaused
	RankCall
	RankTurn
	RankDisk
	RankUnwritable
	RankPublisher
	RankMailbox
	RankTasks
	RankSends
	RankRunPaused
	RankQueue
	RankWorkers
	RankLocked
	RankRunWaits
	RankAlarm
	RankConnections
)

// An Appointment is a time at which the actor will have something to do.
type Appointment struct {
	Due          time.Time
	Text         string
	Kind, Detail string
}

// Ask adds a cause.
func (q *Inquiry) Ask(r Rank, probe func() *host.Explanation) {
	q.Causes = append(q.Causes, Cause{r, probe})
}

// Appoint adds an appointment. Of two at the same time the one that is added first counts.
func (q *Inquiry) Appoint(due time.Time, text, kind, detail string) {
	q.Next = append(q.Next, Appointment{due, text, kind, detail})
}

// Remark adds a function that adds to the answer. The answer is host.WhyCalls if no cause applies.
func (q *Inquiry) Remark(f func(*host.Explanation)) { q.Remarks = append(q.Remarks, f) }

// Label names an alarm or schedule for people.
func Label(name, instance string) string {
	if instance == "" {
		return name
	}
	return name + " " + strconv.Quote(instance)
}

// Moment formats a time for operators.
func Moment(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// Times formats a number of times: "1 time", "2 times".
func Times(n int) string { return Count(n, "time", "times") }

// Count formats a number with its noun.
func Count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + many
}
