package cell

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"github.com/fxamacker/cbor/v2"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/actor/handle"
	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/keyspace/tuple"
)

// A Message is put into one of the cell's queues. Its members are those of queue.send.
type Message struct {
	Queue string   `json:"queue,omitempty"`
	Body  Document `json:"body,omitempty"`
	// DelayMS, up to 30 days, is how long the message waits before it can be received. TTLMS, if
	// not 0, is how long it may wait to be received before it becomes a dead letter.
	DelayMS int64  `json:"delay_ms,omitempty"`
	TTLMS   *int64 `json:"ttl_ms,omitempty"`
	// Priority is from -1,000 to 1,000: higher first.
	Priority int `json:"priority,omitempty"`
	// DedupID has up to 255 bytes. A second message with the same id is not stored.
	DedupID string `json:"dedup_id,omitempty"`
	// BackoffMS overrides the pauses between attempts. Empty means one attempt; null or absent
	// overrides nothing.
	BackoffMS []int64 `json:"backoff_ms,omitzero" max:"100"`
	// KeysIfUndelivered are keys of the cell that get the body when the message becomes a dead
	// letter.
	KeysIfUndelivered []Key `json:"keys_if_undelivered,omitempty" max:"10"`
}

// maxBackoff bounds the pauses in a message's BackoffMS.
const maxBackoff = 100

// check returns the fault of a message before it is sent, which may be much later.
func (m *Message) check() error {
	most := host.MaxQueueDelay.Milliseconds()
	bad := func(field, format string, args ...any) error {
		return actor.Errorf(actor.InvalidArgument, format, args...).With("field", field)
	}
	switch {
	case !validName(m.Queue):
		return bad("queue",
			`the queue is %.80q; a name is 1 to 64 characters: a letter, then letters, digits, "-" and "_"`, m.Queue)
	case len(m.Body) == 0:
		return bad("body", "the body is missing; a JSON document is expected (null is one)")
	case m.DelayMS < 0 || m.DelayMS > most:
		return bad("delay_ms", "delay_ms is %d; it must be a number from 0 to %d", m.DelayMS, most)
	case m.TTLMS != nil && (*m.TTLMS < 1 || *m.TTLMS > most):
		return bad("ttl_ms", "ttl_ms is %d; it must be a number from 1 to %d, or absent", *m.TTLMS, most)
	case m.Priority < -host.MaxQueuePriority || m.Priority > host.MaxQueuePriority:
		return bad("priority", "priority is %d; it must be a number from -%d to %[2]d", m.Priority,
			host.MaxQueuePriority)
	case len(m.DedupID) > host.MaxDedupID:
		return bad("dedup_id", "dedup_id has %d bytes; the limit is %d", len(m.DedupID), host.MaxDedupID)
	case len(m.BackoffMS) > maxBackoff:
		return bad("backoff_ms", "backoff_ms has %d elements; the limit is %d", len(m.BackoffMS), maxBackoff)
	}
	for i, pause := range m.BackoffMS {
		if pause < 0 || pause > most {
			return bad(fmt.Sprintf("backoff_ms[%d]", i),
				"backoff_ms has a pause of %d; it must be a number from 0 to %d", pause, most)
		}
	}
	for i, key := range m.KeysIfUndelivered {
		if _, err := key.Entry(); err != nil {
			return of(fmt.Sprintf("keys_if_undelivered[%d]", i), err)
		}
	}
	return nil
}

// validName reports whether a queue may have the name.
func validName(name string) bool {
	for i := range len(name) {
		switch c := name[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z':
		case i > 0 && ('0' <= c && c <= '9' || c == '-' || c == '_'):
		default:
			return false
		}
	}
	return name != "" && len(name) <= 64
}

// put puts the message into its queue.
func (m *Message) put(ctx *actor.Context) (handle.Sent, error) {
	milliseconds := func(n int64) time.Duration { return time.Duration(n) * time.Millisecond }
	opts := []actor.MessageOption{
		actor.Delay(milliseconds(m.DelayMS)), actor.Priority(m.Priority), actor.DedupID(m.DedupID),
	}
	if m.TTLMS != nil {
		opts = append(opts, actor.MessageTTL(milliseconds(*m.TTLMS)))
	}
	if m.BackoffMS != nil {
		pauses := make([]time.Duration, len(m.BackoffMS))
		for i, n := range m.BackoffMS {
			pauses[i] = milliseconds(n)
		}
		opts = append(opts, actor.Backoff(pauses...))
	}
	var keys []tuple.Tuple
	for _, k := range m.KeysIfUndelivered {
		key, err := k.Entry()
		if err != nil {
			return handle.Sent{}, err
		}
		keys = append(keys, key)
	}
	if len(keys) > 0 {
		opts = append(opts, actor.KeysIfUndelivered(keys...))
	}
	return Queues.Named(m.Queue).Put(ctx, m.Body, opts...)
}

// A Job is the work of a schedule at each tick: it puts a message into a queue, emits the event
// Ticked, or both. It is checked when the schedule is set.
type Job struct {
	Message
	// Event, if true, emits Ticked with the body, which may then be absent.
	Event bool `json:"event,omitempty"`
}

// plainJob is a Job without its methods.
type plainJob Job

// UnmarshalJSON reads and checks a job.
func (j *Job) UnmarshalJSON(b []byte) error {
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode((*plainJob)(j)); err != nil {
		e, ok := err.(*actor.Error)
		if !ok {
			e = actor.Errorf(actor.InvalidArgument,
				"the payload of a cell's schedule is an object with queue and body, event, or both")
		}
		if m := host.FindMember(b, (*plainJob)(j), err); m != nil {
			e = e.With("field", m.Path)
		}
		return e
	}
	if err := host.CheckJSON(b, (*plainJob)(j)); err != nil {
		return host.WithMember(actor.Errorf(actor.InvalidArgument,
			"the payload of a cell's schedule: %s", err), "", err)
	}
	return j.check()
}

// MarshalJSON writes the job.
func (j Job) MarshalJSON() ([]byte, error) { return json.Marshal(plainJob(j)) }

// deep reads CBOR with documents, which may nest to 500 levels.
var deep, _ = cbor.DecOptions{
	MaxNestedLevels: 512, MaxArrayElements: 1 << 24, MaxMapPairs: 1 << 24, DupMapKey: cbor.DupMapKeyEnforcedAPF, ExtraReturnErrors: cbor.ExtraDecErrorUnknownField,
}.DecMode()

// UnmarshalCBOR reads and checks a job.
func (j *Job) UnmarshalCBOR(b []byte) error {
	if err := deep.Unmarshal(b, (*plainJob)(j)); err != nil {
		return actor.Errorf(actor.InvalidArgument,
			"the payload of a cell's schedule is a map with queue and body, event, or both")
	}
	return j.check()
}

// MarshalCBOR writes the job.
func (j Job) MarshalCBOR() ([]byte, error) { return cbor.Marshal(plainJob(j)) }

// JSONSchema describes the input of UnmarshalJSON.
func (Job) JSONSchema() []byte {
	return []byte(`{"type":"object","additionalProperties":false,"properties":{
		"queue":{"type":"string","pattern":"^[A-Za-z][A-Za-z0-9_-]{0,63}$","description":"The queue that gets a message at each tick."},
		"body":{"description":"The body of the message, and the payload of the event."},
		"delay_ms":{"type":"integer","minimum":0,"maximum":2592000000},
		"ttl_ms":{"type":"integer","minimum":1,"maximum":2592000000},
		"priority":{"type":"integer","minimum":-1000,"maximum":1000},
		"dedup_id":{"type":"string","maxLength":255},
		"backoff_ms":{"type":["array","null"],"maxItems":100,"items":{"type":"integer","minimum":0,"maximum":2592000000}},
		"keys_if_undelivered":{"type":["array","null"],
			"items":{"type":"array","minItems":1,"items":{"type":["string","number","boolean","object"]}}},
		"event":{"type":"boolean","description":"Emit the event tick."}},
		"anyOf":[{"required":["queue","body"]},{"required":["event"],"properties":{"event":{"const":true},"queue":false,
		"delay_ms":false,"ttl_ms":false,"priority":false,"dedup_id":false,"backoff_ms":false,"keys_if_undelivered":false}}]}`)
}

// JSONExample shows a job for a queue.
func (Job) JSONExample() any {
	return Job{Message: Message{Queue: "jobs", Body: Document(`{"report":"daily"}`), DelayMS: 5000}}
}

func (j *Job) check() error {
	switch {
	case j.Queue != "":
		return j.Message.check()
	case !j.Event:
		return actor.Errorf(actor.InvalidArgument,
			"the payload says neither which queue gets a message nor that an event is emitted").With("field", "queue")
	case j.DelayMS != 0 || j.TTLMS != nil || j.Priority != 0 || j.DedupID != "" ||
		j.BackoffMS != nil || j.KeysIfUndelivered != nil:
		return actor.Errorf(actor.InvalidArgument,
			"the payload says how a message is sent and not to which queue").With("field", "queue")
	}
	return nil
}

// A Tick is the payload of the event Ticked.
type Tick struct {
	// Name and Instance are of the schedule.
	Name     string `json:"name"`
	Instance string `json:"instance,omitempty"`
	// Due is the time for which the run was scheduled, Run its number, from 1.
	Due time.Time `json:"due"`
	Run uint64    `json:"run"`
	// Missed counts the ticks since the last run that had no run of their own.
	Missed  uint64   `json:"missed,omitempty"`
	Payload Document `json:"payload,omitempty"`
}

// tick does the job of a schedule.
func (c *Cell) tick(ctx *actor.Context, job Job) error {
	if job.Queue != "" {
		if _, err := job.put(ctx); err != nil {
			return err
		}
	}
	if !job.Event {
		return nil
	}
	t := ctx.Tick()
	return Ticked.Emit(ctx, Tick{
		Name: t.Name, Instance: t.Instance, Due: t.Due.UTC(), Run: t.Run, Missed: t.Missed, Payload: job.Body,
	})
}
