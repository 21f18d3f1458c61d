package strata

import (
	"context"
	"errors"
	"iter"
	"math"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	hostkv "github.com/cairn-run/cairn/actor/host/kv"
	"github.com/cairn-run/cairn/actor/kv"
)

// The limits of answers.
const (
	maxPage      = 1_000 // keys or entries
	defaultPage  = 100   // entries of KvScan
	defaultCount = 5     // entries of KvSample
)

// entries are the entries of a space: current ones, past ones, or as a transaction sees them.
type entries interface {
	GetMany(ctx context.Context, keys ...kv.Key) ([]*kv.Entry, error)
	All(ctx context.Context, c kv.ListConfig) iter.Seq2[kv.Entry, error]
}

// A moment is the time of a read: a time in microseconds since 1970, or a version. Without both it
// is now.
type moment struct {
	AsOf      *uint64 `json:"as_of"`
	AtVersion *uint64 `json:"at_version"`
}

// entries returns the entries that a command reads.
func (s *space) entries(at moment) (entries, error) {
	if at.AsOf == nil && at.AtVersion == nil {
		if s.c.session != nil {
			return reads{s.c.Request, s.c.session, &s.c.sessions}, nil
		}
		return s.store, nil
	}
	past, err := s.past(at)
	return past, err
}

// past returns the entries at a moment.
func (s *space) past(at moment) (kv.Reader, error) {
	member := "at_version"
	if at.AsOf != nil {
		member = "as_of"
	}
	switch {
	case s.c.session != nil:
		return kv.Reader{}, invalid(member, "reads what was, which is no part of a transaction")
	case at.AsOf != nil && at.AtVersion != nil:
		return kv.Reader{}, invalid("as_of", "and at_version are both given")
	case at.AsOf != nil && *at.AsOf > math.MaxInt64:
		return kv.Reader{}, invalid("as_of", "is %d, which is no time in microseconds", *at.AsOf)
	case at.AsOf != nil:
		return s.store.AtTime(time.UnixMicro(int64(*at.AsOf))), nil
	case *at.AtVersion == 0:
		return kv.Reader{}, invalid("at_version", "is 0; the first version is 1")
	}
	return s.store.At(*at.AtVersion), nil
}

// get returns the entry of a key; nil if there is none.
func (s *space) get(from entries, key text) (*kv.Entry, error) {
	if err := key.check("key"); err != nil {
		return nil, err
	}
	found, err := from.GetMany(s.c.ctx, s.key(key))
	if err != nil {
		return nil, err
	}
	return found[0], nil
}

// write does mutations of size bytes. The result is zero in a transaction.
func (s *space) write(size int, mutations ...kv.Mutation) (kv.Result, error) {
	if s.c.session != nil {
		return kv.Result{}, s.c.sessions.do(s.c.Request, s.c.session, s.name, size, mutations)
	}
	return s.store.Commit(s.c.ctx, kv.Commit{Mutations: mutations})
}

// keepHistory makes the space a scope that keeps versions, unless it is a scope already or a scope
// of the whole store keeps versions. A client without permission continues without history.
func (s *space) keepHistory() error {
	kept, err := s.kept()
	if err == nil && !kept {
		if err = s.there(); err == nil {
			_, err = s.c.store.ExtendScope(s.c.ctx, kv.Key{s.name},
				kv.Policy{KeepVersions: keepVersions, KeepFor: keepForHours * time.Hour})
		}
	}
	if host.CodeOf(err) == host.PermissionDenied {
		return nil
	}
	return err
}

// kept reports whether an existing scope decides about versions.
func (s *space) kept() (bool, error) {
	for _, prefix := range []kv.Key{{s.name}, {}} {
		for sc, err := range s.c.store.Scopes(s.c.ctx, prefix) {
			if err != nil {
				return false, err
			}
			if len(sc.Prefix) == len(prefix) && (len(prefix) > 0 || sc.KeepVersions != 0 || sc.KeepFor != 0) {
				return true, nil
			}
			break // scopes come in the order of their prefixes
		}
	}
	return false, nil
}

// there returns an error if the branch does not exist.
func (s *space) there() error { return s.c.there(shownBranch(s.store.Name())) }

// version returns the version of a write for the answer: null in a transaction, which has none
// before its commit.
func (s *space) version(r kv.Result) *uint64 {
	if r.Version == 0 {
		return nil
	}
	return &r.Version
}

// kvPut stores a value.
type kvPut struct {
	target
	Key   text     `json:"key"`
	Value host.Raw `json:"value"`
}

func (in *kvPut) run(c *call) (any, error) {
	s, err := in.open(c)
	if err != nil {
		return nil, err
	}
	if err := in.Key.check("key"); err != nil {
		return nil, err
	}
	v, err := parseValue(in.Value, "value")
	if err != nil {
		return nil, err
	}
	if c.session == nil {
		if err := s.keepHistory(); err != nil {
			return nil, err
		}
	}
	r, err := s.write(len(in.Key)+len(v.Data), kv.Put(s.key(in.Key), v))
	return map[string]any{"Version": s.version(r)}, err
}

// kvGet returns a value.
type kvGet struct {
	target
	moment
	Key text `json:"key"`
}

func (in *kvGet) run(c *call) (any, error) {
	s, err := in.open(c)
	if err != nil {
		return nil, err
	}
	from, err := s.entries(in.moment)
	if err != nil {
		return nil, err
	}
	e, err := s.get(from, in.Key)
	if err != nil || e == nil {
		return map[string]any{"Maybe": nil}, err
	}
	return map[string]any{"Maybe": shown(e.Value)}, nil
}

// kvExists says whether there is a value.
type kvExists struct {
	target
	moment
	Key text `json:"key"`
}

func (in *kvExists) run(c *call) (any, error) {
	s, err := in.open(c)
	if err != nil {
		return nil, err
	}
	from, err := s.entries(in.moment)
	if err != nil {
		return nil, err
	}
	e, err := s.get(from, in.Key)
	return map[string]any{"Bool": e != nil}, err
}

// kvDelete removes a value, and says whether there was one.
type kvDelete struct {
	target
	Key text `json:"key"`
}

func (in *kvDelete) run(c *call) (any, error) {
	s, err := in.open(c)
	if err != nil {
		return nil, err
	}
	if err := in.Key.check("key"); err != nil {
		return nil, err
	}
	key := s.key(in.Key)
	existed := false
	if c.session != nil {
		now, _ := s.entries(moment{})
		e, err := s.get(now, in.Key)
		if existed = e != nil; err == nil && existed {
			_, err = s.write(len(in.Key), kv.Delete(key))
		}
		return map[string]any{"Bool": existed}, err
	}
	c.link.existing = true
	r, err := s.store.Commit(c.ctx,
		kv.Commit{Checks: []kv.Check{kv.Exists(key)}, Mutations: []kv.Mutation{kv.Delete(key)}})
	if missing(err) {
		return map[string]any{"Bool": false}, s.there()
	}
	return map[string]any{"Bool": r.Failed == nil}, err
}

// missing reports whether there is no actor.
func missing(err error) bool {
	e, is := errors.AsType[*host.Error](err)
	return is && e.Code == host.NotFound && e.Metadata["reason"] == ""
}

// kvGetv returns the kept versions of a value, from the newest to the oldest.
type kvGetv struct {
	target
	AsOf  *uint64 `json:"as_of"`
	Key   text    `json:"key"`
	Limit *uint64 `json:"limit"`
	// Before omits this version and newer ones.
	Before *uint64 `json:"before"`
}

// A version is a version of an entry. Op is set, delete or expire; the latter two have no value.
type version struct {
	Op        string `json:"op"`
	Version   uint64 `json:"version"`
	Timestamp int64  `json:"timestamp"` // microseconds since 1970
	Value     *shown `json:"value,omitempty"`
}

func (in *kvGetv) run(c *call) (any, error) {
	s, err := in.open(c)
	if err != nil {
		return nil, err
	}
	if c.session != nil {
		return nil, invalid("command", "KvGetv reads what was committed, which is no part of a transaction")
	}
	if err := in.Key.check("key"); err != nil {
		return nil, err
	}
	limit, err := bounded("limit", in.Limit, maxPage, maxPage)
	if err != nil {
		return nil, err
	}
	out := struct {
		History []version `json:"VersionHistory"` // null without any
		Next    *uint64   `json:"next,omitempty"` // before which to continue
	}{}
	for v, err := range s.store.History(c.ctx, s.key(in.Key)) {
		if err != nil {
			return nil, err
		}
		at := v.Time.UnixMicro()
		if in.Before != nil && v.Version >= *in.Before || in.AsOf != nil && uint64(at) > *in.AsOf {
			continue
		}
		if len(out.History) == limit {
			out.Next = &out.History[limit-1].Version
			break
		}
		shows := version{Op: v.Op, Version: v.Version, Timestamp: at}
		if v.Op == "put" {
			value := shown(v.Value)
			shows.Op, shows.Value = "set", &value
		}
		out.History = append(out.History, shows)
	}
	return out, nil
}

// kvList returns keys in their order.
type kvList struct {
	target
	moment
	Prefix *text   `json:"prefix"`
	Cursor *text   `json:"cursor"`
	Limit  *uint64 `json:"limit"`
}

func (in *kvList) run(c *call) (any, error) {
	out := struct {
		Keys   []string `json:"Keys"`
		Cursor string   `json:"cursor,omitempty"` // the last key, if there are more
	}{Keys: []string{}}
	limit, err := bounded("limit", in.Limit, maxPage, maxPage)
	if err != nil {
		return nil, err
	}
	s, err := in.open(c)
	if err != nil {
		return nil, err
	}
	from, err := s.entries(in.moment)
	if err != nil {
		return nil, err
	}
	after := ""
	if in.Cursor != nil {
		after = string(*in.Cursor)
	}
	err = s.list(from, in.Prefix, after, limit, true,
		func(key string, _ *kv.Entry) { out.Keys = append(out.Keys, key) })
	if len(out.Keys) > limit {
		out.Keys = out.Keys[:limit]
		out.Cursor = out.Keys[limit-1]
	}
	return out, err
}

// list visits up to one more than limit entries after a key, "" for the first.
func (s *space) list(from entries, prefix *text, after string, limit int, keysOnly bool,
	visit func(key string, e *kv.Entry)) error {
	of, err := s.selection(prefix, after)
	if err != nil {
		return err
	}
	n := 0
	for e, err := range from.All(s.c.ctx,
		kv.ListConfig{Selection: of, KeysOnly: keysOnly, Limit: min(limit+1, hostkv.MaxPage)}) {
		if err != nil {
			return err
		}
		if key, is := keyOf(e.Key); is {
			visit(key, &e)
			if n++; n > limit {
				break
			}
		}
	}
	return nil
}

// kvScan returns entries from a key on.
type kvScan struct {
	target
	moment
	Start *text   `json:"start"`
	Limit *uint64 `json:"limit"`
}

func (in *kvScan) run(c *call) (any, error) {
	out := struct {
		Entries [][2]any `json:"KvScanResult"`
		Cursor  string   `json:"cursor,omitempty"` // the key to start with, if there are more
	}{Entries: [][2]any{}}
	limit, err := bounded("limit", in.Limit, defaultPage, maxPage)
	if err != nil {
		return nil, err
	}
	s, err := in.open(c)
	if err != nil {
		return nil, err
	}
	from, err := s.entries(in.moment)
	if err != nil {
		return nil, err
	}
	of, err := s.selection(nil, "")
	if err != nil {
		return nil, err
	}
	if in.Start != nil && *in.Start != "" {
		if err := in.Start.check("start"); err != nil {
			return nil, err
		}
		of.Start = s.key(*in.Start)
	}
	size := 0
	for e, err := range from.All(c.ctx, kv.ListConfig{Selection: of, Limit: min(limit+1, hostkv.MaxPage)}) {
		if err != nil {
			return nil, err
		}
		key, is := keyOf(e.Key)
		if !is {
			continue
		}
		if len(out.Entries) == limit || size > pageBytes {
			out.Cursor = key
			break
		}
		size += len(e.Value.Data)
		out.Entries = append(out.Entries, [2]any{key, shown(e.Value)})
	}
	return out, nil
}

// pageBytes ends an answer with values early.
const pageBytes = 4 << 20

// kvCount counts keys.
type kvCount struct {
	target
	moment
	Prefix *text `json:"prefix"`
}

func (in *kvCount) run(c *call) (any, error) {
	s, err := in.open(c)
	if err != nil {
		return nil, err
	}
	of, err := s.selection(in.Prefix, "")
	if err != nil {
		return nil, err
	}
	from, err := s.entries(in.moment)
	if err != nil {
		return nil, err
	}
	counter, counts := from.(interface {
		Count(context.Context, kv.Selection) (int64, error)
	})
	n := int64(0)
	switch {
	case !counts:
		for e, err := range from.All(c.ctx, kv.ListConfig{Selection: of, KeysOnly: true, Limit: hostkv.MaxPage}) {
			if err != nil {
				return nil, err
			}
			if _, is := keyOf(e.Key); is {
				n++
			}
		}
	case in.Prefix == nil || *in.Prefix == "":
		n, err = counter.Count(c.ctx, kv.Selection{Prefix: kv.Key{s.name}}) // a scope has the count
	default:
		n, err = counter.Count(c.ctx, of)
	}
	return map[string]any{"Uint": n}, err
}

// kvSample returns random entries, each with the same chance.
type kvSample struct {
	target
	moment
	Prefix *text   `json:"prefix"`
	Count  *uint64 `json:"count"`
}

func (in *kvSample) run(c *call) (any, error) {
	count, err := bounded("count", in.Count, defaultCount, maxPage)
	if err != nil {
		return nil, err
	}
	s, err := in.open(c)
	if err != nil {
		return nil, err
	}
	if c.session != nil {
		return nil, invalid("command", "KvSample is no part of a transaction")
	}
	of, err := s.selection(in.Prefix, "")
	if err != nil {
		return nil, err
	}
	from := s.store.Reader
	if in.AsOf != nil || in.AtVersion != nil {
		if from, err = s.past(in.moment); err != nil {
			return nil, err
		}
	}
	found, total, err := from.Sample(c.ctx, kv.SampleConfig{Selection: of, N: count})
	if err != nil {
		return nil, err
	}
	type item struct {
		Key   string `json:"key"`
		Value shown  `json:"value"`
	}
	out := struct {
		Total int64  `json:"total_count"`
		Items []item `json:"items"`
	}{total, []item{}}
	for _, e := range found {
		if key, is := keyOf(e.Key); is {
			out.Items = append(out.Items, item{key, shown(e.Value)})
		}
	}
	return map[string]any{"SampleResult": out}, nil
}
