package kv

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	hostkv "github.com/cairn-run/cairn/actor/host/kv"
)

// A Tx is a transaction of a caller: its reads and changes are one commit, with no other commit in
// between. Made by [Store.Update] and [Store.Begin].
//
//  1. Reads see the transaction's own Put, Delete and DeleteRange. Reading an entry after another
//     mutation of it is an error, because its value is known only after the commit. So is a filter
//     over entries that the transaction has put. An entry whose key has a placeholder is not seen.
//  2. Each read is a request. If an entry that was read or a range that was listed changes before
//     the commit, the commit returns a [ConflictError]. New entries in a range are changes too.
//  3. Nothing is written before the commit, and nothing is kept on the node: an abandoned Tx costs
//     nothing.
//
// A Tx is not safe for concurrent use.
type Tx struct {
	store  line
	idle   time.Duration // 0 is no limit
	used   time.Time
	ended  string
	asked  int               // requests
	seen   map[string]*Entry // by packed key; nil is no entry
	keys   []Key             // of seen, in the order of the reads
	pages  []page            // that were listed
	writes []Mutation
	changes
}

// changes are the transaction's own changes of the store.
type changes struct {
	own    map[string]ownEntry // by packed key
	ranges []ownRange          // that were deleted
}

// A page is a range that was listed.
type page struct {
	of     Selection
	digest string
}

// An ownEntry is the transaction's own change of an entry.
type ownEntry struct {
	entry *Entry // nil if there is none
	blind bool   // the entry is known only after the commit
}

type ownRange struct {
	span
	blind bool
}

// A span selects packed keys: start <= key < end, and "" is the end of the store.
type span struct{ start, end string }

func (s span) has(key string) bool { return key >= s.start && (s.end == "" || key < s.end) }

// maxIdle is how long a transaction of Begin may rest between two calls.
const maxIdle = 30 * time.Second

// ErrEnded is matched by the error of a transaction that was committed or rolled back, or rested
// for more than 30 s between two calls. Its code is FailedPrecondition.
var ErrEnded = errors.New("the transaction has ended")

// A ConflictError says that a transaction was not committed, because entries that it read have
// changed. Nothing was done. Its code is FailedPrecondition.
type ConflictError struct {
	// Keys are those of changed entries, and Selections the listed ranges that have changed.
	Keys       []Key
	Selections []Selection
}

// Error names the keys.
func (e *ConflictError) Error() string {
	var what []string
	for _, k := range e.Keys {
		what = append(what, fmt.Sprint("key ", k))
	}
	for _, s := range e.Selections {
		switch {
		case s.Prefix != nil:
			what = append(what, fmt.Sprint("prefix ", s.Prefix))
		default:
			what = append(what, fmt.Sprintf("range %v to %v", s.Start, s.End))
		}
	}
	return "the transaction has read what another commit has changed: " + strings.Join(what, ", ")
}

// Unwrap returns an *host.Error.
func (e *ConflictError) Unwrap() error { return host.Errorf(host.FailedPrecondition, "%s", e) }

// Bounds of [Store.Update].
const (
	tries      = 8
	firstPause = 5 * time.Millisecond
	lastPause  = 500 * time.Millisecond
)

// Update calls f and commits its transaction. After a conflict with another commit it repeats both,
// after a random pause, up to 8 times in all, and then returns the [ConflictError]. An error of f
// ends the transaction, and Update returns it. f must not end the transaction itself.
func (l line) Update(ctx context.Context, f func(tx *Tx) error) (Result, error) {
	for try := 0; ; try++ {
		tx := Tx{store: l}
		err := f(&tx)
		var r Result
		if err == nil {
			r, err = tx.Commit(ctx)
			if conflict := (*ConflictError)(nil); errors.As(err, &conflict) && try < tries-1 && pause(ctx, try) {
				continue
			}
		}
		tx.Rollback()
		return r, err
	}
}

// pause waits before the next try; false means that ctx ended.
func pause(ctx context.Context, try int) bool {
	timer := time.NewTimer(rand.N(min(firstPause<<try, lastPause)) + 1)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// Begin begins a transaction, which the caller ends with [Tx.Commit] or [Tx.Rollback]. It has one
// try, and ends by itself if it rests for more than 30 s between two calls.
func (l line) Begin() *Tx { return &Tx{store: l, idle: maxIdle, used: time.Now()} }

// Rollback ends the transaction without doing anything. It may be called after Commit.
func (tx *Tx) Rollback() { tx.end("it was committed or rolled back") }

func (tx *Tx) end(why string) {
	if tx.ended == "" {
		*tx = Tx{ended: why}
	}
}

// use returns an error if the transaction has ended.
func (tx *Tx) use() error {
	now := time.Now()
	if tx.idle > 0 && now.Sub(tx.used) > tx.idle {
		tx.end(fmt.Sprintf("it rested for more than %s", tx.idle))
	}
	if tx.ended != "" {
		return &endedError{host.Errorf(host.FailedPrecondition, "%s: %s", ErrEnded, tx.ended)}
	}
	tx.used = now
	return nil
}

type endedError struct{ public *host.Error }

func (e *endedError) Error() string   { return e.public.Error() }
func (e *endedError) Unwrap() []error { return []error{e.public, ErrEnded} }

// Do adds mutations to the transaction. They are done by its commit, in order.
func (tx *Tx) Do(mutations ...Mutation) error {
	if err := tx.use(); err != nil {
		return err
	}
	for _, m := range mutations {
		tx.do(&m)
		tx.writes = append(tx.writes, m)
	}
	return nil
}

// do records the effect of a mutation on the entries. The commit reports faults of the mutation.
func (tx *Tx) do(m *Mutation) {
	if m.op == "delete_range" {
		s, err := spanOf(m.rest.Selection)
		if err != nil {
			return
		}
		filtered := m.rest.Where != nil
		for key := range tx.own {
			if s.has(key) {
				tx.note(key, ownEntry{blind: filtered})
			}
		}
		tx.ranges = append(tx.ranges, ownRange{s, filtered})
		return
	}
	key, err := pack(m.key)
	if err != nil {
		return
	}
	switch {
	case m.op == "put" && (m.literal || m.encoding != host.EncodedJSON):
		data, _ := hostkv.Bytes(m.value)
		tx.note(key, ownEntry{entry: &Entry{Key: m.key, Value: Value{m.encoding, bytes.Clone(data)}}})
	case m.op == "delete":
		tx.note(key, ownEntry{})
	default:
		tx.note(key, ownEntry{blind: true})
	}
}

func (tx *Tx) note(key string, e ownEntry) {
	if tx.own == nil {
		tx.own = make(map[string]ownEntry)
	}
	tx.own[key] = e
}

// written returns the transaction's own change of an entry; false means that there is none.
func (c *changes) written(key string, shown Key) (*Entry, bool, error) {
	own, ok := c.own[key]
	for i := len(c.ranges) - 1; !ok && i >= 0; i-- {
		if r := &c.ranges[i]; r.has(key) {
			own, ok = ownEntry{blind: r.blind}, true
		}
	}
	if own.blind {
		return nil, true,
			host.Errorf(host.FailedPrecondition,
				"key %v: the transaction has changed the entry, and what it made of it is known after the commit", shown)
	}
	return own.entry, ok, nil
}

// Get is [Store.Get] in the transaction. Its own entries have no version and no times yet.
func (tx *Tx) Get(ctx context.Context, key Key) (Entry, bool, error) {
	entries, err := tx.GetMany(ctx, key)
	if err != nil || entries[0] == nil {
		return Entry{}, false, err
	}
	return *entries[0], true, nil
}

// GetMany is [Store.GetMany] in the transaction. A key that was read before has the same entry.
func (tx *Tx) GetMany(ctx context.Context, keys ...Key) ([]*Entry, error) {
	if err := tx.use(); err != nil {
		return nil, err
	}
	entries := make([]*Entry, len(keys))
	var missing []Key
	var places []int
	packed := make([]string, len(keys))
	for i, key := range keys {
		var err error
		if packed[i], err = pack(key); err != nil {
			return nil, err
		}
		e, ok, err := tx.written(packed[i], key)
		if err != nil {
			return nil, err
		}
		if !ok {
			if e, ok = tx.seen[packed[i]]; !ok {
				missing, places = append(missing, key), append(places, i)
			}
		}
		entries[i] = e
	}
	if missing == nil {
		return ownCopies(entries), nil
	}
	tx.asked++
	found, err := tx.store.of.GetMany(ctx, missing...)
	if err != nil {
		return nil, err
	}
	if tx.seen == nil {
		tx.seen = make(map[string]*Entry)
	}
	for i, e := range found {
		entries[places[i]] = e
		key := packed[places[i]]
		if _, twice := tx.seen[key]; !twice {
			tx.seen[key], tx.keys = e, append(tx.keys, missing[i])
		}
	}
	return ownCopies(entries), nil
}

// ownCopies copies entries for the caller: the commit checks the originals.
func ownCopies(entries []*Entry) []*Entry {
	for i, e := range entries {
		if e != nil {
			own := *e
			entries[i] = &own
		}
	}
	return entries
}

// All is [Store.All] in the transaction. Its config must have no cursor. Mutations that the loop
// adds are seen by the next one.
func (tx *Tx) All(ctx context.Context, c ListConfig) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		c := c // each loop begins at the start
		own, begun, err := tx.ownIn(&c)
		more := err == nil
		for c.Digest = true; more; more = c.Cursor != "" {
			var p Page
			if err = tx.use(); err == nil {
				tx.asked++
				p, err = tx.store.of.List(ctx, c)
			}
			if err != nil {
				break
			}
			tx.pages = append(tx.pages, page{c.Selection, p.Digest})
			for _, e := range p.Entries {
				key, failed := pack(e.Key)
				if err = failed; err != nil {
					break
				}
				for len(own) > 0 && own[0].before(key, c.Reverse) {
					if !yield(*own[0].entry, nil) {
						return
					}
					own = own[1:]
				}
				_, changed, failed := begun.written(key, e.Key)
				if err = failed; err != nil {
					break
				}
				if !changed && !yield(e, nil) {
					return
				}
			}
			if err != nil {
				break
			}
			c.Cursor = p.Cursor
		}
		if err != nil {
			yield(Entry{}, err)
			return
		}
		for _, o := range own {
			if !yield(*o.entry, nil) {
				return
			}
		}
	}
}

// A put is an entry that the transaction has put.
type put struct {
	key   string
	entry *Entry
}

// before reports whether the entry comes before a key in a listing.
func (p *put) before(key string, reverse bool) bool {
	if reverse {
		return p.key > key
	}
	return p.key < key
}

// ownIn returns the entries of a listing that the transaction has put, in the order of the listing,
// and all its changes there.
func (tx *Tx) ownIn(c *ListConfig) (own []put, begun changes, err error) {
	if c.Cursor != "" {
		return nil, begun,
			host.Errorf(host.InvalidArgument, "a listing in a transaction has no cursor").With("field", "cursor")
	}
	s, err := spanOf(c.Selection)
	if err != nil {
		return nil, begun, err
	}
	begun = changes{own: make(map[string]ownEntry), ranges: slices.Clip(tx.ranges)}
	for key, o := range tx.own {
		if !s.has(key) {
			continue
		}
		begun.own[key] = o
		switch {
		case o.blind:
			return nil, begun,
				host.Errorf(host.FailedPrecondition,
					"the transaction has changed an entry of the listing, and what it made of it is known after the commit")
		case o.entry != nil && c.Where != nil:
			return nil, begun,
				host.Errorf(host.FailedPrecondition,
					"key %v: the transaction has put the entry, and the node alone can apply the filter", o.entry.Key)
		case o.entry != nil:
			e := *o.entry
			if c.KeysOnly {
				e.Value = Value{}
			}
			own = append(own, put{key, &e})
		}
	}
	slices.SortFunc(own, func(a, b put) int {
		if c.Reverse {
			a, b = b, a
		}
		return strings.Compare(a.key, b.key)
	})
	return own, begun, nil
}

// Commit does the mutations if no entry that the transaction read has changed; otherwise it returns
// a [ConflictError]. It ends the transaction in any case. The results are in the order of [Tx.Do].
// A transaction that has read with one request, and changes nothing, commits nothing.
func (tx *Tx) Commit(ctx context.Context) (Result, error) {
	if err := tx.use(); err != nil {
		return Result{}, err
	}
	t := *tx
	tx.Rollback()
	if len(t.writes) == 0 && t.asked < 2 {
		return Result{}, nil
	}
	c := Commit{Mutations: t.writes}
	for _, key := range t.keys {
		version := uint64(0)
		packed, err := pack(key)
		if err != nil {
			return Result{}, err
		}
		if e := t.seen[packed]; e != nil {
			version = e.Version
		}
		c.Checks = append(c.Checks, AtVersion(key, version))
	}
	for _, p := range t.pages {
		c.Checks = append(c.Checks, Unchanged(p.digest))
	}
	r, err := t.store.Commit(ctx, c)
	if err != nil || r.Failed == nil {
		return r, err
	}
	conflict := new(ConflictError)
	for _, i := range r.Failed {
		if i < len(t.keys) {
			conflict.Keys = append(conflict.Keys, t.keys[i])
		} else {
			conflict.Selections = append(conflict.Selections, t.pages[i-len(t.keys)].of)
		}
	}
	return Result{}, conflict
}

// pack returns the packed form of a key, which orders keys as the store does.
func pack(key Key) (string, error) {
	t, err := key.Entry()
	if err != nil {
		return "", err
	}
	b, err := t.Pack()
	return string(b), err
}

// spanOf returns the span of a selection.
func spanOf(s hostkv.Selection) (out span, err error) {
	for _, bound := range []struct {
		key Key
		to  *string
	}{{s.Start, &out.start}, {s.End, &out.end}} {
		if len(bound.key) > 0 && err == nil {
			var b []byte
			b, err = bound.key.PackBound()
			*bound.to = string(b)
		}
	}
	if len(s.Prefix) > 0 && err == nil {
		out.start, err = pack(s.Prefix)
		out.end = out.start + "\xFF"
	}
	return out, err
}
