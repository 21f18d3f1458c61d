package actor_test

import (
	"context"
	"testing"
	"time"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/actor/host"
)

// airport is a state with the size and form of statistics.
type airport struct {
	Code      string
	Count     int64
	Mean, M2  float64
	Histogram [24]int64
	Recent    []float64
	Bad       bool
	Since     time.Time
}

type arrival struct {
	Flight string  `json:"flight"`
	Delay  float64 `json:"delay"`
}

type answer struct {
	Count int64   `json:"count"`
	Mean  float64 `json:"mean"`
}

// Benchmark measures the code of a type between a node and a handler.
func Benchmark(b *testing.B) {
	typ := actor.NewType[airport]("airport")
	land := actor.NewAction[arrival, answer](typ, "land")
	nothing := actor.NewAction[actor.None, actor.None](typ, "nothing")
	mean := actor.NewQuery[actor.None, answer](typ, "mean")
	ping := actor.NewQuery[actor.None, actor.None](typ, "ping")
	behavior := actor.Define(typ, actor.Spec[airport]{},
		actor.On(land, func(s *airport, _ *actor.Context, in arrival) (answer, error) {
			s.Count++
			s.Mean += (in.Delay - s.Mean) / float64(s.Count)
			return answer{s.Count, s.Mean}, nil
		}),
		actor.On(nothing, func(*airport, *actor.Context, actor.None) (none actor.None, err error) { return none, nil }),
		actor.OnQuery(mean, func(s airport, _ *actor.ReadContext, _ actor.None) (answer, error) {
			return answer{s.Count, s.Mean}, nil
		}),
		actor.OnQuery(ping, func(airport, *actor.ReadContext, actor.None) (none actor.None, err error) { return none, nil })).Behavior()
	blob, err := saved(b, airport{Code: "ORD", Count: 12345, Mean: 7.25, M2: 1e6, Recent: make([]float64, 20), Since: time.Unix(1e9, 5)})
	if err != nil {
		b.Fatal(err)
	}
	state, err := behavior.Decode(0, blob)
	if err != nil {
		b.Fatal(err)
	}
	i, turn := behavior.New(), &stub{}
	input := []byte("\xa2\x66flight\x65UA123\x65delay\xfb\x40\x28\x33\x33\x33\x33\x33\x33")
	ref := typ.Ref(&replies{Reply: host.Reply{Output: []byte("\xa0")}}, "ORD")
	for _, c := range []struct {
		name string
		f    func(out []byte) ([]byte, error)
	}{
		{"act/none", func(out []byte) ([]byte, error) { return i.Act(turn, 1, host.CBOR, nil, out) }},
		{"act/cbor", func(out []byte) ([]byte, error) { return i.Act(turn, 0, host.CBOR, input, out) }},
		{"act/json", func(out []byte) ([]byte, error) {
			return i.Act(turn, 0, host.JSON, []byte(`{"flight":"UA123","delay":12.1}`), out)
		}},
		{"query/none", func(out []byte) ([]byte, error) { return behavior.Query(turn, 3, state, host.CBOR, nil, out) }},
		{"query/struct", func(out []byte) ([]byte, error) { return behavior.Query(turn, 2, state, host.CBOR, nil, out) }},
		{"save", i.Save},
		{"load", func(out []byte) ([]byte, error) { return out, i.Load(0, blob) }},
		{"call", func(out []byte) ([]byte, error) {
			return out, second(land.Call(context.Background(), ref, arrival{"UA123", 12.1}))
		}},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			var out []byte
			for b.Loop() {
				var err error
				if out, err = c.f(out[:0]); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
