package node

import (
	"strings"
	"testing"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/audit"
	"github.com/cairn-run/cairn/actor/host/trace"
	parttrace "github.com/cairn-run/cairn/runtime/internal/part/trace"
)

func TestSamplingIsChangedByTypeAndAtRunTime(t *testing.T) {
	o := parttrace.Options{PerSecond: 5, Slow: time.Second, Types: map[string]trace.Rule{"q": {Share: new(0.0)}}}
	tracing(t, o, func(t *testing.T, g *stage) {
		recorded := func(typ string, calls int, takes time.Duration) int {
			t.Helper()
			a := host.Address{Type: typ, Key: []string{"a"}}
			count := func() int {
				var out trace.ReadOutput
				err := g.verbAt(a, host.TraceRead, trace.ReadInput{Name: "turn do"}, &out)
				fatalIf(t, err != nil && host.CodeOf(err) != host.NotFound, "%v", err)
				return len(out.Spans)
			}
			before := count()
			for range calls {
				must(t, g.doAt(a, func(*puppet, host.Turn) error { time.Sleep(takes); return nil }))
			}
			defer time.Sleep(10 * time.Second)
			return count() - before
		}
		want := func(what string, p, q, slow int) {
			t.Helper()
			got := [3]int{recorded("p", 20, 0), recorded("q", 20, 0), recorded("q", 1, 500*time.Millisecond)}
			if want := [3]int{p, q, slow}; got != want {
				t.Errorf("%s: traces of p, of q and of slow turns of q are %d, want %d", what, got, want)
			}
		}
		set := func(s trace.Sampling) trace.Sampling {
			t.Helper()
			out, err := g.SetSampling(t.Context(), s)
			must(t, err)
			return out
		}
		want("as configured", 5, 0, 0)
		s := set(trace.Sampling{
			Rule:  trace.Rule{PerSecond: new(int64(0))},
			Types: map[string]trace.Rule{"q": {PerSecond: new(int64(3)), SlowMS: new(int64(100))}},
		})
		fatalIf(t, *s.Types["q"].Share != 1 || *s.Share != 1 || *s.SlowMS != 1000 || *g.Sampling().PerSecond != 0, "%+v", s)
		want("changed", 0, 3, 1)
		set(trace.Sampling{})
		want("reset", 5, 0, 0)
		for field, s := range map[string]trace.Sampling{
			"per_second":    {Rule: trace.Rule{PerSecond: new(int64(-1))}},
			"types.q.share": {Types: map[string]trace.Rule{"q": {Share: new(1.5)}}},
			"types.x":       {Types: map[string]trace.Rule{"x": {}}},
			"slow_ms":       {Rule: trace.Rule{SlowMS: new(int64(0))}},
		} {
			_, err := g.SetSampling(t.Context(), s)
			wantField(t, err, field)
		}
	}, &puppetType{name: "p"}, &puppetType{name: "q"})
}

// New rules are about the node and not about an actor. They leave a record all the same, or do not hold.
func TestRulesOfSamplingLeaveARecord(t *testing.T) {
	tracing(t, parttrace.Options{}, func(t *testing.T, g *stage) {
		o := operator
		ctx := audit.With(t.Context(), &o)
		set := func(rate int64) error {
			_, err := g.SetSampling(ctx, trace.Sampling{Rule: trace.Rule{PerSecond: &rate}})
			return err
		}
		must(t, set(7))
		wantCode(t, set(-1), host.InvalidArgument)
		g.disk.SetFree(0)
		time.Sleep(2 * time.Second)
		wantCode(t, set(8), host.Unavailable)
		now := g.Sampling()
		errorIf(t, *now.PerSecond != 7, "%d traces a second", *now.PerSecond)
		page, err := g.Audit(t.Context(), audit.Query{})
		fatalIf(t, err != nil || len(page.Records) != 1, "%+v, %v", page, err)
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
