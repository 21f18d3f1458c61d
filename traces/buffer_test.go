package traces

import (
	"context"
	"testing"
)

func TestSpansComeBack(t *testing.T) {
	r, b := newRows(), NewBuffer(Options{Incarnation: 1})
	for i := range 10 {
		b.Add(made(i+1, hour0+int64(i)*second, hour0+int64(i)*second+second))
	}
	flush(t, b, r, hour0+minute)
	got, err := Read(context.Background(), r, Query{})
	if err != nil || len(got.Spans) != 10 || got.Cursor != "" {
		t.Fatalf("%d spans, cursor %q, %v; rows %v", len(got.Spans), got.Cursor, err, r.keys())
	}
	if s, err := Size(r); err != nil || s.Bytes != r.size() || b.Bytes() != r.size() {
		t.Errorf("size is %v (%v), buffer %d, rows %d", s, err, b.Bytes(), r.size())
	}
}
