package kernel

import (
	"errors"
	"runtime"
	"testing"
	"testing/synctest"

	"github.com/cairn-run/cairn/runtime/internal/kernel/view"
)

func TestAnswerDoesNotWaitForACommitThatIsDeclined(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &Actor{Kernel: &Kernel{Life: t.Context()}}
		w := &Work{Done: make(chan struct{}, 1)}
		want := errors.New("what w is told")
		a.Apply(true, func(uint64) (*view.View, bool) {
			go a.tell(w, want)
			for range 1000 {
				runtime.Gosched() // until it would have seen the number of this commit; it waits for a mutex now
			}
			return nil, false
		})
		synctest.Wait()
		errorIf(t, !w.settled.Load() || !errors.Is(w.Err, want), "w is settled: %v, with %v", w.settled.Load(), w.Err)
	})
}
