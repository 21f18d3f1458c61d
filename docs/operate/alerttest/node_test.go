package alerttest

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/actor/actortest"
)

// A room is an actor of the nodes under test.
type room struct{ N int }

var (
	rooms = actor.NewType[room]("room")
	add   = actor.NewAction[int, int](rooms, "add")
	late  = actor.NewAction[actor.None, actor.None](rooms, "late")
	drop  = actor.NewAction[actor.None, actor.None](rooms, "drop")
	ring  = actor.NewAlarm[actor.None](rooms, "ring")
	jobs  = actor.NewQueue[string](rooms, "jobs", actor.QueueConfig{Backoff: []time.Duration{}})
)

// define returns rooms with a limit on calls; those whose wake hook fails if broken is true.
func define(broken *bool) actor.Definition {
	spec := actor.Spec[room]{
		Limits: actor.Limits{CallRate: 1, CallBurst: 10},
		OnWake: func(*room, *actor.Context) error {
			if *broken {
				return errors.New("the hook is broken")
			}
			return nil
		},
	}
	return actor.Define(rooms, spec,
		actor.On(add, func(r *room, _ *actor.Context, n int) (int, error) { r.N += n; return r.N, nil }),
		actor.On(late, func(_ *room, ctx *actor.Context, _ actor.None) (actor.None, error) {
			return actor.None{}, ring.At(ctx, time.Now().Add(-10*time.Minute), actor.None{})
		}),
		actor.On(drop, func(_ *room, ctx *actor.Context, _ actor.None) (actor.None, error) {
			_, err := jobs.Put(ctx, "job")
			return actor.None{}, err
		}),
		actor.OnAlarm(ring, func(*room, *actor.Context, actor.None) error { return nil }),
		actor.OnMessage(jobs, func(*room, *actor.Context, string) error { return errors.New("no job is good enough") }),
	)
}

// scrapes collects what a node exports, in the notation of promtool.
type scrapes struct {
	n      int
	values map[string][]string
}

func (s *scrapes) take(t *testing.T, h *actortest.Harness) {
	t.Helper()
	families, err := h.Runtime().Gatherer().Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.Metric {
			if g := m.Histogram; g != nil {
				for _, b := range g.Bucket {
					s.add(f.GetName()+"_bucket", m.Label, float64(b.GetCumulativeCount()), "le", strconv.FormatFloat(b.GetUpperBound(), 'g', -1, 64))
				}
				s.add(f.GetName()+"_bucket", m.Label, float64(g.GetSampleCount()), "le", "+Inf")
				continue
			}
			s.add(f.GetName(), m.Label, m.GetCounter().GetValue()+m.GetGauge().GetValue())
		}
	}
	s.n++
}

func (s *scrapes) add(name string, pairs []*dto.LabelPair, value float64, more ...string) {
	var b strings.Builder
	b.WriteString(name + `{job="cairn",instance="a"`)
	for _, p := range pairs {
		fmt.Fprintf(&b, ",%s=%q", p.GetName(), p.GetValue())
	}
	if len(more) > 0 {
		fmt.Fprintf(&b, ",%s=%q", more[0], more[1])
	}
	b.WriteString("}")
	if s.values == nil {
		s.values = make(map[string][]string)
	}
	v := s.values[b.String()]
	for len(v) < s.n {
		v = append(v, "_")
	}
	s.values[b.String()] = append(v, strconv.FormatFloat(value, 'f', -1, 64))
}

func (s *scrapes) String() string {
	var b strings.Builder
	for series, values := range s.values {
		fmt.Fprintf(&b, "  %s %s\n", series, strings.Join(values, " "))
	}
	return b.String()
}

// TestRulesFireOnANode makes nodes get into trouble, and evaluates all rules over what they export.
func TestRulesFireOnANode(t *testing.T) {
	call := func(t *testing.T, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name    string
		trouble func(t *testing.T, h *actortest.Harness, broken *bool, minute int)
		want    []string
	}{
		{"none", func(t *testing.T, h *actortest.Harness, _ *bool, minute int) {
			_, err := add.Call(t.Context(), rooms.Ref(h, strconv.Itoa(minute)), 1)
			call(t, err)
		}, nil},
		{"the wake hook fails", func(t *testing.T, h *actortest.Harness, broken *bool, minute int) {
			if minute == 1 {
				_, err := add.Call(t.Context(), rooms.Ref(h, "a"), 1)
				call(t, err)
				h.Restart()
			} else if *broken = minute > 1; *broken {
				if _, err := add.Call(t.Context(), rooms.Ref(h, "a"), 1); err == nil {
					t.Fatal("the actor woke")
				}
			}
		}, []string{"CairnActorsFailed", "CairnWakesFail"}},
		{"callers exceed their rate", func(t *testing.T, h *actortest.Harness, _ *bool, minute int) {
			for range 30 {
				add.Call(t.Context(), rooms.Ref(h, "a"), 1)
			}
		}, []string{"CairnOverloaded"}},
		{"messages die", func(t *testing.T, h *actortest.Harness, _ *bool, minute int) {
			_, err := drop.Call(t.Context(), rooms.Ref(h, "a"), actor.None{})
			call(t, err)
		}, []string{"CairnDeadLetters"}},
		{"alarms are late", func(t *testing.T, h *actortest.Harness, _ *bool, minute int) {
			_, err := late.Call(t.Context(), rooms.Ref(h, "a"), actor.None{})
			call(t, err)
		}, []string{"CairnAlarmsLate"}},
		{"the disk fills up", func(t *testing.T, h *actortest.Harness, _ *bool, minute int) {
			if minute > 2 {
				h.Disk().SetFree(600 << 20)
			}
		}, []string{"CairnDiskNearlyFull"}},
		{"the disk is full", func(t *testing.T, h *actortest.Harness, _ *bool, minute int) {
			if minute > 2 {
				h.Disk().SetFree(0)
			}
		}, []string{"CairnNotWritable"}},
		{"the log cannot be written", func(t *testing.T, h *actortest.Harness, _ *bool, minute int) {
			if minute == 3 {
				h.Disk().Fail(func(op, _ string) error {
					if op == "sync" {
						return errors.New("the disk is broken")
					}
					return nil
				})
				if _, err := add.Call(t.Context(), rooms.Ref(h, "b"), 1); err == nil {
					t.Fatal("the call succeeded")
				}
			}
		}, []string{"CairnNotWritable"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var s scrapes
			broken := false
			actortest.Run(t, func(t *testing.T, h *actortest.Harness) {
				for minute := range 20 {
					c.trouble(t, h, &broken, minute)
					h.Settle()
					s.take(t, h)
					time.Sleep(step)
				}
				h.Crash() // a node with a broken disk does not stop in order
			}, define(&broken))
			store := load(t, s.String())
			var got []string
			for name, r := range rules(t) {
				if fires(t, r, store, s.n) {
					got = append(got, name)
				}
			}
			compare(t, got, c.want)
		})
	}
}

func compare(t *testing.T, got, want []string) {
	t.Helper()
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("the rules %v fire, want %v", got, want)
	}
}
