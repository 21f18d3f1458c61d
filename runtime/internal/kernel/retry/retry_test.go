package retry

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-run/cairn/actor/host"
)

// A name is that of an actor.
type name string

func (n name) String() string { return string(n) }

func TestBackoffDoublesUpToItsLimit(t *testing.T) {
	for n, want := range map[int]time.Duration{
		-1: 0, 0: 0, 1: time.Second, 2: 2 * time.Second, 5: 16 * time.Second, 9: 256 * time.Second, 10: 5 * time.Minute, 30: 5 * time.Minute,
		31: 5 * time.Minute, 1 << 40: 5 * time.Minute,
	} {
		if got := Backoff(n, time.Second, 5*time.Minute); got != want {
			t.Errorf("after %d attempts: %s, want %s", n, got, want)
		}
	}
}

func TestAnErrorMayNameTheTimeOfTheNextTry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := func(d time.Duration) error {
			return host.Errorf(host.Overloaded, "full").With("retry_at", time.Now().Add(d).Format(time.RFC3339Nano))
		}
		for _, c := range []struct {
			err  error
			want time.Duration
		}{
			{errors.New("other"), time.Hour}, {host.Errorf(host.Overloaded, "full"), time.Hour}, {nil, time.Hour},
			{host.Errorf(host.Overloaded, "full").With("retry_at", "soon"), time.Hour},
			{in(time.Second), time.Second}, {in(-time.Second), time.Millisecond}, {in(24 * time.Hour), maxRest},
		} {
			if got := In(c.err, time.Hour); got != c.want {
				t.Errorf("%v: %s, want %s", c.err, got, c.want)
			}
		}
	})
}

func TestAFailedActorIsBlockedForLongerAfterEachFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f Failures
		public, begun := host.Errorf(host.Internal, "internal").With("error_id", "e1"), time.Now()
		wait := time.Second
		for n := 1; n < 15; n++ {
			x := f.Add("a", public, errors.New("the cause"), false)
			if x.Attempts != n || time.Until(x.RetryAt) != wait || !x.Since.Equal(begun) || x.Reason != "the cause" || x.Public != public.Error() ||
				x.Code != host.Internal || x.ErrorID != "e1" {
				t.Fatalf("%d: %+v", n, x)
			}
			if got := f.Of([]byte("a")); got == nil || *got != x {
				t.Fatalf("%+v, want %+v", got, x)
			}
			e, ok := f.Blocked("a", name("p/a")).(*host.Error)
			if at, named := At(e); !ok || e.Code != host.ActorFailed || !e.Retryable || !named || !at.Equal(x.RetryAt) {
				t.Fatalf("%+v", e)
			}
			time.Sleep(wait - 1)
			if f.Blocked("a", name("p/a")) == nil {
				t.Fatal("the actor is tried before its time")
			}
			time.Sleep(time.Nanosecond)
			if err := f.Blocked("a", name("p/a")); err != nil {
				t.Fatal(err)
			}
			wait = min(2*wait, maxRest)
		}
		if f.Len() != 1 || f.Of([]byte("b")) != nil || f.Blocked("b", name("p/b")) != nil {
			t.Error("another actor has failed")
		}
		if !f.Forget("a") || f.Forget("a") || f.Len() != 0 || f.Of([]byte("a")) != nil {
			t.Error("the failure is not forgotten")
		}
		f.Add("a", public, errors.New("damage"), true)
		if e := f.Blocked("a", name("p/a")).(*host.Error); e.Retryable || e.Metadata["reason"] != host.ReasonDamaged || e.Metadata["error_id"] != "e1" {
			t.Errorf("%+v", e)
		}
	})
}

func TestCrashesAreCountedUntilTheyAreForgotten(t *testing.T) {
	var f Failures
	for n := range CrashesToFail {
		if got := f.Crash("a"); got != n+1 || f.Known() != 1 || f.Crashes("a") != got || f.Crashes("b") != 0 {
			t.Errorf("%d crashes", got)
		}
	}
	if f.Forget("a") || f.Crashes("a") != 0 || f.Known() != 0 {
		t.Error("crashes count as a failure, or are not forgotten")
	}
}
