package client

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/cairn-run/cairn/actor/host"
)

// A follower reads server-sent events over successive connections. One goroutine uses it.
type follower struct {
	c      *Client
	q      request     // of each connection
	opened func()      // called for each connection; may be nil
	conn   *sse        // nil while there is none
	id     string      // of the last event, sent to the node with the next connection
	fault  *host.Error // why it has ended
}

// start opens the first connection. It is retried like any read. ctx bounds the opening only.
func (w *follower) start(ctx context.Context) error {
	for attempt := 1; ; attempt++ {
		f := w.open(ctx)
		if f == nil {
			return nil
		}
		if !f.nothing && !f.lost || attempt >= w.c.opts.Attempts || !sleep(ctx, w.c.wait(attempt, f.after)) {
			return cause(ctx, f)
		}
	}
}

// cause returns the context's error if it has ended, or else the failure's error.
func cause(ctx context.Context, f *failure) *host.Error {
	if ctx.Err() != nil {
		return contextError(ctx)
	}
	return f.err
}

// open connects. The connection lasts until it is closed, or ctx ends during open.
func (w *follower) open(ctx context.Context) *failure {
	q := w.q
	q.header = w.c.header()
	q.header.Set("Accept", "text/event-stream")
	if w.id != "" {
		q.header.Set("Last-Event-ID", w.id)
	}
	if q.body != nil {
		q.header.Set("Content-Type", "application/json")
	}
	life, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, cancel)
	defer stop()
	conn, _, f := w.c.listen(life, &q)
	if f != nil {
		cancel()
		return f
	}
	w.conn = conn
	if w.opened != nil {
		w.opened()
	}
	return nil
}

// Close ends the connection.
func (w *follower) Close() {
	if w.conn != nil {
		w.conn.close()
		w.conn = nil
	}
}

// next calls f with events until f returns told, which means that the reader has a result. It
// connects again if the connection is lost.
func (w *follower) next(ctx context.Context, f func(name string, data []byte) (told bool, err error)) error {
	lost := time.Now()
	for attempt := 1; w.fault == nil; {
		if w.conn == nil {
			switch f := w.open(ctx); {
			case f == nil:
				attempt = 1
			case ctx.Err() != nil:
				return contextError(ctx)
			case !f.nothing && !f.lost, w.c.opts.MaxOutage > 0 && time.Since(lost) > w.c.opts.MaxOutage:
				return f.err
			default:
				sleep(ctx, w.c.wait(attempt, f.after))
				attempt++
			}
			continue
		}
		name, data, err := w.event(ctx)
		told := false
		if err == nil {
			told, err = f(name, data)
		}
		switch {
		case err == nil && told:
			return nil
		case err == nil:
		case ctx.Err() != nil:
			w.Close() // the read may have stopped within an event
			return contextError(ctx)
		case errors.Is(err, errReconnect):
			w.Close()
			lost = time.Now()
			sleep(ctx, w.c.wait(attempt, 0))
		default:
			w.Close()
			w.fault = asError(ctx, err)
		}
	}
	return w.fault
}

// each calls f with each event whose name is wanted, until ctx ends or f returns an error.
func (w *follower) each(ctx context.Context, wanted func(name string) bool,
	f func(name string, data []byte) error) error {
	defer w.Close()
	for {
		var name string
		var data []byte
		err := w.next(ctx, func(n string, d []byte) (bool, error) {
			name, data = n, d
			return wanted(n), nil
		})
		if err == nil {
			err = f(name, data)
		}
		if err != nil {
			return err
		}
	}
}

// event reads an event of the connection.
func (w *follower) event(ctx context.Context) (string, []byte, error) {
	defer context.AfterFunc(ctx, w.conn.cancel)()
	name, data, err := w.conn.event()
	w.id = cmp.Or(w.conn.id, w.id)
	return name, data, err
}

// event reads an event. An event without a name keeps the connection alive, or has an id. The error
// is errReconnect if the stream ends and may be opened again.
func (s *sse) event() (name string, data []byte, err error) {
	id := ""
	for {
		line, err := s.line(len(data))
		var e *host.Error
		switch {
		case errors.As(err, &e):
			return "", nil, e
		case err != nil:
			return "", nil, errReconnect
		case len(line) == 0 && name == "cairn.bye":
			bye := new(host.Error)
			if json.Unmarshal(data, bye) != nil || bye.Code == host.Unavailable {
				return "", nil, errReconnect
			}
			return "", nil, known(bye)
		case len(line) == 0:
			s.id = cmp.Or(id, s.id)
			return name, data, nil
		}
		field, value, _ := bytes.Cut(line, []byte(": "))
		switch string(field) {
		case "id":
			id = string(value)
		case "event":
			name = string(value)
		case "data":
			data = append(data, value...)
		}
	}
}
