package rate

import (
	"math"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-run/cairn/keyspace/testutil"
)

// TestLimitFollowsItsModel compares a limit with a bucket that is filled bit by bit.
func TestLimitFollowsItsModel(t *testing.T) {
	for _, l := range []struct {
		perSecond float64
		burst     int
	}{{1, 0}, {0.1, 3}, {1000, 1}, {7, 20}, {1e12, 0}, {math.MaxFloat64, 1e9}, {1e-9, 3}, {2.5, 0}} {
		synctest.Test(t, func(t *testing.T) {
			r := New(l.perSecond, l.burst)
			tokens, last := float64(r.Burst), time.Now()
			taken := 0
			for i := range 2000 {
				time.Sleep(time.Duration((i*i*7919)%1_000_003) * time.Microsecond)
				now := time.Now()
				tokens = min(tokens+float64(now.Sub(last))/float64(r.Every), float64(r.Burst))
				last = now
				before := r.Wait([]byte("a"))
				wait, ok := r.Take([]byte("a"))
				switch {
				case before != wait:
					t.Fatalf("%+v: Wait says %s, and Take %s", l, before, wait)
				case ok && tokens < 1-1e-6, !ok && tokens > 1+1e-6, ok != (wait == 0):
					t.Fatalf("%+v: %v in %s with %v tokens", l, ok, wait, tokens)
				case ok:
					tokens--
					taken++
				default:
					later := tokens + float64(wait)/float64(r.Every)
					fatalIf(t, later < 1-1e-6 || later > 1+1e-6, "%+v: after %s there are %v tokens", l, wait, later)
				}
			}
			errorIf(t, taken == 0, "%+v: nothing was ever taken", l)
		})
	}
}

func TestKeysHaveBucketsOfTheirOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New(1, 2)
		for _, key := range []string{"a", "b"} {
			for range 2 {
				wait, ok := r.Take([]byte(key))
				fatalIf(t, !ok, "%s waits %s", key, wait)
			}
			if wait, ok := r.Take([]byte(key)); ok || wait != time.Second {
				t.Errorf("%s: %v, in %s", key, ok, wait)
			}
		}
	})
}

func TestLimitForgetsKeysThatAreLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New(10, 10)
		for i := range 100_000 {
			wait, ok := r.Take(strconv.AppendInt(nil, int64(i), 10))
			fatalIf(t, !ok, "%v", wait)
			time.Sleep(100 * time.Microsecond)
			if r.Len() > 3*minBuckets+2000 { // 1,000 are within the time that one call takes to be forgotten
				t.Fatalf("%d buckets", r.Len())
			}
		}
	})
}

func TestRateIsWrittenForPeople(t *testing.T) {
	for want, perSecond := range map[string]float64{"2": 2, "0.1": 0.1, "333.3": 1000.0 / 3, "1e+09": 1e12} {
		got := New(perSecond, 1).PerSecond()
		errorIf(t, got != want, "%v is written %q, want %q", perSecond, got, want)
	}
}

func TestOneLogLineOfACausePassesInASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var q Lines
		passed, left := map[string]int{}, 0
		for i := range 300 {
			for _, cause := range []string{"full", "read-only"} {
				if n, ok := q.Pass(cause); ok {
					passed[cause]++
					left += n
				}
			}
			if i%100 == 99 {
				time.Sleep(time.Second)
			}
		}
		errorIf(t, passed["full"] != 3 || passed["read-only"] != 3 || left != 4*99, "passed %v, %d told as left out", passed, left)
		for i := range 10 * maxCauses {
			q.Pass(strconv.Itoa(i))
		}
		errorIf(t, len(q.causes) > maxCauses, "%d causes are kept", len(q.causes))
	})
}

var fatalIf, errorIf = testutil.FatalIf, testutil.ErrorIf
