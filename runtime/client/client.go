package client

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/kv"
	"github.com/cairn-run/cairn/actor/host/usage"
)

// A Client calls the actors of one node. It is safe for any number of goroutines.
//
//  1. Every error is an *host.Error. Retryable means that nothing was done, even if the client made
//     the error.
//  2. A request is sent again, up to Options.Attempts times and within its context, if the last
//     attempt did nothing: there was no connection, or the node said that the error is retryable.
//  3. It is also sent again after a lost connection, if it cannot take effect twice. This is true
//     of reads, which include the queries that every actor has, such as queue.stats. It is true of
//     calls, because they carry an idempotency key; the client makes one if the caller gave none. A
//     lost Destroy is repeated, and NotFound then counts as success, because the first attempt may
//     have destroyed the actor.
//  4. Close closes the client's own idle connections; the client can still be used.
//
// Attempts: 1 turns all of this off.
type Client struct {
	base string
	opts Options
	http *http.Client
	own  *http.Transport // nil if the caller gave an http.Client
}

var (
	_ host.Node        = (*Client)(nil)
	_ host.EventSource = (*Client)(nil)
	_ host.Inspector   = (*Client)(nil)
	_ host.Databases   = (*Client)(nil)
	_ kv.Watcher       = (*Client)(nil)
)

// New makes a client of the node at baseURL, such as "http://127.0.0.1:6420". A path in it precedes
// the node's paths. New does not connect; see Health.
func New(baseURL string, o Options) (*Client, error) {
	o = o.EnsureDefaults()
	if err := o.Validate(); err != nil {
		return nil, err
	}
	u, err := url.Parse(baseURL)
	switch {
	case err != nil:
		return nil, host.Errorf(host.InvalidArgument, "client: the base URL is malformed: %v", err)
	case u.Scheme != "http" && u.Scheme != "https", u.Host == "":
		return nil, host.Errorf(host.InvalidArgument,
			"client: the base URL %q is not like http://127.0.0.1:6420", baseURL)
	case u.User != nil, u.RawQuery != "", u.Fragment != "":
		return nil, host.Errorf(host.InvalidArgument, "client: the base URL must have no user, query or fragment")
	}
	c := &Client{base: u.Scheme + "://" + u.Host + strings.TrimRight(u.EscapedPath(), "/"), opts: o, http: o.HTTPClient}
	if c.http == nil {
		c.own = &http.Transport{
			Proxy:               http.ProxyFromEnvironment,
			DialContext:         (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 15 * time.Second}).DialContext,
			TLSHandshakeTimeout: 10 * time.Second,
			// For files, which are sent once the node accepts them or this time has passed.
			ExpectContinueTimeout: 2 * time.Second,
			MaxIdleConnsPerHost:   256,
			IdleConnTimeout:       90 * time.Second,
			DisableCompression:    true,
			ForceAttemptHTTP2:     true,
		}
		c.http = &http.Client{
			Transport:     c.own,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		}
	}
	return c, nil
}

// Close closes idle connections, unless Options.HTTPClient is set: then its owner does that. Close
// each event stream with its own Close.
func (c *Client) Close() {
	if c.own != nil {
		c.own.CloseIdleConnections()
	}
}

// Call runs a method of an actor. A request may be in CBOR or JSON, with an input up to the node's
// limit, 1 MiB by default.
//
// A method that waits, such as queue.receive, waits at the node: the client itself sets no time
// limit, so ctx must allow for the wait.
func (c *Client) Call(ctx context.Context, r *host.Request) (host.Reply, error) {
	q, e := c.callRequest(r)
	if e != nil {
		return host.Reply{}, e
	}
	return c.call(ctx, q, r)
}

// call sends a call.
func (c *Client) call(ctx context.Context, q *request, r *host.Request) (host.Reply, error) {
	a, f := c.send(ctx, q)
	if f != nil {
		return host.Reply{}, f.err
	}
	reply := host.Reply{Output: a.body, Replayed: a.header.Get("Idempotency-Replayed") == "true"}
	if r.Codec == host.JSON {
		reply.Output = bytes.TrimSuffix(reply.Output, []byte("\n"))
	}
	if r.Create && r.Method == "" {
		reply.Output = nil // the description of the new actor
	}
	reply.Version, _ = strconv.ParseUint(a.header.Get("Cairn-Version"), 10, 64)
	return reply, nil
}

// callRequest returns the HTTP request of a call.
func (c *Client) callRequest(r *host.Request) (*request, *host.Error) {
	path, e := actorPath(r.Address)
	if e != nil {
		return nil, e
	}
	h := c.header()
	q := &request{method: http.MethodPost, header: h, body: r.Input}
	switch {
	case r.Method != "":
		var b strings.Builder
		b.WriteString(path)
		b.WriteString("call/")
		if !appendSegment(&b, r.Method) {
			return nil, host.Errorf(host.InvalidArgument, "the method name %q is not valid UTF-8", r.Method)
		}
		q.path = b.String()
		if r.Create {
			h.Set("If-None-Match", "*")
		}
	case r.Create:
		q.method, q.path, q.body = http.MethodPut, path, nil
	default:
		return nil, host.Errorf(host.InvalidArgument, "the request names no method")
	}
	switch r.Codec {
	case host.CBOR, host.JSON:
		h.Set("Content-Type", r.Codec.String())
	default:
		return nil, host.Errorf(host.InvalidArgument, "the request has no codec")
	}
	if r.Existing {
		h.Set("If-Match", "*")
	}
	if r.Traceparent != "" && printable(r.Traceparent) {
		h.Set("Traceparent", r.Traceparent)
	}
	key := r.IdempotencyKey
	switch {
	case key == "" && repeatable(r.Method):
		q.again = true
	case key == "" && c.opts.Attempts > 1:
		key = newKey()
	case !printable(key), strings.TrimSpace(key) != key:
		return nil, host.Errorf(host.InvalidArgument,
			"the idempotency key %q cannot be sent over HTTP: it must be printable ASCII without spaces at its ends", key)
	}
	if key != "" {
		h.Set("Idempotency-Key", key)
		q.again = true
	}
	return q, nil
}

// Lookup describes an actor. In its attributes, integers are of type [json.Number], and times are
// strings.
func (c *Client) Lookup(ctx context.Context, a host.Address) (host.Status, error) {
	var s host.Status
	path, e := actorPath(a)
	if e != nil {
		return s, e
	}
	return s, c.get(ctx, path, nil, &s)
}

// List pages through actors. Their attributes are as in Lookup.
func (c *Client) List(ctx context.Context, q host.ListQuery) (host.ListPage, error) {
	params := url.Values{"prefix": q.Prefix, "where": q.Where}
	set(params, "type", q.Type)
	set(params, "sort", q.Sort)
	set(params, "cursor", q.Cursor)
	setNumber(params, "limit", q.Limit)
	if q.Brief {
		set(params, "brief", "true")
	}
	var p host.ListPage
	return p, c.get(ctx, "/actors", params, &p)
}

// QueryMany runs a read-only statement on the databases of many actors, without waking them.
// Numbers in the rows are json.Number.
func (c *Client) QueryMany(ctx context.Context, in *host.QueryManyInput) (out host.QueryManyOutput, err error) {
	body, err := json.Marshal(in)
	if err != nil {
		return out, host.Errorf(host.InvalidArgument, "the input cannot be encoded: %v", err)
	}
	h := c.header()
	h.Set("Content-Type", "application/json")
	a, f := c.send(ctx, &request{method: http.MethodPost, path: "/query", header: h, body: body, again: true})
	if f != nil {
		return out, f.err
	}
	d := json.NewDecoder(bytes.NewReader(a.body))
	d.UseNumber()
	if err := d.Decode(&out); err != nil {
		return out, host.Errorf(host.Internal, "the node's answer is not the JSON that was expected: %v", err)
	}
	return out, nil
}

// Runs pages through the workflow runs that are paused or have failed.
func (c *Client) Runs(ctx context.Context, q host.RunQuery) (host.RunPage, error) {
	params := url.Values{}
	set(params, "type", q.Type)
	set(params, "state", string(q.State))
	set(params, "reason", string(q.Reason))
	set(params, "cursor", q.Cursor)
	if !q.Before.IsZero() {
		params.Set("before", q.Before.UTC().Format(time.RFC3339Nano))
	}
	setNumber(params, "limit", q.Limit)
	var p host.RunPage
	return p, c.get(ctx, "/workflows", params, &p)
}

// CountRuns counts the workflow runs that are paused or have failed, by type, state and reason.
func (c *Client) CountRuns(ctx context.Context) (host.RunCounts, error) {
	var n host.RunCounts
	return n, c.get(ctx, "/workflows/counts", nil, &n)
}

// Usage returns the usage of actors on a day.
func (c *Client) Usage(ctx context.Context, q usage.Query) (usage.Page, error) {
	params := url.Values{"prefix": q.Prefix}
	set(params, "day", q.Day)
	set(params, "type", q.Type)
	set(params, "cursor", q.Cursor)
	setNumber(params, "limit", q.Limit)
	var p usage.Page
	return p, c.get(ctx, "/-/usage", params, &p)
}

// Top returns the busiest actors in the node's memory in the last minute.
func (c *Client) Top(ctx context.Context, q usage.TopQuery) (usage.Top, error) {
	params := url.Values{}
	set(params, "by", string(q.By))
	setNumber(params, "limit", q.Limit)
	var t usage.Top
	return t, c.get(ctx, "/-/top", params, &t)
}

// Destroy removes an actor and everything it stored.
func (c *Client) Destroy(ctx context.Context, a host.Address) error {
	path, e := actorPath(a)
	if e != nil {
		return e
	}
	_, f := c.send(ctx, &request{method: http.MethodDelete, path: path, header: c.header(),
		again: true, gone: []host.Code{host.NotFound}})
	if f != nil {
		return f.err
	}
	return nil
}

// Inspect reads an actor's raw keyspace.
func (c *Client) Inspect(ctx context.Context, a host.Address, q host.InspectQuery) (host.InspectPage, error) {
	path, e := actorPath(a)
	if e != nil {
		return host.InspectPage{}, e
	}
	params := url.Values{}
	set(params, "after", base64.RawURLEncoding.EncodeToString(q.After))
	setNumber(params, "limit", q.Limit)
	setNumber(params, "value_bytes", q.ValueBytes)
	var p struct {
		Keys []host.StoredKey `json:"keys"`
		Next string           `json:"next"`
	}
	if err := c.get(ctx, path+"keys", params, &p); err != nil {
		return host.InspectPage{}, err
	}
	page := host.InspectPage{Keys: p.Keys}
	if p.Next != "" {
		var err error
		if page.Next, err = base64.RawURLEncoding.DecodeString(p.Next); err != nil {
			return host.InspectPage{}, host.Errorf(host.Internal, "the node's answer has a malformed next: %v", err)
		}
	}
	return page, nil
}

// Health returns nil if the node can serve. It does not retry.
func (c *Client) Health(ctx context.Context) error {
	if _, f := c.once(ctx, &request{method: http.MethodGet, path: "/healthz", header: c.header()}); f != nil {
		return f.err
	}
	return nil
}

// get reads a JSON value. The result is nil or an *host.Error.
func (c *Client) get(ctx context.Context, path string, params url.Values, v any) error {
	a, f := c.send(ctx, &request{method: http.MethodGet, path: withParams(path, params),
		header: c.header(), again: true})
	if f != nil {
		return f.err
	}
	d := json.NewDecoder(bytes.NewReader(a.body))
	d.UseNumber() // a float has no room for the integers of attributes
	if err := d.Decode(v); err != nil {
		return host.Errorf(host.Internal, "the node's answer is not the JSON that was expected: %v", err)
	}
	return nil
}

func set(params url.Values, name, value string) {
	if value != "" {
		params.Set(name, value)
	}
}

func setNumber(params url.Values, name string, value int) {
	if value != 0 {
		params.Set(name, strconv.Itoa(value))
	}
}
