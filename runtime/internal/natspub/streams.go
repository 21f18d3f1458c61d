package natspub

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/cairn-run/cairn/keyspace"
)

// The pauses before a message that a stream refused is sent again.
const (
	minRetry = 20 * time.Millisecond
	maxRetry = 5 * time.Second
)

// errTooLarge is the error code of a stream that refuses a message over its own limit.
const errTooLarge = 10054

// streams publishes with acknowledgements. Its claims:
//
//  1. At most one message of each actor is on the way, so a stream that refuses one and accepts the
//     next cannot change their order. Messages of different actors are on the way at the same time.
//  2. A message counts as arrived when a stream acknowledged it. Before the first message of each
//     kind, a request finds out whether a stream covers its subject. If none does, a best-effort
//     message is published without a stream; a durable event waits for a stream, and the later
//     changes of its actor wait, too.
//  3. A message that is refused, or not acknowledged in time, is sent again after a growing pause.
//     Only its actor waits.
//
// It belongs to the loop's goroutine, except for replies.
type streams struct {
	l     *loop
	lanes map[string]*lane // by the names of their actors, which a successor has, too
	name  []byte           // of laneOf
	ready []*lane          // lanes that may send

	nc       *nats.Conn
	inbox    string // replies arrive at <inbox>.<token>
	token    uint64
	flights  map[uint64]*flight
	plain    []*item // items with messages sent without a stream since the last flush
	check    time.Time
	coverage map[string]*cover

	mu      sync.Mutex
	replies []*nats.Msg // guarded by mu
}

// A lane holds the items of one actor and its successors, in order. Only the first has messages on
// the way.
type lane struct {
	name     string
	items    []*item
	flight   bool // a message or a question is on the way
	attempts int  // of the message that is next
	retryAt  time.Time
	omit     bool // the stream refused the next message for its size
	queued   bool // in ready
}

// A flight is a message that waits for its acknowledgement, or a question (see ask) that waits for
// its answer.
type flight struct {
	lane *lane
	sent time.Time
	ask  *cover // nil for a message
}

// A cover is the knowledge about streams that cover a subject.
type cover struct {
	subject string
	known   bool
	none    bool // no stream covers it
	until   time.Time
	asking  bool
	waiting []*lane
}

// How long a cover is valid, and how many there may be.
const (
	coveredFor   = time.Minute
	uncoveredFor = 2 * time.Second
	maxCoverage  = 4096
)

func newStreams(l *loop) *streams {
	return &streams{l: l, lanes: map[string]*lane{}, flights: map[uint64]*flight{},
		coverage: map[string]*cover{}}
}

// attach subscribes to the replies on a new connection.
func (s *streams) attach(nc *nats.Conn) error {
	inbox := nc.NewInbox()
	_, err := nc.Subscribe(inbox+".*", func(m *nats.Msg) {
		s.mu.Lock()
		if !strings.HasPrefix(m.Subject, s.inbox) {
			s.mu.Unlock()
			return // of an earlier connection
		}
		s.replies = append(s.replies, m)
		s.mu.Unlock()
		s.l.p.wake()
	})
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.inbox, s.replies = inbox+".", nil
	s.mu.Unlock()
	s.nc = nc
	return nil
}

// detach drops all flights. The items begin again with their first unconfirmed message.
func (s *streams) detach() {
	s.mu.Lock()
	s.replies = nil
	s.mu.Unlock()
	clear(s.flights)
	clear(s.lanes)
	clear(s.coverage)
	s.ready, s.plain, s.nc = nil, nil, nil
	for _, it := range s.l.window {
		s.add(it)
	}
}

// laneOf returns the lane of an item, nil if there is none. Its name is in s.name then.
func (s *streams) laneOf(it *item) *lane {
	i := &it.set.Identity
	s.name = keyspace.AppendDirectoryRow(s.name[:0], i.Namespace, i.Type, i.Key)
	return s.lanes[string(s.name)]
}

// add appends an item to its actor's lane.
func (s *streams) add(it *item) {
	ln := s.laneOf(it)
	if ln == nil {
		ln = &lane{name: string(s.name)}
		s.lanes[ln.name] = ln
	}
	ln.items = append(ln.items, it)
	s.rouse(ln)
}

// remove removes an item from its lane. REQUIRES: it is not busy.
func (s *streams) remove(it *item) {
	ln := s.laneOf(it)
	if ln == nil {
		return
	}
	if len(ln.items) > 0 && ln.items[0] == it {
		ln.attempts, ln.omit, ln.retryAt = 0, false, time.Time{}
	}
	ln.items = slices.DeleteFunc(ln.items, func(other *item) bool { return other == it })
	s.plain = slices.DeleteFunc(s.plain, func(other *item) bool { return other == it })
	s.rouse(ln)
}

// rouse puts a lane into the queue of lanes that may send.
func (s *streams) rouse(ln *lane) {
	if !ln.queued {
		ln.queued = true
		s.ready = append(s.ready, ln)
	}
}

// publish handles replies, sends messages, and reports whether items were done. REQUIRES: attached.
func (s *streams) publish() bool {
	before := len(s.l.window)
	s.receive()
	s.timers()
	for i := 0; i < len(s.ready); i++ {
		ln := s.ready[i]
		ln.queued = false
		if err := s.advance(ln); err != nil {
			s.l.detach(err)
			return false
		}
	}
	s.ready = s.ready[:0]
	if len(s.plain) > 0 {
		if !s.l.flush() {
			return false
		}
		for _, it := range s.plain {
			it.confirmed = max(it.confirmed, it.next)
		}
		s.plain = s.plain[:0]
	}
	s.l.sweep()
	if !s.check.IsZero() {
		s.l.wait(time.Until(s.check))
	}
	return len(s.l.window) < before
}

// advance sends a lane's next message, unless one is on the way.
func (s *streams) advance(ln *lane) error {
	for !ln.flight && len(ln.items) > 0 {
		it := ln.items[0]
		if it.next >= len(it.set.Changes) {
			ln.items = ln.items[1:]
			continue
		}
		now := time.Now()
		if now.Before(ln.retryAt) {
			s.due(ln.retryAt)
			return nil
		}
		c := &it.set.Changes[it.next]
		s.l.env.begin(it.set, it.rowless)
		m := s.l.env.message(it.next)
		cv := s.cover(m.Subject, ln.attempts >= 2, now)
		switch {
		case cv != nil && !cv.known:
			it.busy = true
			return s.ask(ln, cv, now)
		case cv != nil && cv.none && c.Durable:
			s.retry(ln, cv.until.Sub(now))
			continue
		case cv != nil && cv.none:
			dropped, err := s.l.send(it, it.next, "", false)
			if err != nil {
				return err
			}
			if !dropped {
				s.l.p.metrics.unstored.Inc()
				s.l.reported.add(c)
			}
			s.passed(ln, it)
			s.plain = append(s.plain, it)
			continue
		}
		s.token++
		if it.sent {
			s.l.p.metrics.repeated.Inc()
		}
		dropped, err := s.l.send(it, it.next, s.inbox+strconv.FormatUint(s.token, 36), ln.omit)
		if err != nil {
			return err
		}
		it.sent = true
		if dropped {
			s.passed(ln, it)
			if !slices.Contains(s.plain, it) {
				it.confirmed = it.next
			}
			continue
		}
		s.fly(&flight{lane: ln, sent: now})
		it.busy = true
	}
	if len(ln.items) == 0 && s.lanes[ln.name] == ln {
		delete(s.lanes, ln.name)
	}
	return nil
}

// passed advances to the item's next message.
func (s *streams) passed(ln *lane, it *item) {
	it.next++
	it.sent = false
	ln.attempts, ln.omit, ln.retryAt = 0, false, time.Time{}
}

// fly records the flight that was sent with the current token.
func (s *streams) fly(f *flight) {
	s.flights[s.token] = f
	if f.lane != nil {
		f.lane.flight = true
	}
	s.due(f.sent.Add(s.l.p.opts.AckTimeout))
}

// due makes timers run by t.
func (s *streams) due(t time.Time) {
	if s.check.IsZero() || t.Before(s.check) {
		s.check = t
	}
}

// timers gives up flights without an answer in time and rouses the lanes whose pause is over.
func (s *streams) timers() {
	now := time.Now()
	if s.check.IsZero() {
		return
	}
	if now.Before(s.check) {
		return
	}
	s.check = time.Time{}
	for token, f := range s.flights {
		late := f.sent.Add(s.l.p.opts.AckTimeout)
		if now.Before(late) {
			s.due(late)
			continue
		}
		delete(s.flights, token)
		if f.ask != nil {
			s.answered(f.ask, false, uncoveredFor, now)
			continue
		}
		s.failed(f.lane, "no acknowledgement in time")
	}
	for _, ln := range s.lanes {
		s.rouse(ln) // a lane that must still pause sets the timer again
	}
}

// retry makes a lane pause for at least d.
func (s *streams) retry(ln *lane, d time.Duration) {
	ln.attempts++
	pause := minRetry << min(ln.attempts-1, 8)
	ln.retryAt = time.Now().Add(max(d, min(pause, maxRetry)))
}

// failed makes a lane send its message again later.
func (s *streams) failed(ln *lane, why string) {
	ln.flight = false
	if len(ln.items) == 0 {
		return
	}
	it := ln.items[0]
	s.l.idles(it)
	s.retry(ln, 0)
	if ln.attempts == 1 || ln.attempts == 8 {
		s.l.p.log.Warn("nats: a stream does not take a message; it is sent again", "reason", why,
			"attempts", ln.attempts,
			"actor_type", it.set.Identity.Type, "actor_key", it.set.Identity.Key, "version", uint64(it.set.Version))
	}
	s.rouse(ln)
}

// receive handles the replies that arrived.
func (s *streams) receive() {
	s.mu.Lock()
	replies := s.replies
	s.replies = nil
	s.mu.Unlock()
	for _, m := range replies {
		token, err := strconv.ParseUint(m.Subject[len(s.inbox):], 36, 64)
		f := s.flights[token]
		if err != nil || f == nil {
			continue // it is too late, or not from a stream
		}
		delete(s.flights, token)
		if f.ask != nil {
			s.learn(f.ask, m)
			continue
		}
		s.acknowledged(f.lane, m)
	}
}

// acknowledged handles a stream's answer to a message.
func (s *streams) acknowledged(ln *lane, m *nats.Msg) {
	if len(m.Data) == 0 && m.Header.Get("Status") == "503" {
		s.failed(ln, "no stream takes its subject")
		return
	}
	var ack struct {
		Stream string `json:"stream"`
		Error  *struct {
			Code        int    `json:"err_code"`
			Description string `json:"description"`
		} `json:"error"`
	}
	if err := json.Unmarshal(m.Data, &ack); err != nil || ack.Error == nil && ack.Stream == "" {
		s.failed(ln, "the acknowledgement is not understood")
		return
	}
	it := ln.items[0]
	switch {
	case ack.Error == nil:
		s.l.reported.add(&it.set.Changes[it.next])
	case ack.Error.Code == errTooLarge && !ln.omit:
		ln.flight, ln.omit, it.busy = false, true, false
		s.rouse(ln)
		return
	case ack.Error.Code == errTooLarge:
		s.l.drop(it, dropTooLarge, "the stream takes not even its headers", 0)
	default:
		s.failed(ln, ack.Error.Description)
		return
	}
	ln.flight, it.busy = false, false
	s.passed(ln, it)
	if !slices.Contains(s.plain, it) {
		it.confirmed = it.next
	}
	s.rouse(ln)
}
