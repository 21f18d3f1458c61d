package keyspace

import (
	"strconv"

	"github.com/cairn-run/cairn/keyspace/tuple"
)

// The keys of queues, schedules and streams, which belong to a name.

// QueueReady is the key of the index of messages that can be received now: 17
// and the tuple (queue, rank, id). Keys order as messages are received.
type QueueReady struct {
	Queue string
	Rank  int64 // the negated priority of the message
	ID    uint64
}

// AppendQueueReady appends the key of one message's entry.
func AppendQueueReady(dst []byte, queue string, rank int64, id uint64) []byte {
	return tuple.AppendUint(tuple.AppendInt(AppendQueueReadyName(dst, queue), rank), id)
}

// AppendQueueReadyName appends what the keys of one queue begin with; the range
// ends at [TupleEnd].
func AppendQueueReadyName(dst []byte, queue string) []byte {
	return appendName(dst, KindQueueReady, queue)
}

// ParseQueueReady takes the key apart.
func ParseQueueReady(key []byte) (k QueueReady, err error) {
	err = parseNamed(key, KindQueueReady, func(d *tuple.Decoder) error {
		return firstError(decodeTo(&k.Queue, d.String), decodeTo(&k.Rank, d.Int), decodeTo(&k.ID, d.Uint))
	})
	return k, err
}

// Kind returns [KindQueueReady].
func (QueueReady) Kind() Kind { return KindQueueReady }

// Append appends the bytes of the key.
func (k QueueReady) Append(dst []byte) []byte { return AppendQueueReady(dst, k.Queue, k.Rank, k.ID) }

// String returns the form queue-ready("jobs", 0, 7).
func (k QueueReady) String() string {
	return named(KindQueueReady, k.Queue, strconv.FormatInt(k.Rank, 10), strconv.FormatUint(k.ID, 10))
}

func (QueueReady) key() {}

// QueueDelayed is the key of the index of messages that wait for a time: delayed messages, and
// messages that a worker has locked. 18 and the tuple (queue, due in Unix ms, id).
type QueueDelayed struct {
	Queue string
	Due   int64
	ID    uint64
}

// AppendQueueDelayed appends the key of one message's entry.
func AppendQueueDelayed(dst []byte, queue string, dueMS int64, id uint64) []byte {
	return tuple.AppendUint(tuple.AppendInt(AppendQueueDelayedName(dst, queue), dueMS), id)
}

// AppendQueueDelayedName appends what the keys of one queue begin with; the
// range ends at [TupleEnd].
func AppendQueueDelayedName(dst []byte, queue string) []byte {
	return appendName(dst, KindQueueDelayed, queue)
}

// ParseQueueDelayed takes the key apart.
func ParseQueueDelayed(key []byte) (k QueueDelayed, err error) {
	err = parseNamed(key, KindQueueDelayed, func(d *tuple.Decoder) error {
		return firstError(decodeTo(&k.Queue, d.String), decodeTo(&k.Due, d.Int), decodeTo(&k.ID, d.Uint))
	})
	return k, err
}

// Kind returns [KindQueueDelayed].
func (QueueDelayed) Kind() Kind { return KindQueueDelayed }

// Append appends the bytes of the key.
func (k QueueDelayed) Append(dst []byte) []byte { return AppendQueueDelayed(dst, k.Queue, k.Due, k.ID) }

// String returns the form queue-delayed("jobs", 1771891200000, 7).
func (k QueueDelayed) String() string {
	return named(KindQueueDelayed, k.Queue, strconv.FormatInt(k.Due, 10), strconv.FormatUint(k.ID, 10))
}

func (QueueDelayed) key() {}

// QueueStats is the key of the counts of one queue: 19 and the tuple (queue).
type QueueStats struct{ Queue string }

// AppendQueueStats appends the key of a queue's counts.
func AppendQueueStats(dst []byte, queue string) []byte { return appendName(dst, KindQueueStats, queue) }

// ParseQueueStats returns the name of the queue.
func ParseQueueStats(key []byte) (k QueueStats, err error) {
	err = parseNamed(key, KindQueueStats, func(d *tuple.Decoder) error { return firstError(decodeTo(&k.Queue, d.String)) })
	return k, err
}

// Kind returns [KindQueueStats].
func (QueueStats) Kind() Kind { return KindQueueStats }

// Append appends the bytes of the key.
func (k QueueStats) Append(dst []byte) []byte { return AppendQueueStats(dst, k.Queue) }

// String returns the form queue-stats("jobs").
func (k QueueStats) String() string { return named(KindQueueStats, k.Queue) }

func (QueueStats) key() {}

// DeadLetter is the key of a message that was given up: 1A and the tuple (queue,
// id).
type DeadLetter struct {
	Queue string
	ID    uint64
}

// AppendDeadLetter appends the key of a dead letter.
func AppendDeadLetter(dst []byte, queue string, id uint64) []byte {
	return tuple.AppendUint(AppendDeadLetterName(dst, queue), id)
}

// AppendDeadLetterName appends what the keys of one queue begin with; the range
// ends at [TupleEnd].
func AppendDeadLetterName(dst []byte, queue string) []byte {
	return appendName(dst, KindDeadLetters, queue)
}

// ParseDeadLetter takes the key apart.
func ParseDeadLetter(key []byte) (k DeadLetter, err error) {
	err = parseNamed(key, KindDeadLetters, func(d *tuple.Decoder) error {
		return firstError(decodeTo(&k.Queue, d.String), decodeTo(&k.ID, d.Uint))
	})
	return k, err
}

// Kind returns [KindDeadLetters].
func (DeadLetter) Kind() Kind { return KindDeadLetters }

// Append appends the bytes of the key.
func (k DeadLetter) Append(dst []byte) []byte { return AppendDeadLetter(dst, k.Queue, k.ID) }

// String returns the form dead-letter("jobs", 7).
func (k DeadLetter) String() string {
	return named(KindDeadLetters, k.Queue, strconv.FormatUint(k.ID, 10))
}

func (DeadLetter) key() {}

// QueueDedup is the key of a de-duplication id that a queue has seen: 1B and the
// tuple (queue, de-duplication id).
type QueueDedup struct{ Queue, DedupID string }

// AppendQueueDedup appends the key of a de-duplication id.
func AppendQueueDedup(dst []byte, queue, dedupID string) []byte {
	return tuple.AppendString(appendName(dst, KindQueueDedup, queue), dedupID)
}

// ParseQueueDedup takes the key apart.
func ParseQueueDedup(key []byte) (k QueueDedup, err error) {
	err = parseNamed(key, KindQueueDedup, func(d *tuple.Decoder) error {
		return firstError(decodeTo(&k.Queue, d.String), decodeTo(&k.DedupID, d.String))
	})
	return k, err
}

// Kind returns [KindQueueDedup].
func (QueueDedup) Kind() Kind { return KindQueueDedup }

// Append appends the bytes of the key.
func (k QueueDedup) Append(dst []byte) []byte { return AppendQueueDedup(dst, k.Queue, k.DedupID) }

// String returns the form queue-dedup("jobs", "order-7").
func (k QueueDedup) String() string {
	return named(KindQueueDedup, k.Queue, strconv.Quote(k.DedupID))
}

func (QueueDedup) key() {}

// QueueReply is the key of the result of a message whose sender wants it: 1C and the id of the
// message.
type QueueReply struct{ ID uint64 }

// AppendQueueReply appends the key of a reply.
func AppendQueueReply(dst []byte, id uint64) []byte { return appendSequence(dst, KindQueueReplies, id) }

// ParseQueueReply returns the id of the message.
func ParseQueueReply(key []byte) (uint64, error) { return parseSequence(key, KindQueueReplies, 1) }

// Kind returns [KindQueueReplies].
func (QueueReply) Kind() Kind { return KindQueueReplies }

// Append appends the bytes of the key.
func (k QueueReply) Append(dst []byte) []byte { return AppendQueueReply(dst, k.ID) }

// String returns the form queue-reply/7.
func (k QueueReply) String() string {
	return KindQueueReplies.String() + "/" + strconv.FormatUint(k.ID, 10)
}

func (QueueReply) key() {}

// Schedule is the key of a schedule: 1D and the tuple (name, instance). An actor
// has at most one schedule per name and instance.
type Schedule struct {
	Name     string // of the schedule in the contract
	Instance string // tells schedules of one name apart; may be empty
}

// AppendSchedule appends the key of a schedule.
func AppendSchedule(dst []byte, name, instance string) []byte {
	return tuple.AppendString(AppendScheduleName(dst, name), instance)
}

// AppendScheduleName appends what the keys of all schedules of a name begin
// with; the range ends at [TupleEnd].
func AppendScheduleName(dst []byte, name string) []byte { return appendName(dst, KindSchedules, name) }

// ParseSchedule takes the key apart.
func ParseSchedule(key []byte) (k Schedule, err error) {
	err = parseNamed(key, KindSchedules, func(d *tuple.Decoder) error {
		return firstError(decodeTo(&k.Name, d.String), decodeTo(&k.Instance, d.String))
	})
	return k, err
}

// Kind returns [KindSchedules].
func (Schedule) Kind() Kind { return KindSchedules }

// Append appends the bytes of the key.
func (k Schedule) Append(dst []byte) []byte { return AppendSchedule(dst, k.Name, k.Instance) }

// String returns the form schedule("nightly", "").
func (k Schedule) String() string { return named(KindSchedules, k.Name, strconv.Quote(k.Instance)) }

func (Schedule) key() {}

// ScheduleRun is the key of the result of one run of a schedule: 1E and the tuple (name, instance,
// run). Runs count from 1.
type ScheduleRun struct {
	Name, Instance string
	Run            uint64
}

// AppendScheduleRun appends the key of a run.
func AppendScheduleRun(dst []byte, name, instance string, run uint64) []byte {
	return tuple.AppendUint(AppendScheduleRuns(dst, name, instance), run)
}

// AppendScheduleRuns appends what the keys of all runs of a schedule begin with;
// the range ends at [TupleEnd].
func AppendScheduleRuns(dst []byte, name, instance string) []byte {
	return tuple.AppendString(appendName(dst, KindScheduleRuns, name), instance)
}

// ParseScheduleRun takes the key apart.
func ParseScheduleRun(key []byte) (k ScheduleRun, err error) {
	err = parseNamed(key, KindScheduleRuns, func(d *tuple.Decoder) error {
		return firstError(decodeTo(&k.Name, d.String), decodeTo(&k.Instance, d.String), decodeTo(&k.Run, d.Uint))
	})
	return k, err
}

// Kind returns [KindScheduleRuns].
func (ScheduleRun) Kind() Kind { return KindScheduleRuns }

// Append appends the bytes of the key.
func (k ScheduleRun) Append(dst []byte) []byte {
	return AppendScheduleRun(dst, k.Name, k.Instance, k.Run)
}

// String returns the form schedule-run("nightly", "", 7).
func (k ScheduleRun) String() string {
	return named(KindScheduleRuns, k.Name, strconv.Quote(k.Instance), strconv.FormatUint(k.Run, 10))
}

func (ScheduleRun) key() {}

// Stream is the key of what is known of one stream: 1F and the tuple (stream).
type Stream struct{ Stream string }

// AppendStream appends the key of a stream.
func AppendStream(dst []byte, stream string) []byte { return appendName(dst, KindStreams, stream) }

// ParseStream returns the name of the stream.
func ParseStream(key []byte) (k Stream, err error) {
	err = parseNamed(key, KindStreams, func(d *tuple.Decoder) error { return firstError(decodeTo(&k.Stream, d.String)) })
	return k, err
}

// Kind returns [KindStreams].
func (Stream) Kind() Kind { return KindStreams }

// Append appends the bytes of the key.
func (k Stream) Append(dst []byte) []byte { return AppendStream(dst, k.Stream) }

// String returns the form stream("tokens").
func (k Stream) String() string { return named(KindStreams, k.Stream) }

func (Stream) key() {}

// StreamItem is the key of one item of a stream: 20 and the tuple (stream,
// sequence). Sequences count from 1.
type StreamItem struct {
	Stream   string
	Sequence uint64
}

// AppendStreamItem appends the key of an item.
func AppendStreamItem(dst []byte, stream string, sequence uint64) []byte {
	return tuple.AppendUint(AppendStreamItems(dst, stream), sequence)
}

// AppendStreamItems appends what the keys of all items of a stream begin with;
// the range ends at [TupleEnd].
func AppendStreamItems(dst []byte, stream string) []byte {
	return appendName(dst, KindStreamItems, stream)
}

// ParseStreamItem takes the key apart.
func ParseStreamItem(key []byte) (k StreamItem, err error) {
	err = parseNamed(key, KindStreamItems, func(d *tuple.Decoder) error {
		return firstError(decodeTo(&k.Stream, d.String), decodeTo(&k.Sequence, d.Uint))
	})
	return k, err
}

// Kind returns [KindStreamItems].
func (StreamItem) Kind() Kind { return KindStreamItems }

// Append appends the bytes of the key.
func (k StreamItem) Append(dst []byte) []byte { return AppendStreamItem(dst, k.Stream, k.Sequence) }

// String returns the form stream-item("tokens", 7).
func (k StreamItem) String() string {
	return named(KindStreamItems, k.Stream, strconv.FormatUint(k.Sequence, 10))
}

func (StreamItem) key() {}

// Control is the key of what operators have set for an actor: 21.
type Control struct{}

// AppendControl appends the key.
func AppendControl(dst []byte) []byte { return append(dst, byte(KindControl)) }

// ParseControl checks that key is it.
func ParseControl(key []byte) error { return parseExact(key, KindControl) }

// Kind returns [KindControl].
func (Control) Kind() Kind { return KindControl }

// Append appends the bytes of the key.
func (Control) Append(dst []byte) []byte { return AppendControl(dst) }

// String returns "control".
func (Control) String() string { return KindControl.String() }

func (Control) key() {}

// Run is the key of what a workflow run that lives waits for: 22.
type Run struct{}

// AppendRun appends the key.
func AppendRun(dst []byte) []byte { return append(dst, byte(KindRun)) }

// ParseRun checks that key is it.
func ParseRun(key []byte) error { return parseExact(key, KindRun) }

// Kind returns [KindRun].
func (Run) Kind() Kind { return KindRun }

// Append appends the bytes of the key.
func (Run) Append(dst []byte) []byte { return AppendRun(dst) }

// String returns "run".
func (Run) String() string { return KindRun.String() }

func (Run) key() {}

// appendName appends a kind and the first element of a tuple.
func appendName(dst []byte, kind Kind, name string) []byte {
	return tuple.AppendString(append(dst, byte(kind)), name)
}

// parseNamed takes apart the tuple after a kind.
func parseNamed(key []byte, kind Kind, elements func(*tuple.Decoder) error) error {
	if err := checkKind(key, kind); err != nil {
		return err
	}
	d := tuple.NewDecoder(key[1:])
	err := elements(&d)
	if err == nil {
		err = d.End()
	}
	return within(kind, 1, err)
}

// decodeTo is a step of firstError: it stores what a decoder's method returns.
func decodeTo[T any](to *T, next func() (T, error)) func() error {
	return func() (err error) {
		*to, err = next()
		return err
	}
}

// firstError runs steps up to the first that fails.
func firstError(steps ...func() error) error {
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// named prints a key: its kind, the quoted name, and what follows.
func named(kind Kind, name string, more ...string) string {
	s := kind.String() + "(" + strconv.Quote(name)
	for _, m := range more {
		s += ", " + m
	}
	return s + ")"
}
