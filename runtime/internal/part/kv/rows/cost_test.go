package kvrows

import (
	"bytes"
	"testing"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/runtime/internal/part/kv/value"
)

func document(text string) value.Value {
	return value.Value{Encoding: host.EncodedJSON, Data: []byte(text)}
}

// withoutValues fails a test when a value is read.
type withoutValues struct {
	*engine.WriteSet
	t *testing.T
}

func (w withoutValues) Get([]byte) (engine.Entry, bool, error) {
	w.t.Error("the value is read")
	return engine.Entry{}, false, nil
}

func TestPutsDoNotReadValues(t *testing.T) {
	_, rows := openRows(t)
	rows.Advance(1000)
	for range 2 {
		if _, err := Apply(withoutValues{rows, t}, &Commit{Mutations: []Mutation{{Key: pack("a"), Value: document("1")}}}); err != nil {
			t.Fatal(err)
		}
	}
}

func TestChecksDoNotReadValues(t *testing.T) {
	_, rows := openRows(t)
	rows.Advance(1000)
	if _, err := Apply(rows, &Commit{Mutations: []Mutation{{Key: pack("a"), Value: document("1")}, {Key: pack("a", 1), Value: document("1")}}}); err != nil {
		t.Fatal(err)
	}
	r, err := Apply(withoutValues{rows, t}, &Commit{Checks: []Check{
		{Key: pack("a"), Want: Exists}, {Key: pack("a"), Want: Absent}, {Key: pack("a"), Want: AtVersion, Version: uint64(rows.Version())}, {Key: pack("b"), Want: Exists},
	}})
	if err != nil || len(r.Failed) != 2 || r.Failed[0] != 1 || r.Failed[1] != 3 {
		t.Error(r, err)
	}
}

// A small commit must not copy a large value thousands of times.
func TestTheWorkOfACommitIsBounded(t *testing.T) {
	_, rows := openRows(t)
	rows.Advance(1000)
	large := document(`["` + string(bytes.Repeat([]byte("x"), 100<<10)) + `"]`)
	c := &Commit{Mutations: []Mutation{{Key: pack("a"), Value: large}}}
	for range 1000 {
		c.Mutations = append(c.Mutations, Mutation{Op: Combine, Key: pack("a"), Combine: value.Append, Value: document("[]")})
	}
	if _, err := Apply(rows, c); host.CodeOf(err) != host.TooLarge {
		t.Error(err)
	}
}

// The last mutation of a key counts, whatever came before.
func TestMutationsSeeThoseBefore(t *testing.T) {
	_, rows := openRows(t)
	rows.Advance(1000)
	one := document("1")
	r, err := Apply(rows, &Commit{Mutations: []Mutation{
		{Key: pack("a", 1), Value: one}, {Op: DeleteRange, Key: pack("a"), End: pack("b")}, {Key: pack("a", 1), Value: one, Expiry: Expiry{At: 5000, Set: true}},
		{Op: Combine, Combine: value.Sum, Key: pack("a", 1), Value: one}, {Op: DeleteRange}, {Op: Combine, Combine: value.Sum, Key: pack("a", 1), Value: one},
	}})
	if err != nil || r.Done[1].Deleted != 1 || r.Done[3].Expires != 5000 || string(r.Done[3].Value.Data) != "2" || r.Done[4].Deleted != 1 ||
		string(r.Done[5].Value.Data) != "1" || r.Done[5].Expires != 0 {
		t.Errorf("%+v %v", r, err)
	}
	e, there, err := rows.Get(keyspace.UserKV.Append(nil, pack("a", 1)))
	if err != nil || !there || string(e.Value) != "1" || e.Expire != 0 {
		t.Errorf("%+v %v", e, err)
	}
}
