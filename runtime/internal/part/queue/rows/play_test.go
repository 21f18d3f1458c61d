package queuerows

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/keyspace/tuple"
)

// A player does random things to a world and a model alike.
type player struct {
	*world
	model    *model
	rng      *rand.Rand
	receipts []string // every receipt that was ever given
	taken    []*host.Received
	queues   []string
}

func (p *player) chance(percent int) bool { return p.rng.IntN(100) < percent }

// span returns a time below ms, in steps that are coarse enough for things to come due at the very
// moment of a turn.
func (p *player) span(ms int) time.Duration {
	return time.Duration(p.rng.IntN(ms/50)) * 50 * time.Millisecond
}

func (p *player) message() host.Enqueue {
	e := host.Enqueue{Body: bytes.Repeat([]byte{byte('a' + p.rng.IntN(26))}, p.rng.IntN(40)), WantReply: p.chance(40)}
	if p.chance(20) {
		e.Priority = (p.rng.IntN(7) - 3) * (host.MaxQueuePriority / 3)
	}
	if p.chance(20) {
		e.Delay = p.span(3_000)
	}
	if p.chance(20) {
		e.TTL = e.Delay + time.Millisecond + p.span(6_000)
	}
	if p.chance(20) {
		e.DedupID = fmt.Sprint("d", p.rng.IntN(8))
	}
	if p.chance(20) {
		e.Backoff = []time.Duration{}
		for range p.rng.IntN(3) {
			e.Backoff = append(e.Backoff, p.span(1_000))
		}
	}
	if p.chance(20) {
		key, _ := tuple.Tuple{"lost", int64(p.rng.IntN(5))}.Pack()
		e.KeysIfUndelivered = [][]byte{key}
	}
	return e
}

// step does one random thing in a Set.
func (p *player) step(s *Set, q string) {
	m, now := p.model, p.now.UnixMilli()
	cfg := p.cfg[q]
	cfg.EnsureDefaults()
	switch k := p.rng.IntN(100); {
	case k < 30:
		p.stepSend(s, q, cfg, now)
	case k < 45:
		m.catchUp(q, cfg, now)
		got, ok, err := s.Next(q)
		must(p.t, err)
		want := m.in(q, pending, byPriority)
		fatalIf(p.t, ok != (len(want) > 0), "next of %s: %v, model has %d", q, ok, len(want))
		if !ok {
			return
		}
		first := want[0]
		p.same(got, first)
		if p.chance(60) {
			must(p.t, s.Done(got, []byte("reply")))
			m.done(first, cfg, now, "reply")
		} else if p.chance(80) {
			must(p.t, s.Fail(got, host.Errorf(host.FailedPrecondition, "no"), ""))
			first.attempts++
			m.fail(first, cfg, now, host.FailedPrecondition, "no", nil, false)
		}
	case k < 60:
		m.catchUp(q, cfg, now)
		limit, lock := 1+p.rng.IntN(6), p.span(3_000)
		got, err := s.Receive(q, limit, lock)
		must(p.t, err)
		want := m.in(q, pending, byPriority)
		want = want[:min(limit, len(want))]
		fatalIf(p.t, len(got) != len(want), "received %d of %s, want %d", len(got), q, len(want))
		if lock == 0 {
			lock = cfg.Lock
		}
		for i, msg := range want {
			p.same(&got[i], msg)
			msg.attempts++
			msg.state, msg.due, msg.receipt = locked, now+lock.Milliseconds(), got[i].Receipt
			fatalIf(p.t, got[i].LockedUntil.UnixMilli() != msg.due, "received %+v, want %+v", got[i], msg)
			fatalIf(p.t, slices.Contains(p.receipts, msg.receipt), "receipt %q was given before", msg.receipt)
			m.put(msg)
			p.receipts = append(p.receipts, msg.receipt)
		}
	case k < 80:
		p.stepSettle(s, q, cfg, now)
	case k < 85:
		p.stepTake(s, q, cfg, now)
	case k < 90:
		m.catchUp(q, cfg, now)
		m.trim(q, cfg, maxDue)
		for _, msg := range m.messages {
			if msg.queue == q && msg.state == pending {
				m.told["ready "+q] = true
			}
		}
		must(p.t, s.Due(q, 0))
	default:
		p.stepOperate(s, q, cfg, now)
	}
}

// stepTake takes messages in the manner of a workflow run, and returns or answers them.
func (p *player) stepTake(s *Set, q string, cfg host.Queue, now int64) {
	m := p.model
	k := p.rng.IntN(len(p.taken) + 2)
	if k < len(p.taken) && p.chance(50) {
		answer, failure, code := []byte("answer"), (*host.Error)(nil), host.Code("")
		if p.chance(50) {
			answer, failure, code = nil, host.Errorf(host.NotFound, "none"), host.NotFound
		}
		id := p.taken[k].ID
		must(p.t, s.Answer(q, id, answer, failure))
		if w := m.replies[int64(id)]; w.open && w.queue == q {
			m.reply(modelMessage{id: int64(id), queue: q, wantReply: true}, cfg, now, code, string(answer))
		}
		return
	}
	if k < len(p.taken) && p.taken[k].Queue != q {
		return
	}
	m.catchUp(q, cfg, now)
	want := m.in(q, pending, byPriority)
	if k < len(p.taken) {
		r := p.taken[k]
		must(p.t, s.Return(r))
		back := modelMessage{id: int64(r.ID), sent: r.Sent.UnixMilli(), queue: q, body: string(r.Body),
			dedup: r.DedupID, state: pending, attempts: r.Attempt - 1}
		if len(want) > 0 {
			back.priority = max(0, want[0].priority)
		}
		if m.replies[back.id].open {
			back.wantReply = true
			delete(m.replies, back.id)
		}
		m.put(back)
		m.count(q, func(s *host.QueueStats) { s.Done-- })
		p.taken = slices.Concat(p.taken[:k], p.taken[k+1:])
		return
	}
	got, ok, err := s.Take(q)
	must(p.t, err)
	fatalIf(p.t, ok != (len(want) > 0), "take of %s: %v, model has %d", q, ok, len(want))
	if !ok {
		return
	}
	first := want[0]
	p.same(got, first)
	delete(m.messages, first.id)
	m.count(q, func(s *host.QueueStats) { s.Done++ })
	if first.wantReply {
		m.replies[first.id] = modelReply{queue: q, until: now + host.MaxQueueDelay.Milliseconds(), open: true}
		m.expireAt(m.replies[first.id].until)
	}
	p.taken = append(slices.Clip(p.taken), got)
}

// same compares a message that is handed out with the model's, before its attempt is counted.
func (p *player) same(got *host.Received, want modelMessage) {
	p.t.Helper()
	if int64(got.ID) != want.id || got.Queue != want.queue || string(got.Body) != want.body ||
		got.Attempt != want.attempts+1 || got.Priority != want.priority ||
		got.Sent.UnixMilli() != want.sent || got.DedupID != want.dedup || got.WantReply != want.wantReply {
		p.t.Fatalf("got %+v, want %+v", got, want)
	}
}

func (p *player) stepSend(s *Set, q string, cfg host.Queue, now int64) {
	before := p.model.clone()
	m := p.model
	messages := make([]host.Enqueue, 1+p.rng.IntN(4))
	var want []host.Sent
	for i := range messages {
		messages[i] = p.message()
		e := &messages[i]
		if seen, ok := m.dedup[q+"/"+e.DedupID]; ok && e.DedupID != "" && seen.until > now {
			var id uint64
			fmt.Sscan(seen.value, &id)
			want = append(want, host.Sent{ID: id, Duplicate: true})
			continue
		}
		msg := modelMessage{
			id: m.next, sent: now, queue: q, body: string(e.Body), dedup: e.DedupID, state: pending, priority: e.Priority,
			wantReply: e.WantReply, ttl: e.TTL.Milliseconds(),
		}
		if e.TTL > 0 {
			msg.expires = now + msg.ttl
		}
		if e.Delay > 0 {
			msg.state, msg.due = delayed, now+e.Delay.Milliseconds()
		}
		if e.Backoff != nil {
			msg.pauses = []int64{}
			for _, d := range e.Backoff {
				msg.pauses = append(msg.pauses, d.Milliseconds())
			}
		}
		for _, k := range e.KeysIfUndelivered {
			msg.key = string(k)
		}
		if e.DedupID != "" {
			m.dedup[q+"/"+e.DedupID] = modelReply{value: fmt.Sprint(m.next), until: now + cfg.DedupWindow.Milliseconds()}
			m.expireAt(now + cfg.DedupWindow.Milliseconds())
		}
		m.put(msg)
		want = append(want, host.Sent{ID: uint64(m.next)})
		m.next++
		m.count(q, func(s *host.QueueStats) { s.Sent++ })
	}
	st := p.modelStats(q)
	old := (&player{model: before}).modelStats(q)
	tooMany := st.Pending+st.Delayed+st.Processing > int64(cfg.Messages) && st.Sent > old.Sent
	tooLarge := cfg.Bytes > 0 && st.Bytes > cfg.Bytes && st.Bytes > old.Bytes
	sent, err := s.Send(q, messages)
	if tooMany || tooLarge {
		e := wantCode(p.t, err, host.Overloaded)
		fatalIf(p.t, !e.Retryable || e.Metadata["what"] == "", "%+v", e)
		p.model = before
		return
	}
	must(p.t, err)
	fatalIf(p.t, !slices.Equal(sent, want), "sent %v, want %v", sent, want)
}

func (p *player) stepSettle(s *Set, q string, cfg host.Queue, now int64) {
	m := p.model
	var receipts []string
	for _, msg := range m.in(q, locked, byDue) {
		if p.chance(60) {
			receipts = append(receipts, msg.receipt)
		}
	}
	if len(p.receipts) > 0 && p.chance(30) {
		receipts = append(receipts, p.receipts[p.rng.IntN(len(p.receipts))])
	}
	if p.chance(10) {
		good := receipt(1, 1)
		bad := []string{"", "x", "!!", good + "A", good[:len(good)-1], good + "\n", strings.Repeat("A", 99), receipt(1, 0), receipt(2, 0)}
		receipts = append(receipts, bad[p.rng.IntN(len(bad))])
	}
	kind := p.rng.IntN(3)
	var delay *time.Duration
	if p.chance(30) {
		d := p.span(500)
		delay = &d
	}
	toDead, lock, cause := p.chance(15), p.span(2_000), [2]string{"why", "why"}
	if p.chance(10) {
		cause = [2]string{"", "the worker gave the message back"}
	}
	if lock == 0 {
		lock = cfg.Lock
	}
	settled, wantLost := 0, []string(nil)
	for _, r := range receipts {
		i := slices.IndexFunc(m.in(q, locked, byDue), func(msg modelMessage) bool { return msg.receipt == r && msg.due > now })
		if i < 0 {
			wantLost = append(wantLost, r)
			continue
		}
		settled++
		switch msg := m.in(q, locked, byDue)[i]; kind {
		case 0:
			m.done(msg, cfg, now, "ack")
		case 1:
			m.fail(msg, cfg, now, host.FailedPrecondition, cause[1], delay, toDead)
		default:
			msg.due = now + lock.Milliseconds()
			m.put(msg)
		}
	}
	n, lost, err := settled, []string(nil), error(nil)
	switch kind {
	case 0:
		n, lost, err = s.Ack(q, receipts, []byte("ack"))
	case 1:
		n, lost, err = s.Nack(q, receipts, delay, cause[0], toDead)
	default:
		_, lost, err = s.Extend(q, receipts, lock)
	}
	must(p.t, err)
	fatalIf(p.t, n != settled ||
		!slices.Equal(lost, wantLost), "kind %d: settled %d lost %v, want %d and %v", kind, n, lost, settled, wantLost)
}

func (p *player) stepOperate(s *Set, q string, cfg host.Queue, now int64) {
	m := p.model
	want := int64(0)
	some := func(st ...state) (ids []uint64) {
		for _, id := range slices.Sorted(maps.Keys(m.messages)) {
			msg := m.messages[id]
			if !slices.Contains(st, msg.state) || !p.chance(30) {
				continue
			}
			if ids = append(ids, uint64(id)); msg.queue == q { // messages of other queues must stay
				m.drop(msg)
				want++
			}
		}
		return append(ids, 1<<40)
	}
	drop := func(all []modelMessage) {
		for _, msg := range all {
			m.drop(msg)
			want++
		}
	}
	var got int64
	var err error
	switch k := p.rng.IntN(12); {
	case k < 2:
		m.catchUp(q, cfg, now)
		if first := m.in(q, pending, byPriority); len(first) > 0 {
			cause := causeSkipped
			if first[0].cause != "" {
				cause += "; the last attempt failed: " + first[0].cause
			}
			m.bury(first[0], cfg, now, host.Canceled, cause)
			want = 1
		}
		got, err = s.Skip(q)
	case k < 3:
		drop(slices.Concat(m.in(q, pending, byDue), m.in(q, delayed, byDue)))
		got, err = s.Purge(q)
	case k < 5:
		got, err = s.Delete(q, some(pending, delayed, locked))
	case k < 8:
		got, err = s.DeleteDead(q, some(dead), false)
	case k < 9:
		drop(m.in(q, dead, byDue))
		got, err = s.DeleteDead(q, nil, true)
	default:
		for _, msg := range m.in(q, dead, func(m modelMessage) int64 { return 0 }) {
			st := p.modelStats(q)
			room := st.Pending+st.Delayed+st.Processing < int64(cfg.Messages) &&
				(cfg.Bytes == 0 || msg.body == "" || st.Bytes+int64(len(msg.body)) <= cfg.Bytes)
			if !room {
				if want == 0 {
					return
				}
				break
			}
			msg.state, msg.attempts, msg.due, msg.died, msg.tried, msg.cause = pending, 0, 0, 0, 0, ""
			if msg.ttl > 0 {
				msg.expires = now + msg.ttl
			}
			if msg.wantReply {
				delete(m.replies, msg.id)
			}
			m.put(msg)
			want++
		}
		got, err = s.RequeueDead(q, nil, true)
	}
	must(p.t, err)
	fatalIf(p.t, got != want, "operated on %d messages, want %d", got, want)
}

func (p *player) modelStats(q string) host.QueueStats {
	s := p.model.stats[q]
	s.Queue = q
	for _, msg := range p.model.messages {
		if msg.queue != q {
			continue
		}
		switch msg.state {
		case pending:
			s.Pending++
		case delayed:
			s.Delayed++
		case locked:
			s.Processing++
		default:
			s.Dead++
			continue
		}
		s.Bytes += int64(len(msg.body))
	}
	return s
}

func at(t *time.Time) int64 {
	if t == nil {
		return 0
	}
	return t.UnixMilli()
}

// compareTold compares what a turn reports besides its rows.
func (p *player) compareTold(s *Set, before *model) {
	p.t.Helper()
	told, died := map[string]bool{}, 0
	for _, q := range s.Ready {
		told["ready "+q] = true
	}
	for _, q := range s.Settled {
		told["settled "+q] = true
	}
	for _, id := range s.Replied {
		told[fmt.Sprint("replied ", id)] = true
	}
	for q, st := range p.model.stats {
		died += int(st.Failed - before.stats[q].Failed)
	}
	expire, want := slices.Sorted(slices.Values(s.Expires)), slices.Sorted(maps.Values(p.model.expires))
	fatalIf(p.t, !slices.Equal(expire, want), "the turn told that rows expire at %v, want %v", expire, want)
	wrong := !maps.Equal(told, p.model.told) || s.Dead != died
	fatalIf(p.t, wrong, "the turn told %v and %d deaths, want %v and %d", told, s.Dead, p.model.told, died)
}

// compare compares everything that can be read.
func (p *player) compare() {
	p.t.Helper()
	p.verify()
	rows, now := p.space.Writes(), p.now.UnixMilli()
	for _, q := range p.queues {
		got := p.stats(q)
		oldest, next := int64(0), int64(0)
		if l := p.model.in(q, pending, byPriority); len(l) > 0 {
			oldest = l[0].sent
		}
		if l := p.model.in(q, locked, byDue); len(l) > 0 {
			next = l[0].due
		}
		if l := p.model.in(q, delayed, byUntil); len(l) > 0 && (next == 0 || byUntil(l[0]) < next) {
			next = byUntil(l[0])
		}
		fatalIf(p.t, at(got.Oldest) != oldest ||
			at(got.NextDue) != next, "stats %+v, want the oldest from %d and the next due at %d", got, oldest, next)
		got.Oldest, got.NextDue = nil, nil
		if want := p.modelStats(q); got != want {
			p.t.Fatalf("stats of %s\n got %+v\nwant %+v", q, got, want)
		}
		listed := slices.Concat(p.list(Peek, q), p.list(DeadList, q))
		fatalIf(p.t, int64(len(listed)) != got.Pending+got.Delayed+got.Processing+got.Dead, "%s lists %+v, and counts %+v", q, listed, got)
		for _, l := range listed {
			msg, ok := p.model.messages[int64(l.ID)]
			due := int64(0)
			if msg.state == delayed || msg.state == locked {
				due = msg.due
			}
			if !ok || msg.queue != q || msg.state.String() != l.State || msg.attempts != l.Attempts || msg.body != string(l.Body) ||
				l.Sent.UnixMilli() != msg.sent || l.DedupID != msg.dedup || l.Priority != msg.priority || l.Error != msg.cause ||
				at(l.Due) != due || at(l.Expires) != msg.expires || at(l.Tried) != msg.tried || at(l.Died) != msg.died {
				p.t.Fatalf("%s has\n     %+v\nwant %+v", q, l, msg)
			}
		}
		var held, want []string
		for _, msg := range p.model.in(q, locked, byDue) {
			want = append(want, msg.receipt)
		}
		held, err := Held(rows, q, p.receipts[max(0, len(p.receipts)-1_000):])
		must(p.t, err)
		slices.Sort(held)
		slices.Sort(want)
		fatalIf(p.t, !slices.Equal(held, want), "held %v, want %v", held, want)
	}
	for range 20 {
		id, q := 1+p.rng.Int64N(p.model.next), p.queues[p.rng.IntN(3)]
		if msg, ok := p.model.messages[id]; ok && p.chance(70) {
			q = msg.queue
		}
		res, known, err := ResultOf(rows, q, uint64(id), p.now)
		must(p.t, err)
		msg, waits := p.model.messages[id]
		waits = waits && msg.queue == q && msg.wantReply && msg.state != dead
		r, kept := p.model.replies[id]
		kept = kept && r.queue == q && r.until > now
		waits = waits || kept && r.open
		done := kept && !r.open
		code := host.Code("")
		if res.Err != nil {
			code = res.Err.Code
		}
		wrong := known != (waits || done) || res.Done != done || done && (string(res.Reply) != r.value || string(code) != r.code)
		fatalIf(p.t, wrong, "result of %d: %+v %v, model %+v %v", id, res, known, r, waits)
	}
	for key, value := range p.model.kv {
		e, ok, err := rows.Get(append([]byte{byte(keyspace.UserKV.Kind)}, key...))
		fatalIf(p.t, err != nil || !ok || string(e.Value) != value, "key %q: %q %v %v, want %q", key, e.Value, ok, err, value)
	}
}

func TestQueuesDoWhatTheModelDoes(t *testing.T) {
	seeds, steps := 2, 300
	if os.Getenv("CAIRN_LONG") != "" { // `make soak`
		seeds, steps = 20, 1_200
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { play(t, uint64(seed), steps) })
	}
}

func play(t *testing.T, seed uint64, steps int) {
	p := &player{
		world: newWorld(t,
			host.Queue{
				Name: "a", Backoff: []time.Duration{100 * time.Millisecond, 0, time.Second},
				Lock: time.Second, DedupWindow: 2 * time.Second,
			},
			host.Queue{Name: "b", Messages: 12, Bytes: 250, Dead: 3, DeadFor: 4 * time.Second, ReplyFor: 3 * time.Second},
			host.Queue{Name: "c", Backoff: []time.Duration{}, Dead: 20}),
		model: &model{
			1, map[int64]modelMessage{}, map[string]modelReply{}, map[int64]modelReply{}, map[string]string{},
			map[string]host.QueueStats{}, nil, nil,
		},
		rng: rand.New(rand.NewPCG(seed, 7)), queues: []string{"a", "b", "c"},
	}
	drop := errors.New("the turn is dropped")
	for range steps {
		if p.chance(40) {
			p.now = p.now.Add(p.span(700))
		}
		p.model.told, p.model.expires = map[string]bool{}, map[int64]int64{}
		before, given, taken := p.model.clone(), len(p.receipts), p.taken
		keep := p.chance(80)
		err := p.turn(func(s *Set) error {
			for range 1 + p.rng.IntN(4) {
				p.step(s, p.queues[p.rng.IntN(3)])
				if p.chance(10) {
					must(p.t, s.Flush())
				}
			}
			if !keep {
				return drop
			}
			return nil
		})
		if !keep {
			p.model, p.receipts, p.taken = before, p.receipts[:given], taken
		} else {
			must(p.t, err)
			p.compareTold(p.last, before)
		}
		if p.chance(3) {
			p.crash()
		}
		if p.chance(25) {
			p.compare()
		}
	}
	p.compare()
}

// crash cuts the power, maybe in the middle of a turn, and opens the remaining data.
func (p *player) crash() {
	p.sync()
	if p.chance(50) {
		p.set().Send("a", []host.Enqueue{body("never committed")})
	}
	disk := p.disk.Crash(p.rng.Uint64(), p.rng.IntN(101))
	p.world.close()
	p.disk = disk
	p.open(engine.Options{Disk: disk, CacheBytes: 8 << 20, MemTableBytes: 4 << 20})
}
