package kv

import (
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/kv"
	"github.com/cairn-run/cairn/actor/host/method"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/runtime/internal/call"
	"github.com/cairn-run/cairn/runtime/internal/kernel"
	"github.com/cairn-run/cairn/runtime/internal/kernel/clock"
	"github.com/cairn-run/cairn/runtime/internal/part/kv/value"
)

// Methods implements call.Server.
func (p *Part) Methods() []*call.Method {
	sample := func(r *reader, in *kv.SampleInput) (kv.SampleOutput, error) { return r.sample(in, countEntries) }
	return []*call.Method{
		call.Guarded(call.WaitsItself(call.Ordered(call.Serve(method.KVWatch, watchFor))), mayWatch),
		call.Guarded(p.feedMethod(), mayFeed),
		call.Guarded(reads(method.KVGet, get), mayGet),
		call.Guarded(reads(method.KVGetMany, getMany), mayGetMany),
		call.Guarded(reads(method.KVList, list), mayList),
		call.Guarded(reads(method.KVListMany, listMany), mayListMany),
		call.Guarded(reads(method.KVCount, count), mayCount),
		call.Guarded(reads(method.KVSample, sample), maySample),
		call.Guarded(call.Act(method.KVCommit, p.commit), mayCommit),
		call.Guarded(reads(method.KVScopes, scopes), mayScopes),
		call.Guarded(reads(method.KVGroups, groups), mayGroups),
		call.Guarded(call.Act(method.KVSetScope, setScope), maySetScope),
		call.Guarded(call.Act(method.KVRemoveScope, removeScope), mayRemoveScope),
		call.Guarded(reads(method.KVHistory, history), mayHistory),
		call.Guarded(call.Act(method.KVPin, pin), mayPin),
		call.Guarded(call.Act(method.KVUnpin, unpin), mayUnpin),
		call.Guarded(call.Act(method.KVFork, fork), mayFork),
		call.Guarded(reads(method.KVBranches, branches), mayBranches),
		call.Guarded(call.Act(method.KVRemoveBranch, removeBranch), mayRemoveBranch),
		call.Guarded(reads(method.KVDiff, diff), mayDiff),
		call.Guarded(call.Act(method.KVMerge, merge), mayMerge),
		call.Guarded(call.Act(method.KVSetIndex, setIndex), maySetIndex),
		call.Guarded(call.Act(method.KVRemoveIndex, removeIndex), mayRemoveIndex),
		call.Guarded(searches(method.KVIndexes, p.indexes), mayIndexes),
		call.Guarded(searches(method.KVSearch, p.search), maySearch),
		call.Guarded(reads(method.KVRender, render), mayRender),
		call.Guarded(call.Act(method.KVPurge, purgeNow), mayPurge),
	}
}

// A reader reads entries of one commit.
type reader struct {
	rows  engine.Reader
	codec host.Codec
	now   time.Time
	// version is the commit's.
	version engine.Version
	own     remembering // rows of a query
	row     [64]byte    // for the key that is looked up
}

// reads binds a method that reads. A missing actor has no entries, which is no error.
func reads[In, Out any](m method.Typed[In, Out], f func(r *reader, in *In) (Out, error)) *call.Method {
	return readsAny(m.Row, untyped(f))
}

// untyped hides the types of a function from its callers, which would be compiled for each of them.
// It is not inlined, because then it would be compiled twice.
//
//go:noinline
func untyped[From, In, Out any](f func(from From, in *In) (Out, error)) func(from From, in any) (out any, err error) {
	return func(from From, in any) (any, error) {
		out, err := f(from, in.(*In))
		return &out, err
	}
}

func readsAny(m *method.Row, f func(r *reader, in any) (out any, err error)) *call.Method {
	b := call.Unwoken(call.AskAny(m, func(q *call.Query, codec host.Codec, in any) (any, error) {
		now := q.Now()
		return call.Reading(q, func(rows engine.Reader) (any, error) {
			r := &reader{codec: codec, now: now, version: q.View.Version, own: remember(q, rows)}
			r.rows = &r.own
			return f(r, in)
		})
	}))
	b.Missing = func(_ *kernel.Type, req *host.Request, notFound error) ([]byte, error) {
		if e, ok := errors.AsType[*host.Error](notFound); req.Existing || ok && e.Metadata["reason"] == reasonNoBranch {
			return nil, notFound
		}
		return b.Answer(req, func(in any) (any, error) { return f(&reader{rows: nothing{}, codec: req.Codec}, in) })
	}
	return b
}

// nothing is the rows of a missing actor.
type nothing struct{}

func (nothing) Get([]byte) (e engine.Entry, ok bool, err error)       { return }
func (nothing) List(engine.ListQuery) (p engine.Page, err error)      { return }
func (nothing) Each(engine.ListQuery, func(*engine.Entry) bool) error { return nil }

// packed returns the packed form of a key that must have a part. A key that only Go code writes can
// be named too.
func packed(k kv.Key) ([]byte, error) {
	row, err := rowOf(k)
	if err != nil {
		return nil, err
	}
	return row[1:], nil
}

// rowOf returns the logical key of an entry.
func rowOf(k kv.Key) ([]byte, error) { return rowIn(make([]byte, 0, 64), k) }

// rowIn is rowOf that uses the memory of b.
func rowIn(b []byte, k kv.Key) ([]byte, error) {
	if len(k) == 0 {
		_, err := k.Entry()
		return nil, err
	}
	return k.Append(keyspace.UserKV.Append(b, nil))
}

// of puts a member, or an element of one, before the path of the member in an error about an input.
func of(member string, err error) error {
	e, ok := errors.AsType[*host.Error](err)
	if !ok || e.Metadata["reason"] == reasonTrimmed || !placed(e.Code) {
		return err
	}
	if field := e.Metadata["field"]; field != "" {
		return host.WithMember(e, member, &host.MemberError{Path: field})
	}
	return e.With("field", member)
}

// placed reports whether errors with a code are about a member.
func placed(c host.Code) bool {
	return c == host.InvalidArgument || c == host.TooLarge || c == host.FailedPrecondition ||
		c == host.PermissionDenied || c == host.NotFound
}

// at is of for an element of a list, which the text names too.
func at(list string, i int, err error) error {
	place := list + "[" + strconv.Itoa(i) + "]"
	e, ok := errors.AsType[*host.Error](err)
	if !ok {
		return err
	}
	field, located := e.Metadata["field"], *e
	located.Message = strings.TrimPrefix(e.Message, field+": ")
	if field != "" && field[0] != '[' {
		field = "." + field
	}
	located.Message = place + field + ": " + located.Message
	return of(place, &located)
}

// entryOf returns an entry for callers.
func entryOf(codec host.Codec, key kv.Key, e *engine.Entry, values bool) (kv.Entry, error) {
	out := kv.Entry{Key: key, Version: uint64(e.Version), Created: clock.TimeMS(e.Created).UTC(),
		Updated: clock.TimeMS(e.Updated).UTC()}
	if e.Expire != 0 {
		at := clock.TimeMS(e.Expire).UTC()
		out.Expires = &at
	}
	if !values {
		return out, nil
	}
	var err error
	out.Value, out.Encoding, err = show(codec, value.Value{Encoding: host.Encoding(e.Encoding), Data: e.Value})
	return out, err
}

// lookup returns the entry of a key, or nil.
func (r *reader) lookup(key kv.Key) (*kv.Entry, error) {
	row, err := rowIn(r.row[:0], key)
	if err != nil {
		return nil, err
	}
	stored, there, err := r.rows.Get(row)
	if err != nil || !there {
		return nil, err
	}
	e, err := entryOf(r.codec, key, &stored, true)
	return &e, err
}

func get(r *reader, in *kv.GetInput) (kv.GetOutput, error) {
	r, err := r.moment(&in.Moment)
	if err != nil {
		return kv.GetOutput{}, err
	}
	e, err := r.lookup(in.Key)
	return kv.GetOutput{Entry: e}, of("key", err)
}

func getMany(r *reader, in *kv.GetManyInput) (kv.GetManyOutput, error) {
	if n := len(in.Keys); n > kv.MaxKeys {
		return kv.GetManyOutput{}, host.OverLimit("keys", kv.MaxKeys, int64(n)).With("field", "keys")
	}
	r, err := r.moment(&in.Moment)
	if err != nil {
		return kv.GetManyOutput{}, err
	}
	out := kv.GetManyOutput{Entries: make([]*kv.Entry, len(in.Keys))}
	size := 0
	for i, key := range in.Keys {
		e, err := r.lookup(key)
		if err != nil {
			return out, at("keys", i, err)
		}
		if out.Entries[i] = e; e != nil {
			size += len(e.Value)
		}
		if size > kv.MaxValues {
			return out, host.OverLimit("bytes of the values", kv.MaxValues, int64(size)).With("field", "keys")
		}
	}
	return out, nil
}

// bounds returns the packed bounds of a selection; nil is the end of the store.
func bounds(s *kv.Selection) (start, end []byte, err error) {
	if s.Prefix != nil && (s.Start != nil || s.End != nil) {
		return nil, nil,
			host.Errorf(host.InvalidArgument, "a selection has either a prefix, or start and end").
				With("field", "prefix")
	}
	for _, member := range []struct {
		name string
		key  kv.Key
		pack func(kv.Key) ([]byte, error)
		to   *[]byte
	}{{"prefix", s.Prefix, kv.Key.Pack, &start}, {"start", s.Start, kv.Key.PackBound,
		&start}, {"end", s.End, kv.Key.PackBound, &end}} {
		if len(member.key) == 0 {
			continue
		}
		var err error
		if *member.to, err = member.pack(member.key); err != nil {
			return nil, nil, of(member.name, err)
		}
	}
	if s.End != nil && len(end) == 0 { // nothing is below it; a client that makes it by mistake may delete all
		return nil, nil,
			host.Errorf(host.InvalidArgument,
				"the end is empty; leave it out for the end of the store").With("field", "end")
	}
	if len(s.Prefix) > 0 {
		end = append(start[:len(start):len(start)], 0xFF) // no part begins with this byte
	}
	return start, end, nil
}

// show returns a value for a caller, and the name of its encoding.
func show(codec host.Codec, v value.Value) (host.Raw, string, error) {
	word := v.Encoding.String()
	if codec == host.CBOR {
		return kv.ByteString(v.Data), word, nil
	}
	text, err := v.AppendJSON(nil)
	if err != nil {
		return nil, "", host.Errorf(host.Internal, "a stored value %s", err)
	}
	if v.Encoding == host.EncodedJSON {
		word = ""
	}
	return text, word, nil
}
