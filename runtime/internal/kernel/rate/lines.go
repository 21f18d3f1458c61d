package rate

import (
	"sync"
	"time"
)

// Lines passes one log line of each cause per second, so that a full disk does not fill itself with
// log lines. The zero value has passed none.
type Lines struct {
	mu     sync.Mutex
	causes map[string]*cause
}

type cause struct {
	next   time.Time // when a line may pass again
	silent int       // lines since the last that passed
}

// maxCauses bounds the causes that are kept apart.
const maxCauses = 64

// Pass reports whether a line may be logged, and how many of its cause were left out since the last
// one.
func (q *Lines) Pass(of string) (left int, ok bool) {
	now := time.Now()
	q.mu.Lock()
	defer q.mu.Unlock()
	c := q.causes[of]
	if c == nil {
		if q.causes == nil || len(q.causes) >= maxCauses {
			q.causes = make(map[string]*cause)
		}
		c = &cause{}
		q.causes[of] = c
	}
	if now.Before(c.next) {
		c.silent++
		return 0, false
	}
	left = c.silent
	c.next, c.silent = now.Add(time.Second), 0
	return left, true
}
