package gate

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
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
				if done[i] != (i <= n) || passed[i] != nil {
					t.Errorf("%s: reader %d has passed: %v, %v", what, i, done[i], passed[i])
				}
			}
		}
		want("at first", 0)
		g.Advance(2)
		want("after commit 2", 2)
		g.Advance(1)
		want("after commit 1, which came late", 2)
		g.Advance(3)
		want("after commit 3", 3)
		if err := g.Pass(t.Context(), 3); err != nil {
			t.Errorf("a late reader: %v", err)
		}
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
		if err := <-waiting; err != lost {
			t.Errorf("a reader that waits: %v", err)
		}
		if err := g.Pass(t.Context(), 2); err != lost {
			t.Errorf("a later reader: %v", err)
		}
		if err := g.Pass(t.Context(), 1); err != nil {
			t.Errorf("a reader of a commit that is durable: %v", err)
		}
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
		if err := <-waiting; err != context.Canceled {
			t.Errorf("it has ended with %v", err)
		}
		g.Advance(1) // nobody takes it, and nothing blocks
	})
}
