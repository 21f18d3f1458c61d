package gateway

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime/internal/gateway/serve"
)

// A caller is a way to call an actor: directly, or over a connection.
type caller func(context.Context, *host.Request) (host.Reply, *host.Error)

// callNode calls directly.
func (g *Gateway) callNode(ctx context.Context, q *host.Request) (host.Reply, *host.Error) {
	reply, err := g.node.Call(ctx, q)
	if err != nil {
		return host.Reply{}, g.front.AsError(err)
	}
	return reply, nil
}

// callBuiltin calls the built-in method that q names with input and output of package host.
func callBuiltin[Out any](ctx context.Context, g *Gateway, call caller, q host.Request,
	input any) (out Out, fault *host.Error) {
	text, err := json.Marshal(input)
	if err != nil {
		return out, g.front.Internal("input of a built-in method does not encode",
			slog.String("method", q.Method), slog.Any("error", err))
	}
	q.Codec, q.Input = host.JSON, text
	reply, fault := call(ctx, &q)
	if fault != nil {
		return out, fault
	}
	if err := json.Unmarshal(reply.Output, &out); err != nil {
		return out, g.front.Internal("output of a built-in method does not decode",
			slog.String("method", q.Method), slog.Any("error", err))
	}
	return out, nil
}

// A streamReader reads a stream of an actor, page by page. It reads one life of the actor, which
// the first page names. The end of that life ends the stream, with an error of code Destroyed. Only
// the first page may say that the start position is of another life.
type streamReader struct {
	g       *Gateway
	call    caller
	address host.Address
	stream  string
	at      host.Position
	begun   bool // a page was read
}

// read reads the next page and waits for it up to wait.
func (r *streamReader) read(ctx context.Context, wait time.Duration) (host.StreamReadOutput, *host.Error) {
	page, fault := callBuiltin[host.StreamReadOutput](ctx, r.g, r.call,
		host.Request{Address: r.address, Method: host.StreamRead, Continues: r.begun},
		host.StreamReadInput{Stream: r.stream, After: r.at.Sequence, Life: r.at.Life, WaitMS: waitMS(wait)})
	switch {
	case fault != nil:
		return page, fault
	case r.begun && page.Life != r.at.Life:
		return page, host.Errorf(host.Destroyed, "the actor was destroyed")
	}
	r.at, r.begun = host.Position{Sequence: page.Next, Life: page.Life}, true
	return page, nil
}

// waitMS converts the wait for a built-in method to milliseconds.
func waitMS(d time.Duration) int64 { return max(min(d, maxWait), 0).Milliseconds() }

// follow answers GET .../-/streams/{name} with the items of a stream as server-sent events, until
// the stream is closed.
func (x *exchange) follow(t *target) {
	x.Count(t.Type, serve.LabelFollow)
	fault := x.Authorize(x.R.Context(), serve.Follow, t.Address, host.StreamRead)
	var p parameters
	if fault == nil {
		p, fault = x.params("after")
	}
	var after *host.Position
	if fault == nil {
		after, fault = x.position(p)
	}
	if fault != nil {
		x.Fail(fault)
		return
	}
	s, fault := x.Front.Admit(x.R.Context(), serve.EventStream)
	if fault != nil {
		x.Fail(fault)
		return
	}
	defer s.Done()
	r := &streamReader{g: x.g, call: x.g.callNode, address: t.Address, stream: t.name}
	if after != nil {
		r.at = *after
	}
	// The first page is read before the response begins, so that an error has its own status.
	page, fault := r.read(s.Context(), 0)
	switch {
	case fault != nil:
		x.Fail(s.Why(fault))
		return
	case page.Closed && len(page.Items) == 0 && page.Missed == 0 && !page.Reset && x.R.Header.Get("Last-Event-ID") != "":
		x.Begin(http.StatusNoContent) // a browser has it all, and would reconnect again and again
		return
	}
	out := x.stream()
	out.Buf = append(out.Buf, '\n')
	x.items(s, r, page, out)
}

// items writes pages until there are no more or the client is gone.
func (x *exchange) items(s *serve.Stay, r *streamReader, page host.StreamReadOutput, out *serve.Writer) {
	for {
		if page.Missed > 0 || page.Reset {
			out.Buf = appendGapEvent(out.Buf, page.Missed, page.Reset,
				&host.Position{Sequence: page.Next - uint64(len(page.Items)), Life: page.Life})
		}
		for i := range page.Items {
			out.Buf = appendItemEvent(out.Buf, &page.Items[i], page.Life)
			if out.FlushFull() != nil {
				return
			}
		}
		x.Front.Meter.Events.Add(float64(len(page.Items)))
		if page.Closed {
			out.Buf = serve.AppendEvent(out.Buf, EventEnd, []byte("{}"))
			out.FlushLast()
			return
		}
		quiet := len(out.Buf) == 0
		if quiet {
			out.Buf = append(out.Buf, comment...)
		}
		if out.Flush() != nil {
			return
		}
		var fault *host.Error
		if page, fault = r.read(s.Context(), x.Front.Limits.Heartbeat); fault != nil {
			x.parting(s, fault, out)
			return
		}
	}
}

// appendItemEvent appends an item of a stream.
func appendItemEvent(b []byte, i *host.ReadStreamItem, life string) []byte {
	b = host.Position{Sequence: i.Sequence, Life: life}.Append(append(b, "id: "...))
	b = i.Time.UTC().AppendFormat(append(b, "\ntime: "...), time.RFC3339Nano)
	b = append(b, "\nevent: "+EventItem...)
	b = serve.AppendField(b, "\ndata: ", appendRaw(nil, i.Value))
	return append(b, "\n\n"...)
}

// parting ends a stream after a failed call, unless the client is gone.
func (x *exchange) parting(s *serve.Stay, fault *host.Error, out *serve.Writer) {
	switch {
	case s.Closing():
		bye(out, serve.ErrShutdown)
	case s.Context().Err() == nil:
		x.Code = fault.Code
		bye(out, fault)
	}
}

// A following is a followed stream of a session.
type following struct {
	stop    context.CancelFunc
	stopped int64 // the id of the unfollow message, if any; guarded by session.mu
}

// follow begins to follow a stream.
func (c *session) follow(m *message) *host.Error {
	most := c.g.front.Limits.ConnectionCalls
	c.mu.Lock()
	if _, taken := c.follows[m.ID]; taken {
		c.mu.Unlock()
		return host.Errorf(host.InvalidArgument, "a stream is followed under the id %d already", m.ID)
	}
	if len(c.follows) >= most {
		c.mu.Unlock()
		return host.Errorf(host.Overloaded, "the connection follows too many streams").
			With("limit", strconv.Itoa(most)).Retry()
	}
	if c.follows == nil {
		c.follows = make(map[int64]*following)
	}
	f := &following{}
	ctx, cancel := context.WithCancel(c.stay.Context())
	f.stop = cancel
	c.follows[m.ID] = f
	c.mu.Unlock()
	c.send(appendDone(nil, m.ID))
	call := func(ctx context.Context, q *host.Request) (host.Reply, *host.Error) { return c.ask(ctx, q, nil) }
	r := &streamReader{g: c.g, call: call, address: c.address, stream: m.Follow}
	if m.After != nil {
		r.at = host.Position{Sequence: *m.After, Life: m.Life}
	}
	before := c.barrier
	c.spawn(func() {
		defer cancel()
		if before != nil {
			select {
			case <-before:
			case <-ctx.Done():
			}
		}
		last := c.forward(ctx, m.ID, r)
		c.mu.Lock()
		delete(c.follows, m.ID)
		stopped := f.stopped
		c.mu.Unlock()
		if stopped != 0 {
			c.send(appendDone(nil, stopped))
		} else if last != nil {
			c.send(last)
		}
	})
	return nil
}

// forward sends the items of a stream and returns its last message, nil if the client or the
// session ended it.
func (c *session) forward(ctx context.Context, id int64, r *streamReader) []byte {
	var batch [][]byte
	for {
		page, fault := r.read(ctx, maxWait/2)
		if fault != nil {
			if ctx.Err() != nil {
				return nil
			}
			return appendEnd(nil, id, fault)
		}
		batch = batch[:0]
		if page.Missed > 0 || page.Reset {
			batch = append(batch, appendMissed(nil, id, page.Missed, page.Reset))
		}
		for i := range page.Items {
			batch = append(batch, appendItem(nil, id, &page.Items[i]))
		}
		if c.socket.SendAll(batch) != nil {
			return nil
		}
		if page.Closed {
			return appendEnd(nil, id, nil)
		}
	}
}

// unfollow stops following a stream. The answer comes after the last item, or at once if there is
// no such stream.
func (c *session) unfollow(m *message) {
	c.mu.Lock()
	f := c.follows[m.Unfollow]
	first := f != nil && f.stopped == 0
	if first {
		f.stopped = m.ID
	}
	c.mu.Unlock()
	if first {
		f.stop()
		return
	}
	c.send(appendDone(nil, m.ID))
}
