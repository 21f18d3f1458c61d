package kv

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/kv"
	"github.com/cairn-run/cairn/actor/host/method"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/keyspace/tuple"
	"github.com/cairn-run/cairn/runtime/internal/call"
	"github.com/cairn-run/cairn/runtime/internal/kernel"
	"github.com/cairn-run/cairn/runtime/internal/kernel/clock"
	"github.com/cairn-run/cairn/runtime/internal/kernel/fault"
	"github.com/cairn-run/cairn/runtime/internal/kernel/wire"
	kvrows "github.com/cairn-run/cairn/runtime/internal/part/kv/rows"
	"github.com/cairn-run/cairn/runtime/internal/part/kv/value"
)

// Methods implements call.Server.
func (*Part) Methods() []*call.Method {
	return []*call.Method{
		reads(method.KVGet, get),
		reads(method.KVGetMany, getMany),
		reads(method.KVList, list),
		reads(method.KVCount, count),
		call.Act(method.KVCommit, commit),
	}
}

// A reader reads entries of one commit.
type reader struct {
	rows  engine.Reader
	codec host.Codec
	now   time.Time
}

// reads binds a method that reads. An actor that is not there has no entries, which is no error.
func reads[In, Out any](m method.Typed[In, Out], f func(r *reader, in *In) (Out, error)) *call.Method {
	b := call.Ask(m, func(q *call.Query, codec host.Codec, in *In) (Out, error) {
		now := q.Now()
		return call.Reading(q, func(rows engine.Reader) (Out, error) { return f(&reader{rows, codec, now}, in) })
	})
	b.Missing = func(_ *kernel.Type, req *host.Request, notFound error) ([]byte, error) {
		var in In
		if req.Existing {
			return nil, notFound
		}
		if err := wire.Decode(m.Name, req.Codec, req.Input, &in); err != nil {
			return nil, err
		}
		out, err := f(&reader{nothing{}, req.Codec, time.Time{}}, &in)
		if err != nil {
			return nil, err
		}
		return wire.Encode(req.Codec, &out)
	}
	return b
}

// nothing is the rows of an actor that is not there.
type nothing struct{}

func (nothing) Get([]byte) (e engine.Entry, ok bool, err error)  { return }
func (nothing) List(engine.ListQuery) (p engine.Page, err error) { return }

// packed returns the packed form of a key that must have a part. A key that only Go code writes can be named too.
func packed(k kv.Key) ([]byte, error) {
	if len(k) == 0 {
		_, err := k.Entry()
		return nil, err
	}
	b, err := tuple.Tuple(k).Pack()
	if err != nil {
		return nil, host.Errorf(host.InvalidArgument, "%s", err)
	}
	return b, nil
}

// of puts a member, or an element of one, before the path of the member that an error about an input names.
func of(member string, err error) error {
	e, ok := errors.AsType[*host.Error](err)
	if !ok || e.Code != host.InvalidArgument && e.Code != host.TooLarge && e.Code != host.FailedPrecondition {
		return err
	}
	if field := e.Metadata["field"]; field != "" {
		return host.WithMember(e, member, &host.MemberError{Path: field})
	}
	return e.With("field", member)
}

// at is of for an element of a list, which the text names too.
func at(list string, i int, err error) error {
	place := list + "[" + strconv.Itoa(i) + "]"
	e, ok := errors.AsType[*host.Error](err)
	if !ok {
		return err
	}
	located := *e
	located.Message = place + ": " + e.Message
	return of(place, &located)
}

// entryOf is an entry as callers see it.
func entryOf(codec host.Codec, key kv.Key, e *engine.Entry, values bool) (kv.Entry, error) {
	out := kv.Entry{Key: key, Version: uint64(e.Version), Created: clock.TimeMS(e.Created).UTC(), Updated: clock.TimeMS(e.Updated).UTC()}
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
	k, err := packed(key)
	if err != nil {
		return nil, err
	}
	stored, there, err := r.rows.Get(keyspace.UserKV.Append(nil, k))
	if err != nil || !there {
		return nil, err
	}
	e, err := entryOf(r.codec, key, &stored, true)
	return &e, err
}

func get(r *reader, in *kv.GetInput) (kv.GetOutput, error) {
	e, err := r.lookup(in.Key)
	return kv.GetOutput{Entry: e}, of("key", err)
}

func getMany(r *reader, in *kv.GetManyInput) (kv.GetManyOutput, error) {
	if n := len(in.Keys); n > kv.MaxKeys {
		return kv.GetManyOutput{}, host.OverLimit("keys", kv.MaxKeys, int64(n)).With("field", "keys")
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

func count(r *reader, in *kv.CountInput) (out host.CountOutput, err error) {
	q := engine.ListQuery{KeysOnly: true}
	start, end, err := bounds(&in.Selection)
	if err != nil {
		return out, err
	}
	for q.Start, q.End = kvrows.Bounds(start, end); ; {
		page, err := r.rows.List(q)
		if out.Count += int64(len(page.Entries)); err != nil || page.Next == nil {
			return out, err
		}
		q.After = page.Next
	}
}

// commit implements kv.commit.
func commit(c *kernel.Core, h *kernel.Turn, codec host.Codec, in *kv.CommitInput) (kv.CommitOutput, error) {
	do, err := parse(codec, in, h.Start)
	if err != nil {
		return kv.CommitOutput{}, err
	}
	done, err := kvrows.Apply(c.Rows, do)
	if err != nil {
		return kv.CommitOutput{}, refusal(err)
	}
	out := kv.CommitOutput{OK: done.Failed == nil, Failed: done.Failed}
	if !out.OK {
		return out, nil
	}
	c.Rows.Mark()
	out.Version = uint64(c.Rows.Version())
	t := Turn{Reads: Reads[*kernel.Turn]{h}}
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
			t.changed(m, d)
		}
	}
	return out, nil
}

// changed notes what a mutation did, for watchers, and that an entry expires.
//
// REQUIRES: h.K.Mu
func (h *Turn) changed(m *kvrows.Mutation, d *kvrows.Done) {
	switch m.Op {
	case kvrows.Delete:
		h.change("delete", m.Key, nil)
	case kvrows.DeleteRange:
		rangeChange(h.K, m.Key, m.End, d.Deleted)
	default:
		if d.Expires != 0 {
			h.K.ExpireAt(d.Expires)
		}
		h.change("put", m.Key, d.Value.Data)
	}
}

// refusal makes an error of a commit one for its caller.
func refusal(err error) error {
	m, ok := errors.AsType[*kvrows.MutationError](err)
	if !ok {
		return fault.Limit(err)
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
	err = fault.Limit(m.Err)
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

// bounds returns the packed bounds of a selection; nil is the end of the store.
func bounds(s *kv.Selection) (start, end []byte, err error) {
	if s.Prefix != nil && (s.Start != nil || s.End != nil) {
		return nil, nil, host.Errorf(host.InvalidArgument, "a selection has either a prefix, or start and end").With("field", "prefix")
	}
	if s.End != nil && len(s.End) == 0 { // nothing is below it; a client that makes it by mistake may delete all
		return nil, nil, host.Errorf(host.InvalidArgument, "the end is empty; leave it out for the end of the store").With("field", "end")
	}
	for _, member := range []struct {
		name string
		key  kv.Key
		to   *[]byte
	}{{"prefix", s.Prefix, &start}, {"start", s.Start, &start}, {"end", s.End, &end}} {
		if len(member.key) == 0 {
			continue
		}
		var err error
		if *member.to, err = packed(member.key); err != nil {
			return nil, nil, of(member.name, err)
		}
	}
	if len(s.Prefix) > 0 {
		end = append(start[:len(start):len(start)], 0xFF) // no part begins with this byte
	}
	return start, end, nil
}

// show returns a value as a caller sees it, and what it is.
func show(codec host.Codec, v value.Value) (host.Raw, string, error) {
	word := v.Encoding.String()
	if codec == host.CBOR {
		return appendByteString(nil, v.Data), word, nil
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

// A filter reads at most so many entries for one page, so that a page that few meet ends.
const (
	scanEntries = 10_000
	scanBytes   = 16 << 20
	scanTime    = time.Second
)

var cursorText = base64.RawURLEncoding

// cursorOf names the last entry of a page, and the listing that it belongs to.
func cursorOf(listing uint64, last []byte) string {
	return cursorText.EncodeToString(append(fmt.Appendf(nil, "%016x", listing), last...))
}

// after returns the packed key that a cursor of a listing names. A key outside of the listing's bounds is refused, because
// a client may make a cursor.
func after(cursor string, listing uint64, start, end []byte) ([]byte, error) {
	b, err := cursorText.DecodeString(cursor)
	mark := fmt.Sprintf("%016x", listing)
	last, ok := bytes.CutPrefix(b, []byte(mark))
	if err != nil || !ok || len(last) == 0 || bytes.Compare(last, start) < 0 || end != nil && bytes.Compare(last, end) >= 0 {
		return nil, host.Errorf(host.InvalidArgument, "the cursor does not belong to this listing").With("field", "cursor")
	}
	return last, nil
}

// member decodes JSON text for a filter.
func member(text []byte) (v any, err error) {
	d := json.NewDecoder(strings.NewReader(string(text)))
	d.UseNumber()
	err = d.Decode(&v)
	return v, err
}
