package control

import (
	"reflect"
	"testing"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/runtime/internal/record"
)

// rows are the rows of an actor in memory.
type rows struct {
	engine.Writer // of which only the methods below are used
	m             map[string][]byte
}

func (r rows) Get(key []byte) (engine.Entry, bool, error) {
	value, ok := r.m[string(key)]
	return engine.Entry{Key: key, Value: value}, ok, nil
}

func (r rows) Put(key, value []byte, o engine.PutOptions) error {
	if !o.Exempt {
		panic("an operator must be able to act on an actor that is full")
	}
	r.m[string(key)] = value
	return nil
}

func (r rows) Delete(key []byte) (bool, error) {
	_, ok := r.m[string(key)]
	delete(r.m, string(key))
	return ok, nil
}

func TestAnActorHasARecordWhileOperatorsHaveSetSomething(t *testing.T) {
	r := rows{m: make(map[string][]byte)}
	bytes, perSecond, burst := int64(100_000), 2.5, int64(3)
	pause := &host.Pause{Reason: "r", Since: time.UnixMilli(5).UTC()}
	over := host.ActorLimits{StorageBytes: &bytes, CallRate: &perSecond, CallBurst: &burst}
	for _, c := range []struct {
		pause *host.Pause
		over  host.ActorLimits
	}{{pause, over}, {nil, over}, {pause, host.ActorLimits{}}, {nil, host.ActorLimits{}}} {
		rec, err := Read(r)
		if err != nil {
			t.Fatal(err)
		}
		rec.SetPause(c.pause)
		rec.SetOverride(&c.over)
		if err := rec.Write(r); err != nil {
			t.Fatal(err)
		}
		if rec, err = Read(r); err != nil || !reflect.DeepEqual(rec.Pause(), c.pause) || !reflect.DeepEqual(rec.Override(), c.over) {
			t.Errorf("%+v, %v; want %+v", rec, err, c)
		}
		if set := c.pause != nil || !c.over.Empty(); rec.Empty() == set || len(r.m) != map[bool]int{true: 1}[set] {
			t.Errorf("%+v is empty: %v, with %d rows", rec, rec.Empty(), len(r.m))
		}
	}
}

func TestRecordOfAnEarlierVersionIsRead(t *testing.T) {
	old := struct {
		_      struct{} `cbor:",toarray"`
		Reason string
		Since  int64
	}{Reason: "r", Since: 5}
	b, err := record.Encode(&old)
	if err != nil {
		t.Fatal(err)
	}
	rec, err := Read(rows{m: map[string][]byte{string(key): b}})
	if err != nil || rec.Pause() == nil || rec.Pause().Reason != "r" || len(rec.Limits) != 0 {
		t.Fatalf("%+v, %v", rec, err)
	}
}

func TestLimitOfALaterVersionIsLeftOut(t *testing.T) {
	rec := Record{Limits: []Limit{{Name: "of a later version", Whole: 1}, {Name: "call_burst", Whole: 3}}}
	if over := rec.Override(); over.CallBurst == nil || *over.CallBurst != 3 {
		t.Errorf("%+v", over)
	} else if over.CallBurst = nil; !over.Empty() {
		t.Errorf("%+v", over)
	}
}
