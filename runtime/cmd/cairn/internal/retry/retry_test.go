package retry

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-run/cairn/actor/host"
)

func TestOnlyErrorsThatMayGoAwayPass(t *testing.T) {
	for _, c := range []struct {
		err  error
		want bool
	}{
		{host.Errorf(host.Unavailable, "away"), true},
		{fmt.Errorf("asked: %w", host.Errorf(host.Overloaded, "busy")), true},
		{host.Errorf(host.NotFound, "not yet").Retry(), true},
		{host.Errorf(host.NotFound, "nothing there"), false},
		{errors.New("a fault of this machine"), false},
	} {
		if got := Passes(c.err); got != c.want {
			t.Errorf("Passes(%v) = %t", c.err, got)
		}
	}
}

func TestPausesGrowUpToTenSecondsAndBeginAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b Backoff
		for i, want := range []time.Duration{250, 500, 1000, 2000, 4000, 8000, 10000, 10000} {
			if b.First() != (i == 0) {
				t.Errorf("pause %d: First is %t", i, b.First())
			}
			start := time.Now()
			b.Wait(t.Context())
			if took := time.Since(start); took != want*time.Millisecond {
				t.Errorf("pause %d took %v, want %d ms", i, took, want)
			}
		}
		b.Reset()
		if got := b.Peek(); got != Shortest || !b.First() {
			t.Errorf("after a reset the next pause is %v", got)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		start := time.Now()
		b.Wait(ctx)
		if took := time.Since(start); took != 0 {
			t.Errorf("a pause went on for %v after its context had ended", took)
		}
	})
}
