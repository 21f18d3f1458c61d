package handle

import (
	"math"
	"testing"
	"time"

	"github.com/cairn-run/cairn/actor/host"
)

func TestATimeBeyondMillisecondsIsNotTakenForAnother(t *testing.T) {
	a := &attribute{kind: host.TimeAttribute}
	for _, c := range []struct {
		at   time.Time
		want int64
	}{
		{time.Unix(1<<62, 0), math.MaxInt64}, {time.Unix(-1<<62, 0), math.MaxInt64},
		{time.UnixMilli(math.MaxInt64), math.MaxInt64}, {time.UnixMilli(math.MinInt64), math.MinInt64},
		{time.Unix(-1, 999_999), -1000}, {time.Time{}, -62135596800000},
	} {
		if got := a.hosted(&c.at).Number; got != c.want {
			t.Errorf("%d seconds are %d milliseconds", c.at.Unix(), got)
		}
	}
}
