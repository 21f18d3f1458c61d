package client

import (
	"context"
	"encoding/json"
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

// auditPath returns the path and parameters that select the records of a query.
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

// FollowAudit calls f for the records of the audit log, as they are committed. If the connection is
// lost, it connects again and misses no records.
func (c *Client) FollowAudit(ctx context.Context, q audit.Query, f func(*audit.Record) error) error {
	w := &follower{c: c}
	at := func() *host.Error {
		path, params, e := auditPath(&q)
		w.q = request{method: http.MethodGet, path: withParams(path, params)}
		return e
	}
	w.opened = func() {
		if q.After == 0 && q.Since.IsZero() {
			q.Since = w.conn.date // for connections after the first; the clock here may differ
			at()
		}
	}
	if e := at(); e != nil {
		return e
	}
	return w.each(ctx, func(name string) bool { return name == "audit" }, func(_ string, data []byte) error {
		var r audit.Record
		if err := json.Unmarshal(data, &r); err != nil {
			return host.Errorf(host.Internal, "a record of the node does not decode: %s", err)
		}
		return f(&r)
	})
}

// FollowChanges calls f for changes in actors as they become durable. If the connection is lost, it
// connects again and reports the gap before the next change.
func (c *Client) FollowChanges(ctx context.Context, q changes.Query, f func(*changes.Record) error) error {
	if e := q.Check(); e != nil {
		return e
	}
	params := url.Values{"prefix": q.Prefix}
	set(params, "type", q.Type)
	set(params, "kinds", strings.Join(q.Kinds, ","))
	w := &follower{c: c, q: request{method: http.MethodGet, path: withParams("/-/changes", params)}}
	first, gap := true, false
	w.opened = func() { first, gap = false, !first }
	return w.each(ctx, func(name string) bool { return name == "changes" || gap },
		func(name string, data []byte) error {
			if gap {
				gap = false
				if err := f(&changes.Record{Gap: true}); err != nil || name != "changes" {
					return err
				}
			}
			var r changes.Record
			if err := json.Unmarshal(data, &r); err != nil {
				return host.Errorf(host.Internal, "a record of the node does not decode: %s", err)
			}
			return f(&r)
		})
}
