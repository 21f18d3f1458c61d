package queuerows

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/cairn-run/cairn/actor/host"
)

// modelMessage is a message of the model.
type modelMessage struct {
	id, sent                int64
	queue, body, dedup      string
	state                   state
	priority, attempts      int
	due, expires, ttl, died int64
	pauses                  []int64 // nil: the queue's
	key                     string  // packed, "" for none
	tried                   int64
	wantReply               bool
	receipt, cause          string
}

type modelReply struct {
	queue, code, value string
	until              int64
	open               bool // the message was taken, and its sender waits
}

// A model is the queues as plain maps.
type model struct {
	next     int64
	messages map[int64]modelMessage
	dedup    map[string]modelReply // value is the id
	replies  map[int64]modelReply
	kv       map[string]string
	stats    map[string]host.QueueStats
	told     map[string]bool // what the turn reports: "ready q", "settled q" and "replied id"
	expires  map[int64]int64 // by hour, when the first row of the turn expires
}

func (m *model) clone() *model {
	return &model{
		m.next, maps.Clone(m.messages), maps.Clone(m.dedup), maps.Clone(m.replies), maps.Clone(m.kv), maps.Clone(m.stats), maps.Clone(m.told), maps.Clone(m.expires),
	}
}

// put stores a message in the state that it has now.
func (m *model) put(msg modelMessage) {
	m.leave(msg.id)
	if msg.state == pending {
		m.told["ready "+msg.queue] = true
	}
	m.messages[msg.id] = msg
}

func (m *model) leave(id int64) {
	if old, ok := m.messages[id]; ok && old.state == locked {
		m.told["settled "+old.queue] = true
	}
}

// drop removes a message without a reply.
func (m *model) drop(msg modelMessage) {
	m.leave(msg.id)
	if delete(m.messages, msg.id); msg.wantReply && msg.state != dead {
		m.told[fmt.Sprint("replied ", msg.id)] = true
	}
}

// expireAt records that a row was put that expires.
func (m *model) expireAt(at int64) {
	hour := at / time.Hour.Milliseconds()
	if old, ok := m.expires[hour]; !ok || at < old {
		m.expires[hour] = at
	}
}

func (m *model) reply(msg modelMessage, cfg host.Queue, now int64, code host.Code, value string) {
	if msg.wantReply {
		m.replies[msg.id] = modelReply{msg.queue, string(code), value, now + cfg.ReplyFor.Milliseconds(), false}
		m.told[fmt.Sprint("replied ", msg.id)] = true
		m.expireAt(m.replies[msg.id].until)
	}
}

func (m *model) done(msg modelMessage, cfg host.Queue, now int64, reply string) {
	m.drop(msg)
	m.count(msg.queue, func(s *host.QueueStats) { s.Done++ })
	m.reply(msg, cfg, now, "", reply)
}

// in returns the messages of a queue in a state, by place.
func (m *model) in(queue string, st state, at func(modelMessage) int64) []modelMessage {
	var all []modelMessage
	for _, msg := range m.messages {
		if msg.queue == queue && msg.state == st {
			all = append(all, msg)
		}
	}
	slices.SortFunc(all, func(a, b modelMessage) int { return cmp.Or(cmp.Compare(at(a), at(b)), cmp.Compare(a.id, b.id)) })
	return all
}

func byDue(m modelMessage) int64      { return m.due }
func byPriority(m modelMessage) int64 { return -int64(m.priority) }
func byExpires(m modelMessage) int64  { return m.expires }
func byUntil(m modelMessage) int64 {
	if m.expires != 0 {
		return min(m.due, m.expires)
	}
	return m.due
}

func (m *model) count(queue string, f func(*host.QueueStats)) {
	s := m.stats[queue]
	f(&s)
	m.stats[queue] = s
}

func (m *model) bury(msg modelMessage, cfg host.Queue, now int64, code host.Code, cause string) {
	msg.state, msg.died, msg.due, msg.cause = dead, now, now+cfg.DeadFor.Milliseconds(), cause
	m.put(msg)
	m.count(msg.queue, func(s *host.QueueStats) { s.Failed++ })
	if msg.key != "" {
		m.kv[msg.key] = msg.body
	}
	m.reply(msg, cfg, now, code, "")
	m.trim(msg.queue, cfg, 2)
}

func (m *model) expire(msg modelMessage, cfg host.Queue, now int64) {
	cause := "the message's time-to-live was over before it was received"
	if msg.attempts > 0 {
		cause = fmt.Sprintf("the message's time-to-live was over after %d failed attempts, the last: %s", msg.attempts, msg.cause)
	}
	m.bury(msg, cfg, now, host.DeadlineExceeded, cause)
}

func (m *model) trim(queue string, cfg host.Queue, most int) {
	letters := m.in(queue, dead, byDue)
	for i := 0; i < len(letters)-cfg.Dead && i < most; i++ {
		delete(m.messages, letters[i].id)
	}
}

// fail gives a message back whose attempt was counted.
func (m *model) fail(msg modelMessage, cfg host.Queue, now int64, code host.Code, cause string, delay *time.Duration, toDead bool) {
	msg.tried, msg.cause = now, cause
	pauses := msg.pauses
	if pauses == nil {
		for _, p := range cfg.Backoff {
			pauses = append(pauses, p.Milliseconds())
		}
	}
	switch {
	case msg.attempts > len(pauses) || toDead:
		m.bury(msg, cfg, now, code, cause)
		return
	case msg.expires != 0 && msg.expires <= now:
		m.expire(msg, cfg, now)
		return
	}
	pause := pauses[msg.attempts-1]
	if delay != nil {
		pause = delay.Milliseconds()
	}
	msg.state, msg.due = delayed, now+pause
	if pause == 0 {
		msg.state, msg.due = pending, 0
	}
	m.put(msg)
}

func (m *model) catchUp(queue string, cfg host.Queue, now int64) {
	for _, msg := range m.in(queue, delayed, byUntil) {
		if byUntil(msg) > now {
			break
		}
		if msg.expires != 0 && msg.expires <= now {
			m.expire(msg, cfg, now)
			continue
		}
		msg.state, msg.due = pending, 0
		m.put(msg)
	}
	for _, msg := range m.in(queue, locked, byDue) {
		if msg.due <= now {
			cause := "the lock expired: the worker neither settled the message nor extended the lock in time"
			m.fail(msg, cfg, now, host.DeadlineExceeded, cause, new(time.Duration), false)
		}
	}
	for _, msg := range m.in(queue, pending, byExpires) {
		if msg.expires != 0 && msg.expires <= now {
			m.expire(msg, cfg, now)
		}
	}
	for _, msg := range m.in(queue, dead, byDue) {
		if msg.due <= now {
			delete(m.messages, msg.id)
		}
	}
}
