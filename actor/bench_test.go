package actor_test

import (
	"context"
	"testing"
	"time"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/actor/host"
)

// airport is a state of the size and form that statistics have.
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

type airports struct {
	behavior *host.Behavior
	land     *actor.Action[airport, arrival, answer]
	typ      *actor.Type[airport]
}

// Methods: 0 land, 1 nothing, 2 mean, 3 ping. Event: 0 late.
func newAirports(b *testing.B) airports {
	b.Helper()
	typ := actor.NewType[airport]("airport")
	land := actor.NewAction[arrival, answer](typ, "land")
	nothing := actor.NewAction[actor.None, actor.None](typ, "nothing")
	mean := actor.NewQuery[actor.None, answer](typ, "mean")
	ping := actor.NewQuery[actor.None, actor.None](typ, "ping")
	def := actor.Define(typ, actor.Spec[airport]{},
		actor.On(land, func(s *airport, _ *actor.Context, in arrival) (answer, error) {
			s.Count++
			s.Mean += (in.Delay - s.Mean) / float64(s.Count)
			return answer{s.Count, s.Mean}, nil
		}),
		actor.On(nothing, func(*airport, *actor.Context, actor.None) (actor.None, error) { return actor.None{}, nil }),
		actor.OnQuery(mean, func(s airport, _ *actor.ReadContext, _ actor.None) (answer, error) {
			return answer{s.Count, s.Mean}, nil
		}),
		actor.OnQuery(ping, func(airport, *actor.ReadContext, actor.None) (actor.None, error) { return actor.None{}, nil }))
	if err := def.Validate(); err != nil {
		b.Fatal(err)
	}
	return airports{def.Behavior(), land, typ}
}

func benchAct(b *testing.B, method int, as host.Codec, input []byte) {
	i := newAirports(b).behavior.New()
	turn := &stub{}
	var out []byte
	b.ReportAllocs()
	for b.Loop() {
		var err error
		if out, err = i.Act(turn, method, as, input, out[:0]); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAct(b *testing.B) {
	b.Run("none", func(b *testing.B) { benchAct(b, 1, host.CBOR, nil) })
	b.Run("cbor", func(b *testing.B) {
		benchAct(b, 0, host.CBOR, []byte("\xa2\x66flight\x65UA123\x65delay\xfb\x40\x28\x33\x33\x33\x33\x33\x33"))
	})
	b.Run("json", func(b *testing.B) { benchAct(b, 0, host.JSON, []byte(`{"flight":"UA123","delay":12.1}`)) })
}

func BenchmarkQuery(b *testing.B) {
	behavior := newAirports(b).behavior
	state, err := behavior.Decode(0, nil)
	if err != nil {
		b.Fatal(err)
	}
	turn := &stub{}
	for name, method := range map[string]int{"none": 3, "struct": 2} {
		b.Run(name, func(b *testing.B) {
			var out []byte
			b.ReportAllocs()
			for b.Loop() {
				if out, err = behavior.Query(turn, method, state, host.CBOR, nil, out[:0]); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkState(b *testing.B) {
	full := airport{
		Code: "ORD", Count: 12345, Mean: 7.25, M2: 1e6, Recent: make([]float64, 20), Since: time.Unix(1e9, 5),
	}
	for i := range full.Recent {
		full.Recent[i] = float64(i) * 1.1
	}
	blob, err := saved(b, full)
	if err != nil {
		b.Fatal(err)
	}
	i := newAirports(b).behavior.New()
	if err := i.Load(0, blob); err != nil {
		b.Fatal(err)
	}
	b.Run("save", func(b *testing.B) {
		var out []byte
		b.ReportAllocs()
		b.SetBytes(int64(len(blob)))
		for b.Loop() {
			if out, err = i.Save(out[:0]); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("load", func(b *testing.B) {
		b.ReportAllocs()
		b.SetBytes(int64(len(blob)))
		for b.Loop() {
			if err := i.Load(0, blob); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkCall(b *testing.B) {
	a := newAirports(b)
	out, err := a.behavior.New().Act(&stub{}, 0, host.CBOR, []byte("\xa0"), nil)
	if err != nil {
		b.Fatal(err)
	}
	ref := a.typ.Ref(&replies{Reply: host.Reply{Output: out}}, "ORD")
	ctx := context.Background()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := a.land.Call(ctx, ref, arrival{"UA123", 12.1}); err != nil {
			b.Fatal(err)
		}
	}
}
