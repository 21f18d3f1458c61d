package sqlite

import (
	"errors"

	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/sqlitevfs"
)

// errSlowTrial is the cause of a trial's end when the time of a turn has passed.
var errSlowTrial = errors.New("sqlite: the trial takes longer than a turn may")

// A trial is a writer that is dropped, with the bounds that the write set of a turn has.
type trial struct {
	sqlitevfs.Writer
	limits  engine.Limits
	written int64 // bytes of keys and values that were put
	stored  int64 // bytes that the actor would have
}

// Put implements sqlitevfs.Writer.
func (t *trial) Put(key, value []byte, old int) error {
	size, grows := int64(len(key)+len(value)), int64(len(key)+len(value))
	if old >= 0 {
		grows = int64(len(value) - old)
	}
	if err := t.check(size, grows); err != nil {
		return err
	}
	if err := t.Writer.Put(key, value, old); err != nil {
		return err
	}
	t.written, t.stored = t.written+size, t.stored+grows
	return nil
}

// check returns why a Put that adds size bytes to the set and grows bytes to the actor is refused.
func (t *trial) check(size, grows int64) error {
	if n := t.written + size; n > int64(t.limits.MaxWriteSet) {
		return sqlFull(&engine.LimitError{What: engine.LimitWriteSet, Limit: int64(t.limits.MaxWriteSet), Actual: n})
	}
	if n := t.stored + grows; grows > 0 && n > t.limits.Quota {
		return sqlFull(&engine.QuotaError{Limit: t.limits.Quota, Used: t.stored, Need: n})
	}
	return nil
}

// DeleteRange implements sqlitevfs.Writer.
func (t *trial) DeleteRange(start, end []byte) error {
	var gone int64
	err := t.Scan(start, end, func(key, value []byte) bool {
		gone += int64(len(key) + len(value))
		return true
	})
	if err == nil {
		err = t.Writer.DeleteRange(start, end)
	}
	if err == nil {
		t.stored -= gone
	}
	return err
}

// Room implements sqlitevfs.Writer.
func (t *trial) Room() int64 {
	return max(0, min(int64(t.limits.MaxWriteSet)-t.written, t.limits.Quota-t.stored))
}

// Refusal implements sqlitevfs.Bounded.
func (t *trial) Refusal(n int64) error { return t.check(n, n) }
