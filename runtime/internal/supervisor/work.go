package supervisor

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
)

// A workKind says what an item of a mailbox asks for.
type workKind uint8

const (
	workCall       workKind = iota // an action, a creation, or a bare create
	workWake                       // make the actor exist and awake, for a query
	workAlarm                      // an alarm is due
	workDeliver                    // messages of another actor
	workSettle                     // messages of this actor were handled or moved aside
	workPin                        // bind messages to the incarnation that they are for
	workRecover                    // load pending messages after a restart
	workPurge                      // remove expired keys
	workSleep                      // run the sleep hook and leave memory
	workDestroy                    // run the destroy hook and remove everything
	workQueue                      // handle messages of the actor's own queues
	workQueueDue                   // messages of a queue are due
	workConnection                 // note that connections were lost, or end them
	workSchedule                   // a schedule is due
	workTask                       // a turn of one of the actor's tasks
	workRun                        // the workflow run is to advance
	workRunDue                     // the time has come that the workflow run waits for
)

var workNames = [...]string{
	"call", "wake", "alarm", "deliver", "settle", "pin", "recover", "purge", "sleep", "destroy", "queue", "queue due", "connection",
	"schedule", "task", "workflow", "workflow due",
}

func (k workKind) String() string { return workNames[k] }

// work is one item of a mailbox. The sender fills it in; the goroutine that runs the actor owns it from the moment it
// is taken; whoever wins settled reports the result.
type work struct {
	kind workKind

	// A call.
	ctx            context.Context // the caller's; nil for work that nobody waits for
	method         int             // index of the method; -1 for a bare create
	builtin        *builtin        // instead of a method
	codec          host.Codec
	input          []byte
	idempotencyKey string
	create         bool
	existing       bool
	traceparent    string
	connection     string // the connection that the call came over
	chain          int    // how many calls deep
	enqueued       time.Time

	// of is the item of the mailbox whose turn this is, if it is not one itself: a creation, a wake-up, a message of a run.
	of *work

	alarm   *alarmFiring
	deliver *delivery
	settle  *settlement
	purge   *engine.Wake
	tend    *tending
	// taken is called by workRecover once the messages are taken up; nil does nothing.
	taken func(*sender) error

	// Of queue work: a message to count a failed attempt of first; the message that is being handled; whether a restart found
	// that messages wait.
	failed    *failedMessage
	message   atomic.Pointer[host.Received] // also read by whoever abandons the turn
	hurried   bool                          // a run is tried at once although it is paused until later
	recovered bool
	paused    bool // it was refused because the actor is paused
	force     bool // of workSleep: the actor sleeps even if more work waits, which wakes it again
	entry     *entry
	schedule  *scheduleFiring

	// waiter is the actor whose turn waits for this work; guarded by waitGraph.mu.
	waiter *activation
	// waits is where to leave the wait edge, nil if none was entered.
	waits *waitGraph

	// The result, written by the winner of settled before release.
	out      []byte
	version  engine.Version
	replayed bool
	err      error

	settled atomic.Bool
	finish  func(*work)   // called when the result may leave; nil means signal done
	done    chan struct{} // capacity 1
}

// cost is what the item counts for in the mailbox's byte bound.
func (w *work) cost() int64 {
	n := int64(len(w.input)) + 64
	if w.deliver != nil {
		for i := range w.deliver.messages {
			n += int64(len(w.deliver.messages[i].record.Input)) + 64
		}
	}
	return n
}

// leave removes the item's wait edge.
func (w *work) leave() {
	if w.waits != nil {
		w.waits.leave(w)
	}
}

// settle claims the right to report the item's result.
func (w *work) claim() bool { return w.settled.CompareAndSwap(false, true) }

// release lets the result out.
//
// REQUIRES: the caller claimed w.
func (w *work) release() {
	if w.finish != nil {
		w.finish(w)
		return
	}
	w.done <- struct{}{}
}

// fail reports an error that depends on nothing uncommitted.
func (w *work) fail(err error) {
	if w.of != nil {
		w.of.fail(err)
		return
	}
	w.leave()
	if w.claim() {
		w.err = err
		w.release()
	}
}

// workPool recycles the items of calls whose caller saw the result, with their channels.
type workPool struct{ p sync.Pool }

func (p *workPool) get() *work {
	if w, ok := p.p.Get().(*work); ok {
		return w
	}
	return &work{done: make(chan struct{}, 1)}
}

// put gives w back.
//
// REQUIRES: w was received from done, so that nobody else holds it.
func (p *workPool) put(w *work) {
	done := w.done
	*w = work{done: done}
	p.p.Put(w)
}

// An alarmFiring is an index row that is due, on its way through its actor's mailbox.
type alarmFiring struct {
	row engine.Wake
}

// A delivery is a run of messages from one actor to another, in order.
type delivery struct {
	from     keyspace.ActorID
	target   keyspace.ActorID // the incarnation that the messages are for
	messages []outgoing
	// handled counts the messages that are done; err is why the next one is not.
	handled int
	err     error
	reason  string // what operators read of err; "" for its text
	paused  bool   // the target did not take them because it is paused
}

// An outgoing message waits at its sender until its target has handled it.
type outgoing struct {
	seq    uint64
	record messageRecord
}

// A binding is under way for the first messages of a channel: see core.pin. Turns of the sender do it, one at a time.
type binding struct {
	channel *channel
	id      keyspace.ActorID // what they are bound to
	of      int              // how many are to be bound; 0 until the first turn
	bound   int              // how many are, durably
	part    []outgoing       // what the last turn has bound of them
}

// A settlement tells a sender what became of messages.
type settlement struct {
	handled []uint64
	failed  []failedSend
	binding *binding // instead of the rest, for workPin
	settled func()   // told once, when it is durable; may be nil
	done    bool     // a turn removed the rows; guarded by sender.mu
}

// A failedSend is a message to be moved aside.
type failedSend struct {
	message  outgoing
	err      error
	reason   string // what operators read of err; "" for its text
	attempts int
}
