// Package kvrows has the commits of the key-value store over the rows of one actor: checks of what is stored, and mutations
// that are done together or not at all. It has no goroutine and no clock of its own.
package kvrows

import (
	"fmt"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/runtime/internal/part/kv/value"
)

// A Check demands something of an entry. If one fails, nothing of its commit is done.
type Check struct {
	// Key is packed.
	Key []byte
	// Want is what is demanded.
	Want Want
	// Version is the version that the entry must have, if Want is AtVersion.
	Version uint64
}

// Want is what a Check demands.
type Want uint8

// The demands: that there is no entry, that there is one, and that it has a version.
const (
	Absent Want = iota
	Exists
	AtVersion
)

// An Op is what a Mutation does.
type Op uint8

// The operations.
const (
	// Put stores a value.
	Put Op = iota
	// Delete removes an entry, DeleteRange the entries with Key <= key < End; a nil bound is the end of the store.
	Delete
	DeleteRange
	// Combine stores what Mutation.Combine makes of the stored value and the operand.
	Combine
	// Touch changes when an entry expires, and nothing else.
	Touch
)

// A Mutation is one change of a commit.
type Mutation struct {
	Op       Op
	Key, End []byte // packed
	Value    value.Value
	Combine  value.Op
	Bounds   value.Bounds
	Expiry   Expiry
}

// An Expiry says when an entry expires, in Unix milliseconds; 0 is never.
type Expiry struct {
	At  int64
	Set bool // At counts; otherwise an entry that Put stores, or that is new, has Default, and another one stays as it was
	// Default is what the scope of the entry says.
	Default int64
}

// A Commit is done as a whole or not at all.
type Commit struct {
	Checks    []Check
	Mutations []Mutation
}

// A Result says what Apply did. If checks failed, that is nothing.
type Result struct {
	// Failed are the positions of the checks that failed.
	Failed []int
	// Done has an element for each mutation.
	Done []Done
}

// Done is what one mutation did.
type Done struct {
	// Changed: there is another value or expiry than before, or, of Delete and DeleteRange, fewer entries.
	Changed bool
	// Value is the value that was stored; that of Combine is the result.
	Value value.Value
	// Expires is when the entry expires, 0 for never.
	Expires int64
	// Deleted counts the entries that are gone.
	Deleted int64
}

// A MutationError says which mutation could not be done, and why: a *value.MismatchError, or an error of package engine.
type MutationError struct {
	// Index is the position of the mutation.
	Index int
	Err   error
}

// Error names the mutation.
func (e *MutationError) Error() string { return fmt.Sprintf("mutations[%d]: %v", e.Index, e.Err) }

// Unwrap returns why.
func (e *MutationError) Unwrap() error { return e.Err }

// Apply does a commit in a turn. After an error, which is a *MutationError if it is about one, the caller must undo what
// was done.
func Apply(w engine.Writer, c *Commit) (Result, error) {
	var r Result
	for i := range c.Checks {
		holds, err := c.Checks[i].holds(w)
		switch {
		case err != nil:
			return Result{}, err
		case !holds:
			r.Failed = append(r.Failed, i)
		}
	}
	if r.Failed != nil {
		return r, nil
	}
	r.Done = make([]Done, len(c.Mutations))
	work := 0
	for i := range c.Mutations {
		if err := c.Mutations[i].apply(w, &r.Done[i], &work); err != nil {
			return Result{}, &MutationError{i, err}
		}
	}
	return r, nil
}

func (c *Check) holds(r engine.Reader) (bool, error) {
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

// maxWork bounds the bytes of stored values that the mutations of one commit read. Each may read a large one, and write it.
const maxWork = 64 << 20

// apply does the mutation, and adds to work the bytes of the stored value that it reads.
func (m *Mutation) apply(w engine.Writer, d *Done, work *int) (err error) {
	key := keyspace.UserKV.Append(nil, m.Key)
	switch m.Op {
	case Delete:
		if d.Changed, err = w.Delete(key); d.Changed {
			d.Deleted = 1
		}
		return err
	case DeleteRange:
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
	if *work += len(old.Value); *work > maxWork {
		return host.OverLimit("bytes of the stored values that mutations of one commit read", maxWork, int64(*work))
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
