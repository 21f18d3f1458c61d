package workflow

import (
	"time"

	"github.com/cairn-run/cairn/workflow/internal/replay"
)

// Sleep waits for d, counted from now. The deadline is recorded, so a crash does not prolong it.
// While the host sleeps, it keeps nothing in memory. The error matches ErrCanceled.
func Sleep(ctx Context, name string, d time.Duration) error {
	return replay.Sleep(ctx, name, d)
}

// SleepUntil waits until t, which may be past. The error matches ErrCanceled.
func SleepUntil(ctx Context, name string, t time.Time) error {
	return replay.SleepUntil(ctx, name, t)
}

// Timer begins to wait for d and returns at once. Get returns the time at which it ended. Without
// a Get, a timer ends with its scope. The error matches ErrCanceled.
func Timer(ctx Context, name string, d time.Duration) (*Future[time.Time], error) {
	return replay.Timer(ctx, name, d)
}

// Await waits until probe returns true. It records and returns the value that probe returned with
// it. probe reads the host's state, as a V. It is called within a transaction whenever that state
// may have changed. It must change nothing and be quick. The error matches ErrTimeout or
// ErrCanceled.
//
// Hosts have functions with a V of their own.
func Await[V, T any](ctx Context, name string, probe func(view V) (T, bool), options ...WaitOption) (T, error) {
	return replay.Await[V, T](ctx, name, probe, options...)
}

// Receive waits for a message of a queue and removes it, in the transaction that records it. So a
// crash neither loses a message nor delivers it twice. If the body cannot be decoded, Receive
// returns the removed message without its body and the error of the source. Other errors match
// ErrTimeout or ErrCanceled.
func Receive[T any](ctx Context, name string, from Source[T], options ...WaitOption) (Received[T], error) {
	return replay.Receive[T](ctx, name, from, options...)
}

// ReceiveAny is Receive for the first message of any of the queues.
func ReceiveAny(ctx Context, name string, queues []string, options ...WaitOption) (Received[Raw], error) {
	return replay.ReceiveAny(ctx, name, queues, options...)
}

// ReceiveBatch is Receive for up to limit messages. It waits only for the first one.
func ReceiveBatch[T any](ctx Context, name string, from Source[T], limit int,
	options ...WaitOption) ([]Received[T], error) {
	return replay.ReceiveBatch[T](ctx, name, from, limit, options...)
}

// A Received is a received message.
//
//	Body T
//	Queue string
//	ID uint64 // names the message within its queue
//	Sent time.Time
//	// WantReply is set if the sender waits for a reply: see Reply.
//	WantReply bool
type Received[T any] = replay.Received[T]

// A Source is a queue of the host with messages of type T. An [Inbox] is one; hosts have others.
type Source[T any] interface {
	// QueueName names the queue within the host.
	QueueName() string
	// DecodeMessage decodes the body of a message.
	DecodeMessage(body []byte) (T, error)
}

// An Inbox is a Source of messages in CBOR.
//
//	Name string
//	// QueueName implements Source.
//	func (q Inbox[T]) QueueName() string
//	// DecodeMessage implements Source.
//	func (q Inbox[T]) DecodeMessage(body []byte) (v T, err error)
type Inbox[T any] = replay.Inbox[T]

// Raw is the body of a message as it was sent, in CBOR.
type Raw = replay.Raw

// A WaitOption is an option of operations that wait.
type WaitOption = replay.WaitOption

// Within bounds a wait, counted from its begin. After that time the wait fails with an error that
// matches ErrTimeout. Within 0, the wait succeeds only if its event is there already.
func Within(d time.Duration) WaitOption {
	return replay.Within(d)
}
