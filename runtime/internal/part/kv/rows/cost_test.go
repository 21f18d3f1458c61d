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
	failed, err := Apply(withoutValues{rows, t}, &Commit{Checks: []Check{
		{Key: pack("a"), Want: Exists}, {Key: pack("a"), Want: Absent}, {Key: pack("a"), Want: AtVersion, Version: uint64(rows.Version())}, {Key: pack("b"), Want: Exists},
	}})
	errorIf(t, err != nil || len(failed) != 2 || failed[0] != 1 || failed[1] != 3, "%v %v", failed, err)
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
	m := []Mutation{
		{Key: pack("a", 1), Value: one}, {Op: DeleteRange, Key: pack("a"), End: pack("b")}, {Key: pack("a", 1), Value: one, Expiry: Expiry{At: 5000, Set: true}},
		{Op: Combine, Combine: value.Sum, Key: pack("a", 1), Value: one}, {Op: DeleteRange}, {Op: Combine, Combine: value.Sum, Key: pack("a", 1), Value: one},
	}
	_, err := Apply(rows, &Commit{Mutations: m})
	if err != nil || m[1].Done.Deleted != 1 || m[3].Done.Expires != 5000 || string(m[3].Done.Value.Data) != "2" || m[4].Done.Deleted != 1 ||
		string(m[5].Done.Value.Data) != "1" || m[5].Done.Expires != 0 {
		t.Errorf("%+v %v", m, err)
	}
	e, there, err := rows.Get(keyspace.UserKV.Append(nil, pack("a", 1)))
	errorIf(t, err != nil || !there || string(e.Value) != "1" || e.Expire != 0, "%+v %v", e, err)
}
