package queuerows

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/cairn-run/cairn/actor/host"
)

// modelMessage is a message as the model knows it.
type modelMessage struct {
	id, sent                int64
	queue, body, dedup      string
	state                   state
	priority, attempts      int
	due, expires, ttl, died int64
	pauses                  []int64 // nil: the queue's
	key                     string  // packed, "" for none
	wantReply               bool
	receipt                 string
}

type modelReply struct {
	queue, code, value string
	until              int64
}

// A model is the queues as plain maps.
type model struct {
	next     int64
	messages map[int64]modelMessage
	dedup    map[string]modelReply // value is the id
	replies  map[int64]modelReply
	kv       map[string]string
	stats    map[string]host.QueueStats
}

func (m *model) clone() *model {
	return &model{
		m.next, maps.Clone(m.messages), maps.Clone(m.dedup), maps.Clone(m.replies), maps.Clone(m.kv), maps.Clone(m.stats),
	}
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

func (m *model) bury(msg modelMessage, cfg host.Queue, now int64, code host.Code) {
	msg.state, msg.died, msg.due = dead, now, now+cfg.DeadFor.Milliseconds()
	m.messages[msg.id] = msg
	m.count(msg.queue, func(s *host.QueueStats) { s.Failed++ })
	if msg.key != "" {
		m.kv[msg.key] = msg.body
	}
	if msg.wantReply {
		m.replies[msg.id] = modelReply{msg.queue, string(code), "", now + cfg.ReplyFor.Milliseconds()}
	}
	m.trim(msg.queue, cfg, 2)
}

func (m *model) trim(queue string, cfg host.Queue, most int) {
	letters := m.in(queue, dead, byDue)
	for i := 0; i < len(letters)-cfg.Dead && i < most; i++ {
		delete(m.messages, letters[i].id)
	}
}

// fail gives a message back whose attempt was counted.
func (m *model) fail(msg modelMessage, cfg host.Queue, now int64, code host.Code, delay *time.Duration, toDead bool) {
	pauses := msg.pauses
	if pauses == nil {
		for _, p := range cfg.Backoff {
			pauses = append(pauses, p.Milliseconds())
		}
	}
	switch {
	case msg.attempts > len(pauses) || toDead:
		m.bury(msg, cfg, now, code)
		return
	case msg.expires != 0 && msg.expires <= now:
		m.bury(msg, cfg, now, host.DeadlineExceeded)
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
	m.messages[msg.id] = msg
}

func (m *model) catchUp(queue string, cfg host.Queue, now int64) {
	for _, msg := range m.in(queue, delayed, byUntil) {
		if byUntil(msg) > now {
			break
		}
		if msg.expires != 0 && msg.expires <= now {
			m.bury(msg, cfg, now, host.DeadlineExceeded)
			continue
		}
		msg.state, msg.due = pending, 0
		m.messages[msg.id] = msg
	}
	for _, msg := range m.in(queue, locked, byDue) {
		if msg.due <= now {
			m.fail(msg, cfg, now, host.DeadlineExceeded, new(time.Duration), false)
		}
	}
	for _, msg := range m.in(queue, pending, byExpires) {
		if msg.expires != 0 && msg.expires <= now {
			m.bury(msg, cfg, now, host.DeadlineExceeded)
		}
	}
	for _, msg := range m.in(queue, dead, byDue) {
		if msg.due <= now {
			delete(m.messages, msg.id)
		}
	}
}
