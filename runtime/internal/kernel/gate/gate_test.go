package gate

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/cairn-run/cairn/keyspace/testutil"
)

func TestReadersPassInTheOrderOfTheirCommits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g Gate
		passed := make([]error, 4)
		done := make([]bool, 4)
		for i := range passed {
			go func() { passed[i], done[i] = g.Pass(t.Context(), uint64(i)), true }()
		}
		want := func(what string, n int) {
			t.Helper()
			synctest.Wait()
			for i := range done {
				errorIf(t, done[i] != (i <= n) || passed[i] != nil, "%s: reader %d has passed: %v, %v", what, i, done[i], passed[i])
			}
		}
		want("at first", 0)
		g.Advance(2)
		want("after commit 2", 2)
		g.Advance(1)
		want("after commit 1, which came late", 2)
		g.Advance(3)
		want("after commit 3", 3)
		err := g.Pass(t.Context(), 3)
		errorIf(t, err != nil, "a late reader: %v", err)
	})
}

func TestFailureEndsEveryWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g Gate
		g.Advance(1)
		lost := errors.New("lost")
		waiting := make(chan error, 1)
		go func() { waiting <- g.Pass(t.Context(), 2) }()
		synctest.Wait()
		g.Fail(lost)
		err := <-waiting
		errorIf(t, err != lost, "a reader that waits: %v", err)
		err = g.Pass(t.Context(), 2)
		errorIf(t, err != lost, "a later reader: %v", err)
		err = g.Pass(t.Context(), 1)
		errorIf(t, err != nil, "a reader of a commit that is durable: %v", err)
	})
}

func TestReaderThatGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g Gate
		ctx, cancel := context.WithCancel(t.Context())
		waiting := make(chan error, 1)
		go func() { waiting <- g.Pass(ctx, 1) }()
		synctest.Wait()
		cancel()
		err := <-waiting
		errorIf(t, err != context.Canceled, "it has ended with %v", err)
		g.Advance(1) // there is no reader, and nothing blocks
	})
}

var errorIf = testutil.ErrorIf
