// Package cell is the actor type of a node that hosts no Go code of its own: a key-value store with JSON keys and values.
//
// A cell is an actor like any other, reached as cell/KEY over HTTP and NATS and with the command cairn, or from Go
// through the contract of this package. The actions Put, Delete and DeleteRange write, each in one commit; the queries
// Get, List and Size read; every write emits the event Changed.
//
// Keys are arrays of strings, numbers and booleans in the order of [Key]. Values are JSON documents, which are kept as
// they were written apart from white space between tokens: numbers keep all their digits and objects the order of their
// members. A value has at most 128 KiB and a key 2,047 bytes in its stored form, the tuple encoding.
//
// The input of a method is a JSON object; a member that it does not know is an error. In CBOR, which Go callers use, a
// value is a byte string that holds JSON.
package cell

import (
	"bytes"
	"encoding/json"
	"time"
	"unicode/utf8"

	"github.com/cairn-run/cairn/actor"
)

// The contract.
var (
	Type        = actor.NewType[Cell]("cell")
	Put         = actor.NewAction[Entry, PutResult](Type, "put")
	Delete      = actor.NewAction[KeyInput, DeleteResult](Type, "delete")
	DeleteRange = actor.NewAction[PrefixInput, DeleteRangeResult](Type, "delete_range")
	Get         = actor.NewQuery[KeyInput, GetResult](Type, "get")
	List        = actor.NewQuery[ListInput, ListResult](Type, "list")
	Size        = actor.NewQuery[actor.None, SizeResult](Type, "size")
	Changed     = actor.NewEvent[Change](Type, "changed")
)

// MaxEventValue is the size in bytes of the largest value that the event Changed carries. An actor keeps its latest
// events, so carrying every value would store large ones many times over.
const MaxEventValue = 8 << 10

// A Cell is the state of a cell. What it stores is in its key-value store; the state only counts it, because counting
// would mean reading everything.
type Cell struct {
	// Entries is how many entries there are. Entries do not expire, so it changes by writes only.
	Entries int64
}

// Definition is the type with its implementation, for a runtime to host.
func Definition() actor.Definition {
	return actor.Define(Type, actor.Spec[Cell]{},
		actor.On(Put, (*Cell).put),
		actor.On(Delete, (*Cell).delete),
		actor.On(DeleteRange, (*Cell).deleteRange),
		actor.OnQuery(Get, Cell.get),
		actor.OnQuery(List, Cell.list),
		actor.OnQuery(Size, Cell.size),
	)
}

// An Entry is a key and its value.
type Entry struct {
	Key   Key             `json:"key"`
	Value json.RawMessage `json:"value"`
}

// A PutResult says what Put did.
type PutResult struct {
	// Created reports that there was no entry with this key.
	Created bool `json:"created"`
	// Version is the version of the cell, and of the entry, since this call.
	Version uint64 `json:"version"`
}

// A KeyInput names an entry.
type KeyInput struct {
	Key Key `json:"key"`
}

// A DeleteResult says what Delete did. That there was nothing to delete is no error.
type DeleteResult struct {
	Deleted bool `json:"deleted"`
}

// A PrefixInput selects the entries whose keys begin with these whole parts: ["user"] selects ["user"] and ["user",7] and
// not ["users"]. It must be given; the empty array selects everything.
type PrefixInput struct {
	Prefix Key `json:"prefix"`
}

// A DeleteRangeResult says how many entries DeleteRange removed.
type DeleteRangeResult struct {
	Deleted int64 `json:"deleted"`
}

// A Change is what the event Changed tells.
type Change struct {
	// Op is "put", "delete" or "delete_range".
	Op string `json:"op"`
	// Key names the entry of a put or delete.
	Key Key `json:"key,omitempty"`
	// Value is what was put, if it has at most MaxEventValue bytes. Size is its size in any case.
	Value json.RawMessage `json:"value,omitempty"`
	Size  int             `json:"size,omitempty"`
	// Prefix selects what a delete_range removed, Deleted is how many entries these were. An empty prefix is left out.
	Prefix  Key   `json:"prefix,omitempty"`
	Deleted int64 `json:"deleted,omitempty"`
}

// put stores a value and emits a change.
func (c *Cell) put(ctx *actor.Context, in Entry) (PutResult, error) {
	key, err := in.Key.entry()
	if err != nil {
		return PutResult{}, err
	}
	value, err := canonical(in.Value)
	if err != nil {
		return PutResult{}, err
	}
	_, exists, err := ctx.KV().Get(key)
	if err != nil {
		return PutResult{}, err
	}
	if err := ctx.KV().Put(key, value); err != nil {
		return PutResult{}, err
	}
	if !exists {
		c.Entries++
	}
	change := Change{Op: "put", Key: Key(key), Size: len(value)}
	if len(value) <= MaxEventValue {
		change.Value = value
	}
	return PutResult{Created: !exists, Version: ctx.Version()}, Changed.Emit(ctx, change)
}

// canonical checks that value is JSON and removes white space between its tokens.
func canonical(value json.RawMessage) ([]byte, error) {
	if len(value) == 0 {
		return nil, actor.Errorf(actor.InvalidArgument, "the value is missing; a JSON document is expected (null is one)")
	}
	var compact bytes.Buffer
	if !utf8.Valid(value) || json.Compact(&compact, value) != nil {
		return nil, actor.Errorf(actor.InvalidArgument, "the value is not JSON")
	}
	return compact.Bytes(), nil
}

// delete removes an entry and, if there was one, emits a change.
func (c *Cell) delete(ctx *actor.Context, in KeyInput) (DeleteResult, error) {
	key, err := in.Key.entry()
	if err != nil {
		return DeleteResult{}, err
	}
	deleted, err := ctx.KV().Delete(key)
	if err != nil || !deleted {
		return DeleteResult{}, err
	}
	c.Entries--
	return DeleteResult{true}, Changed.Emit(ctx, Change{Op: "delete", Key: Key(key)})
}

// deleteRange removes the entries below a prefix and, if there were any, emits one change.
func (c *Cell) deleteRange(ctx *actor.Context, in PrefixInput) (DeleteRangeResult, error) {
	if in.Prefix == nil {
		// An input without a prefix is more often a mistake than the wish to lose everything.
		return DeleteRangeResult{}, actor.Errorf(actor.InvalidArgument, "the prefix is missing; the prefix [] deletes everything")
	}
	prefix, err := in.Prefix.tuple()
	if err != nil {
		return DeleteRangeResult{}, err
	}
	n, err := ctx.KV().DeletePrefix(prefix)
	if err != nil || n == 0 {
		return DeleteRangeResult{}, err
	}
	c.Entries -= n
	return DeleteRangeResult{n}, Changed.Emit(ctx, Change{Op: "delete_range", Prefix: Key(prefix), Deleted: n})
}

// A GetResult is what Get found. A value of null and no value differ in Found.
type GetResult struct {
	Found bool `json:"found"`
	// Found entries only. Version is that of the put that stored the value.
	Value   json.RawMessage `json:"value,omitempty"`
	Version uint64          `json:"version,omitempty"`
	Created time.Time       `json:"created,omitzero"`
	Updated time.Time       `json:"updated,omitzero"`
}

func (c Cell) get(ctx *actor.ReadContext, in KeyInput) (GetResult, error) {
	key, err := in.Key.entry()
	if err != nil {
		return GetResult{}, err
	}
	e, ok, err := ctx.KV().Entry(key)
	if err != nil || !ok {
		return GetResult{}, err
	}
	return GetResult{true, e.Value, e.Version, e.Created.UTC(), e.Updated.UTC()}, nil
}

// A SizeResult says how large a cell is.
type SizeResult struct {
	// Entries is the number of entries.
	Entries int64 `json:"entries"`
	// Bytes is everything that the actor stores, its bookkeeping and kept events included: what its quota counts.
	Bytes int64 `json:"bytes"`
}

func (c Cell) size(ctx *actor.ReadContext, _ actor.None) (SizeResult, error) {
	s, err := Type.Lookup(ctx, ctx, ctx.Key()...)
	if actor.CodeOf(err) == actor.NotFound {
		// A query on a cell that was never written to reads the empty state.
		return SizeResult{}, nil
	}
	return SizeResult{c.Entries, s.Bytes}, err
}
