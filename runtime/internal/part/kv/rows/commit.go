// Package kvrows has the commits of the key-value store over the rows of one actor: checks of what
// is stored, and mutations that are done together or not at all. It has no goroutine and no clock
// of its own.
package kvrows

import (
	"errors"
	"fmt"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/kv"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/runtime/internal/part/kv/value"
)

// A Check is a condition of an entry. If one fails, nothing of its commit is done.
type Check struct {
	// Key is packed, and so is End, which only Unchanged uses.
	Key, End []byte
	// Want is the condition.
	Want Want
	// Version is the version that the entry must have, if Want is AtVersion.
	Version uint64
	// Digest is the digest of the entries with Key <= key < End, if Want is Unchanged.
	Digest Digest
	// Value reports whether the entry has the right value, if Want is Equal.
	Value func(value.Value) (bool, error)
}

// Want is the kind of a Check.
type Want uint8

// The kinds: there is no entry, there is one, it has a version, it has a value, and a range has a
// digest.
const (
	Absent Want = iota
	Exists
	AtVersion
	Equal
	Unchanged
)

// An Op is the operation of a Mutation.
type Op uint8

// The operations.
const (
	// Put stores a value.
	Put Op = iota
	// Delete removes an entry, DeleteRange the entries with Key <= key < End; a nil bound is the
	// end of the store.
	Delete
	DeleteRange
	// Combine stores the result of Mutation.Combine for the stored value and the operand.
	Combine
	// Touch changes when an entry expires, and nothing else.
	Touch
)

// A Mutation is one change of a commit.
type Mutation struct {
	Op       Op
	Key, End []byte // packed
	Row      []byte // the logical key of Key; nil if nobody has made it
	Value    value.Value
	Combine  value.Op
	Bounds   value.Bounds
	MaxLen   int // of arrays that Combine makes; 0 is no bound
	Expiry   Expiry
	// Where reports whether DeleteRange removes an entry; nil is all.
	Where func(*engine.Entry) (bool, error)
	// Done is the effect; zero before Apply.
	Done Done
}

// An Expiry says when an entry expires, in Unix milliseconds; 0 is never.
type Expiry struct {
	At  int64
	Set bool // At counts; otherwise an entry that Put stores, or that is new, has Default, and another one stays as it was
	// Default is the expiry by the scope of the entry.
	Default int64
}

// A Commit is done as a whole or not at all.
type Commit struct {
	Checks    []Check
	Mutations []Mutation
}

// Logical returns the logical key of Key.
func (m *Mutation) Logical() []byte {
	if m.Row == nil {
		m.Row = keyspace.UserKV.Append(nil, m.Key)
	}
	return m.Row
}

// Done is the effect of one mutation.
type Done struct {
	// Changed: the value or expiry is different from before, or, for Delete and DeleteRange,
	// entries were removed.
	Changed bool
	// Value is the value that was stored; for Combine it is the result.
	Value value.Value
	// Expires is when the entry expires, 0 for never.
	Expires int64
	// Deleted counts the removed entries. Keys are their packed keys, for a DeleteRange with Where.
	Deleted int64
	Keys    [][]byte
}

// A MutationError says which mutation could not be done, and why: a *value.MismatchError, or an
// error of package engine.
type MutationError struct {
	// Index is the position of the mutation.
	Index int
	Err   error
}

// Error names the mutation.
func (e *MutationError) Error() string { return fmt.Sprintf("mutations[%d]: %v", e.Index, e.Err) }

// Unwrap returns why.
func (e *MutationError) Unwrap() error { return e.Err }

// Apply does a commit in a turn, and returns the positions of the checks that failed. If there are
// any, nothing was done. After an error, which is a *MutationError if a mutation failed, the caller
// must undo the writes.
func Apply(w engine.Writer, c *Commit) (failed []int, err error) {
	var done work
	for i := range c.Checks {
		holds, err := c.Checks[i].holds(w, &done)
		if e, is := errors.AsType[*host.Error](err); is && e.Code == host.TooLarge {
			err = e.With("field", "checks")
		}
		switch {
		case err != nil:
			return nil, err
		case !holds:
			failed = append(failed, i)
		}
	}
	if failed != nil {
		return failed, nil
	}
	for i := range c.Mutations {
		if err := c.Mutations[i].apply(w, &done); err != nil {
			return nil, &MutationError{i, err}
		}
	}
	return nil, nil
}

// holds reports whether the check holds.
func (c *Check) holds(r engine.Reader, done *work) (bool, error) {
	switch c.Want {
	case Unchanged:
		is, err := digest(r, c.Key, c.End, done)
		return is == c.Digest, err
	case Equal:
		e, there, err := r.Get(keyspace.UserKV.Append(nil, c.Key))
		if err != nil || !there {
			return false, err
		}
		if err := done.read(&e); err != nil {
			return false, err
		}
		return c.Value(value.Value{Encoding: encoding(&e), Data: e.Value})
	}
	e, there, err := Stat(r, keyspace.UserKV.Append(nil, c.Key))
	switch {
	case err != nil:
		return false, err
	case c.Want == Absent:
		return !there, nil
	case c.Want == Exists:
		return there, nil
	}
	return there && uint64(e.Version) == c.Version, nil
}

// work counts what one commit reads.
type work struct {
	bytes    int // of stored values
	checked  int // entries of ranges that are checked
	filtered int // entries that filters of DeleteRange read
}

// maxWork bounds the bytes of stored values that one commit reads. Each mutation may read a large
// one, and write it.
const maxWork = 64 << 20

func (k *work) read(e *engine.Entry) error {
	if k.bytes += len(e.Value); k.bytes > maxWork {
		return host.OverLimit("bytes of the stored values that one commit reads", maxWork, int64(k.bytes))
	}
	return nil
}

// apply does the mutation.
func (m *Mutation) apply(w engine.Writer, done *work) (err error) {
	key, d := m.Logical(), &m.Done
	switch m.Op {
	case Delete:
		if d.Changed, err = w.Delete(key); d.Changed {
			d.Deleted = 1
		}
		return err
	case DeleteRange:
		if m.Where != nil {
			err = m.deleteWhere(w, done)
			d.Changed = d.Deleted > 0
			return err
		}
		from, to := Bounds(m.Key, m.End)
		d.Deleted, err = w.DeleteRange(from, to)
		d.Changed = d.Deleted > 0
		return err
	}
	if d.Value, d.Expires = m.Value, m.Expiry.Default; m.Expiry.Set {
		d.Expires = m.Expiry.At
	}
	if m.Op == Put {
		d.Changed = true
		return d.put(w, key)
	}
	old, there, err := w.Get(key)
	if err != nil {
		return err
	}
	if err := done.read(&old); err != nil {
		return err
	}
	if !m.Expiry.Set && there {
		d.Expires = old.Expire
	}
	switch m.Op {
	case Combine:
		var stored *value.Value
		if there {
			stored = &value.Value{Encoding: encoding(&old), Data: old.Value}
		}
		if d.Value, err = m.Combine.Combine(stored, m.Value, m.Bounds); err != nil {
			return err
		}
		if m.MaxLen > 0 {
			d.Value = m.Combine.Trim(d.Value, m.MaxLen)
		}
	case Touch:
		if !there {
			return nil
		}
		d.Value = value.Value{Encoding: encoding(&old), Data: old.Value}
	}
	d.Changed = true
	return d.put(w, key)
}

func (d *Done) put(w engine.Writer, key []byte) error {
	return w.Put(key, d.Value.Data, engine.PutOptions{ExpireAt: d.Expires, Encoding: uint8(d.Value.Encoding)})
}

// deleteWhere removes the entries of a range that meet the filter.
func (m *Mutation) deleteWhere(w engine.Writer, done *work) error {
	d := &m.Done
	q := engine.ListQuery{Limit: 1000, MaxBytes: 4 << 20}
	for q.Start, q.End = Bounds(m.Key, m.End); ; {
		page, err := w.List(q)
		if err != nil {
			return err
		}
		for i := range page.Entries {
			e := &page.Entries[i]
			if done.filtered++; done.filtered > kv.MaxFiltered {
				return host.OverLimit("entries that the filters of one commit read", kv.MaxFiltered,
					int64(done.filtered)).With("field", "where")
			}
			if err := done.read(e); err != nil {
				return err
			}
			meets, err := m.Where(e)
			if err != nil {
				return err
			}
			if meets {
				d.Keys = append(d.Keys, e.Key)
			}
		}
		if page.Next == nil {
			break
		}
		q.After = page.Next
	}
	for i, key := range d.Keys {
		if _, err := w.Delete(key); err != nil {
			return err
		}
		d.Keys[i] = key[1:]
	}
	d.Deleted = int64(len(d.Keys))
	return nil
}
