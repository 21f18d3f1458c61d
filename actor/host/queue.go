package host

import "time"

// The defaults of Queue.
const (
	DefaultQueueLock         = 30 * time.Second
	DefaultQueueMessages     = 1_000_000
	DefaultQueueMessageBytes = 1 << 20
	DefaultQueueDedupWindow  = 24 * time.Hour
	DefaultQueueDeadFor      = 14 * 24 * time.Hour
	DefaultQueueDead         = 10_000
	DefaultQueueReplyFor     = time.Hour
	// MaxQueueDelay bounds delays, locks and time-to-live of messages.
	MaxQueueDelay = 30 * 24 * time.Hour
	// MaxQueueBatch is how many messages one call sends, receives, settles or lists.
	MaxQueueBatch = 1_000
	// MaxQueuePriority bounds the priority of messages: from -MaxQueuePriority to MaxQueuePriority,
	// 0 is usual, higher first.
	MaxQueuePriority = 1_000
	// MaxDedupID bounds de-duplication ids, in bytes.
	MaxDedupID = 255
	// AnyName as the name of a Queue, Stream or Schedule stands for every name without a
	// declaration of its own.
	AnyName = "*"
)

// DefaultQueueBackoff returns the pauses before new attempts. A message has one attempt more than
// there are pauses; after the last it becomes a dead letter.
func DefaultQueueBackoff() []time.Duration {
	return []time.Duration{time.Second, 5 * time.Second, 10 * time.Second}
}

// A Queue is a named queue of an actor type. A zero field means its default.
type Queue struct {
	// Name is unique among the behavior's queues, or AnyName.
	Name string
	// Handler is the Go function that handles the messages, for logs; "" if workers outside the
	// actor receive them, or its run.
	Handler string
	// ByRun is set if only the actor's workflow run receives the messages.
	ByRun bool
	// Backoff is the pause before each new attempt of a message that sets none; nil means
	// DefaultQueueBackoff, empty means one attempt.
	Backoff []time.Duration
	// Lock is how long a received message is locked unless the receiver asks for another time.
	Lock time.Duration
	// Messages bounds the messages that wait or are locked, Bytes the sum of their bodies (0 for no
	// limit of its own), and MessageBytes one body.
	Messages     int
	Bytes        int64
	MessageBytes int
	// DedupWindow is how long a de-duplication id is remembered.
	DedupWindow time.Duration
	// DeadFor is how long dead letters are kept, and Dead how many; the oldest are removed first.
	DeadFor time.Duration
	Dead    int
	// ReplyFor is how long a reply is kept for a sender that wants it.
	ReplyFor time.Duration
}

// EnsureDefaults sets missing fields to their defaults.
func (q *Queue) EnsureDefaults() {
	if q.Backoff == nil {
		q.Backoff = DefaultQueueBackoff()
	}
	setDefault(&q.Lock, DefaultQueueLock)
	setDefault(&q.Messages, DefaultQueueMessages)
	setDefault(&q.MessageBytes, DefaultQueueMessageBytes)
	setDefault(&q.DedupWindow, DefaultQueueDedupWindow)
	setDefault(&q.DeadFor, DefaultQueueDeadFor)
	setDefault(&q.Dead, DefaultQueueDead)
	setDefault(&q.ReplyFor, DefaultQueueReplyFor)
}

func setDefault[T comparable](p *T, v T) {
	var zero T
	if *p == zero {
		*p = v
	}
}

// An Enqueue is a message to send.
type Enqueue struct {
	// Body is CBOR.
	Body []byte
	// Delay is how long the message waits before it can be received.
	Delay time.Duration
	// Priority orders messages, higher first. Messages of one priority are received in the order in
	// which they were sent.
	Priority int
	// DedupID, if not "", suppresses a second message with the same id within the queue's window.
	DedupID string
	// TTL, if not 0, is how long the message may wait to be received; then it becomes a dead
	// letter.
	TTL time.Duration
	// Backoff overrides the queue's; nil does not.
	Backoff []time.Duration
	// KeysIfUndelivered are keys of the actor's key-value store, packed tuples, that get the body
	// when the message becomes a dead letter.
	KeysIfUndelivered [][]byte
	// WantReply keeps the result of the message for its sender.
	WantReply bool
}

// A Sent is the result of an Enqueue.
type Sent struct {
	// ID is the id of the message; for a duplicate, the id of the first.
	ID        uint64 `json:"id"`
	Duplicate bool   `json:"duplicate,omitempty"`
}

// A Received message is on its way to a handler or worker.
type Received struct {
	ID    uint64
	Queue string
	// Body is CBOR.
	Body []byte
	// Attempt counts from 1.
	Attempt  int
	Priority int
	Sent     time.Time
	DedupID  string
	// WantReply is set if the sender waits for a reply.
	WantReply bool
	// Span is the span that sent the message, if it is recorded.
	Span Span
	// Receipt names this delivery of the message in a worker's acknowledgement; "" for a handler's.
	Receipt string
	// LockedUntil is when the message returns to the queue unless it is settled before; zero for a
	// handler's.
	LockedUntil time.Time
}

// QueueStats are the counts of one queue.
type QueueStats struct {
	Queue string `json:"queue"`
	// Pending messages can be received, Delayed ones not yet, Processing ones are locked by
	// workers; Dead ones were given up.
	Pending    int64 `json:"pending"`
	Delayed    int64 `json:"delayed"`
	Processing int64 `json:"processing"`
	Dead       int64 `json:"dead"`
	// Bytes is the sum of the bodies that are pending, delayed or processing.
	Bytes int64 `json:"bytes"`
	// Sent, Done and Failed count messages ever sent, acknowledged and given up.
	Sent   uint64 `json:"sent"`
	Done   uint64 `json:"done"`
	Failed uint64 `json:"failed"`
	// Oldest is when the first of the pending messages was sent; nil if none is pending.
	Oldest *time.Time `json:"oldest,omitempty"`
	// NextDue is when the next delayed or locked message can be received, nil if there is none.
	NextDue *time.Time `json:"next_due,omitempty"`
}
