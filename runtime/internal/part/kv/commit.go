package kv

import (
	"cmp"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/kv"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace/tuple"
	"github.com/cairn-run/cairn/runtime/internal/kernel"
	"github.com/cairn-run/cairn/runtime/internal/kernel/attach"
	"github.com/cairn-run/cairn/runtime/internal/kernel/clock"
	"github.com/cairn-run/cairn/runtime/internal/kernel/fault"
	kvrows "github.com/cairn-run/cairn/runtime/internal/part/kv/rows"
	"github.com/cairn-run/cairn/runtime/internal/part/kv/value"
	"github.com/cairn-run/cairn/runtime/internal/part/kv/where"
)

// commit implements kv.commit.
func (p *Part) commit(_ *kernel.Core, t *kernel.Turn, codec host.Codec, in *kv.CommitInput) (kv.CommitOutput, error) {
	h := TurnOf(t)
	if n := len(in.Sends); n > kv.MaxSends {
		return kv.CommitOutput{}, host.OverLimit("sends", kv.MaxSends, int64(n)).With("field", "sends")
	}
	out, err := h.commit(codec, in, value.Op.Numeric)
	if err != nil || !out.OK {
		return out, err
	}
	blind(t.Work.Ctx, &out)
	t.Core.Rows.Mark() // an empty commit takes a version too
	for i := range in.Sends {
		sent, err := p.send(t, codec, &in.Sends[i])
		if err != nil {
			return kv.CommitOutput{}, at("sends", i, err)
		}
		out.Sends = append(out.Sends, sent)
	}
	return out, nil
}

// KVCommit implements kv.Committer.
func (h *Turn) KVCommit(in *kv.CommitInput) (kv.CommitOutput, error) {
	t := h.K
	if len(in.Sends) > 0 {
		return kv.CommitOutput{},
			host.Errorf(host.InvalidArgument,
				"the commit of a handler sends no messages; its turn does").With("field", "sends")
	}
	if err := t.Enter(); err != nil {
		return kv.CommitOutput{}, err
	}
	defer t.Leave()
	before := t.Core.Rows.Savepoint()
	out, err := h.commit(host.CBOR, in, func(value.Op) bool { return true })
	if err != nil {
		h.undo(before)
	}
	return out, err
}

// undo undoes the changes of the store since a savepoint.
func (h *Turn) undo(to engine.Savepoint) {
	h.K.Core.Rows.Rollback(to)
	memoryOf(h.K.Core).scopes.Reset()
	if r := attach.Get[*recent](&h.K.Core.Attached); r != nil &&
		!slices.Contains(h.K.Participants(), kernel.Participant(r)) {
		h.K.Enlist(r)
	}
}

// KVUpdate implements kv.Committer.
func (h *Turn) KVUpdate() (end func(error) (undone bool, e error), err error) {
	t := h.K
	if err := t.Enter(); err != nil {
		return nil, err
	}
	defer t.Leave()
	rows := t.Core.Rows
	before, changes, counted, collected := rows.Hold(), len(t.Changes), 0, h.collected()
	if h.touched != nil {
		counted = h.touched.changes
	}
	return func(err error) (bool, error) {
		if closed := t.Enter(); closed != nil {
			return false, closed
		}
		defer t.Leave()
		if !rows.Release(before) {
			return false, cmp.Or[error](err, host.Errorf(host.FailedPrecondition,
				"an update that began before this one was undone, and this one with it"))
		}
		if err == nil || h.collected() != collected || !rows.Only(before, kvrows.Kinds...) {
			return false, err
		}
		h.undo(*before)
		of := func(c engine.Change) bool { return c.Kind == engine.ChangeKV }
		t.Changes = t.Changes[:changes+len(slices.DeleteFunc(t.Changes[changes:], of))]
		// otherwise the turn publishes that there were more
		if what := h.touched; what != nil && what.changes <= MaxKVChanges {
			what.changes = counted
		}
		return true, err
	}, nil
}

// collected counts effects of the handler that no rollback of rows undoes: events, messages, SQL
// and the like. Effects of calls to other actors belong to those actors.
//
// REQUIRES: h.K.Mu
func (h *Turn) collected() int {
	n := len(h.K.After)
	if h.touched != nil {
		n-- // it records only what the store may have changed
	}
	if h.K.Ends {
		n++
	}
	for _, p := range h.K.Participants() {
		if p, ok := p.(interface{ Collected() int }); ok {
			n += p.Collected()
		}
	}
	return n
}

// commit does a commit. Its results have the values of operations for which values is true. After
// an error the caller undoes the writes.
//
// REQUIRES: h.K.Mu
func (h *Turn) commit(codec host.Codec, in *kv.CommitInput, values func(value.Op) bool) (kv.CommitOutput, error) {
	rows := h.K.Core.Rows
	stands := resolver{rows: rows, now: h.K.Start}
	var one [1]kvrows.Mutation // most commits have no more
	do := kvrows.Commit{Mutations: one[:]}
	if n := len(in.Mutations); n != 1 {
		do.Mutations = make([]kvrows.Mutation, min(n, kv.MaxMutations))
	}
	if err := parse(codec, in, &stands, &do); err != nil {
		return kv.CommitOutput{}, err
	}
	store := storeOf(h.K.Core)
	writer, err := store.Writer(in.Branch)
	if err != nil {
		return kv.CommitOutput{}, branched(err)
	}
	for i := range do.Mutations {
		m := &do.Mutations[i]
		if m.Expiry.Set || m.Op != kvrows.Put && m.Op != kvrows.Combine {
			continue
		}
		if m.Expiry.Default, err = store.DefaultExpiry(m.Logical()); err != nil {
			return kv.CommitOutput{}, err
		}
	}
	failed, err := kvrows.Apply(writer, &do)
	if err != nil {
		store.TakePurged() // the keys that it purged are there again
		return kv.CommitOutput{}, refusal(hide(h.K.Work.Ctx, err))
	}
	out := kv.CommitOutput{OK: failed == nil, Failed: failed, Resolved: stands.made}
	if !out.OK {
		out.Resolved = nil
		return out, nil
	}
	if err := stands.uuids.Keep(rows); err != nil {
		return kv.CommitOutput{}, fault.Limit(err)
	}
	h.expired(store)
	out.Version = uint64(rows.Version())
	if len(do.Mutations) > 0 {
		out.Results = make([]kv.MutationResult, 0, len(do.Mutations))
	}
	for i := range do.Mutations {
		m, d := &do.Mutations[i], &do.Mutations[i].Done
		result := kv.MutationResult{Deleted: d.Deleted}
		if d.Expires != 0 && d.Changed {
			at := clock.TimeMS(d.Expires).UTC()
			result.Expires = &at
		}
		if d.Changed && d.Value.Data != nil && values(m.Combine) {
			if result.Value, result.Encoding, err = show(codec, d.Value); err != nil {
				return kv.CommitOutput{}, err
			}
		}
		out.Results = append(out.Results, result)
		switch {
		case in.Branch != "": // it has no watchers and no indexes
		case d.Changed:
			h.changed(m)
		case m.Op == kvrows.Delete: // the removed entry had expired
			h.index(m.Key)
		case m.Op == kvrows.DeleteRange && m.Where == nil:
			h.indexRange(m.Key, m.End)
		}
	}
	h.logged(store)
	return out, nil
}

// changed records the effect of a mutation, for watchers.
//
// REQUIRES: h.K.Mu
func (h *Turn) changed(m *kvrows.Mutation) {
	switch d := &m.Done; m.Op {
	case kvrows.Delete:
		h.change("delete", m.Key, value.Value{}, 0)
	case kvrows.DeleteRange:
		if m.Where != nil {
			for _, key := range d.Keys {
				h.change("delete", key, value.Value{}, 0)
			}
			return
		}
		h.rangeChange(m.Key, m.End, d.Deleted)
	default:
		h.change("put", m.Key, d.Value, d.Expires)
	}
}

// refusal turns an error of a commit into one for its caller.
func refusal(err error) error {
	m, ok := errors.AsType[*kvrows.MutationError](err)
	if !ok {
		return refused(err)
	}
	if fit, is := errors.AsType[*value.MismatchError](m.Err); is {
		what, code, reason := "the value that is stored", host.FailedPrecondition, "type_mismatch"
		switch {
		case errors.Is(fit, value.ErrRange):
			what, reason = "the result", "out_of_range"
		case fit.Operand:
			what, code = "the value", host.InvalidArgument
		}
		return at("mutations", m.Index, host.Errorf(code, "%s %s", what, fit).With("reason", reason))
	}
	err = refused(m.Err)
	if e, is := errors.AsType[*host.Error](err); is && e.Code == host.TooLarge {
		if what := e.Metadata["what"]; what == "key" || what == "value" {
			err = e.With("field", what)
		}
	}
	return at("mutations", m.Index, err)
}

// A resolver has the values of a commit's placeholders.
type resolver struct {
	rows  *engine.WriteSet
	now   time.Time
	uuids kvrows.Stamps
	made  map[string]string
}

func (r *resolver) of(p kv.Placeholder) (text string, err error) {
	if text, ok := r.made[string(p)]; ok {
		return text, nil
	}
	if n := len(r.made); n == kv.MaxResolved {
		return "", host.OverLimit("different placeholders of a commit", kv.MaxResolved, int64(n+1))
	}
	if p == kv.Versionstamp {
		text = kvrows.Versionstamp(r.rows.Version())
	} else if text, err = r.uuids.UUID(r.rows, r.now); err != nil {
		return "", err
	}
	if r.made == nil {
		r.made = make(map[string]string)
	}
	r.made[string(p)] = text
	return text, nil
}

// key returns a key without placeholders.
func (r *resolver) key(k kv.Key) (kv.Key, error) {
	for i, part := range k {
		if p, is := part.(kv.Placeholder); is {
			text, err := r.of(p)
			if err != nil {
				return nil, err
			}
			k = slices.Clone(k)
			k[i] = text
		}
	}
	return k, nil
}

// parse checks a commit as far as it can without the store, and makes c of it, in the memory of the
// mutations.
func parse(codec host.Codec, in *kv.CommitInput, stands *resolver, c *kvrows.Commit) error {
	for _, part := range []struct {
		name        string
		count, most int
	}{{"checks", len(in.Checks), kv.MaxChecks}, {"mutations", len(in.Mutations), kv.MaxMutations}} {
		if part.count > part.most {
			return host.OverLimit(part.name, int64(part.most), int64(part.count)).With("field", part.name)
		}
	}
	c.Checks = make([]kvrows.Check, len(in.Checks))
	for i := range in.Checks {
		var err error
		if c.Checks[i], err = parseCheck(codec, &in.Checks[i]); err != nil {
			return at("checks", i, err)
		}
	}
	size := 0
	for i := range in.Mutations {
		m := &c.Mutations[i]
		if err := parseMutation(m, codec, &in.Mutations[i], stands); err != nil {
			return at("mutations", i, err)
		}
		// a single mutation has the bound of a value
		if size += len(m.Key) + len(m.End) + len(m.Value.Data); size > kv.MaxCommit && len(in.Mutations) > 1 {
			return host.OverLimit("bytes of the keys and values", kv.MaxCommit, int64(size)).With("field", "mutations")
		}
	}
	return nil
}

func parseCheck(codec host.Codec, in *kv.Check) (c kvrows.Check, err error) {
	in.Value = given(codec, in.Value)
	demands := 0
	for _, is := range []bool{in.Version != nil, in.Exists != nil, in.Value != nil, in.Digest != ""} {
		if is {
			demands++
		}
	}
	if in.Encoding != "" && in.Value == nil {
		return c, host.Errorf(host.InvalidArgument,
			"an encoding is that of a value, which is missing").With("field", "encoding")
	}
	if in.Digest != "" && demands == 1 {
		if in.Key != nil {
			return c, host.Errorf(host.InvalidArgument, "a check with a digest takes no key").With("field", "key")
		}
		return parseDigest(in.Digest)
	}
	if c.Key, err = packed(in.Key); err != nil {
		return c, of("key", err)
	}
	switch {
	case demands != 1:
		return c, host.Errorf(host.InvalidArgument,
			"a check has one of version, exists, value and digest").With("field", "version")
	case in.Value != nil:
		c.Want = kvrows.Equal
		c.Value, err = equals(codec, in)
	case in.Exists != nil && *in.Exists:
		c.Want = kvrows.Exists
	case in.Version != nil && *in.Version != 0:
		c.Want, c.Version = kvrows.AtVersion, *in.Version
	}
	return c, err
}

// equals returns the comparison of a stored value with that of a check.
func equals(codec host.Codec, in *kv.Check) (func(value.Value) (bool, error), error) {
	encoding, err := encodingOf(in.Encoding)
	if err != nil {
		return nil, err
	}
	v, err := read(codec, in.Value, encoding)
	if err != nil {
		return nil, of("value", err)
	}
	wanted, err := document(v)
	if err != nil {
		return nil, err
	}
	return func(stored value.Value) (bool, error) {
		is, err := document(stored)
		return where.Equal(is, wanted), err
	}, nil
}

// encodingOf reads the encoding that a caller names; "" is the encoding of documents.
func encodingOf(word string) (host.Encoding, error) {
	if word == "" {
		return host.EncodedJSON, nil
	}
	encoding, known := host.ParseEncoding(word)
	if !known {
		return 0, host.Errorf(host.InvalidArgument, "%.40q is not an encoding", word).With("field", "encoding")
	}
	return encoding, nil
}

var operations = map[string]kvrows.Op{
	"put": kvrows.Put, "delete": kvrows.Delete, "delete_range": kvrows.DeleteRange, "touch": kvrows.Touch, "sum": kvrows.Combine,
	"min": kvrows.Combine, "max": kvrows.Combine, "append": kvrows.Combine, "prepend": kvrows.Combine,
}

func parseMutation(m *kvrows.Mutation, codec host.Codec, in *kv.Mutation, stands *resolver) error {
	in.Value, in.Min, in.Max, in.Where = given(codec, in.Value), given(codec, in.Min),
		given(codec, in.Max), given(codec, in.Where)
	op, known := operations[in.Op]
	if !known {
		return host.Errorf(host.InvalidArgument,
			"the op is %.40q; it must be put, delete, delete_range, sum, min, max, append, prepend or touch", in.Op).With("field", "op")
	}
	m.Op, m.Combine = op, value.Op(in.Op)
	encoding, err := encodingOf(in.Encoding)
	if err != nil {
		return err
	}
	if err := surplus(in, op); err != nil {
		return err
	}
	if op == kvrows.DeleteRange {
		if in.Prefix == nil && in.Start == nil && in.End == nil {
			return host.Errorf(host.InvalidArgument,
				"delete_range selects nothing; the prefix [] selects everything").With("field", "prefix")
		}
		if m.Key, m.End, err = bounds(&in.Selection); err != nil {
			return err
		}
		m.Where, err = filterOf(codec, in.Where, stands.now)
		return of("where", err)
	}
	key, err := stands.key(in.Key)
	if err == nil {
		m.Row, err = rowOf(key)
	}
	if err == nil {
		m.Key = m.Row[1:]
	}
	if err == nil && op != kvrows.Delete && op != kvrows.Touch {
		_, err = key.Tuple()
	}
	if err != nil {
		return of("key", err)
	}
	if in.TTLMS != nil {
		ms := *in.TTLMS
		if ms < 0 || ms > kv.MaxTTL {
			return host.Errorf(host.InvalidArgument, "ttl_ms is %d; it is 1 to %d, or 0 for ever",
				ms, int64(kv.MaxTTL)).With("field", "ttl_ms")
		}
		m.Expiry.Set = true
		if ms > 0 {
			m.Expiry.At = stands.now.UnixMilli() + ms
		}
	}
	if in.Expires != nil {
		if in.Expires.Sub(stands.now) > kv.MaxTTL*time.Millisecond {
			return host.Errorf(host.InvalidArgument, "expires is more than 100 years from now").With("field", "expires")
		}
		m.Expiry = kvrows.Expiry{At: max(in.Expires.UnixMilli(), 1), Set: true} // 0 is never
	}
	if op == kvrows.Delete || op == kvrows.Touch {
		return nil
	}
	if m.Value, err = read(codec, in.Value, encoding); err == nil && encoding == host.EncodedJSON && !in.Literal {
		m.Value.Data, err = kv.Resolve(m.Value.Data, stands.of)
	}
	if err != nil {
		return of("value", err)
	}
	if op == kvrows.Put {
		return nil
	}
	if err := m.Combine.Check(m.Value); err != nil {
		return host.Errorf(host.InvalidArgument, "the value of %s %s", in.Op, err).With("field", "value")
	}
	if in.MaxLen != nil {
		if encoding != host.EncodedJSON {
			return host.Errorf(host.InvalidArgument, "max_len is the length of an array").With("field", "max_len")
		}
		if *in.MaxLen < 1 || *in.MaxLen > math.MaxInt32 {
			return host.Errorf(host.InvalidArgument, "max_len is %d; it is at least 1", *in.MaxLen).
				With("field", "max_len")
		}
		m.MaxLen = int(*in.MaxLen)
	}
	if m.Bounds.Min, err = extreme(codec, "min", in.Min, encoding); err != nil {
		return err
	}
	if m.Bounds.Max, err = extreme(codec, "max", in.Max, encoding); err != nil {
		return err
	}
	if m.Bounds.Clamp = in.Clamp; m.Bounds.Empty() {
		return host.Errorf(host.InvalidArgument, "min is greater than max").With("field", "min")
	}
	return nil
}

// extreme reads a bound of a sum; nil is none.
func extreme(codec host.Codec, name string, raw host.Raw, encoding host.Encoding) (*value.Value, error) {
	if raw == nil {
		return nil, nil
	}
	v, err := read(codec, raw, encoding)
	if err != nil {
		return nil, of(name, err)
	}
	if err := value.Sum.Check(v); err != nil {
		return nil, host.Errorf(host.InvalidArgument, "the bound %s", err).With("field", name)
	}
	return &v, nil
}

// filterOf compiles the filter of a delete_range; nil is none.
func filterOf(codec host.Codec, raw host.Raw, now time.Time) (func(*engine.Entry) (bool, error), error) {
	filter, _, err := compile(codec, raw, now)
	if err != nil || filter == nil {
		return nil, err
	}
	return func(e *engine.Entry) (bool, error) {
		parts, err := tuple.Unpack(e.Key[1:])
		if err != nil {
			return false, err
		}
		return meets(filter, kv.Key(parts), e)
	}, nil
}

// surplus refuses members that an operation does not take.
func surplus(in *kv.Mutation, op kvrows.Op) error {
	for _, member := range []struct {
		name         string
		given, taken bool
	}{
		{"key", in.Key != nil, op != kvrows.DeleteRange},
		{"prefix", in.Prefix != nil, op == kvrows.DeleteRange},
		{"start", in.Start != nil, op == kvrows.DeleteRange},
		{"end", in.End != nil, op == kvrows.DeleteRange},
		{"where", in.Where != nil, op == kvrows.DeleteRange},
		{"value", in.Value != nil, op == kvrows.Put || op == kvrows.Combine},
		{"encoding", in.Encoding != "", op == kvrows.Put || op == kvrows.Combine},
		{"literal", in.Literal, op == kvrows.Put || op == kvrows.Combine},
		{"ttl_ms", in.TTLMS != nil, op == kvrows.Put || op == kvrows.Combine || op == kvrows.Touch},
		{"max_len", in.MaxLen != nil, in.Op == "append" || in.Op == "prepend"},
		{"expires", in.Expires != nil, in.TTLMS == nil &&
			(op == kvrows.Put || op == kvrows.Combine || op == kvrows.Touch)},
		{"min", in.Min != nil, in.Op == "sum"},
		{"max", in.Max != nil, in.Op == "sum"},
		{"clamp", in.Clamp, in.Op == "sum" && (in.Min != nil || in.Max != nil)},
	} {
		if member.given && !member.taken {
			return host.Errorf(host.InvalidArgument, "%s takes no %s", in.Op, member.name).With("field", member.name)
		}
	}
	if op == kvrows.Touch && in.TTLMS == nil && in.Expires == nil {
		return host.Errorf(host.InvalidArgument, "touch needs ttl_ms; 0 is for ever").With("field", "ttl_ms")
	}
	return nil
}

// given returns nil for CBOR's absent value: null. In JSON a null is a document.
func given(codec host.Codec, raw host.Raw) host.Raw {
	if codec == host.CBOR && len(raw) == 1 && raw[0] == 0xF6 {
		return nil
	}
	return raw
}

// read reads a value of a caller.
func read(codec host.Codec, raw host.Raw, encoding host.Encoding) (value.Value, error) {
	if len(raw) == 0 {
		return value.JSON(nil)
	}
	if codec == host.CBOR {
		data, err := kv.Bytes(raw)
		if err != nil {
			return value.Value{}, err
		}
		return value.Stored(encoding, data)
	}
	return value.FromJSON(encoding, raw)
}
