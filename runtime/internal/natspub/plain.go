package natspub

import (
	"context"
	"slices"

	"github.com/nats-io/nats.go"
)

// Bounds of plain.
const (
	// maxBatches is how many batches may be on the way at once.
	maxBatches = 3
	// batchRows and batchBytes are the size of a full batch. The window has room for maxBatches on
	// the way and one more, which is read and decoded meanwhile.
	batchRows  = windowRows / (maxBatches + 1)
	batchBytes = windowBytes / (maxBatches + 1)
)

// plain publishes without acknowledgements: it sends the window in batches and flushes each. Its
// claims:
//
//  1. A message counts as arrived when the server has answered a flush that was sent after it on
//     the same connection.
//  2. Batches are sent and confirmed in the order of the window. The batches on the way are the
//     beginning of the window. After a lost connection, the unconfirmed messages are sent again, in
//     order, on the next one. After a message that could not be sent, a connection sends no other.
//  3. Up to maxBatches are on the way, so that the server has work while rows are read and deleted.
//     A batch that is not full waits until nothing is on the way, because a small batch is not
//     worth a flush.
//
// It belongs to the loop's goroutine. From attach to detach, a second goroutine sends. During that
// time only it uses the loop's envelope and its send.
type plain struct {
	l       *loop
	batches []*batch // on the way, the oldest first
	rows    int      // in them: items of the window, from the first
	bytes   int      // in them

	queue chan *batch   // to the goroutine that sends; has room for maxBatches
	ended chan struct{} // closed when that goroutine has ended
}

// A batch is a part of the window that is on the way.
type batch struct {
	items   []*item
	bytes   int
	answer  chan error // one answer: nil when the server has the batch
	arrived tally      // of its messages, for confirm; read after the answer or after detach
	longest int        // its longest subject; read after the answer or after detach
}

// attach begins to send on a connection.
func (s *plain) attach(nc *nats.Conn) {
	s.queue, s.ended = make(chan *batch, maxBatches), make(chan struct{})
	queue, ended := s.queue, s.ended
	s.l.p.wg.Go(func() {
		defer close(ended)
		for b := range queue {
			if err := s.send(b); err != nil {
				b.answer <- err
				return
			}
			s.flush(nc, b)
		}
	})
}

// detach gives up the batches without an answer. REQUIRES: the connection is closed.
func (s *plain) detach() {
	close(s.queue)
	<-s.ended
	s.settle() // an error adds nothing to the loss itself
	for _, b := range s.batches {
		s.l.longest = max(s.l.longest, b.longest)
	}
	s.batches, s.rows, s.bytes = nil, 0, 0
}

// answer returns the channel for the answer to the oldest batch; nil if no batch is on the way.
func (s *plain) answer() <-chan error {
	if len(s.batches) == 0 {
		return nil
	}
	return s.batches[0].answer
}

// publish handles the answers that arrived, passes on the next batch, and reports whether it did
// either. REQUIRES: attached.
func (s *plain) publish() bool {
	confirmed, err := s.settle()
	if err != nil {
		s.l.lost(err)
		return false
	}
	rows, bytes := len(s.l.window)-s.rows, s.l.bytes-s.bytes
	full := rows >= batchRows || bytes >= batchBytes
	if rows == 0 || len(s.batches) == maxBatches || len(s.batches) > 0 && !full {
		return confirmed
	}
	b := &batch{answer: make(chan error, 1)}
	n := 0
	for _, it := range s.l.window[s.rows:] {
		if n == batchRows || b.bytes >= batchBytes {
			break
		}
		n++
		b.bytes += it.size
		if it.sent {
			s.l.p.metrics.repeated.Add(float64(len(it.set.Changes)))
		}
		it.sent, it.busy = true, true
	}
	b.items = slices.Clone(s.l.window[s.rows : s.rows+n])
	s.batches = append(s.batches, b)
	s.rows += n
	s.bytes += b.bytes
	s.queue <- b
	return true
}

// send sends a batch. It runs in the goroutine that sends.
func (s *plain) send(b *batch) error {
	s.l.longest = 0
	defer func() { b.longest, s.l.longest = s.l.longest, 0 }()
	for _, it := range b.items {
		for i := range it.set.Changes {
			dropped, err := s.l.send(it, i, "", false)
			if err != nil {
				return err
			}
			if !dropped {
				b.arrived.add(&it.set.Changes[i])
			}
		}
	}
	return nil
}

// flush waits, in another goroutine, until the server has all messages so far, and then answers the
// batch.
func (s *plain) flush(nc *nats.Conn, b *batch) {
	ctx, cancel := context.WithTimeout(s.l.p.ctx, flushTimeout)
	s.l.p.wg.Go(func() {
		defer cancel()
		b.answer <- nc.FlushWithContext(ctx)
	})
}

// settle handles the answers that arrived, without waiting, up to the first error. It reports
// whether it confirmed a batch.
func (s *plain) settle() (confirmed bool, err error) {
	for len(s.batches) > 0 {
		select {
		case err = <-s.batches[0].answer:
		default:
			return confirmed, nil
		}
		if err != nil {
			return confirmed, err
		}
		s.confirm()
		confirmed = true
	}
	return confirmed, nil
}

// answered handles the answer to the oldest batch.
func (s *plain) answered(err error) {
	if err != nil {
		s.l.lost(err)
		return
	}
	s.confirm()
}

// confirm removes the oldest batch from the window, because the server has it.
func (s *plain) confirm() {
	b := s.batches[0]
	s.batches = s.batches[1:]
	s.rows -= len(b.items)
	s.bytes -= b.bytes
	for _, it := range b.items {
		it.confirmed, it.busy = len(it.set.Changes), false
	}
	s.l.reported.join(b.arrived)
	s.l.sweep()
}
