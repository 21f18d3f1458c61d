package client

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/trace"
)

var (
	_ trace.Finder    = (*Client)(nil)
	_ trace.Documents = (*Client)(nil)
	_ trace.Follower  = (*Client)(nil)
)

// FindTrace returns spans of one trace, of all actors.
func (c *Client) FindTrace(ctx context.Context, q trace.FindQuery) (trace.FindPage, error) {
	params := url.Values{}
	set(params, "trace", q.TraceID)
	set(params, "type", q.Type)
	set(params, "cursor", q.Cursor)
	setTimes(params, q.Start, q.End)
	var p trace.FindPage
	return p, c.get(ctx, "/-/traces", params, &p)
}

// Sampling returns which of the traces that begin at the node are recorded.
func (c *Client) Sampling(ctx context.Context) (trace.Sampling, error) {
	var s trace.Sampling
	return s, c.get(ctx, samplingPath, nil, &s)
}

// SetSampling replaces the rules for traces until the next start of the node. Rules that are not
// set are as configured. It returns the rules in effect.
func (c *Client) SetSampling(ctx context.Context, s trace.Sampling) (trace.Sampling, error) {
	body, err := json.Marshal(s)
	if err != nil {
		return trace.Sampling{}, host.Errorf(host.InvalidArgument, "the rules have no JSON: %v", err)
	}
	h := c.header()
	h.Set("Content-Type", "application/json")
	a, f := c.send(ctx, &request{method: http.MethodPut, path: samplingPath, header: h, body: body, again: true})
	if f != nil {
		return trace.Sampling{}, f.err
	}
	var out trace.Sampling
	if err := json.Unmarshal(a.body, &out); err != nil {
		return trace.Sampling{},
			host.Errorf(host.Internal, "the node's answer is not the JSON that was expected: %v", err)
	}
	return out, nil
}

const samplingPath = "/-/traces/sampling"

// TraceDocument returns spans of an actor as an OTLP document in JSON, and the cursor of the next
// page.
func (c *Client) TraceDocument(ctx context.Context, a host.Address, in *trace.ReadInput) ([]byte, string, error) {
	path, e := actorPath(a)
	if e != nil {
		return nil, "", e
	}
	params := traceParams(trace.FollowInput{TraceID: in.TraceID, Name: in.Name, Errors: in.Errors})
	set(params, "cursor", in.Cursor)
	setNumber(params, "limit", in.Limit)
	setNumber(params, "max_bytes", in.MaxBytes)
	setTimes(params, in.Start, in.End)
	reply, f := c.send(ctx,
		&request{method: http.MethodGet, path: withParams(path+"traces", params), header: c.header(), again: true})
	if f != nil {
		return nil, "", f.err
	}
	return reply.body, reply.header.Get("Cairn-Cursor"), nil
}

func setTimes(params url.Values, start, end *time.Time) {
	for name, at := range map[string]*time.Time{"start": start, "end": end} {
		if at != nil {
			params.Set(name, at.UTC().Format(time.RFC3339Nano))
		}
	}
}

func traceParams(in trace.FollowInput) url.Values {
	params := url.Values{}
	set(params, "trace_id", in.TraceID)
	set(params, "name", in.Name)
	if in.Errors {
		params.Set("errors", strconv.FormatBool(true))
	}
	return params
}

// spans follows the spans of an actor over connections, as trace.Tail.
type spans struct {
	follower
	connected bool // once
	lost      bool // spans may be missing, and the reader was not told yet
}

// FollowTraces follows the spans of an actor: see trace.Follower. ctx bounds the opening only;
// Close ends it. The opening is retried like any read. After a lost connection the follower
// connects again, and reports that spans may be missing. It does not follow a successor of the
// actor.
func (c *Client) FollowTraces(ctx context.Context, a host.Address, in trace.FollowInput) (trace.Tail, error) {
	path, e := actorPath(a)
	if e != nil {
		return nil, e
	}
	s := &spans{follower: follower{c: c,
		q: request{method: http.MethodGet, path: withParams(path+"traces", traceParams(in))}, id: in.Life}}
	s.opened = func() { s.lost, s.connected = s.connected, true }
	err := s.start(ctx)
	if err == nil { // the first event names the life
		err = s.next(ctx, func(string, []byte) (bool, error) { return true, nil })
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// Life implements trace.Tail.
func (s *spans) Life() string { return s.id }

// Next implements trace.Tail.
func (s *spans) Next(ctx context.Context) (out trace.News, err error) {
	err = s.next(ctx, func(name string, data []byte) (bool, error) {
		var err error
		switch name {
		case "span":
			d := json.NewDecoder(bytes.NewReader(data))
			d.UseNumber() // a float has no room for the integers of attributes
			out.Spans = make([]trace.Span, 1)
			err = d.Decode(&out.Spans[0])
		case "cairn.gap":
			err = json.Unmarshal(data, &struct{ Missed *uint64 }{&out.Missed})
		default:
			return false, nil
		}
		if err != nil {
			return false, host.Errorf(host.Internal, "a span of the node does not decode: %s", err)
		}
		out.Lost, s.lost = s.lost, false
		return true, nil
	})
	if err != nil {
		return trace.News{}, err
	}
	return out, nil
}
