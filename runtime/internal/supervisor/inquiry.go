package supervisor

import (
	"strconv"
	"time"

	"github.com/cairn-run/cairn/actor/host"
)

// An inquiry is the question what an actor waits for, with what the parts say about that.
type inquiry struct {
	s      *Supervisor
	typ    *actorType
	addr   host.Address
	a      *activation // nil if it is not in memory
	status host.Status
	causes []cause
	next   []appointment
	// remarks are made on the answer, whatever that is.
	remarks []func(*host.Explanation)
}

// A cause is something that the actor may wait for. probe returns nil if it does not.
type cause struct {
	rank  rank
	probe func() *host.Explanation
}

// A rank orders the causes: the first that applies is the answer.
type rank int

// The ranks, in the order in which package host lists the answers. A run that is paused goes before the queues, and what one
// waits for after them.
const (
	rankType rank = iota
	rankFailed
	rankPaused
	rankCall
	rankTurn
	rankDisk
	rankUnwritable
	rankPublisher
	rankMailbox
	rankTasks
	rankSends
	rankRunPaused
	rankQueue
	rankWorkers
	rankLocked
	rankRunWaits
	rankAlarm
	rankConnections
)

// An appointment is a time at which the actor will have something to do.
type appointment struct {
	due          time.Time
	text         string
	kind, detail string
}

// ask adds a cause.
func (q *inquiry) ask(r rank, probe func() *host.Explanation) {
	q.causes = append(q.causes, cause{r, probe})
}

// appoint adds an appointment. Of two at the same time the one that is added first counts.
func (q *inquiry) appoint(due time.Time, text, kind, detail string) {
	q.next = append(q.next, appointment{due, text, kind, detail})
}

// remark adds a function that adds to the answer. The answer is host.WhyCalls if no cause applies.
func (q *inquiry) remark(f func(*host.Explanation)) { q.remarks = append(q.remarks, f) }

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
