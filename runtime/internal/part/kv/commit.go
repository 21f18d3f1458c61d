package kv

import (
	"errors"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/kv"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/runtime/internal/kernel"
	kvrows "github.com/cairn-run/cairn/runtime/internal/part/kv/rows"
	"github.com/cairn-run/cairn/runtime/internal/part/kv/value"
)

// commit implements kv.commit.
func commit(_ *kernel.Core, t *kernel.Turn, codec host.Codec, in *kv.CommitInput) (kv.CommitOutput, error) {
	return TurnOf(t).commit(codec, in)
}

// KVCommit implements kv.Committer.
func (h *Turn) KVCommit(in *kv.CommitInput) (kv.CommitOutput, error) {
	t := h.K
	if err := t.Enter(); err != nil {
		return kv.CommitOutput{}, err
	}
	defer t.Leave()
	before := t.Core.Rows.Savepoint()
	out, err := h.commit(host.CBOR, in)
	if err != nil {
		t.Core.Rows.Rollback(before)
	}
	return out, err
}

// commit does a commit. After an error the caller undoes what it has written.
//
// REQUIRES: h.K.Mu
func (h *Turn) commit(codec host.Codec, in *kv.CommitInput) (kv.CommitOutput, error) {
	rows := h.K.Core.Rows
	do, err := parse(codec, in, h.K.Start)
	if err != nil {
		return kv.CommitOutput{}, err
	}
	store := storeOf(h.K.Core)
	for i := range do.Mutations {
		m := &do.Mutations[i]
		if m.Expiry.Set || m.Op != kvrows.Put && m.Op != kvrows.Combine {
			continue
		}
		if m.Expiry.Default, err = store.DefaultExpiry(keyspace.UserKV.Append(nil, m.Key)); err != nil {
			return kv.CommitOutput{}, err
		}
	}
	done, err := kvrows.Apply(store, do)
	if err != nil {
		store.TakePurged() // what it purged is undone
		return kv.CommitOutput{}, refusal(err)
	}
	out := kv.CommitOutput{OK: done.Failed == nil, Failed: done.Failed}
	if !out.OK {
		return out, nil
	}
	rows.Mark()
	h.expired(store)
	out.Version = uint64(rows.Version())
	for i := range do.Mutations {
		m, d := &do.Mutations[i], &done.Done[i]
		result := kv.MutationResult{Deleted: d.Deleted}
		if m.Op == kvrows.Combine && m.Combine.Numeric() {
			if result.Value, result.Encoding, err = show(codec, d.Value); err != nil {
				return kv.CommitOutput{}, err
			}
		}
		out.Results = append(out.Results, result)
		if d.Changed {
			if err := h.changed(m, d); err != nil {
				return kv.CommitOutput{}, err
			}
		}
	}
	return out, nil
}

// changed notes what a mutation did, for watchers, and that an entry expires.
//
// REQUIRES: h.K.Mu
func (h *Turn) changed(m *kvrows.Mutation, d *kvrows.Done) error {
	switch m.Op {
	case kvrows.Delete:
		h.change("delete", m.Key, nil)
	case kvrows.DeleteRange:
		h.rangeChange(m.Key, m.End, d.Deleted)
	default:
		if err := h.expires(keyspace.UserKV.Append(nil, m.Key), d.Expires); err != nil {
			return err
		}
		h.change("put", m.Key, d.Value.Data)
	}
	return nil
}

// refusal makes an error of a commit one for its caller.
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

// parse checks all that can be wrong with a commit by itself.
func parse(codec host.Codec, in *kv.CommitInput, now time.Time) (*kvrows.Commit, error) {
	for _, part := range []struct {
		name        string
		count, most int
	}{{"checks", len(in.Checks), kv.MaxChecks}, {"mutations", len(in.Mutations), kv.MaxMutations}} {
		if part.count > part.most {
			return nil, host.OverLimit(part.name, int64(part.most), int64(part.count)).With("field", part.name)
		}
	}
	c := &kvrows.Commit{Checks: make([]kvrows.Check, len(in.Checks)), Mutations: make([]kvrows.Mutation, len(in.Mutations))}
	for i := range in.Checks {
		var err error
		if c.Checks[i], err = parseCheck(&in.Checks[i]); err != nil {
			return nil, at("checks", i, err)
		}
	}
	for i := range in.Mutations {
		var err error
		if c.Mutations[i], err = parseMutation(codec, &in.Mutations[i], now); err != nil {
			return nil, at("mutations", i, err)
		}
	}
	return c, nil
}

func parseCheck(in *kv.Check) (c kvrows.Check, err error) {
	if c.Key, err = packed(in.Key); err != nil {
		return c, of("key", err)
	}
	switch {
	case (in.Version == nil) == (in.Exists == nil):
		return c, host.Errorf(host.InvalidArgument, "a check has either a version or exists").With("field", "version")
	case in.Exists != nil && *in.Exists:
		c.Want = kvrows.Exists
	case in.Version != nil && *in.Version != 0:
		c.Want, c.Version = kvrows.AtVersion, *in.Version
	}
	return c, nil
}

var operations = map[string]kvrows.Op{
	"put": kvrows.Put, "delete": kvrows.Delete, "delete_range": kvrows.DeleteRange, "touch": kvrows.Touch, "sum": kvrows.Combine,
	"min": kvrows.Combine, "max": kvrows.Combine, "append": kvrows.Combine, "prepend": kvrows.Combine,
}

func parseMutation(codec host.Codec, in *kv.Mutation, now time.Time) (m kvrows.Mutation, err error) {
	for _, raw := range []*host.Raw{&in.Value, &in.Min, &in.Max} {
		*raw = given(codec, *raw)
	}
	op, known := operations[in.Op]
	if !known {
		return m, host.Errorf(host.InvalidArgument, "the op is %.40q; it must be put, delete, delete_range, sum, min, max, append, prepend or touch", in.Op).With("field", "op")
	}
	m.Op, m.Combine = op, value.Op(in.Op)
	encoding := host.EncodedJSON
	if in.Encoding != "" {
		if encoding, known = host.ParseEncoding(in.Encoding); !known {
			return m, host.Errorf(host.InvalidArgument, "%.40q is not an encoding", in.Encoding).With("field", "encoding")
		}
	}
	if err := surplus(in, op); err != nil {
		return m, err
	}
	if op == kvrows.DeleteRange {
		if in.Prefix == nil && in.Start == nil && in.End == nil {
			return m, host.Errorf(host.InvalidArgument, "delete_range selects nothing; the prefix [] selects everything").With("field", "prefix")
		}
		m.Key, m.End, err = bounds(&in.Selection)
		return m, err
	}
	if m.Key, err = packed(in.Key); err != nil {
		return m, of("key", err)
	}
	if op != kvrows.Delete && op != kvrows.Touch {
		if _, err := in.Key.Tuple(); err != nil {
			return m, of("key", err)
		}
	}
	if in.TTLMS != nil {
		ms := *in.TTLMS
		if ms < 0 || ms > kv.MaxTTL {
			return m, host.Errorf(host.InvalidArgument, "ttl_ms is %d; it is 1 to %d, or 0 for ever", ms, int64(kv.MaxTTL)).With("field", "ttl_ms")
		}
		m.Expiry.Set = true
		if ms > 0 {
			m.Expiry.At = now.UnixMilli() + ms
		}
	}
	if op == kvrows.Delete || op == kvrows.Touch {
		return m, nil
	}
	if m.Value, err = read(codec, in.Value, encoding); err != nil {
		return m, of("value", err)
	}
	if op == kvrows.Put {
		return m, nil
	}
	if err := m.Combine.Check(m.Value); err != nil {
		return m, host.Errorf(host.InvalidArgument, "the value of %s %s", in.Op, err).With("field", "value")
	}
	for _, bound := range []struct {
		name string
		raw  host.Raw
		to   **value.Value
	}{{"min", in.Min, &m.Bounds.Min}, {"max", in.Max, &m.Bounds.Max}} {
		if bound.raw == nil {
			continue
		}
		v, err := read(codec, bound.raw, encoding)
		if err != nil {
			return m, of(bound.name, err)
		}
		if err := value.Sum.Check(v); err != nil {
			return m, host.Errorf(host.InvalidArgument, "the bound %s", err).With("field", bound.name)
		}
		*bound.to = &v
	}
	if m.Bounds.Clamp = in.Clamp; m.Bounds.Empty() {
		return m, host.Errorf(host.InvalidArgument, "min is greater than max").With("field", "min")
	}
	return m, nil
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
		{"value", in.Value != nil, op == kvrows.Put || op == kvrows.Combine},
		{"encoding", in.Encoding != "", op == kvrows.Put || op == kvrows.Combine},
		{"ttl_ms", in.TTLMS != nil, op == kvrows.Put || op == kvrows.Combine || op == kvrows.Touch},
		{"min", in.Min != nil, in.Op == "sum"},
		{"max", in.Max != nil, in.Op == "sum"},
		{"clamp", in.Clamp, in.Op == "sum" && (in.Min != nil || in.Max != nil)},
	} {
		if member.given && !member.taken {
			return host.Errorf(host.InvalidArgument, "%s takes no %s", in.Op, member.name).With("field", member.name)
		}
	}
	if op == kvrows.Touch && in.TTLMS == nil {
		return host.Errorf(host.InvalidArgument, "touch needs ttl_ms; 0 is for ever").With("field", "ttl_ms")
	}
	return nil
}

// given returns nil for what CBOR says is absent: null. In JSON a null is a document.
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
		data, err := byteString(raw)
		if err != nil {
			return value.Value{}, err
		}
		return value.Stored(encoding, data)
	}
	return value.FromJSON(encoding, raw)
}
