package runtime_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/actor/actortest"
	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/audit"
)

// meter is an actor whose values are numbers that JSON may not be able to express.
type meter struct{}

var (
	meters   = actor.NewType[meter]("meter")
	readings = actor.NewStream[float64](meters, "readings", actor.StreamConfig{})
	checks   = actor.NewQueue[float64](meters, "checks", actor.QueueConfig{Workers: true})
	probes   = actor.NewSchedule[float64](meters, "probes")
	measure  = actor.NewAction[float64, actor.None](meters, "measure")
)

// A value without a form in JSON is null, and the values beside it are shown.
func TestAValueWithoutAFormInJSONIsShownAsNull(t *testing.T) {
	d := actor.Define(meters, actor.Spec[meter]{},
		actor.On(measure, func(_ *meter, ctx *actor.Context, v float64) (actor.None, error) {
			if _, err := readings.Append(ctx, v); err != nil {
				return actor.None{}, err
			}
			if _, err := checks.Put(ctx, v); err != nil {
				return actor.None{}, err
			}
			return actor.None{}, probes.Set(ctx, actor.Rule{Every: time.Hour}, v)
		}),
		actor.OnSchedule(probes, func(*meter, *actor.Context, float64) error { return nil }))
	actortest.Run(t, func(t *testing.T, h *actortest.Harness) {
		ref := meters.Ref(h, "a")
		for _, v := range []float64{1, 2, math.NaN()} {
			must(t, errOf(measure.Call(t.Context(), ref, v)))
		}
		said := func(method, input string) string {
			reply, err := h.Call(audit.WithReason(t.Context(), "a test"), &host.Request{Address: host.Address{Type: "meter", Key: []string{"a"}}, Method: method,
				Codec: host.JSON, Input: []byte(input)})
			fatalIf(t, err != nil, "%s: %v", method, err)
			return string(reply.Output)
		}
		for _, c := range []struct{ method, input, want string }{
			{host.StreamRead, `{"stream":"readings"}`, `"value":2},`}, {host.StreamRead, `{"stream":"readings"}`, `"value":null}`},
			{host.QueuePeek, `{"queue":"checks"}`, `"body":2`},
			{host.QueueReplace, `{"queue":"checks","id":3,"body":7}`, `"body":7`},
			{host.ScheduleList, `{}`, `"probes"`},
		} {
			got := said(c.method, c.input)
			errorIf(t, !strings.Contains(got, c.want), "%s: %s", c.method, got)
		}
	}, d)
}
