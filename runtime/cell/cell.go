// Package cell is the actor type of a node without Go code of its own. A cell has a document as its
// state, a key-value store with JSON keys and values, a SQLite database, and queues, streams and
// schedules of any name.
//
// A cell is an actor like any other, reached as cell/KEY over HTTP, WebSocket and NATS and with the
// command cairn, or from Go through the contract of this package. The actions Put, Delete,
// DeleteRange and Atomic write, each in one commit. The queries Get, List, Count and Size read.
// Every write emits the event Changed.
//
// Outside workers receive the messages of its queues, clients append to its streams, and its
// schedules put messages into queues or emit the event Ticked. All callers of a cell may also use
// its SQLite database. All this uses the built-in methods of actors.
//
// Keys are arrays of strings, numbers, booleans and bytes in the order of [Key]. Values are JSON
// documents, kept as written except for white space between tokens: numbers keep all their digits
// and objects the order of their members. A value has up to 1 MiB, and a key up to 2,048 bytes in
// its stored form, the tuple encoding.
//
// An entry may have a time to live. After it the entry is gone for every reader, without an event;
// the event of its put had the time.
//
// The input of a method is a JSON object; an unknown member is an error. In CBOR, which Go callers
// use, a value is a byte string that holds JSON.
package cell

import (
	"encoding/json"
	"time"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/actor/kv"
	"github.com/cairn-run/cairn/keyspace/tuple"
)

// The contract.
var (
	Type        = actor.NewType[Cell]("cell")
	Put         = actor.NewAction[Entry, PutResult](Type, "put")
	Delete      = actor.NewAction[KeyInput, DeleteResult](Type, "delete")
	DeleteRange = actor.NewAction[PrefixInput, DeleteRangeResult](Type, "delete_range")
	Atomic      = actor.NewAction[AtomicInput, AtomicResult](Type, "atomic")
	SetState    = actor.NewAction[StateInput, SetStateResult](Type, "set_state")
	State       = actor.NewQuery[actor.None, StateResult](Type, "state")
	Get         = actor.NewQuery[KeyInput, GetResult](Type, "get")
	List        = actor.NewQuery[ListInput, ListResult](Type, "list")
	Count       = actor.NewQuery[PrefixInput, CountResult](Type, "count")
	Size        = actor.NewQuery[actor.None, SizeResult](Type, "size")
	Changed     = actor.NewEvent[Change](Type, "changed", actor.EventConfig{})
	Ticked      = actor.NewEvent[Tick](Type, "tick", actor.EventConfig{})
	Queues      = actor.NewRequestQueue[Document, Document](Type, "*", actor.QueueConfig{Workers: true})
	Streams     = actor.NewStream[Document](Type, "*", actor.StreamConfig{External: true})
	Schedules   = actor.NewSchedule[Job](Type, "*")
)

// MaxEventValue is the largest size in bytes of a value in the event Changed. An actor keeps its
// latest events, so larger values would be stored several times.
const MaxEventValue = 8 << 10

// A Cell is the state of a cell: one document. All else is in its key-value store. The number of
// entries is not kept here, because entries come and go without a turn that could count them: they
// expire, and dead letters leave their bodies.
type Cell struct {
	State Document `json:"state,omitzero"`
	// Version is the version of the call that set State.
	Version uint64 `json:"version,omitempty"`
}

// Definition returns the type with its implementation, for a runtime to host.
func Definition() actor.Definition {
	return actor.Define(Type, actor.Spec[Cell]{OpenSQL: true, OpenKV: true},
		actor.On(Put, (*Cell).put),
		actor.On(Delete, (*Cell).delete),
		actor.On(DeleteRange, (*Cell).deleteRange),
		actor.On(Atomic, (*Cell).atomic),
		actor.On(SetState, (*Cell).setState),
		actor.OnQuery(State, Cell.state),
		actor.OnQuery(Get, Cell.get),
		actor.OnQuery(List, Cell.list),
		actor.OnQuery(Count, Cell.count),
		actor.OnQuery(Size, Cell.size),
		actor.OnSchedule(Schedules, (*Cell).tick),
	)
}

// A Key names an entry.
type Key = kv.Key

// An Entry is a key and its value.
type Entry struct {
	Key   Key             `json:"key"`
	Value json.RawMessage `json:"value"`
	// TTLMS is how long the entry lives, in milliseconds: 1 to MaxTTL. Absent means forever.
	TTLMS *int64 `json:"ttl_ms,omitempty"`
}

// JSONExample shows an entry that expires.
func (Entry) JSONExample() any {
	return Entry{Key: Key{"user", 7}, Value: json.RawMessage(`{"name":"Ada"}`), TTLMS: new(int64(3_600_000))}
}

// MaxTTL is the longest time to live of an entry, in milliseconds: 100 years.
const MaxTTL = 100 * 365 * 24 * 3_600_000

// A PutResult is the result of Put.
type PutResult struct {
	// Created reports whether there was no entry with this key.
	Created bool `json:"created"`
	// Version is the new version of the cell and of the entry.
	Version uint64 `json:"version"`
}

// A KeyInput names an entry.
type KeyInput struct {
	Key Key `json:"key"`
}

// JSONExample shows a key of two parts.
func (KeyInput) JSONExample() any { return KeyInput{Key{"user", 7}} }

// A DeleteResult is the result of Delete. A missing entry is no error.
type DeleteResult struct {
	Deleted bool `json:"deleted"`
}

// A PrefixInput selects the entries whose keys begin with these whole parts: ["user"] selects
// ["user"] and ["user",7] and not ["users"]. The empty array selects everything; a delete requires
// it for that.
type PrefixInput struct {
	Prefix Key `json:"prefix"`
}

// A DeleteRangeResult says how many entries DeleteRange removed.
type DeleteRangeResult struct {
	Deleted int64 `json:"deleted"`
}

// A Change is the payload of the event Changed.
type Change struct {
	// Op is "put", "delete" or "delete_range", or the Op of a Mutation.
	Op string `json:"op"`
	// Key names the entry, except in a delete_range.
	Key Key `json:"key,omitempty"`
	// Value is the entry's new value, if it has up to MaxEventValue bytes. Size is always set.
	Value json.RawMessage `json:"value,omitempty"`
	Size  int             `json:"size,omitempty"`
	// Expires is when the entry expires, for which there is no event; zero for never.
	Expires time.Time `json:"expires,omitzero"`
	// Prefix selects the entries that a delete_range removed, Deleted is their number. An empty
	// prefix is omitted.
	Prefix  Key   `json:"prefix,omitempty"`
	Deleted int64 `json:"deleted,omitempty"`
}

// put stores a value and emits a change.
func (c *Cell) put(ctx *actor.Context, in Entry) (PutResult, error) {
	key, err := in.Key.Tuple()
	if err != nil {
		return PutResult{}, of("key", err)
	}
	_, exists, err := ctx.KV().Get(key)
	if err != nil {
		return PutResult{}, err
	}
	_, version, err := (&Mutation{"put", in.Key, in.Value, in.TTLMS}).commit(ctx)
	return PutResult{Created: !exists, Version: version}, err
}

// delete removes an entry and, if there was one, emits a change.
func (c *Cell) delete(ctx *actor.Context, in KeyInput) (DeleteResult, error) {
	done, _, err := (&Mutation{Op: "delete", Key: in.Key}).commit(ctx)
	return DeleteResult{done.Deleted > 0}, err
}

// deleteRange removes the entries below a prefix and, if there were any, emits one change.
func (c *Cell) deleteRange(ctx *actor.Context, in PrefixInput) (DeleteRangeResult, error) {
	if in.Prefix == nil {
		// A missing prefix is more often a mistake than a request to delete everything.
		return DeleteRangeResult{},
			actor.Errorf(actor.InvalidArgument,
				"the prefix is missing; the prefix [] deletes everything").With("field", "prefix")
	}
	r, err := ctx.KV().Commit(kv.Commit{Mutations: []kv.Mutation{kv.DeleteRange(kv.Selection{Prefix: in.Prefix})}})
	if err != nil || r.Deleted == 0 {
		return DeleteRangeResult{}, single(err)
	}
	return DeleteRangeResult{r.Deleted},
		Changed.Emit(ctx, Change{Op: "delete_range", Prefix: in.Prefix, Deleted: r.Deleted})
}

// A GetResult is the result of Get. Found distinguishes a value of null from no value.
type GetResult struct {
	Found bool `json:"found"`
	// Only for found entries. Version is the version of the put that stored the value.
	Value   json.RawMessage `json:"value,omitempty"`
	Version uint64          `json:"version,omitempty"`
	Created time.Time       `json:"created,omitzero"`
	Updated time.Time       `json:"updated,omitzero"`
	// Expires is when the entry ceases to exist; zero for never.
	Expires time.Time `json:"expires,omitzero"`
}

func (c Cell) get(ctx *actor.ReadContext, in KeyInput) (GetResult, error) {
	key, err := in.Key.Entry()
	if err != nil {
		return GetResult{}, of("key", err)
	}
	e, ok, err := ctx.KV().Entry(key)
	if err != nil || !ok {
		return GetResult{}, err
	}
	document, err := shown(&e)
	return GetResult{true, document, e.Version, e.Created().UTC(), e.Updated().UTC(), utc(e.Expire())}, err
}

// utc returns t in UTC, and zero as zero.
func utc(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return t.UTC()
}

// A CountResult says how many entries there are.
type CountResult struct {
	Entries int64 `json:"entries"`
}

// count counts the entries below a prefix. It reads their keys, so its time grows with their
// number.
func (c Cell) count(ctx *actor.ReadContext, in PrefixInput) (CountResult, error) {
	prefix, err := in.Prefix.Tuple()
	if err != nil {
		return CountResult{}, of("prefix", err)
	}
	n, err := entries(ctx, prefix)
	return CountResult{n}, err
}

func entries(ctx *actor.ReadContext, prefix tuple.Tuple) (int64, error) {
	n := int64(0)
	for _, err := range ctx.KV().List(prefix, actor.KeysOnly()) {
		if err != nil {
			return 0, err
		}
		n++
	}
	return n, nil
}

// A SizeResult says how large a cell is.
type SizeResult struct {
	// Entries is the number of entries that have not expired, counted by reading their keys.
	Entries int64 `json:"entries"`
	// Bytes is the size that the quota counts: all data of the actor, with its bookkeeping and kept
	// events.
	Bytes int64 `json:"bytes"`
}

func (c Cell) size(ctx *actor.ReadContext, _ actor.None) (SizeResult, error) {
	s, err := Type.Ref(ctx, ctx.Key()...).Lookup(ctx)
	if actor.CodeOf(err) == actor.NotFound {
		// A query on a cell that was never written to reads the empty state.
		return SizeResult{}, nil
	}
	if err != nil {
		return SizeResult{}, err
	}
	n, err := entries(ctx, nil)
	return SizeResult{n, s.Bytes}, err
}
