package client

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/audit"
)

var _ audit.Log = (*Client)(nil)

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
	lost := time.Now()
	for attempt := 1; ; attempt++ {
		path, params, e := auditPath(&q)
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
			if q.After == 0 && q.Since.IsZero() {
				q.Since = conn.date // for the connections after the first; the clock here may be another
			}
			err := conn.records(func(r *audit.Record) error {
				q.After = r.ID
				return f(r)
			})
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

// records calls f for the records of a stream. The error is errReconnect if the stream ends and may be opened again.
func (s *sse) records(f func(*audit.Record) error) error {
	for {
		name, data, err := s.event()
		if err != nil {
			return err
		}
		if name != "audit" {
			continue
		}
		var r audit.Record
		if err := json.Unmarshal(data, &r); err != nil {
			return host.Errorf(host.Internal, "a record of the node does not decode: %s", err)
		}
		if err := f(&r); err != nil {
			return err
		}
	}
}
