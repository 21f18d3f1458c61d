package kv

import (
	"context"
	"sync"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	hostkv "github.com/cairn-run/cairn/actor/host/kv"
	"github.com/cairn-run/cairn/actor/host/method"
	"github.com/cairn-run/cairn/actor/internal/site"
)

// A Check demands something of what is stored. Made by [Exists], [Absent], [AtVersion], [Equals]
// and [Unchanged].
type Check struct {
	wire hostkv.Check
}

// Exists demands that there is an entry.
func Exists(key Key) Check { return Check{wire: hostkv.Check{Key: key, Exists: new(true)}} }

// Absent demands that there is no entry.
func Absent(key Key) Check { return Check{wire: hostkv.Check{Key: key, Exists: new(false)}} }

// Equals demands that there is an entry whose value equals v, as the operator $eq of filters
// compares: numbers by value, and objects in any order.
func Equals(key Key, v Value) Check {
	c := Check{wire: hostkv.Check{Key: key}}
	c.wire.Value, c.wire.Encoding = v.raw()
	return c
}

// AtVersion demands that an entry has a version, which the caller has seen; 0 is that of no entry.
func AtVersion(key Key, version uint64) Check {
	return Check{wire: hostkv.Check{Key: key, Version: new(version)}}
}

// Unchanged demands that the part of a selection that a [Page] covered is as it was, given the
// page's Digest: no entry there was written, added or removed since.
func Unchanged(digest string) Check { return Check{wire: hostkv.Check{Digest: digest}} }

// A Mutation changes entries. Made by [Put] and the like.
type Mutation struct {
	op       string
	key      Key
	value    host.Raw // nil if the operation has none
	encoding host.Encoding
	literal  bool
	ttl      *int64
	rest     *hostkv.Mutation // what few mutations have; shared, so never changed
}

// with returns the mutation with something in its rest.
func (m Mutation) with(set func(rest *hostkv.Mutation)) Mutation {
	var rest hostkv.Mutation
	if m.rest != nil {
		rest = *m.rest
	}
	set(&rest)
	m.rest = &rest
	return m
}

// fill makes the mutation of a request, which is zero.
func (m *Mutation) fill(w *hostkv.Mutation) {
	if m.rest != nil {
		*w = *m.rest
	}
	w.Op, w.Key, w.Value, w.Literal, w.TTLMS = m.op, m.key, m.value, m.literal, m.ttl
	if m.value != nil {
		w.Encoding = m.encoding.String()
	}
}

// Put stores a value. How long it lives is said by [Mutation.For]; without it the default of its
// scope counts, and an entry of no scope with a default lives for ever.
func Put(key Key, v Value) Mutation { return mutation("put", key, v) }

// Delete removes an entry. That there is none is no error.
func Delete(key Key) Mutation { return Mutation{op: "delete", key: key} }

// DeleteRange removes the entries of a selection, which must not be zero. The prefix Key{} selects
// all.
func DeleteRange(of Selection) Mutation {
	return Mutation{op: "delete_range"}.with(func(rest *hostkv.Mutation) { rest.Selection = of })
}

// DeleteWhere removes the entries of a selection that meet a filter in JSON; see [ListConfig]. The
// error code is TooLarge if there are more than 10,000 to look at in one commit.
func DeleteWhere(of Selection, where []byte) Mutation {
	return DeleteRange(of).with(func(rest *hostkv.Mutation) { rest.Where, _ = JSON(where).raw() })
}

// Sum adds a number to the entry's. Integers are exact. If there is no entry, it stores the number;
// so do Min and Max. They keep the time to live.
func Sum(key Key, v Value) Mutation { return mutation("sum", key, v) }

// Min stores the lesser of two numbers, the entry's and v.
func Min(key Key, v Value) Mutation { return mutation("min", key, v) }

// Max stores the greater of two numbers, the entry's and v.
func Max(key Key, v Value) Mutation { return mutation("max", key, v) }

// Append adds the elements of an array behind those of the entry's, or text to text, or bytes to
// bytes. If there is no entry, it stores the value; so does Prepend. They keep the time to live.
func Append(key Key, v Value) Mutation { return mutation("append", key, v) }

// Prepend is like Append, in front of what the entry has.
func Prepend(key Key, v Value) Mutation { return mutation("prepend", key, v) }

// Touch changes how long an entry lives from now on, 1 ms to 100 years; 0 is for ever.
func Touch(key Key, ttl time.Duration) Mutation {
	return Mutation{op: "touch", key: key}.For(ttl)
}

func mutation(op string, key Key, v Value) Mutation {
	return Mutation{op: op, key: key, value: hostkv.ByteString(v.Data), encoding: v.Encoding,
		literal: v.Encoding == host.EncodedJSON}
}

// Resolve puts strings for the texts of a [Placeholder] in the document that the mutation stores.
// Without it they are what they are.
func (m Mutation) Resolve() Mutation {
	m.literal = false
	return m
}

// For says how long the entry lives from the commit on, 1 ms to 100 years; 0 is for ever.
func (m Mutation) For(ttl time.Duration) Mutation {
	m.ttl = new(site.Millis(ttl))
	if m.rest != nil && m.rest.Expires != nil {
		return m.with(func(rest *hostkv.Mutation) { rest.Expires = nil })
	}
	return m
}

// Until says when the entry ceases to exist, instead of [Mutation.For]: up to 100 years from now.
// An entry of the past is not there. The zero time is never.
func (m Mutation) Until(t time.Time) Mutation {
	switch t = t.UTC(); {
	case t.IsZero():
		return m.For(0)
	case t.Year() < 1970:
		t = time.UnixMilli(1)
	case t.Year() > 9999: // which the encodings of time do not have
		t = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)
	}
	m.ttl = nil
	return m.with(func(rest *hostkv.Mutation) { rest.Expires = &t })
}

// Within bounds the result of a [Sum] by numbers of its type; a zero Value is no bound. A result
// that would pass them is an error, or the bound if clamp is set.
func (m Mutation) Within(least, most Value, clamp bool) Mutation {
	return m.with(func(rest *hostkv.Mutation) {
		rest.Clamp = clamp
		if least.Data != nil {
			rest.Min, _ = least.raw()
		}
		if most.Data != nil {
			rest.Max, _ = most.raw()
		}
	})
}

// MaxLen bounds the elements of the array that an [Append] or [Prepend] makes, at least 1. Elements
// at its other end go.
func (m Mutation) MaxLen(n int64) Mutation {
	return m.with(func(rest *hostkv.Mutation) { rest.MaxLen = &n })
}

// A Commit is done as a whole or not at all: up to 1,000 checks, and up to 10,000 mutations, in
// order.
type Commit struct {
	Checks    []Check
	Mutations []Mutation
}

// A Result says what a commit did.
type Result struct {
	// Failed are the positions of the checks that failed. Then nothing was done, which is no error.
	Failed []int
	// Version is that of the commit, and of the entries that it changed; 0 if a check failed. In a
	// handler it is that of the turn, which takes it only if it changes something.
	Version uint64
	// Results has an element for each mutation, in order; none if a check failed.
	Results []MutationResult
	// Deleted counts the entries that all mutations removed; 0 for a client whose token lacks the
	// right read.
	Deleted int64
	// Resolved has what each placeholder stood for.
	Resolved map[Placeholder]string
}

// A MutationResult says what one mutation did.
type MutationResult struct {
	// Value is the entry's value after a Sum, Min or Max. Handlers get it after the other mutations
	// of one entry too, except [Delete].
	Value Value
	// Expires is when the entry ceases to exist; zero for never.
	Expires time.Time
	// Deleted counts the entries that were removed; 0 for a client whose token lacks the right
	// read.
	Deleted int64
}

// Commit checks and changes entries. It creates a missing actor. The error code is
// FailedPrecondition for a value of a type that a mutation does not take, and for a result out of
// bounds; nothing is done then.
func (l line) Commit(ctx context.Context, c Commit) (Result, error) {
	return c.run(func(in *hostkv.CommitInput) (hostkv.CommitOutput, error) {
		in.Branch = l.of.moment.Branch
		return site.Ask(ctx, &l.of.site, method.KVCommit, in)
	})
}

// Purge removes entries that have expired, and returns how many. No reader sees them anyway, and
// they are removed within an hour of their time, or a second if the store has scopes.
func (s Store) Purge(ctx context.Context) (n int64, err error) {
	for {
		out, err := site.Ask(ctx, &s.site, method.KVPurge, new(method.None))
		if n += out.Purged; err != nil || !out.More {
			return n, err
		}
	}
}

// A single is the memory of a request with one mutation.
type single struct {
	hostkv.CommitInput
	mutation [1]hostkv.Mutation
}

// singles are zero, and used by nobody.
var singles = sync.Pool{New: func() any { return new(single) }}

func (c *Commit) run(do func(*hostkv.CommitInput) (hostkv.CommitOutput, error)) (Result, error) {
	one := singles.Get().(*single)
	in := &one.CommitInput
	if in.Mutations = one.mutation[:]; len(c.Mutations) != 1 {
		in.Mutations = make([]hostkv.Mutation, len(c.Mutations))
	}
	for i := range c.Checks {
		in.Checks = append(in.Checks, c.Checks[i].wire)
	}
	for i := range c.Mutations {
		c.Mutations[i].fill(&in.Mutations[i])
	}
	out, err := do(in)
	if err != nil {
		return Result{}, err // perhaps the actor still reads the request
	}
	*one = single{}
	singles.Put(one)
	r := Result{Failed: out.Failed, Version: out.Version, Results: make([]MutationResult, len(out.Results))}
	for p, text := range out.Resolved {
		if r.Resolved == nil {
			r.Resolved = make(map[Placeholder]string)
		}
		r.Resolved[Placeholder(p)] = text
	}
	for i, done := range out.Results {
		to := &r.Results[i]
		r.Deleted += done.Deleted
		if to.Deleted = done.Deleted; done.Expires != nil {
			to.Expires = *done.Expires
		}
		if done.Encoding == "" {
			continue
		}
		if to.Value, err = valueOf(done.Value, done.Encoding); err != nil {
			return Result{}, err
		}
	}
	return r, nil
}
