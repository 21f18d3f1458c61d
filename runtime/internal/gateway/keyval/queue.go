package keyval

import (
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/kv"
	"github.com/cairn-run/cairn/runtime/internal/gateway/kvrest"
)

// A message is a received message. Its id names this delivery of it.
type message struct {
	ID       string     `json:"id"`
	Value    shownValue `json:"value"`
	Attempts int        `json:"attempts"`
}

func received(m *host.ReceivedMessage) message {
	return message{m.Receipt, shownValue{raw: m.Body}, m.Attempt}
}

// noActor reports whether an error says that there is no actor, not that its type has no such
// queue.
func noActor(err error) bool {
	e, is := errors.AsType[*host.Error](err)
	return is && e.Code == host.NotFound && e.Metadata["queue"] == ""
}

var ok = map[string]bool{"ok": true}

// enqueue answers POST api/queue/enqueue.
func enqueue(r *kvrest.Request) (any, error) {
	var in struct {
		Value   host.Raw `json:"value"`
		Options *struct {
			Delay             int64      `json:"delay"`
			BackoffSchedule   []int64    `json:"backoffSchedule" max:"10000"`
			KeysIfUndelivered []host.Raw `json:"keysIfUndelivered" max:"10000"`
		} `json:"options"`
	}
	if err := r.Body(&in); err != nil {
		return nil, err
	}
	body, _, err := document(in.Value, "value", time.Now())
	if err != nil {
		return nil, err
	}
	type sent struct { // keys are JSON, in which doubles are no integers
		Body              host.Raw `json:"body"`
		DelayMS           int64    `json:"delay_ms,omitempty"`
		BackoffMS         []int64  `json:"backoff_ms,omitzero"`
		KeysIfUndelivered []kv.Key `json:"keys_if_undelivered,omitempty"`
	}
	m := sent{Body: body}
	if o := in.Options; o != nil {
		m.DelayMS, m.BackoffMS = o.Delay, o.BackoffSchedule
		if o.Delay < 0 {
			return nil, kvrest.Wrong("options.delay", "options.delay is %d; it is a number of milliseconds", o.Delay)
		}
		for i, raw := range o.KeysIfUndelivered {
			key, err := jsonKey(raw, "options.keysIfUndelivered["+strconv.Itoa(i)+"]")
			if err != nil {
				return nil, err
			}
			m.KeysIfUndelivered = append(m.KeysIfUndelivered, key)
		}
	}
	var out host.QueueSendOutput
	err = r.Do(host.QueueSend, map[string]any{"queue": Queue, "messages": []sent{m}}, &out)
	if err != nil {
		return nil, named(kvrest.Outside(err, "messages"))
	}
	return struct {
		OK bool   `json:"ok"`
		ID string `json:"id"`
	}{true, strconv.FormatUint(out.Messages[0].ID, 10)}, nil
}

// members replaces the members of messages by the names for clients.
var members = strings.NewReplacer(
	"delay_ms", "options.delay", "backoff_ms", "options.backoffSchedule", "keys_if_undelivered", "options.keysIfUndelivered", "body", "value",
)

// named replaces the member in an error about a message by its name for clients.
func named(err error) error {
	e, is := errors.AsType[*host.Error](err)
	if !is || e.Metadata["field"] == "" {
		return err
	}
	out := e.With("field", members.Replace(e.Metadata["field"]))
	if text, found := strings.CutPrefix(e.Message, e.Metadata["field"]); found {
		out.Message = out.Metadata["field"] + text
	}
	return out
}

// poll answers GET api/queue/poll.
func poll(r *kvrest.Request) (any, error) {
	if _, err := r.Params(); err != nil {
		return nil, err
	}
	var out host.QueueReceiveOutput
	if err := r.Do(host.QueueReceive, &host.QueueReceiveInput{Queue: Queue}, &out); err != nil {
		return nil, err
	}
	answer := struct {
		Message *message `json:"message"`
	}{}
	if len(out.Messages) > 0 {
		m := received(&out.Messages[0])
		answer.Message = &m
	}
	return answer, nil
}

// settled reads the id of a delivery and settles it with a method.
func settled(r *kvrest.Request, method string, input func(receipts []string) any) (any, error) {
	var in struct {
		ID string `json:"id"`
	}
	if err := r.Body(&in); err != nil {
		return nil, err
	}
	if in.ID == "" {
		return nil, kvrest.Wrong("id", "id must be a non-empty string")
	}
	var out host.QueueSettleOutput
	err := r.DoExisting(method, input([]string{in.ID}), &out)
	if noActor(err) || err == nil && out.Settled == 0 {
		err = host.Errorf(host.NotFound, "Message not found: it is settled, or its lock has ended")
	}
	return ok, err
}

// ack answers POST api/queue/ack.
func ack(r *kvrest.Request) (any, error) {
	return settled(r, host.QueueAck,
		func(receipts []string) any { return &host.QueueAckInput{Queue: Queue, Receipts: receipts} })
}

// nack answers POST api/queue/nack.
func nack(r *kvrest.Request) (any, error) {
	return settled(r, host.QueueNack,
		func(receipts []string) any { return &host.QueueNackInput{Queue: Queue, Receipts: receipts} })
}

// queueCounts are the counts of the queue.
type queueCounts struct {
	Pending    int64 `json:"pending"`
	Processing int64 `json:"processing"`
	DLQ        int64 `json:"dlq"`
	Total      int64 `json:"total"`
}

func countsOf(s *host.QueueStats) queueCounts {
	c := queueCounts{Pending: s.Pending + s.Delayed, Processing: s.Processing, DLQ: s.Dead}
	c.Total = c.Pending + c.Processing + c.DLQ
	return c
}

// stats answers GET api/queue/stats.
func stats(r *kvrest.Request) (any, error) {
	if _, err := r.Params(); err != nil {
		return nil, err
	}
	s, err := queueStats(r)
	return countsOf(&s), err
}

// queueStats returns the counts of the queue; zeros if there is no actor.
func queueStats(r *kvrest.Request) (s host.QueueStats, err error) {
	var out host.QueueStatsOutput
	err = r.Do(host.QueueStatsMethod, &host.QueueStatsInput{Queue: Queue}, &out)
	if noActor(err) {
		return s, nil
	}
	if len(out.Queues) > 0 {
		s = out.Queues[0]
	}
	return s, err
}

// A deadLetter is a dead letter in the form for clients.
type deadLetter struct {
	ID                string     `json:"id"`
	OriginalID        string     `json:"originalId"`
	Value             shownValue `json:"value"`
	ErrorMessage      *string    `json:"errorMessage"`
	Attempts          int        `json:"attempts"`
	OriginalCreatedAt int64      `json:"originalCreatedAt"`
	FailedAt          int64      `json:"failedAt"`
}

func showDead(m *host.ListedMessage) deadLetter {
	id := strconv.FormatUint(m.ID, 10)
	d := deadLetter{ID: id, OriginalID: id, Value: shownValue{raw: m.Body}, Attempts: m.Attempts,
		OriginalCreatedAt: m.Sent.UnixMilli()}
	if m.Error != "" {
		d.ErrorMessage = &m.Error
	}
	if m.Died != nil {
		d.FailedAt = m.Died.UnixMilli()
	}
	return d
}

// maxOffset bounds how many dead letters are skipped.
const maxOffset = 10_000

// deadLetters answers GET api/queue/dlq: the oldest first.
func deadLetters(r *kvrest.Request) (any, error) {
	params, err := r.Params("limit", "offset")
	if err != nil {
		return nil, err
	}
	text, given := params["limit"]
	limit, err := limitOf(text, given)
	if err != nil {
		return nil, err
	}
	skip := 0
	if text, given := params["offset"]; given {
		if skip, err = strconv.Atoi(text); err != nil || skip < 0 || skip > maxOffset {
			return nil, kvrest.Wrong("offset", "offset is %.40q; it is 0 to %d", text, maxOffset)
		}
	}
	shown := []deadLetter{}
	in := host.QueueListInput{Queue: Queue, Limit: host.MaxQueueBatch}
	for {
		if skip == 0 {
			in.Limit = limit - len(shown)
		} else {
			in.Limit = min(skip, host.MaxQueueBatch)
		}
		page, err := dead(r, in)
		if err != nil {
			return nil, err
		}
		for i := range page.Messages {
			if in.After = page.Messages[i].ID; skip > 0 {
				skip--
				continue
			}
			shown = append(shown, showDead(&page.Messages[i]))
		}
		if len(shown) == 0 {
			r.FreeBody() // of the skipped letters
		}
		if !page.More || len(shown) >= limit {
			return shown, nil
		}
	}
}

// dead lists dead letters; none if there is no actor.
func dead(r *kvrest.Request, in host.QueueListInput) (out host.QueueListOutput, err error) {
	err = r.Do(host.QueueDeadList, &in, &out)
	if noActor(err) {
		return host.QueueListOutput{}, nil
	}
	return out, err
}

var errNoLetter = host.Errorf(host.NotFound, "Message not found in DLQ")

// letter returns the id of the dead letter in the path.
func letter(r *kvrest.Request) (uint64, error) {
	if _, err := r.Params(); err != nil {
		return 0, err
	}
	id, err := strconv.ParseUint(r.Stars[0], 10, 64)
	if err != nil || id == 0 {
		return 0, errNoLetter
	}
	return id, nil
}

// getDead answers GET api/queue/dlq/:id.
func getDead(r *kvrest.Request) (any, error) {
	id, err := letter(r)
	if err != nil {
		return nil, err
	}
	out, err := dead(r, host.QueueListInput{Queue: Queue, IDs: []uint64{id}})
	if err != nil {
		return nil, err
	}
	if len(out.Messages) == 0 {
		return nil, errNoLetter
	}
	return showDead(&out.Messages[0]), nil
}

// selected calls a method for the dead letter in the path.
func selected(r *kvrest.Request, method string) (string, error) {
	id, err := letter(r)
	if err != nil {
		return "", err
	}
	var out host.CountOutput
	err = r.DoExisting(method, &host.QueueSelectInput{Queue: Queue, IDs: []uint64{id}}, &out)
	if noActor(err) || err == nil && out.Count == 0 {
		err = errNoLetter
	}
	return strconv.FormatUint(id, 10), err
}

// requeue answers POST api/queue/dlq/:id/requeue.
func requeue(r *kvrest.Request) (any, error) {
	id, err := selected(r, host.QueueDeadRequeue)
	return struct {
		OK    bool   `json:"ok"`
		NewID string `json:"newId"`
	}{true, id}, err
}

// deleteDead answers DELETE api/queue/dlq/:id.
func deleteDead(r *kvrest.Request) (any, error) {
	_, err := selected(r, host.QueueDeadDelete)
	return ok, err
}

// purge answers DELETE api/queue/dlq.
func purge(r *kvrest.Request) (any, error) {
	if _, err := r.Params(); err != nil {
		return nil, err
	}
	for deleted := int64(0); ; {
		var out host.CountOutput
		err := r.DoExisting(host.QueueDeadDelete, &host.QueueSelectInput{Queue: Queue, All: true}, &out)
		if noActor(err) {
			err = nil
		}
		if deleted += out.Count; err != nil || !out.More {
			return map[string]int64{"deletedCount": deleted}, err
		}
	}
}
