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
	if err := def.Validate(); err != nil {
		t.Fatal(err)
	}
	return def.Behavior()
}

// saved returns what an actor with state s stores.
func saved[S any](t testing.TB, s S) ([]byte, error) {
	t.Helper()
	b := behaviorOf(t, actor.Spec[S]{OnCreate: func(p *S, _ *actor.Context) error { *p = s; return nil }})
	i := b.New()
	if err := i.Create(&stub{}); err != nil {
		t.Fatal(err)
	}
	return i.Save(nil)
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
		Empty: []int{}, EmptyM: map[string]int{}, EmptyB: []byte{}, M: map[string]int{"b": 2, "a": 1, "ccc": 3},
		At: time.Date(2001, 2, 3, 4, 5, 6, 123456789, time.FixedZone("", 5*3600+30*60)), D: time.Hour,
		U: [16]byte{1, 2, 3}, I: math.MinInt64, Max: math.MaxUint64, F: math.Copysign(0, -1), F32: 0.1, NotUTF8: "\xff\x00",
		P: &n, Big: new(big.Int).Lsh(big.NewInt(1), 90), Any: map[string]any{"k": []any{int64(1), "s", nil, true, 1.5, []byte{1}}},
		Tree: &tree{1, []*tree{{2, nil}, nil}}, Structs: map[[2]int]string{{1, 2}: "x"}, Tagged: 3, Embedded: Embedded{"in"},
	}
	with := in
	with.Left, with.hidden = 1, 1
	blob, err := saved(t, with)
	if err != nil {
		t.Fatal(err)
	}
	out, err := reloaded[everything](t, blob)
	if err != nil {
		t.Fatal(err)
	}
	if !out.At.Equal(in.At) || out.At.Format(time.RFC3339Nano) != in.At.Format(time.RFC3339Nano) {
		t.Errorf("time: %v, want %v", out.At, in.At)
	}
	if !math.Signbit(out.F) {
		t.Error("the sign of zero was lost")
	}
	in.At, out.At = time.Time{}, time.Time{}
	if !reflect.DeepEqual(in, out) {
		t.Errorf("got  %+v\nwant %+v", out, in)
	}
}

func TestEqualStatesEncodeToEqualBytes(t *testing.T) {
	m := map[string]int{}
	for i := range 50 {
		m[strings.Repeat("k", i)] = i
	}
	first, err := saved(t, m)
	for range 20 {
		if blob, err2 := saved(t, maps.Clone(m)); err != nil || err2 != nil || !bytes.Equal(first, blob) {
			t.Fatalf("the same map encoded to different bytes: %v, %v", err, err2)
		}
	}
}

func TestSaveAppends(t *testing.T) {
	b := behaviorOf(t, actor.Spec[counter]{})
	for _, dst := range [][]byte{nil, []byte("head"), append(make([]byte, 0, 100), "head"...)} {
		out, err := b.New().Save(dst)
		if err != nil || !bytes.HasPrefix(out, dst) || len(out) <= len(dst) {
			t.Errorf("Save(%q) = %q, %v", dst, out, err)
		}
	}
}

func TestWhatEncodesAlsoDecodes(t *testing.T) {
	long := make([]int, 200_000) // more than the library's default limits
	blob, err := saved(t, long)
	if out, err2 := reloaded[[]int](t, blob); err != nil || err2 != nil || len(out) != len(long) {
		t.Errorf("%d elements, %v, %v", len(out), err, err2)
	}
	for levels, fits := range map[int]bool{150: true, 200: false} {
		var deep *tree
		for range levels { // each is a struct, a slice and a pointer
			deep = &tree{Kids: []*tree{deep}}
		}
		blob, err := saved(t, deep)
		if err == nil {
			_, err = reloaded[*tree](t, blob)
		}
		if (err == nil) != fits {
			t.Errorf("%d levels: %v", levels, err)
		}
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
		if !errors.As(err, &bad) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

func TestStoredFieldsThatAreGoneAreIgnored(t *testing.T) {
	blob, err := saved(t, struct{ Old, N int }{1, 2})
	if err != nil {
		t.Fatal(err)
	}
	got, err := reloaded[struct{ N, New int }](t, blob)
	if err != nil || got.N != 2 || got.New != 0 {
		t.Errorf("%+v, %v", got, err)
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
	v0, err := saved(t, struct{ Names string }{"a,b"})
	if err != nil {
		t.Fatal(err)
	}
	v1, err := saved(t, account{[]string{"c"}})
	if err != nil {
		t.Fatal(err)
	}
	b := behaviorOf(t, actor.Spec[account]{Version: 2, Migrate: (*account).migrate})
	for version, c := range []struct {
		blob []byte
		want []string
	}{{v0, []string{"a", "b"}}, {v1, []string{"c"}}, {v1, []string{"c"}}} {
		s, err := b.Decode(uint64(version), c.blob)
		if err != nil || !reflect.DeepEqual(s.(*account).Names, c.want) {
			t.Errorf("version %d: %v, %v", version, s, err)
		}
	}
	if _, err := b.Decode(2, v0); err == nil {
		t.Error("a state of the current version was migrated")
	}
	i := b.New()
	err = i.Load(3, v1)
	var e *actor.Error
	if !errors.As(err, &e) || e.Code != actor.StateTooNew || e.Metadata["stored"] != "3" || e.Metadata["supported"] != "2" {
		t.Errorf("newer state: %v", err)
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
		if err := errors.Join(err, i.Create(&stub{}), i.Load(0, blob)); err != nil {
			t.Fatal(err)
		}
		if s := i.State().(*everything); s.hidden != 0 || s.I != 0 || s.M != nil {
			t.Errorf("after Load: %+v", s)
		}
	}
}

func TestDamagedStateIsAnError(t *testing.T) {
	for _, blob := range []string{"", "\xa1", "\xff", "\xa0\xa0", "\x01"} {
		if _, err := reloaded[counter](t, []byte(blob)); err == nil {
			t.Errorf("%x was accepted", blob)
		}
	}
}
