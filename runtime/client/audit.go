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
	"github.com/cairn-run/cairn/actor/host/audit"
	"github.com/cairn-run/cairn/actor/host/changes"
)

var _ interface {
	audit.Log
	changes.Feed
} = (*Client)(nil)

// Audit returns a page of the audit log, the latest records first.
func (c *Client) Audit(ctx context.Context, q audit.Query) (audit.Page, error) {
	var p audit.Page
	path, params, e := auditPath(&q)
	if e != nil {
		return p, e
	}
	return p, c.get(ctx, path, params, &p)
}

// auditPath returns where the records of a query are, and how they are selected.
func auditPath(q *audit.Query) (string, url.Values, *host.Error) {
	params, path := url.Values{}, "/-/audit"
	if q.Exact {
		actor, e := actorPath(host.Address{Type: q.Type, Key: q.Prefix})
		if e != nil {
			return "", nil, e
		}
		path = actor + "audit"
	} else {
		set(params, "type", q.Type)
		params["prefix"] = q.Prefix
	}
	set(params, "verb", q.Verb)
	for name, at := range map[string]time.Time{"since": q.Since, "until": q.Until} {
		if !at.IsZero() {
			params.Set(name, at.UTC().Format(time.RFC3339Nano))
		}
	}
	for name, id := range map[string]uint64{"after": q.After, "cursor": q.Before} {
		if id != 0 {
			params.Set(name, strconv.FormatUint(id, 10))
		}
	}
	setNumber(params, "limit", q.Limit)
	return path, params, nil
}

// FollowAudit calls f for the records of the audit log, as they are committed. It connects again if the connection is lost, and misses
// none.
func (c *Client) FollowAudit(ctx context.Context, q audit.Query, f func(*audit.Record) error) error {
	return c.follow(ctx, "audit", func() (string, url.Values, *host.Error) { return auditPath(&q) }, func(s *sse) error {
		if q.After == 0 && q.Since.IsZero() {
			q.Since = s.date // for the connections after the first; the clock here may be another
		}
		return nil
	}, func(data []byte) error {
		var r audit.Record
		if err := json.Unmarshal(data, &r); err != nil {
			return host.Errorf(host.Internal, "a record of the node does not decode: %s", err)
		}
		q.After = r.ID
		return f(&r)
	})
}

// FollowChanges calls f for what changes in actors, as it becomes durable. It connects again if the connection is lost, and tells of the
// gap.
func (c *Client) FollowChanges(ctx context.Context, q changes.Query, f func(*changes.Record) error) error {
	if fault := q.Check(); fault != nil {
		return fault
	}
	params := url.Values{"prefix": q.Prefix}
	set(params, "type", q.Type)
	set(params, "kinds", strings.Join(q.Kinds, ","))
	connected := false
	return c.follow(ctx, "changes", func() (string, url.Values, *host.Error) { return "/-/changes", params, nil }, func(*sse) error {
		if !connected {
			connected = true
			return nil
		}
		return f(&changes.Record{Gap: true})
	}, func(data []byte) error {
		var r changes.Record
		if err := json.Unmarshal(data, &r); err != nil {
			return host.Errorf(host.Internal, "a record of the node does not decode: %s", err)
		}
		return f(&r)
	})
}

// follow calls f with the data of each event of a name, and begun with each connection. The path is asked for before each connection.
func (c *Client) follow(ctx context.Context, name string, where func() (string, url.Values, *host.Error), begun func(*sse) error, f func(data []byte) error) error {
	lost := time.Now()
	for attempt := 1; ; attempt++ {
		path, params, e := where()
		if e != nil {
			return e
		}
		if len(params) > 0 {
			path += "?" + params.Encode()
		}
		h := c.header()
		h.Set("Accept", "text/event-stream")
		conn, life, failed := c.listen(ctx, &request{method: http.MethodGet, path: path, header: h})
		if failed == nil {
			attempt = 1
			err := begun(conn)
			if err == nil {
				err = conn.events(name, f)
			}
			conn.close()
			lost = time.Now()
			_ = life
			if !errors.Is(err, errReconnect) {
				return err
			}
		} else if ctx.Err() == nil && (!failed.nothing && !failed.lost || c.opts.MaxOutage > 0 && time.Since(lost) > c.opts.MaxOutage) {
			return failed.err
		}
		if ctx.Err() != nil || !sleep(ctx, c.wait(attempt, 0)) {
			return contextError(ctx)
		}
	}
}

// events calls f for the events of a stream that have a name. The error is errReconnect if the stream ends and may be opened again.
func (s *sse) events(wanted string, f func(data []byte) error) error {
	var name string
	var data []byte
	for {
		line, err := s.line(len(data))
		var e *host.Error
		switch {
		case errors.As(err, &e):
			return e
		case err != nil:
			return errReconnect
		case len(line) == 0 && name == wanted:
			if err := f(data); err != nil {
				return err
			}
		case len(line) == 0 && name == "cairn.bye":
			bye := new(host.Error)
			if json.Unmarshal(data, bye) != nil || bye.Code == host.Unavailable {
				return errReconnect
			}
			return known(bye)
		}
		if len(line) == 0 {
			name, data = "", nil
			continue
		}
		if value, ok := bytes.CutPrefix(line, []byte("event: ")); ok {
			name = string(value)
		} else if value, ok := bytes.CutPrefix(line, []byte("data: ")); ok {
			data = append(data, value...)
		}
	}
}
