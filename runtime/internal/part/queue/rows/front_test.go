package queuerows

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/cairn-run/cairn/actor/host"
)

func TestAMessageTriedAgainDoesNotMoveTheFrontBack(t *testing.T) {
	f := front{ranked: true}
	for id := uint64(1); id <= 1_000; id++ {
		f.add(place{0, id})
	}
	for id := uint64(1); id <= 500; id++ {
		f.remove(place{0, id})
	}
	for id := uint64(1); id <= 100; id += 7 {
		f.add(place{0, id})
		fatalIf(t, !f.runs[0].exact || f.runs[0].from.id != id, "runs %+v", f.runs)
		f.remove(place{0, id})
		fatalIf(t, len(f.runs) != 1 || f.runs[0].from.id != 501, "runs %+v", f.runs)
	}
	for id := uint64(500); id <= 1_000; id++ {
		got := f.remove(place{0, id})
		fatalIf(t, got != (id > 500), "remove %d: %v", id, got)
	}
	fatalIf(t, len(f.runs) != 0 || f.n != 0, "left %+v", f)
}

// TestAFrontCountsAndBounds compares fronts with the places themselves.
func TestAFrontCountsAndBounds(t *testing.T) {
	for seed := range uint64(8) {
		rng := rand.New(rand.NewPCG(seed, 1))
		f := front{ranked: seed%2 == 0}
		var in []place
		for range 3_000 {
			p := place{rng.Int64N(3), 1 + rng.Uint64N(60)}
			if i := slices.Index(in, p); i < 0 && rng.IntN(2) == 0 {
				f.add(p)
				in = append(in, p)
			} else if i >= 0 {
				fatalIf(t, !f.remove(p), "seed %d: %+v is not in %+v", seed, p, f)
				in = slices.Delete(in, i, i+1)
			}
			var again front
			again.ranked = f.ranked
			s := scan{b: f.append(nil)}
			again.decode(&s)
			if err := s.end(); err != nil || f.n != int64(len(in)) || !slices.Equal(f.runs, again.runs) {
				t.Fatalf("seed %d: %+v, decoded %+v, %v; %d places", seed, f, again, err, len(in))
			}
			covered := 0
			for i, r := range f.runs {
				n := int64(0)
				first := last
				for _, p := range in {
					if !p.before(r.from) && p.before(f.end(i)) {
						n++
						if p.before(first) {
							first = p
						}
					}
				}
				fatalIf(t, n != r.n || r.exact && first != r.from, "seed %d: run %d of %+v has %d, first %+v", seed, i, f, n, first)
				covered += int(n)
			}
			fatalIf(t, covered != len(in), "seed %d: runs %+v cover %d of %d", seed, f.runs, covered, len(in))
		}
	}
}

func FuzzMessage(f *testing.F) {
	full := message{
		state: locked, flags: flagReply | flagBackoff | flagTTL, priority: -5, attempts: 3, nonce: 9,
		created: 1, due: 2, tried: 3, expires: 4, ttl: 5, queue: []byte("jobs"), dedup: []byte("d"),
		backoff: []byte{2, 1, 200, 1}, keys: []byte{1, 2, 2, 0},
		code: []byte("internal"), cause: []byte("why"), body: []byte("body"),
	}
	f.Add(full.append(nil))
	f.Add((&message{state: pending, queue: []byte("q")}).append(nil))
	f.Add((&message{state: pending, flags: flagSpan | flagTTL,
		span: host.Span{Trace: [16]byte{1}, ID: [8]byte{2}, Flags: 1}, queue: []byte("q")}).append(nil))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		var m message
		if m.decode(7, b) != nil {
			return
		}
		again := m.append(nil)
		var n message
		err := n.decode(7, again)
		fatalIf(t, err != nil || !bytes.Equal(n.append(nil), again), "%x is decoded as %+v, that is encoded as %x: %v", b, m, again, err)
		for m.attempts = range 4 {
			ms, ok := m.pause([]time.Duration{time.Second})
			fatalIf(t, ok && (ms < 0 || ms > host.MaxQueueDelay.Milliseconds()), "pause %d", ms)
		}
		m.eachKey(func([]byte) error { return nil })
		m.listed()
	})
}

func FuzzRecords(f *testing.F) {
	c := counts{bytes: 3, sent: 4, done: 5, failed: 6, wake: 7}
	c.fronts[readyIndex].ranked = true
	for i := range c.fronts {
		c.fronts[i].add(place{5, 6})
		c.fronts[i].add(place{5, 2})
		c.fronts[i].remove(place{5, 6})
	}
	f.Add(c.append(nil))
	f.Add((&metadata{next: 3, count: 2}).append(nil))
	f.Add((&reply{queue: []byte("q"), value: []byte("v")}).append(nil))
	f.Add((&reply{queue: []byte("q"), failure: host.OverLimit("m", 1, 2)}).append(nil))
	f.Add(appendDedup(nil, 9))
	f.Fuzz(func(t *testing.T, b []byte) {
		var c, c2 counts
		if c.decode("q", b) == nil {
			again := c.append(nil)
			err := c2.decode("q", again)
			fatalIf(t, err != nil || !bytes.Equal(c2.append(nil), again), "counts %x: %v", b, err)
			for i := range c.fronts {
				fr := &c.fronts[i]
				fr.add(place{3, 3})
				fr.remove(place{5, 6})
				fr.remove(place{3, 3})
			}
		}
		var m, m2 metadata
		if m.decode(b) == nil {
			err := m2.decode(m.append(nil))
			fatalIf(t, err != nil || m != m2, "metadata %x: %v", b, err)
		}
		var r, r2 reply
		if r.decode(1, b) == nil {
			again := r.append(nil)
			err := r2.decode(1, again)
			fatalIf(t, err != nil || !bytes.Equal(r2.append(nil), again), "reply %x: %v", b, err)
		}
		if id, err := decodeDedup(b); err == nil {
			again, err := decodeDedup(appendDedup(nil, id))
			fatalIf(t, err != nil || again != id, "dedup %x: %v", b, err)
		}
		for _, kind := range []index{readyIndex, deadIndex} {
			prefix := appendIndex(nil, kind, "q")
			parsePlace(prefix, append(prefix, b...))
		}
	})
}

func FuzzReceipt(f *testing.F) {
	f.Add(receipt(1, 2))
	f.Add(receipt(1<<63, 1<<63))
	f.Add("")
	f.Fuzz(func(t *testing.T, r string) {
		if id, nonce, ok := parseReceipt(r); ok && (id == 0 || receipt(id, nonce) != r) {
			t.Fatalf("%q is %d %d, whose receipt is %q", r, id, nonce, receipt(id, nonce))
		}
	})
}

func TestReceiptsRoundTripAndNoncesDiffer(t *testing.T) {
	seen := map[uint64]bool{}
	nonce := uint64(0)
	for i := range 5_000 {
		nonce = nextNonce(nonce, int64(1_800_000_000_000-i/100)) // a clock that even steps back
		fatalIf(t, seen[nonce], "nonce %d again", nonce)
		seen[nonce] = true
		id, n, ok := parseReceipt(receipt(uint64(i)+1, nonce))
		fatalIf(t, !ok || id != uint64(i)+1 || n != nonce, "%d %d %v", id, n, ok)
	}
}
