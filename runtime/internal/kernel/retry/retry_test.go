package retry

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/keyspace/testutil"
)

// A name is an actor's.
type name string

func (n name) String() string { return string(n) }

func TestBackoffDoublesUpToItsLimit(t *testing.T) {
	for n, want := range map[int]time.Duration{
		-1: 0, 0: 0, 1: time.Second, 2: 2 * time.Second, 5: 16 * time.Second, 9: 256 * time.Second, 10: 5 * time.Minute, 30: 5 * time.Minute,
		31: 5 * time.Minute, 1 << 40: 5 * time.Minute,
	} {
		got := Backoff(n, time.Second, 5*time.Minute)
		errorIf(t, got != want, "after %d attempts: %s, want %s", n, got, want)
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
			got := In(c.err, time.Hour)
			errorIf(t, got != c.want, "%v: %s, want %s", c.err, got, c.want)
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
			if x.Attempts != n || time.Until(x.RetryAt) != wait || !x.Since.Equal(begun) || x.Reason != "the cause" ||
				x.Public != public.Error() ||
				x.Code != host.Internal || x.ErrorID != "e1" {
				t.Fatalf("%d: %+v", n, x)
			}
			got := f.Of([]byte("a"))
			fatalIf(t, got == nil || *got != x, "%+v, want %+v", got, x)
			e, ok := f.Blocked("a", name("p/a")).(*host.Error)
			at, named := At(e)
			fatalIf(t, !ok || e.Code != host.ActorFailed || !e.Retryable || !named || !at.Equal(x.RetryAt), "%+v", e)
			time.Sleep(wait - 1)
			fatalIf(t, f.Blocked("a", name("p/a")) == nil, "the actor is tried before its time")
			time.Sleep(time.Nanosecond)
			must(t, f.Blocked("a", name("p/a")))
			wait = min(2*wait, maxRest)
		}
		errorIf(t, f.Len() != 1 || f.Of([]byte("b")) != nil || f.Blocked("b", name("p/b")) != nil, "another actor has failed")
		errorIf(t, !f.Forget("a") || f.Forget("a") || f.Len() != 0 || f.Of([]byte("a")) != nil, "the failure is not forgotten")
		f.Add("a", public, errors.New("damage"), true)
		if e := f.Blocked("a", name("p/a")).(*host.Error); e.Retryable || e.Metadata["reason"] != host.ReasonDamaged ||
			e.Metadata["error_id"] != "e1" {
			t.Errorf("%+v", e)
		}
	})
}

func TestCrashesAreCountedUntilTheyAreForgotten(t *testing.T) {
	var f Failures
	for n := range CrashesToFail {
		got := f.Crash("a")
		errorIf(t, got != n+1 || f.Known() != 1 || f.Crashes("a") != got || f.Crashes("b") != 0, "%d crashes", got)
	}
	errorIf(t, f.Forget("a") || f.Crashes("a") != 0 || f.Known() != 0, "crashes count as a failure, or are not forgotten")
}

var must, fatalIf, errorIf = testutil.Must, testutil.FatalIf, testutil.ErrorIf
