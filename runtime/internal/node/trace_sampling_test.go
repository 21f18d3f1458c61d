package node

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/audit"
	"github.com/cairn-run/cairn/actor/host/trace"
	parttrace "github.com/cairn-run/cairn/runtime/internal/part/trace"
)

func TestSamplingIsChangedByTypeAndAtRunTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newStage(t, func(o *Options) {
			o.Traces = parttrace.Options{PerSecond: 5, Slow: time.Second, Types: map[string]trace.Rule{"q": {Share: new(0.0)}}}
		}, &puppetType{name: "p"}, &puppetType{name: "q"})
		recorded := func(typ string, calls int, f deed) (n int) {
			t.Helper()
			a := host.Address{Type: typ, Key: []string{"a"}}
			count := func() int {
				var out trace.ReadOutput
				if err := g.verbAt(a, host.TraceRead, trace.ReadInput{Name: "turn do"}, &out); err != nil && host.CodeOf(err) != host.NotFound {
					t.Fatal(err)
				}
				return len(out.Spans)
			}
			before := count()
			for range calls {
				r := request(f)
				r.Address = a
				if _, err := g.Call(t.Context(), r); err != nil {
					t.Fatal(err)
				}
			}
			n = count() - before
			time.Sleep(10 * time.Second)
			return n
		}
		nap := func(d time.Duration) deed { return func(*puppet, host.Turn) error { time.Sleep(d); return nil } }
		want := func(what string, p, q, slow int) {
			t.Helper()
			if n := recorded("p", 20, add(1)); n != p {
				t.Errorf("%s: %d traces of p, want %d", what, n, p)
			}
			if n := recorded("q", 20, add(1)); n != q {
				t.Errorf("%s: %d traces of q, want %d", what, n, q)
			}
			if n := recorded("q", 1, nap(500*time.Millisecond)); n != slow {
				t.Errorf("%s: %d slow turns of q, want %d", what, n, slow)
			}
		}
		want("as configured", 5, 0, 0)
		s, err := g.SetSampling(t.Context(), trace.Sampling{Rule: trace.Rule{PerSecond: new(int64(0))}, Types: map[string]trace.Rule{"q": {PerSecond: new(int64(3)), SlowMS: new(int64(100))}}})
		if err != nil || *s.Types["q"].Share != 1 || *s.Share != 1 || *s.SlowMS != 1000 || *g.Sampling().PerSecond != 0 {
			t.Fatalf("%+v, %v", s, err)
		}
		want("changed", 0, 3, 1)
		if _, err := g.SetSampling(t.Context(), trace.Sampling{}); err != nil {
			t.Fatal(err)
		}
		want("reset", 5, 0, 0)
		for field, s := range map[string]trace.Sampling{
			"per_second":    {Rule: trace.Rule{PerSecond: new(int64(-1))}},
			"types.q.share": {Types: map[string]trace.Rule{"q": {Share: new(1.5)}}},
			"types.x":       {Types: map[string]trace.Rule{"x": {}}},
			"slow_ms":       {Rule: trace.Rule{SlowMS: new(int64(0))}},
		} {
			_, err := g.SetSampling(t.Context(), s)
			if e := wantCode(t, err, host.InvalidArgument); e.Metadata["field"] != field {
				t.Errorf("the field of %v is %q", e, e.Metadata["field"])
			}
		}
	})
}

// New rules are about the node and not about an actor. They leave a record all the same, or do not hold.
func TestRulesOfSamplingLeaveARecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newStage(t, func(o *Options) { o.Traces = parttrace.Options{} })
		o := operator
		ctx := audit.With(t.Context(), &o)
		set := func(rate int64) error {
			_, err := g.SetSampling(ctx, trace.Sampling{Rule: trace.Rule{PerSecond: &rate}})
			return err
		}
		if err := set(7); err != nil {
			t.Fatal(err)
		}
		wantCode(t, set(-1), host.InvalidArgument)
		g.disk.SetFree(0)
		time.Sleep(2 * time.Second)
		wantCode(t, set(8), host.Unavailable)
		if now := g.Sampling(); *now.PerSecond != 7 {
			t.Errorf("%d traces a second", *now.PerSecond)
		}
		page, err := g.Audit(t.Context(), audit.Query{})
		if err != nil || len(page.Records) != 1 {
			t.Fatalf("%+v, %v", page, err)
		}
		r := page.Records[0]
		if r.Verb != "trace.sample" || r.Type != "" || len(r.Key) > 0 || r.Principal != "ada" || r.Reason != "to see" || string(r.Input) != `{"per_second":7}` ||
			!strings.Contains(string(r.Before), `"per_second":100`) || !strings.Contains(string(r.After), `"per_second":7`) {
			t.Errorf("%+v", r)
		}
		if page, err := g.Audit(t.Context(), audit.Query{Type: "p"}); err != nil || len(page.Records) > 0 {
			t.Errorf("%+v, %v", page, err)
		}
	})
}
