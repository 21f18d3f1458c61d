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

// A Check is a condition on the stored entries. Made by [Exists], [Absent], [AtVersion], [Equals]
// and [Unchanged].
type Check struct {
	wire hostkv.Check
}

// Exists demands that there is an entry.
func Exists(key Key) Check { return Check{wire: hostkv.Check{Key: key, Exists: new(true)}} }

// Absent demands that there is no entry.
func Absent(key Key) Check { return Check{wire: hostkv.Check{Key: key, Exists: new(false)}} }

// Equals demands that there is an entry whose value equals v, compared like the operator $eq of
// filters: numbers by value, and objects in any order.
func Equals(key Key, v Value) Check {
	c := Check{wire: hostkv.Check{Key: key}}
	c.wire.Value, c.wire.Encoding = v.raw()
	return c
}

// AtVersion demands that an entry has the version that the caller read; 0 means that there is none.
func AtVersion(key Key, version uint64) Check {
	return Check{wire: hostkv.Check{Key: key, Version: new(version)}}
}

// Unchanged demands that the entries covered by a [Page] are unchanged, given the page's Digest:
// none was written, added or removed since.
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

// with returns the mutation with its rest changed by set.
func (m Mutation) with(set func(rest *hostkv.Mutation)) Mutation {
	var rest hostkv.Mutation
	if m.rest != nil {
		rest = *m.rest
	}
	set(&rest)
	m.rest = &rest
	return m
}

// fill fills in w, a zero mutation of a request.
func (m *Mutation) fill(w *hostkv.Mutation) {
	if m.rest != nil {
		*w = *m.rest
	}
	w.Op, w.Key, w.Value, w.Literal, w.TTLMS = m.op, m.key, m.value, m.literal, m.ttl
	if m.value != nil {
		w.Encoding = m.encoding.String()
	}
}

// Put stores a value. [Mutation.For] sets how long it lives; without it the default of its scope
// holds. An entry without either lives for ever.
func Put(key Key, v Value) Mutation { return mutation("put", key, v) }

// Delete removes an entry. A missing entry is no error.
func Delete(key Key) Mutation { return Mutation{op: "delete", key: key} }

// DeleteRange removes the entries of a selection, which must not be zero. The prefix Key{} selects
// all.
func DeleteRange(of Selection) Mutation {
	return Mutation{op: "delete_range"}.with(func(rest *hostkv.Mutation) { rest.Selection = of })
}

// DeleteWhere removes the entries of a selection that match a filter in JSON; see [ListConfig]. The
// error code is TooLarge if one commit would have to examine more than 10,000.
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

// Append adds the elements of an array after the entry's elements, or text to text, or bytes to
// bytes. If there is no entry, it stores the value; so does Prepend. They keep the time to live.
func Append(key Key, v Value) Mutation { return mutation("append", key, v) }

// Prepend is like Append, but adds at the front.
func Prepend(key Key, v Value) Mutation { return mutation("prepend", key, v) }

// Touch changes how long an entry lives from now on, 1 ms to 100 years; 0 is for ever.
func Touch(key Key, ttl time.Duration) Mutation {
	return Mutation{op: "touch", key: key}.For(ttl)
}

func mutation(op string, key Key, v Value) Mutation {
	return Mutation{op: op, key: key, value: hostkv.ByteString(v.Data), encoding: v.Encoding,
		literal: v.Encoding == host.EncodedJSON}
}

// Resolve replaces each [Placeholder] in the document that the mutation stores by its string.
// Without it placeholders are stored as plain text.
func (m Mutation) Resolve() Mutation {
	m.literal = false
	return m
}

// For sets how long the entry lives from the commit on, 1 ms to 100 years; 0 is for ever.
func (m Mutation) For(ttl time.Duration) Mutation {
	m.ttl = new(site.Millis(ttl))
	if m.rest != nil && m.rest.Expires != nil {
		return m.with(func(rest *hostkv.Mutation) { rest.Expires = nil })
	}
	return m
}

// Until sets when the entry expires, instead of [Mutation.For]: up to 100 years from now. A past
// time means that there is no entry. The zero time is never.
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
// beyond them is an error, or becomes the bound if clamp is set.
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

// MaxLen bounds the array that an [Append] or [Prepend] makes to n elements, at least 1. Elements
// at its other end are removed.
func (m Mutation) MaxLen(n int64) Mutation {
	return m.with(func(rest *hostkv.Mutation) { rest.MaxLen = &n })
}

// A Commit is done as a whole or not at all: up to 1,000 checks, and up to 10,000 mutations, in
// order.
type Commit struct {
	Checks    []Check
	Mutations []Mutation
}

// A Result is the result of a commit.
type Result struct {
	// Failed are the positions of the checks that failed. Then nothing was done, which is no error.
	Failed []int
	// Version is the version of the commit and of the entries that it changed; 0 if a check failed.
	// In a handler it is the turn's, which counts only if the turn changes something.
	Version uint64
	// Results has an element for each mutation, in order; none if a check failed.
	Results []MutationResult
	// Deleted counts the entries that all mutations removed; 0 for a client whose token lacks the
	// right read.
	Deleted int64
	// Resolved has the string of each placeholder.
	Resolved map[Placeholder]string
}

// A MutationResult is the result of one mutation.
type MutationResult struct {
	// Value is the entry's value after a Sum, Min or Max. Handlers get it after the other mutations
	// of one entry too, except [Delete].
	Value Value
	// Expires is when the entry expires; zero for never.
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

// Purge removes expired entries and returns their number. Readers never see them. Without Purge
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

// singles holds zero values that are not in use.
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
