package handle

import (
	"context"
	"iter"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/method"
	"github.com/cairn-run/cairn/actor/internal/codec"
	"github.com/cairn-run/cairn/actor/internal/site"
	"github.com/cairn-run/cairn/keyspace/tuple"
)

// The functions of this file are for package actor: they take types of internal packages.

// NewQueue makes a handle of a queue. lock is how long the queue locks messages.
func NewQueue[In, Out any](at site.Site, body, reply *codec.Value, lock time.Duration) Queue[In, Out] {
	return Queue[In, Out]{queue: &queue{at, body, reply, lock}}
}

// NewStream makes a handle of a stream.
func NewStream[T any](at site.Site, items *codec.Value) Stream[T] {
	return Stream[T]{stream: &stream{at, items}}
}

// NewDeadLetters makes a handle of the dead letters of an actor.
func NewDeadLetters(at site.Site) DeadLetters[DeadLetter] {
	with := func(m site.Counting[host.SendSelectInput]) selection {
		return selecting(&at, m,
			func(ids []uint64, all bool) *host.SendSelectInput { return &host.SendSelectInput{IDs: ids, All: all} })
	}
	return DeadLetters[DeadLetter]{
		&deadLetters{requeue: with(method.SendDeadRequeue), remove: with(method.SendDeadDelete)},
		func(ctx context.Context) iter.Seq2[DeadLetter, error] { return deadSends(ctx, &at) },
	}
}

// NewAttribute makes a handle of an attribute of a type.
func NewAttribute[T any](of any, name string, index int, kind host.AttributeKind) *Attribute[T] {
	return &Attribute[T]{attribute: attribute{of, name, index, kind}}
}

// FillSchedule copies a rule into a schedule. The error code is InvalidArgument. The node checks
// the cron expression and the zone.
func FillSchedule(s *host.Schedule, r Rule, contract string) error {
	given := 0
	for _, is := range []bool{r.Cron != "", r.Every != 0, !r.At.IsZero()} {
		if is {
			given++
		}
	}
	s.Missed, s.CatchUp, s.KeepRuns = r.Missed, r.CatchUp, max(r.KeepRuns, -1)
	switch {
	case given != 1:
		return host.Errorf(host.InvalidArgument, "%s: a rule has one of Cron, Every and At, not %d", contract, given)
	case r.Zone != "" && r.Cron == "":
		return host.Errorf(host.InvalidArgument, "%s: only a cron rule has a time zone", contract)
	case r.Cron != "":
		s.Cron, s.Zone = r.Cron, r.Zone
	case !r.At.IsZero():
		s.At = &r.At
	case r.Every < host.MinScheduleEvery:
		return host.Errorf(host.InvalidArgument,
			"%s: the interval %s is too short; it is at least %s", contract, r.Every, host.MinScheduleEvery)
	default:
		s.Every = site.Millis(r.Every)
	}
	return nil
}

// ReadSchedule decodes a schedule that is set.
func ReadSchedule[T any](h *host.Schedule, payload *codec.Value, contract string) (Scheduled[T], error) {
	s := Scheduled[T]{
		Name: h.Name, Instance: h.Instance, Next: timeOf(h.Next), Runs: h.Runs, Attempts: h.Attempts, Skipped: h.Skipped,
		LastResult: h.LastResult, LastError: h.LastError, Rule: ruleOf(h),
	}
	err := decodePayload(h, payload, contract, &s.Payload)
	return s, err
}

// NewSchedule makes a handle of an instance of a schedule. all is the site that List reads, and
// mine reports whether a schedule of that name belongs to the contract.
func NewSchedule[T any](at site.Site, instance string, payload *codec.Value, all site.Site,
	mine func(string) bool) Schedule[T] {
	return Schedule[T]{schedule: &schedule{at, instance, payload, all, mine}}
}

// NewConnections makes a handle of the connections of an actor.
func NewConnections(at site.Site) Connections { return Connections{at} }

// NewRun makes a handle of the run of an actor.
func NewRun[In, Out any](at site.Site, in, out *codec.Value) Run[In, Out] {
	return Run[In, Out]{run: &run{at, in, out}}
}

// SendRequest returns the request that sends messages with the same options.
func SendRequest[In any](at *site.Site, encode *codec.Value, s *site.Sending, bodies []In,
	reply bool) (*host.Request, error) {
	return sendRequest(at, encode, s, valuesOf(bodies), reply)
}

func sendRequest(at *site.Site, encode *codec.Value, s *site.Sending, bodies values,
	reply bool) (*host.Request, error) {
	message := host.QueueMessageInput{
		DelayMS: site.Millis(s.Delay), Priority: s.Priority, DedupID: s.DedupID, WantReply: reply,
	}
	if s.TTL != 0 {
		ttl := site.Millis(s.TTL)
		message.TTLMS = &ttl
	}
	if s.Backoff != nil {
		message.BackoffMS = make([]int64, len(s.Backoff))
		for i, pause := range s.Backoff {
			message.BackoffMS[i] = site.Millis(pause)
		}
	}
	var err error
	if message.KeysIfUndelivered, err = plainKeys(s.Keys); err != nil {
		return nil, err
	}
	in := host.QueueSendInput{Queue: at.Name, Messages: make([]host.QueueMessageInput, bodies.n)}
	for i := range in.Messages {
		body, err := encode.Append(host.CBOR, nil, bodies.at(i))
		if err != nil {
			return nil, host.Errorf(host.InvalidArgument, "body of %s: %s", at.Contract, err)
		}
		in.Messages[i] = message
		in.Messages[i].Body = body
	}
	r, err := site.Request(at, method.QueueSend, &in)
	if err == nil {
		r.IdempotencyKey, r.Existing, r.Traceparent = s.Request.IdempotencyKey, s.Request.Existing,
			s.Request.Traceparent
	}
	return r, err
}

// plainKeys returns keys in the form of requests, whose elements have the types that JSON
// distinguishes.
func plainKeys(keys []tuple.Tuple) ([][]any, error) {
	var out [][]any
	for _, key := range keys {
		for i, element := range key {
			switch element.(type) {
			case string, bool, float64, int, int8, int16, int32, int64, uint8, uint16, uint32:
			default:
				return nil,
					host.Errorf(host.InvalidArgument,
						"KeysIfUndelivered: key part %d is a %T; from outside it is a string, an integer, "+
							"a float64 or a boolean", i+1, element)
			}
		}
		out = append(out, key)
	}
	return out, nil
}

// NewStart returns the start of a run with options.
func NewStart(workflow string, opts []StartOption) host.RunStart {
	s := host.RunStart{Workflow: workflow}
	for _, o := range opts {
		o.applyStart(&s)
	}
	return s
}
