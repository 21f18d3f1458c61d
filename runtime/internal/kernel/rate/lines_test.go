package rate

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"
)

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
