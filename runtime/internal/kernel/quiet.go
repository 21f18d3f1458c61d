package kernel

import (
	"sync"
	"time"
)

// quiet lets one log line of a cause pass in a second, so that a full disk does not fill itself with log lines.
type quiet struct {
	mu     sync.Mutex
	causes map[string]*quietCause
}

type quietCause struct {
	next   time.Time // when a line may pass again
	silent int       // lines since the last that passed
}

// quietCauses bounds the causes that are kept apart.
const quietCauses = 64

// pass reports whether a line may be logged, and how many of the cause were left out since the last one.
func (q *quiet) pass(cause string) (left int, ok bool) {
	now := time.Now()
	q.mu.Lock()
	defer q.mu.Unlock()
	c := q.causes[cause]
	if c == nil {
		if q.causes == nil || len(q.causes) >= quietCauses {
			q.causes = make(map[string]*quietCause)
		}
		c = &quietCause{}
		q.causes[cause] = c
	}
	if now.Before(c.next) {
		c.silent++
		return 0, false
	}
	left = c.silent
	c.next, c.silent = now.Add(time.Second), 0
	return left, true
}
