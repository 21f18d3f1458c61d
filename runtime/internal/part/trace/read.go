package trace

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/method"
	"github.com/cairn-run/cairn/actor/host/trace"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/runtime/internal/call"
	"github.com/cairn-run/cairn/runtime/internal/kernel"
	"github.com/cairn-run/cairn/runtime/internal/kernel/address"
	"github.com/cairn-run/cairn/runtime/internal/kernel/fault"
	"github.com/cairn-run/cairn/runtime/internal/kernel/wire"
	"github.com/cairn-run/cairn/traces"
)

// Methods implements call.Server.
func (p *Part) Methods() []*call.Method {
	return []*call.Method{call.Serve(method.TraceRead, read)}
}

// Report implements survey.Reporter. It reads one row for each hour that has spans.
func (p *Part) Report(rows *engine.Snapshot, st *host.Status) error {
	size, err := traces.Size(rows)
	st.TraceBytes = size.Bytes
	return err
}

// read implements trace.read.
func read(s *kernel.Kernel, ctx context.Context, on kernel.Target, in *trace.ReadInput) (trace.ReadOutput, error) {
	r, err := result(ctx, s, on.Addr, in)
	return page(r), err
}

// page returns a result in the form for operators.
func page(r traces.Result) trace.ReadOutput {
	return trace.ReadOutput{
		Spans: shownAll(r.Spans), Parents: shownAll(r.Parents), Cursor: r.Cursor, Dropped: r.Dropped, Damaged: r.Damaged, Now: time.Now().UTC(),
	}
}

// StoredReply answers trace.read from a store that no node runs on.
func StoredReply(ctx context.Context, store *engine.Store, namespace string, r *host.Request) (host.Reply, error) {
	var in trace.ReadInput
	if err := wire.Decode(r.Method, r.Codec, r.Input, &in); err != nil {
		return host.Reply{}, err
	}
	found, err := stored(ctx, store, namespace, r.Address, &in)
	if err != nil {
		return host.Reply{}, err
	}
	shown := page(found)
	out, err := wire.Encode(r.Codec, &shown)
	return host.Reply{Output: out}, err
}

// StoredDocument is [Document] from a store that no node runs on.
func StoredDocument(ctx context.Context, store *engine.Store, namespace string, addr host.Address,
	in *trace.ReadInput) ([]byte, string, error) {
	r, err := stored(ctx, store, namespace, addr, in)
	return document(addr, &r), r.Cursor, err
}

// stored reads spans of an actor from a store that no node runs on.
func stored(ctx context.Context, store *engine.Store, namespace string, addr host.Address,
	in *trace.ReadInput) (traces.Result, error) {
	id, ok, err := store.Lookup(engine.Identity{Namespace: namespace, Type: addr.Type, Key: addr.Key})
	if err == nil && !ok {
		err = fault.NotFound(addr)
	}
	if err != nil {
		return traces.Result{}, err
	}
	snap := store.Snapshot(id)
	defer snap.Close()
	return find(ctx, addr, snap, traces.Pending{}, in)
}

// result reads spans of an actor, without waking it. The error is an *host.Error: NotFound if there
// is no such actor.
func result(ctx context.Context, s *kernel.Kernel, addr host.Address, in *trace.ReadInput) (traces.Result, error) {
	var held, live traces.Pending // before the snapshot
	if p, ok := s.Tracer.(*Recorder); ok {
		held = p.held(addr)
	}
	if a := s.Find(addr); a != nil {
		if j, ok := a.Spans.(*journal); ok {
			live = j.life().Pending()
		}
	}
	snap, _, err := s.Durable(ctx, addr)
	if err != nil {
		return traces.Result{}, err
	}
	defer snap.Close()
	r, err := find(ctx, addr, snap, live.And(held), in)
	if _, ok := errors.AsType[*host.Error](err); err != nil && !ok {
		err = s.StoreError(err)
	}
	return r, err
}

// find reads the spans of an actor that an input selects.
func find(ctx context.Context, addr host.Address, rows traces.Reader, live traces.Pending,
	in *trace.ReadInput) (traces.Result, error) {
	q := traces.Query{Name: in.Name, Errors: in.Errors, Limit: in.Limit, MaxBytes: in.MaxBytes,
		Cursor: in.Cursor, Live: live, Of: fmt.Sprintf("%q%q", addr.Type, addr.Key)}
	if in.Start != nil {
		q.Start = nanos(*in.Start)
	}
	if in.End != nil {
		q.End = max(nanos(*in.End), 1) // 0 has no bound
	}
	var err error
	if q.TraceID, err = traceID(in.TraceID); err != nil {
		return traces.Result{}, err
	}
	r, err := traces.Read(ctx, rows, q)
	if fault, ok := errors.AsType[*traces.QueryError](err); ok {
		return r, host.Errorf(host.InvalidArgument, "%s: %s", fault.Field, fault.Reason).With("field", fault.Field)
	}
	return r, err
}

// traceID reads a member trace_id; the zero id if it is empty.
func traceID(text string) (traces.TraceID, error) {
	id, ok := traces.ParseTraceID(text)
	if !ok && text != "" {
		return id, host.Errorf(host.InvalidArgument,
			"trace_id is %.40q; it has 32 hexadecimal digits", text).With("field", "trace_id")
	}
	return id, nil
}

// Document implements [trace.Documents].
func Document(ctx context.Context, s *kernel.Kernel, addr host.Address, in *trace.ReadInput) ([]byte, string, error) {
	if _, err := s.StoredTypeOf(addr); err != nil {
		return nil, "", err
	}
	r, err := result(ctx, s, addr, in)
	if err != nil {
		return nil, "", err
	}
	return document(addr, &r), r.Cursor, nil
}

func document(addr host.Address, r *traces.Result) []byte {
	return traces.AppendJSON(nil, traces.Group{Resource: resourceOf(addr, nil), Spans: append(r.Spans, r.Parents...)})
}

// resourceOf describes an actor in the words of OpenTelemetry.
func resourceOf(addr host.Address, more []traces.Attribute) *traces.Resource {
	list := []traces.Attribute{traces.String("cairn.actor", address.Format(addr)),
		traces.String("cairn.actor.type", addr.Type)}
	if !slices.ContainsFunc(more, func(a traces.Attribute) bool { return a.Key == "service.name" }) {
		list = append(list, traces.String("service.name", "cairn"))
	}
	return &traces.Resource{Attributes: append(list, more...)}
}

func shownAll(spans []traces.Span) []trace.Span {
	list := make([]trace.Span, len(spans))
	for i := range spans {
		list[i] = shown(&spans[i])
	}
	return list
}

// kindNames and statusNames are the words for the kinds and results of spans.
var (
	kindNames   = [...]string{"internal", "internal", "server", "client", "producer", "consumer"}
	statusNames = [...]string{"", "ok", "error"}
)

// shown returns a span in the form for operators.
func shown(s *traces.Span) trace.Span {
	out := trace.Span{
		TraceID: s.TraceID.String(), SpanID: s.SpanID.String(), Remote: s.RemoteParent, Name: s.Name,
		Start: moment(s.Start), Message: s.Message, Scope: s.Scope.Name, Attributes: attributes(s.Attributes),
	}
	if int(s.Kind) < len(kindNames) {
		out.Kind = kindNames[s.Kind]
	}
	if int(s.Status) < len(statusNames) {
		out.Status = statusNames[s.Status]
	}
	if s.Parent != (traces.SpanID{}) {
		out.ParentID = s.Parent.String()
	}
	if s.End != 0 {
		end := moment(s.End)
		out.End = &end
	}
	for _, e := range s.Events {
		out.Events = append(out.Events,
			trace.Event{Name: e.Name, Time: moment(e.Time), Attributes: attributes(e.Attributes)})
	}
	for _, l := range s.Links {
		out.Links = append(out.Links,
			trace.Link{TraceID: l.TraceID.String(), SpanID: l.SpanID.String(), Attributes: attributes(l.Attributes)})
	}
	return out
}

// nanos returns a time in Unix nanoseconds, as far as these go.
func nanos(t time.Time) int64 {
	switch s := t.Unix(); {
	case s <= math.MinInt64/int64(time.Second):
		return math.MinInt64
	case s >= math.MaxInt64/int64(time.Second):
		return math.MaxInt64
	}
	return t.UnixNano()
}

func moment(ns int64) time.Time { return time.Unix(0, ns).UTC() }

func attributes(list []traces.Attribute) map[string]any {
	if len(list) == 0 {
		return nil
	}
	m := make(map[string]any, len(list))
	for _, a := range list {
		m[a.Key] = value(a.Value)
	}
	return m
}

// value returns an attribute in its JSON form. Bytes are base64.
func value(v traces.Value) any {
	switch v.Type() {
	case traces.TypeString:
		return v.Text()
	case traces.TypeBytes:
		return []byte(v.Text())
	case traces.TypeInt:
		return v.Int()
	case traces.TypeFloat:
		if f := v.Float(); !math.IsNaN(f) && !math.IsInf(f, 0) {
			return f
		}
		return strconv.FormatFloat(v.Float(), 'g', -1, 64)
	case traces.TypeBool:
		return v.Bool()
	case traces.TypeList:
		list := []any{}
		for e := range v.Elements {
			list = append(list, value(e))
		}
		return list
	}
	return nil
}
