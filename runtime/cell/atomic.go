package cell

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/actor/handle"
	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/kv"
	"github.com/cairn-run/cairn/runtime/internal/part/kv/value"
)

// The bounds of one atomic commit.
const (
	MaxChecks    = 100
	MaxMutations = 1000
	MaxEnqueues  = 100
)

// An AtomicInput is a commit. If all checks hold, all mutations are done, in order, and all
// messages are sent. If a check fails, nothing is done. A mutation that is not possible is an
// error, and then nothing is done either.
type AtomicInput struct {
	// Up to MaxChecks, MaxMutations and MaxEnqueues elements, and at least one in all.
	Checks    []Check    `json:"checks,omitempty" max:"100"`
	Mutations []Mutation `json:"mutations,omitempty" max:"1000"`
	Enqueues  []Message  `json:"enqueues,omitempty" max:"100"`
}

// A Check requires that an entry is unchanged since the caller read it.
type Check struct {
	Key Key `json:"key"`
	// Version is the entry's version; 0 means that there is no entry. It is required.
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
	// If the entry does not exist, Value is stored unchanged.
	Op    string          `json:"op"`
	Key   Key             `json:"key"`
	Value json.RawMessage `json:"value,omitempty"`
	// TTLMS is the entry's time to live from now, in milliseconds. Without it, put stores an entry
	// that does not expire, and the other operations keep the time of expiry.
	TTLMS *int64 `json:"ttl_ms,omitempty"`
}

// JSONExample shows a counter.
func (Mutation) JSONExample() any {
	return Mutation{Op: "sum", Key: Key{"visits"}, Value: json.RawMessage("1")}
}

// An AtomicResult is the result of Atomic. A failed check is no error.
type AtomicResult struct {
	OK bool `json:"ok"`
	// Failed are the positions of the checks that failed, from 0.
	Failed []int `json:"failed,omitempty"`
	// Version is the new version of the cell and of the changed entries.
	Version uint64 `json:"version,omitempty"`
	// Results has an element for each mutation, in order, Messages one for each message.
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
	commit := kv.Commit{Checks: make([]kv.Check, len(in.Checks)), Mutations: make([]kv.Mutation, len(in.Mutations))}
	for i, check := range in.Checks {
		if check.Version == nil {
			err := actor.Errorf(actor.InvalidArgument,
				"the version is missing; 0 demands that there is no entry").With("field", "version")
			return AtomicResult{}, at(err, "checks", i)
		}
		commit.Checks[i] = kv.AtVersion(check.Key, *check.Version)
	}
	for i := range in.Mutations {
		var err error
		if commit.Mutations[i], err = in.Mutations[i].mutation(); err != nil {
			return AtomicResult{}, at(err, "mutations", i)
		}
	}
	for i := range in.Enqueues {
		if err := in.Enqueues[i].check(); err != nil {
			return AtomicResult{}, at(err, "enqueues", i)
		}
	}
	r, err := ctx.KV().Commit(commit)
	if err != nil || r.Failed != nil {
		return AtomicResult{Failed: r.Failed}, err
	}
	if len(in.Mutations)+len(in.Enqueues) == 0 {
		r.Version = 0 // nothing was changed
	}
	out := AtomicResult{OK: true, Version: r.Version, Results: make([]MutationResult, len(in.Mutations))}
	for i := range in.Mutations {
		if err := in.Mutations[i].emit(ctx, &r.Results[i], &out.Results[i]); err != nil {
			return AtomicResult{}, err
		}
	}
	for i := range in.Enqueues {
		sent, err := in.Enqueues[i].put(ctx)
		if err != nil {
			return AtomicResult{}, at(err, "enqueues", i)
		}
		out.Messages = append(out.Messages, sent)
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
		return actor.Errorf(actor.InvalidArgument,
			"there is nothing to do: checks, mutations and enqueues are all missing")
	}
	return nil
}

// at adds to an error the element of the input that has it.
func at(err error, list string, i int) error {
	e, ok := err.(*actor.Error)
	if !ok {
		return err
	}
	place, located := fmt.Sprintf("%s[%d]", list, i), *e
	located.Message = place + ": " + e.Message
	return of(place, &located)
}

// of prepends a member, or an element of one, to the path in an error about an input.
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

// mutations are the constructors of mutations, by operation.
var mutations = map[string]func(kv.Key, kv.Value) kv.Mutation{
	"put": kv.Put, "sum": kv.Sum, "min": kv.Min, "max": kv.Max, "append": kv.Append, "prepend": kv.Prepend,
}

// mutation returns the mutation for the key-value store, which checks most of it.
func (m *Mutation) mutation() (kv.Mutation, error) {
	if _, err := m.Key.Tuple(); err != nil { // a placeholder
		return kv.Mutation{}, of("key", err)
	}
	if m.Op == "delete" {
		if len(m.Value) > 0 || m.TTLMS != nil {
			field := "ttl_ms"
			if len(m.Value) > 0 {
				field = "value"
			}
			return kv.Mutation{},
				actor.Errorf(actor.InvalidArgument, "delete takes no value and no ttl_ms").With("field", field)
		}
		return kv.Delete(m.Key), nil
	}
	make, known := mutations[m.Op]
	if !known {
		return kv.Mutation{},
			actor.Errorf(actor.InvalidArgument,
				"the op is %.40q; it must be put, delete, sum, min, max, append or prepend", m.Op).With("field", "op")
	}
	mutation := make(m.Key, kv.JSON(m.Value))
	if ms := m.TTLMS; ms != nil {
		if *ms < 1 || *ms > MaxTTL {
			return mutation,
				actor.Errorf(actor.InvalidArgument,
					"ttl_ms is %d; it must be a number from 1 to %d, or absent", *ms, int64(MaxTTL)).With("field", "ttl_ms")
		}
		mutation = mutation.For(time.Duration(*ms) * time.Millisecond)
	}
	return mutation, nil
}

// emit emits the mutation's change, if there is one, and sets its result.
func (m *Mutation) emit(ctx *actor.Context, done *kv.MutationResult, result *MutationResult) error {
	change := Change{Op: m.Op, Key: m.Key, Size: len(done.Value.Data), Expires: done.Expires}
	switch numeric := value.Op(m.Op).Numeric(); {
	case m.Op == "delete":
		if done.Deleted == 0 {
			return nil
		}
	case numeric, change.Size <= MaxEventValue:
		document, err := value.Value(done.Value).AppendJSON(nil)
		if err != nil {
			return err
		}
		if numeric {
			result.Value = document
		}
		if change.Size <= MaxEventValue {
			change.Value = document
		}
	}
	return Changed.Emit(ctx, change)
}

// commit does one mutation, emits its change, and returns its result.
func (m *Mutation) commit(ctx *actor.Context) (kv.MutationResult, uint64, error) {
	mutation, err := m.mutation()
	if err != nil {
		return kv.MutationResult{}, 0, err
	}
	r, err := ctx.KV().Commit(kv.Commit{Mutations: []kv.Mutation{mutation}})
	if err != nil {
		return kv.MutationResult{}, 0, single(err)
	}
	return r.Results[0], r.Version, m.emit(ctx, &r.Results[0], new(MutationResult))
}

// single removes the position from an error about the only mutation of a commit.
func single(err error) error {
	e, ok := err.(*actor.Error)
	if !ok || !strings.HasPrefix(e.Message, "mutations[0]") {
		return err
	}
	alone := e.With("field", strings.TrimPrefix(strings.TrimPrefix(e.Metadata["field"], "mutations[0]"), "."))
	if _, alone.Message, _ = strings.Cut(e.Message, ": "); e.Metadata["what"] != "" &&
		e.Metadata["what"] == alone.Metadata["field"] {
		alone.Message = e.Metadata["what"] + ": " + alone.Message // a limit names the field that is too large
	}
	return alone
}
