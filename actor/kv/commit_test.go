package kv_test

import (
	"context"
	"fmt"
	"testing"

	hostkv "github.com/cairn-run/cairn/actor/host/kv"
	"github.com/cairn-run/cairn/actor/kv"
)

// The actor may still read the request of a caller that has given up.
func TestARequestWithoutAnAnswerIsNotUsedAgain(t *testing.T) {
	commit := func(i int) kv.Commit {
		return kv.Commit{Mutations: []kv.Mutation{kv.Put(kv.Key{fmt.Sprint(i)}, kv.Text(fmt.Sprint(i)))}}
	}
	var read *hostkv.CommitInput
	if _, err := kv.Run(commit(0), func(in *hostkv.CommitInput) (hostkv.CommitOutput, error) {
		read = in
		return hostkv.CommitOutput{}, context.Canceled
	}); err != context.Canceled {
		t.Fatal(err)
	}
	for i := range 100 {
		if _, err := kv.Run(commit(1+i), func(in *hostkv.CommitInput) (hostkv.CommitOutput, error) {
			if len(in.Mutations) != 1 || in.Mutations[0].Key[0] != fmt.Sprint(1+i) || in.Branch != "" || in.Checks != nil {
				t.Errorf("%+v", in)
			}
			in.Branch, in.Checks = "other", make([]hostkv.Check, 1)
			return hostkv.CommitOutput{OK: true}, nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	m := read.Mutations
	errorIf(t, len(m) != 1 || m[0].Key[0] != "0" || string(m[0].Value) != string(hostkv.ByteString([]byte("0"))), "%+v", m)
}
