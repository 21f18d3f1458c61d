package gateway

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/audit"
	"github.com/cairn-run/cairn/actor/host/method"
	"github.com/cairn-run/cairn/runtime/internal/gateway/serve"
)

// The methods, as Operate, in the AuthRequest of a read of the audit log: ReadAudit for the records
// of one actor, ListAudit for the records of all actors of Type whose key begins with Key. Both are
// empty for all records. So a hook that compares whole keys never opens the records of the actors
// below a key.
const (
	ReadAudit = "audit.read"
	ListAudit = "audit.list"
)

// EventAudit is a record of the audit log.
const EventAudit = "audit"

// operates reports whether the request may use a method of operators, so that the audit log needs
// its caller.
func (x *exchange) operates(t *target) bool {
	switch t.route {
	case toCall:
		return x.g.operation(t.Type, t.name) == serve.Operate || x.explains(t, t.name)
	case toActor:
		return x.R.Method == http.MethodDelete
	case toSQLite, toSampling:
		return x.R.Method == http.MethodPut
	case toKV, toEntry, toCodebolt, toKeyVal, toStrata:
		return x.g.open[t.Type]&host.KVOpen == 0 || x.explains(t, host.KVCommit)
	}
	return false
}

// explains reports whether the request has an operator's reason.
func (x *exchange) explains(t *target, name string) bool {
	return len(x.R.Header[audit.Header]) > 0 && x.Token == "" &&
		x.g.explains(x.R.Context(),
			serve.AuthRequest{Type: t.Type, Key: t.Key, Header: x.R.Header, RemoteAddr: x.R.RemoteAddr}, name)
}

// explains reports whether a call's reason goes to the audit log, though its type opens the store
// to callers: if the caller is an operator. Clients could fill the log.
func (g *Gateway) explains(ctx context.Context, r serve.AuthRequest, name string) bool {
	row, _ := method.Find(name)
	return row.Openable() && !g.front.Veiled(ctx, r, name)
}

// audit answers GET /-/audit, and with an actor in t GET .../-/audit.
func (x *exchange) audit(t *target) {
	x.Count(t.Type, serve.LabelBuiltin)
	asked := parameters(x.R.URL.Query()) // the readable part of a malformed query
	q := audit.Query{Type: t.Type, Prefix: t.Key, Exact: t.Type != ""}
	known := []string{"verb", "since", "after"}
	follows := strings.Contains(x.R.Header.Get("Accept"), "text/event-stream")
	if !follows {
		known = append(known, "until", "cursor", "limit")
	}
	verb := ReadAudit
	if !q.Exact {
		verb = ListAudit
		q.Type, _ = asked.one("type")
		q.Prefix = asked["prefix"]
		x.Count(q.Type, serve.LabelBuiltin)
		known = append(known, "type", "prefix")
	}
	fault := x.Authorize(x.R.Context(), serve.Operate, host.Address{Type: q.Type, Key: q.Prefix}, verb)
	if fault == nil {
		fault = x.auditWanted(&q, known)
	}
	if fault != nil {
		x.Fail(fault)
		return
	}
	if follows {
		x.followAudit(q)
		return
	}
	ctx, cancel := x.limited()
	defer cancel()
	page, err := x.g.log.Audit(ctx, q)
	if err != nil {
		x.Fail(x.Front.AsError(err))
		return
	}
	x.JSON(http.StatusOK, page)
}

// auditWanted reads the selection of records from the parameters.
func (x *exchange) auditWanted(q *audit.Query, known []string) *host.Error {
	p, fault := x.params(known...)
	if fault != nil {
		return fault
	}
	if len(q.Prefix) > 0 && q.Type == "" {
		return wrong("prefix", "the parameter prefix needs a type")
	}
	q.Verb, _ = p.one("verb")
	for name, at := range map[string]*time.Time{"since": &q.Since, "until": &q.Until} {
		text, ok := p.one(name)
		if !ok {
			continue
		}
		var err error
		if *at, err = time.Parse(time.RFC3339, text); err != nil {
			return wrong(name, "the parameter %s is %.40q; it is a time such as 2026-01-31T09:30:00Z", name, text)
		}
	}
	if !q.Since.IsZero() && !q.Until.IsZero() && !q.Since.Before(q.Until) {
		return wrong("until", "the parameter until is not later than since")
	}
	for name, id := range map[string]*uint64{"after": &q.After, "cursor": &q.Before} {
		text, ok := p.one(name)
		if name == "after" && x.R.Header.Get("Last-Event-ID") != "" { // it is later than after in the URL
			name, text, ok = "Last-Event-ID", x.R.Header.Get("Last-Event-ID"), true
		}
		if !ok {
			continue
		}
		n, err := strconv.ParseUint(text, 10, 63)
		if err != nil || n == 0 {
			return wrong(name, "%s is %.40q; it is the id of a record", name, text)
		}
		*id = n
	}
	if x.R.Header.Get("Last-Event-ID") != "" {
		q.Since = time.Time{} // its place differs if the clock was set back meanwhile
	}
	q.Limit, fault = p.number("limit", 1, audit.MaxPage)
	return fault
}

// followAudit answers with server-sent events, one for each record as it is committed.
func (x *exchange) followAudit(q audit.Query) {
	s, fault := x.Front.Admit(x.R.Context(), serve.EventStream)
	if fault != nil {
		x.Fail(fault)
		return
	}
	defer s.Done()
	if q.After == 0 && q.Since.IsZero() {
		q.Since = time.Now() // for all calls of the log
	}
	tell := func(ctx context.Context, f func(*audit.Record) error) error { return x.g.log.FollowAudit(ctx, q, f) }
	follow(x, s, tell, func(b []byte, r *audit.Record) ([]byte, *host.Error) {
		data, err := json.Marshal(r)
		if err != nil {
			return b, x.Front.Internal("record does not encode")
		}
		b = strconv.AppendUint(append(b, "id: "...), r.ID, 10)
		return serve.AppendEvent(append(b, '\n'), EventAudit, data), nil
	})
}
