package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/cairn-run/cairn/actor/host"
)

const (
	// deliveries is how many deliveries wait for a reader before the stream stops reading from the
	// connection. The node handles a reader that falls further behind.
	deliveries = 16
	// deliveryEvents bounds the events of one delivery.
	deliveryEvents = 128
)

// errReconnect: the connection ended and the stream goes on with another.
var errReconnect = errors.New("client: connection ended")

// A Stream is a subscription that survives its connections. If one is lost, or the node shuts down
// or is silent for too long, the stream connects again after a random wait. It continues after the
// last event that it received. It implements host.EventStream.
//
// A subscription without a position gets one from the node when it opens, or from the first event
// if the node cannot name one. It misses events that an actor emits before that while there is no
// connection.
//
// A stream that has events of one life of the actor ends with that life, even if the actor was
// destroyed and created again while there was no connection. Only the subscriber's own position may
// be of another life; the first delivery then says so.
type Stream struct {
	c      *Client
	path   string
	names  []string
	resume bool
	at     host.Position
	seen   bool // at is from the node, not from the subscriber

	cancel context.CancelFunc
	out    chan host.Delivery
	ended  chan struct{} // closed when run has returned; fault is set then
	fault  *host.Error
	start  host.Position
	known  bool
}

// Subscribe opens a subscription to the events of an actor. ctx bounds the opening only; Close ends
// the subscription. The opening is retried like any read. Next returns later errors.
func (c *Client) Subscribe(ctx context.Context, a host.Address, s host.Subscription) (host.EventStream, error) {
	path, e := actorPath(a)
	if e != nil {
		return nil, e
	}
	for _, name := range s.Names {
		if name == "" || strings.Contains(name, ",") {
			return nil, host.Errorf(host.InvalidArgument, "the event name %q is empty or has a comma", name)
		}
	}
	life, cancel := context.WithCancel(context.WithoutCancel(ctx))
	st := &Stream{c: c, path: path + "events", names: s.Names, resume: s.Resume,
		at:     host.Position{Sequence: s.After, Life: s.Life},
		cancel: cancel, out: make(chan host.Delivery, deliveries), ended: make(chan struct{})}
	stop := context.AfterFunc(ctx, cancel)
	conn, f := st.open(life)
	for attempt := 1; f != nil && (f.nothing || f.lost) && attempt < c.opts.Attempts; attempt++ {
		if !sleep(life, c.wait(attempt, f.after)) {
			break
		}
		conn, f = st.open(life)
	}
	if !stop() && f == nil {
		conn.close()
		f = &failure{}
	}
	if f != nil {
		cancel()
		if ctx.Err() != nil {
			return nil, contextError(ctx)
		}
		return nil, f.err
	}
	st.start, st.known = st.at, st.resume
	go st.run(life, conn)
	return st, nil
}

// Next waits for events. The error is an *host.Error: Canceled or DeadlineExceeded when ctx ends,
// after which Next may be called again; Canceled after Close; or the node's error if the stream is
// over, such as Destroyed.
func (st *Stream) Next(ctx context.Context) (host.Delivery, error) {
	select {
	case d := <-st.out:
		return d, nil
	default:
	}
	select {
	case d := <-st.out:
		return d, nil
	case <-ctx.Done():
		return host.Delivery{}, contextError(ctx)
	case <-st.ended:
	}
	select {
	case d := <-st.out: // sent before the end
		return d, nil
	default:
		return host.Delivery{}, st.fault
	}
}

// Position returns the position before the subscription's first event, and whether it is known,
// from the subscriber or the node.
func (st *Stream) Position() (host.Position, bool) { return st.start, st.known }

// Close ends the subscription and waits until its connection is closed.
func (st *Stream) Close() {
	st.cancel()
	<-st.ended
}

// run reads successive connections.
func (st *Stream) run(ctx context.Context, conn *response) {
	defer close(st.ended)
	for {
		err := conn.read(ctx)
		conn.close()
		lost := time.Now()
		if !errors.Is(err, errReconnect) {
			st.fault = asError(ctx, err)
			return
		}
		asked := time.Duration(0)
		for attempt := 1; ; attempt++ {
			if !sleep(ctx, st.c.wait(attempt, asked)) {
				st.fault = contextError(ctx)
				return
			}
			var f *failure
			if conn, f = st.open(ctx); f == nil {
				break
			}
			asked = f.after
			outage := st.c.opts.MaxOutage
			switch {
			case ctx.Err() != nil:
				st.fault = contextError(ctx)
				return
			case !f.nothing && !f.lost, outage > 0 && time.Since(lost) > outage:
				st.fault = f.err
				return
			}
		}
	}
}

func asError(ctx context.Context, err error) *host.Error {
	var e *host.Error
	if errors.As(err, &e) {
		return e
	}
	return contextError(ctx)
}

// A response is one connection of a stream.
type response struct {
	*sse
	st *Stream

	// The event that is being read, and the delivery that it goes to.
	id      host.Position
	hasID   bool
	name    string
	data    []byte
	version uint64
	emitted time.Time
	batch   host.Delivery
	missed  uint64
}

// open connects, from the stream's position, and reads the stream's opening.
func (st *Stream) open(ctx context.Context) (*response, *failure) {
	h := st.c.header()
	h.Set("Accept", "text/event-stream")
	if st.resume {
		h.Set("Last-Event-ID", st.at.String())
	}
	path := st.path
	if len(st.names) > 0 {
		path += "?" + url.Values{"names": {strings.Join(st.names, ",")}}.Encode()
	}
	body, ctx, f := st.c.listen(ctx, &request{method: http.MethodGet, path: path, header: h})
	if f != nil {
		return nil, f
	}
	conn := &response{sse: body, st: st}
	// The first block names the position if the node knows it.
	if err := conn.block(ctx); err != nil {
		conn.close()
		var e *host.Error
		if errors.As(err, &e) {
			return nil, &failure{err: e}
		}
		return nil, &failure{err: host.Errorf(host.Unavailable,
			"the connection to the node was lost").Retry(), lost: true}
	}
	return conn, nil
}

// read reads events until the connection ends. The error is errReconnect, an *host.Error or ctx's.
func (conn *response) read(ctx context.Context) error {
	for {
		if err := conn.block(ctx); err != nil {
			return err
		}
	}
}

// block reads lines up to an empty one and handles their event.
func (conn *response) block(ctx context.Context) error {
	for {
		line, err := conn.line(len(conn.data))
		if err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			var e *host.Error
			if errors.As(err, &e) {
				return e
			}
			if err := conn.deliver(ctx); err != nil {
				return err
			}
			return errReconnect
		}
		if len(line) > 0 {
			conn.field(line)
			continue
		}
		if err := conn.dispatch(ctx); err != nil {
			return err
		}
		if conn.r.Buffered() == 0 || len(conn.batch.Events) >= deliveryEvents {
			return conn.deliver(ctx)
		}
		return nil
	}
}

// field handles one line of an event. Fields that cannot be read are skipped, as the standard says.
func (conn *response) field(line []byte) {
	name, value, _ := bytes.Cut(line, []byte(":"))
	value = bytes.TrimPrefix(value, []byte(" "))
	switch string(name) {
	case "id":
		if at, err := host.ParsePosition(string(value)); err == nil {
			conn.id, conn.hasID = at, true
		}
	case "event":
		conn.name = string(value)
	case "data":
		if conn.data != nil {
			conn.data = append(conn.data, '\n')
		}
		conn.data = append(conn.data, value...)
		if conn.data == nil {
			conn.data = []byte{}
		}
	case "version":
		conn.version, _ = strconv.ParseUint(string(value), 10, 64)
	case "time":
		conn.emitted, _ = time.Parse(time.RFC3339Nano, string(value))
	}
}

// dispatch handles the event of the lines since the last one.
func (conn *response) dispatch(ctx context.Context) error {
	at := conn.id
	e := host.EmittedEvent{
		Sequence: at.Sequence, Life: at.Life, Version: conn.version, Name: conn.name, Time: conn.emitted, Data: conn.data,
	}
	hasID := conn.hasID
	conn.id, conn.hasID, conn.name, conn.data, conn.version, conn.emitted = host.Position{}, false,
		"", nil, 0, time.Time{}
	st := conn.st
	switch {
	case e.Name == "cairn.gap":
		var gap struct {
			Missed uint64
			Reset  bool
		}
		if json.Unmarshal(e.Data, &gap) != nil {
			return nil
		}
		if !gap.Reset {
			conn.missed += gap.Missed
			return nil
		}
		if err := conn.deliver(ctx); err != nil {
			return err
		}
		if st.seen && at.Life != st.at.Life {
			return host.Errorf(host.Destroyed, "the actor was destroyed, and created again")
		}
		conn.batch.Reset, conn.batch.Missed = true, gap.Missed
		if st.at = (host.Position{}); hasID {
			st.at, st.seen = at, true
		}
		return nil
	case e.Name == "cairn.bye":
		bye := new(host.Error)
		if json.Unmarshal(e.Data, bye) != nil || bye.Code == host.Unavailable {
			if err := conn.deliver(ctx); err != nil {
				return err
			}
			return errReconnect
		}
		if err := conn.deliver(ctx); err != nil {
			return err
		}
		return bye
	case e.Data == nil:
		if hasID && !st.resume {
			st.resume, st.seen, st.at = true, true, at
		}
		return nil
	case !hasID, st.resume && e.Sequence <= st.at.Sequence:
		return nil
	}
	if conn.missed > 0 {
		if err := conn.deliver(ctx); err != nil {
			return err
		}
		conn.batch.Missed, conn.missed = conn.missed, 0
	}
	conn.batch.Events = append(conn.batch.Events, e)
	st.resume, st.seen, st.at = true, true, at
	return nil
}

// deliver sends the batch to the reader. While it waits for the reader, silence of the connection
// does not count.
func (conn *response) deliver(ctx context.Context) error {
	if len(conn.batch.Events) == 0 && !conn.batch.Reset {
		return nil
	}
	conn.silence.Stop()
	select {
	case conn.st.out <- conn.batch:
		conn.batch = host.Delivery{}
		conn.silence.Reset(conn.st.c.opts.StreamSilence)
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
