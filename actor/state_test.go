package actor_test

import (
	"bytes"
	"errors"
	"maps"
	"math"
	"math/big"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/internal/codec"
)

type everything struct {
	Nil, Empty   []int
	NilM, EmptyM map[string]int
	NilB, EmptyB []byte
	M            map[string]int
	At           time.Time
	D            time.Duration
	U            [16]byte
	I            int64
	Max          uint64
	F            float64
	F32          float32
	NotUTF8      string
	P, NilP      *int
	Big          *big.Int
	Any          any
	Tree         *tree
	Structs      map[[2]int]string
	Tagged       int `json:"tagged"`
	Left         int `cbor:"-"`
	hidden       int
	Embedded
}

type Embedded struct{ Inner string }

type tree struct {
	Value int
	Kids  []*tree
}

func behaviorOf[S any](t testing.TB, spec actor.Spec[S]) *host.Behavior {
	t.Helper()
	def := actor.Define(actor.NewType[S]("x"), spec)
	ensure(t, def.Validate())
	return def.Behavior()
}

// saved returns the stored form of an actor with state s.
func saved[S any](t testing.TB, s S) ([]byte, error) {
	t.Helper()
	b := behaviorOf(t, actor.Spec[S]{OnCreate: func(p *S, _ *actor.Context) error { *p = s; return nil }})
	i := b.New()
	ensure(t, i.Create(&stub{}))
	return i.Save(nil)
}

func saves[S any](t testing.TB, s S) []byte {
	t.Helper()
	blob, err := saved(t, s)
	ensure(t, err)
	return blob
}

func reloaded[S any](t testing.TB, blob []byte) (S, error) {
	t.Helper()
	v, err := behaviorOf(t, actor.Spec[S]{}).Decode(0, blob)
	if err != nil {
		var none S
		return none, err
	}
	return *v.(*S), nil
}

func TestStateRoundTripsWithoutLoss(t *testing.T) {
	n := 7
	in := everything{
		Empty: []int{}, EmptyM: map[string]int{}, EmptyB: []byte{}, M: map[string]int{},
		At: time.Date(2001, 2, 3, 4, 5, 6, 123456789, time.FixedZone("", 5*3600+30*60)), D: time.Hour,
		U: [16]byte{1, 2, 3}, I: math.MinInt64, Max: math.MaxUint64, F: math.Copysign(0, -1), F32: 0.1, NotUTF8: "\xff\x00",
		P: &n, Big: new(big.Int).Lsh(big.NewInt(1), 90), Any: map[string]any{"k": []any{int64(1), "s", nil, true, 1.5, []byte{1}}},
		Tree: &tree{1, []*tree{{2, nil}, nil}}, Structs: map[[2]int]string{{1, 2}: "x"}, Tagged: 3, Embedded: Embedded{"in"},
	}
	for i := range 50 {
		in.M[strings.Repeat("k", i)] = i
	}
	with := in
	with.Left, with.hidden = 1, 1
	blob := saves(t, with)
	out, err := reloaded[everything](t, blob)
	ensure(t, err)
	errorIf(t, out.At.Format(time.RFC3339Nano) != in.At.Format(time.RFC3339Nano), "time: %v, want %v", out.At, in.At)
	errorIf(t, !math.Signbit(out.F), "the sign of zero was lost")
	for range 20 {
		in.M = maps.Clone(in.M)
		errorIf(t, !bytes.Equal(saves(t, in), blob), "the same state encoded to different bytes")
	}
	in.At, out.At = time.Time{}, time.Time{}
	errorIf(t, !reflect.DeepEqual(in, out), "got  %+v\nwant %+v", out, in)
}

func TestWhatEncodesAlsoDecodes(t *testing.T) {
	long := make([]int, 200_000) // more than the library's default limits
	out, err := reloaded[[]int](t, saves(t, long))
	errorIf(t, err != nil || len(out) != len(long), "%d elements, %v", len(out), err)
	for levels, fits := range map[int]bool{150: true, 200: false} {
		var deep *tree
		for range levels { // each is a struct, a slice and a pointer
			deep = &tree{Kids: []*tree{deep}}
		}
		blob, err := saved(t, deep)
		if err == nil {
			_, err = reloaded[*tree](t, blob)
		}
		errorIf(t, (err == nil) != fits, "%d levels: %v", levels, err)
	}
}

func TestStateThatWouldNotDecodeIsRefusedWithItsPath(t *testing.T) {
	loop := &tree{}
	loop.Kids = []*tree{loop}
	self := map[string]any{}
	self["self"] = self
	type item struct{ At time.Time }
	type items struct {
		Items []item
		ByKey map[string]item
	}
	far := time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)
	odd := time.Date(1900, 1, 1, 0, 0, 0, 0, time.FixedZone("LMT", 1172))
	for want, err := range map[string]error{
		"Items[2].At: the time's year 10000":                 second(saved(t, items{Items: []item{{}, {}, {far}}})),
		`ByKey["k"].At: the time's zone offset of 1172 s`:    second(saved(t, items{ByKey: map[string]item{"k": {odd}}})),
		"nests deeper than":                                  second(saved(t, loop)),
		`["self"]: nests deeper than`:                        second(saved(t, self)),
		`["a"][0]: a field of type any cannot hold a struct`: second(saved(t, map[string]any{"a": []any{counter{}}})),
		`["a"]: a field of type any cannot hold a map`:       second(saved(t, map[string]any{"a": map[int]int{}})),
	} {
		var bad *codec.ValueError
		errorIf(t, !errors.As(err, &bad) || !strings.Contains(err.Error(), want), "got %v, want %q", err, want)
	}
}

type account struct{ Names []string }

func (a *account) migrate(old actor.Stored) error {
	if old.Version() == 0 {
		var v0 struct{ Names string }
		if err := old.Decode(&v0); err != nil {
			return err
		}
		a.Names = strings.Split(v0.Names, ",")
		return nil
	}
	return old.Decode(a)
}

func TestMigrateReadsTheOldForm(t *testing.T) {
	v0, v1 := saves(t, struct{ Names string }{"a,b"}), saves(t, struct {
		Names []string
		Gone  int // is ignored
	}{[]string{"c"}, 1})
	b := behaviorOf(t, actor.Spec[account]{Version: 2, Migrate: (*account).migrate})
	for version, c := range []struct {
		blob []byte
		want []string
	}{{v0, []string{"a", "b"}}, {v1, []string{"c"}}, {v1, []string{"c"}}} {
		s, err := b.Decode(uint64(version), c.blob)
		errorIf(t, err != nil || !reflect.DeepEqual(s.(*account).Names, c.want), "version %d: %v, %v", version, s, err)
	}
	err := b.New().Load(3, v1)
	var e *actor.Error
	if !errors.As(err, &e) || e.Code != actor.StateTooNew || e.Metadata["stored"] != "3" || e.Metadata["supported"] != "2" {
		t.Errorf("newer state: %v", err)
	}
	for _, damaged := range []string{"", "\xa1", "\xff", "\xa0\xa0", "\x01", string(v0)} { // v0 is not of the version
		_, err := b.Decode(2, []byte(damaged))
		errorIf(t, err == nil, "%x was accepted", damaged)
	}
}

func TestLoadForgetsEverythingBefore(t *testing.T) {
	b := behaviorOf(t, actor.Spec[everything]{OnCreate: func(s *everything, _ *actor.Context) error {
		s.hidden, s.I, s.M = 1, 1, map[string]int{"a": 1}
		return nil
	}})
	empty, err := b.New().Save(nil)
	for _, blob := range [][]byte{nil, empty} {
		i := b.New()
		ensure(t, errors.Join(err, i.Create(&stub{}), i.Load(0, blob)))
		s := i.State().(*everything)
		errorIf(t, s.hidden != 0 || s.I != 0 || s.M != nil, "after Load: %+v", s)
	}
}
