package cell

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/actor/handle"
	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/keyspace/tuple"
	"github.com/cairn-run/cairn/runtime/internal/part/kv/value"
)

// The bounds of one atomic commit.
const (
	MaxChecks    = 100
	MaxMutations = 1000
	MaxEnqueues  = 100
)

// An AtomicInput is a commit: if all checks hold, all mutations are done, in order, and all messages are sent. Otherwise
// nothing is. A mutation that cannot be done is an error, and then nothing is done either.
type AtomicInput struct {
	// Checks are at most MaxChecks, Mutations at most MaxMutations and Enqueues at most MaxEnqueues; something must be given.
	Checks    []Check    `json:"checks,omitempty"`
	Mutations []Mutation `json:"mutations,omitempty"`
	Enqueues  []Message  `json:"enqueues,omitempty"`
}

// A Check demands that an entry is as the caller last saw it.
type Check struct {
	Key Key `json:"key"`
	// Version is the entry's version; 0 demands that there is no entry. It must be given.
	Version *uint64 `json:"version"`
}

// A Mutation changes one entry.
type Mutation struct {
	// Op is one of
	//
	//	put              stores Value
	//	delete           removes the entry
	//	sum, min, max    put the sum, the least or the greatest of the entry's value and Value, which are numbers
	//	append, prepend  put the entry's value with Value behind or in front, which are arrays
	//
	// An entry that does not exist takes Value as it is.
	Op    string          `json:"op"`
	Key   Key             `json:"key"`
	Value json.RawMessage `json:"value,omitempty"`
	// TTLMS is how long the entry lives from now, in milliseconds. Without it an entry that is put lives for ever, and one
	// that is changed in another way as long as it would.
	TTLMS *int64 `json:"ttl_ms,omitempty"`
}

// JSONExample shows a counter.
func (Mutation) JSONExample() any {
	return Mutation{Op: "sum", Key: Key{"visits"}, Value: json.RawMessage("1")}
}

// An AtomicResult says what Atomic did. That a check failed is no error.
type AtomicResult struct {
	OK bool `json:"ok"`
	// Failed are the positions of the checks that failed, from 0.
	Failed []int `json:"failed,omitempty"`
	// Version is the version of the cell, and of the entries that were changed, since this call.
	Version uint64 `json:"version,omitempty"`
	// Results has an element for each mutation, in order, and Messages one for each message.
	Results  []MutationResult `json:"results,omitempty"`
	Messages []handle.Sent    `json:"messages,omitempty"`
}

// A MutationResult is the result of a mutation.
type MutationResult struct {
	// Value is the entry's new value, after sum, min and max only.
	Value json.RawMessage `json:"value,omitempty"`
}

func (c *Cell) atomic(ctx *actor.Context, in AtomicInput) (AtomicResult, error) {
	if err := in.bounded(); err != nil {
		return AtomicResult{}, err
	}
	// All that can be wrong by itself is found before anything is read: what is wrong does not depend on what is stored.
	for i := range in.Mutations {
		if err := in.Mutations[i].check(); err != nil {
			return AtomicResult{}, at(err, "mutations", i)
		}
	}
	for i := range in.Enqueues {
		if err := in.Enqueues[i].check(); err != nil {
			return AtomicResult{}, at(err, "enqueues", i)
		}
	}
	var failed []int
	for i, check := range in.Checks {
		holds, err := check.holds(ctx)
		if err != nil {
			return AtomicResult{}, at(err, "checks", i)
		}
		if !holds {
			failed = append(failed, i)
		}
	}
	if len(failed) > 0 {
		return AtomicResult{Failed: failed}, nil
	}
	out := AtomicResult{OK: true, Version: ctx.Version()}
	for i := range in.Mutations {
		result, err := in.Mutations[i].apply(ctx)
		if err != nil {
			return AtomicResult{}, at(err, "mutations", i)
		}
		out.Results = append(out.Results, result)
	}
	for i := range in.Enqueues {
		sent, err := in.Enqueues[i].put(ctx)
		if err != nil {
			return AtomicResult{}, at(err, "enqueues", i)
		}
		out.Messages = append(out.Messages, sent)
	}
	if len(in.Mutations)+len(in.Enqueues) == 0 {
		out.Version = 0 // nothing was changed
	}
	return out, nil
}

func (in *AtomicInput) bounded() error {
	for _, part := range []struct {
		name        string
		count, most int
	}{
		{"checks", len(in.Checks), MaxChecks},
		{"mutations", len(in.Mutations), MaxMutations},
		{"enqueues", len(in.Enqueues), MaxEnqueues},
	} {
		if part.count > part.most {
			return host.OverLimit(part.name, int64(part.most), int64(part.count)).With("field", part.name)
		}
	}
	if len(in.Checks)+len(in.Mutations)+len(in.Enqueues) == 0 {
		return actor.Errorf(actor.InvalidArgument, "there is nothing to do: checks, mutations and enqueues are all missing")
	}
	return nil
}

// at says in which element of the input an error is.
func at(err error, list string, i int) error {
	e, ok := err.(*actor.Error)
	if !ok {
		return err
	}
	place := fmt.Sprintf("%s[%d]", list, i)
	located := e.With("at", place)
	located.Message = place + ": " + e.Message
	return of(place, located)
}

// of puts a member, or an element of one, before the path of the member that an error about an input names.
func of(member string, err error) error {
	e, ok := err.(*actor.Error)
	if !ok || e.Code != actor.InvalidArgument && e.Code != actor.TooLarge {
		return err
	}
	if field := e.Metadata["field"]; field != "" {
		return host.WithMember(e, member, &host.MemberError{Path: field})
	}
	return e.With("field", member)
}

// sized names the key or the value that the keyspace says is too large.
func sized(err error) error {
	e, ok := err.(*actor.Error)
	if !ok || e.Code != actor.TooLarge {
		return err
	}
	switch what := e.Metadata["what"]; what {
	case "key", "value":
		return e.With("field", what)
	}
	return err
}

func (k *Check) holds(ctx *actor.Context) (bool, error) {
	key, err := k.Key.Entry()
	if err != nil {
		return false, of("key", err)
	}
	if k.Version == nil {
		return false, actor.Errorf(actor.InvalidArgument, "the version is missing; 0 demands that there is no entry").With("field", "version")
	}
	e, ok, err := ctx.KV().Entry(key)
	switch {
	case err != nil:
		return false, err
	case !ok:
		return *k.Version == 0, nil
	}
	return e.Version == *k.Version, nil
}

// check finds what is wrong with a mutation by itself, and brings its value into the form in which it is stored.
func (m *Mutation) check() error {
	if m.Op == "delete" {
		if len(m.Value) > 0 || m.TTLMS != nil {
			field := "ttl_ms"
			if len(m.Value) > 0 {
				field = "value"
			}
			return actor.Errorf(actor.InvalidArgument, "delete takes no value and no ttl_ms").With("field", field)
		}
		return nil
	}
	op := value.Op(m.Op)
	if m.Op != "put" && !op.Numeric() && op != value.Append && op != value.Prepend {
		return actor.Errorf(actor.InvalidArgument, "the op is %.40q; it must be put, delete, sum, min, max, append or prepend", m.Op).With("field", "op")
	}
	operand, err := value.JSON(m.Value)
	if err != nil {
		return of("value", err)
	}
	if m.Op != "put" {
		if err := op.Check(operand); err != nil {
			return actor.Errorf(actor.InvalidArgument, "the value of %s %s", m.Op, err).With("field", "value")
		}
	}
	m.Value = operand.Data
	return checkTTL(m.TTLMS)
}

// apply does a mutation that check found in order.
func (m *Mutation) apply(ctx *actor.Context) (MutationResult, error) {
	key, err := m.Key.Entry()
	if err != nil {
		return MutationResult{}, of("key", err)
	}
	if m.Op == "delete" {
		_, err := remove(ctx, key)
		return MutationResult{}, err
	}
	op, v, expire := value.Op(m.Op), value.Value{Encoding: host.EncodedJSON, Data: m.Value}, time.Time{}
	if m.Op != "put" {
		e, ok, err := ctx.KV().Entry(key)
		if err != nil {
			return MutationResult{}, err
		}
		var old *value.Value
		if ok {
			old, expire = &value.Value{Encoding: e.Encoding, Data: e.Value}, e.Expire
		}
		if v, err = op.Combine(old, v, value.Bounds{}); err != nil {
			return MutationResult{}, actor.Errorf(actor.FailedPrecondition, "%s: the value that is stored %s", m.Op, err)
		}
	}
	if m.TTLMS != nil {
		expire = expiry(ctx, *m.TTLMS)
	}
	if err := store(ctx, m.Op, key, v, expire); err != nil || !op.Numeric() {
		return MutationResult{}, err
	}
	result, err := v.AppendJSON(nil)
	return MutationResult{Value: result}, err
}

// store puts a value and emits a change. A zero expire is never.
func store(ctx *actor.Context, op string, key tuple.Tuple, v value.Value, expire time.Time) error {
	opts := []actor.PutOption{actor.Encoded(v.Encoding)}
	if !expire.IsZero() {
		opts = append(opts, actor.ExpireAt(expire))
	}
	if err := ctx.KV().Put(key, v.Data, opts...); err != nil {
		return sized(err)
	}
	change := Change{Op: op, Key: Key(key), Size: len(v.Data), Expires: utc(expire)}
	if len(v.Data) <= MaxEventValue {
		var err error
		if change.Value, err = v.AppendJSON(nil); err != nil {
			return err
		}
	}
	return Changed.Emit(ctx, change)
}

// remove deletes an entry and, if there was one, emits a change.
func remove(ctx *actor.Context, key tuple.Tuple) (bool, error) {
	deleted, err := ctx.KV().Delete(key)
	if err != nil || !deleted {
		return false, sized(err)
	}
	return true, Changed.Emit(ctx, Change{Op: "delete", Key: Key(key)})
}
