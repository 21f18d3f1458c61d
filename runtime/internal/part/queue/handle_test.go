package queue

import (
	"testing"
	"time"

	"github.com/cairn-run/cairn/actor/host"
)

// Another actor's attempt may push out old ones while they are being counted, and a new one may
// come.
func TestAttemptsAreForgottenOnceCountedAndOldOnesInTime(t *testing.T) {
	var u uncounted
	a, now := host.Address{Type: "p", Key: []string{"a"}}, time.Now()
	old, late := &failedMessage{at: now.Add(-2 * time.Hour)}, &failedMessage{at: now}
	u.add(a, old)
	counting := u.of(a)
	for i := range 1024 {
		u.add(host.Address{Type: "p", Key: []string{"x", string(rune('0' + i))}}, &failedMessage{at: now})
	}
	if left := u.of(a); len(left) != 0 {
		t.Errorf("%d old attempts are kept", len(left))
	}
	u.counted(a, counting)
	u.add(a, late)
	u.counted(a, counting)
	if left := u.of(a); len(left) != 1 || left[0] != late {
		t.Errorf("%v are left", left)
	}
	if u.counted(a, []*failedMessage{late}); len(u.of(a)) != 0 || len(u.all) != 1024 {
		t.Errorf("%d actors have attempts", len(u.all))
	}
}
