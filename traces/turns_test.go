package traces

import (
	"context"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// turnContext is a context of the runtime: it makes its active span when it is asked for it.
type turnContext struct {
	context.Context
	p *Provider
	a *Active
}

// Value returns the active span.
func (c turnContext) Value(key any) any {
	if c.p.IsKey(key) {
		return c.a
	}
	return c.Context.Value(key)
}

func TestUserSpansOfATurnGoToItsActor(t *testing.T) {
	for _, sampled := range []bool{true, false} {
		p := NewProvider(func() time.Time { return time.Unix(0, 7) })
		b := NewBuffer(Options{Incarnation: 1})
		turn := Span{TraceID: TraceID{1}, SpanID: SpanID{2}, Sampled: sampled, Name: "turn", Start: 1}
		ctx := turnContext{t.Context(), p, p.Begin(b, turn)}
		span := trace.SpanFromContext(ctx)
		if span.IsRecording() != sampled || span.SpanContext().IsSampled() != sampled {
			t.Errorf("sampled %v: recording %v", sampled, span.IsRecording())
		}
		span.SetAttributes(attribute.String("plan", "pro"))
		span.AddEvent("event")
		child, user := span.TracerProvider().Tracer("mine").Start(ctx, "work \xff")
		user.SetStatus(codes.Error, "it failed")
		_, inner := span.TracerProvider().Tracer("mine").Start(child, "inner")
		if sampled && len(b.Pending().open) != 2 {
			t.Errorf("%d spans are open", len(b.Pending().open))
		}
		inner.End()
		user.End()
		user.End() // twice
		ctx.a.Finish(&turn)
		span.SetAttributes(attribute.String("plan", "late"))
		var got []Span
		r, err := Read(t.Context(), none{}, Query{Live: b.Pending()})
		if err != nil {
			t.Fatal(err)
		}
		got = r.Spans
		if !sampled {
			if len(got) != 0 || len(turn.Attributes) != 0 {
				t.Errorf("an unsampled turn has %+v and %+v", got, turn)
			}
			continue
		}
		if len(got) != 2 || got[0].Name != "work \uFFFD" && got[1].Name != "work \uFFFD" {
			t.Fatalf("the spans are %+v", got)
		}
		for _, s := range got {
			if s.TraceID != turn.TraceID || s.Scope.Name != "mine" || s.Name == "work \uFFFD" && (s.Parent != turn.SpanID || s.Status != Error) {
				t.Errorf("the span is %+v", s)
			}
		}
		if len(turn.Attributes) != 1 || turn.Attributes[0].Value.Text() != "pro" || len(turn.Events) != 1 || turn.Events[0].Time != 7 {
			t.Errorf("the turn is %+v", turn)
		}
	}
}

func TestSpansThatUsersNeverEndGoWithTheBuffer(t *testing.T) {
	p := NewProvider(time.Now)
	b := NewBuffer(Options{Incarnation: 1})
	ctx := turnContext{t.Context(), p, p.Begin(b, Span{TraceID: TraceID{1}, SpanID: SpanID{2}, Sampled: true})}
	for i := range 2 * MaxOpen {
		_, left := trace.SpanFromContext(ctx).TracerProvider().Tracer("mine").Start(ctx, "left open")
		if left.IsRecording() != (i < MaxOpen) {
			t.Fatalf("span %d is recording: %v", i, left.IsRecording())
		}
		if i >= MaxOpen {
			left.End() // it has no room
		}
	}
	if d := b.Drops()[DropOpen]; d != MaxOpen {
		t.Errorf("%d dropped", d)
	}
	b.Close()
	_, late := trace.SpanFromContext(ctx).TracerProvider().Tracer("mine").Start(ctx, "late")
	late.End()
	if n := len(b.open); n != 0 || !b.Empty() {
		t.Errorf("%d spans are held", n)
	}
}

// none is a store without rows.
type none struct{}

func (none) AppendValue(dst, _ []byte) ([]byte, bool, error)        { return dst, false, nil }
func (none) Scan(_, _ []byte, _ func(key, value []byte) bool) error { return nil }
