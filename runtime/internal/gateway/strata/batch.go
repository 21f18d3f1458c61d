package strata

import (
	"cmp"
	"strconv"

	"github.com/cairn-run/cairn/actor/host"
	hostkv "github.com/cairn-run/cairn/actor/host/kv"
	"github.com/cairn-run/cairn/actor/kv"
)

// A result is the result of one item of a writing batch.
type result struct {
	Version *uint64 `json:"version"`
	Error   *string `json:"error"`
}

// fail records why an item is not done.
func (r *result) fail(err error) {
	text := outside(err).Error()
	if e, is := err.(*host.Error); is {
		text = e.Message
	}
	r.Error = &text
}

// few checks the number of items of a batch.
func few(member string, n, most int) error {
	if n > most {
		return host.OverLimit(member, int64(most), int64(n)).With("field", member)
	}
	return nil
}

// kvBatchPut stores values with one commit, except faulty ones.
type kvBatchPut struct {
	target
	Entries []struct {
		Key   text     `json:"key"`
		Value host.Raw `json:"value"`
	} `json:"entries" max:"10000"`
}

func (in *kvBatchPut) run(c *call) (any, error) {
	if err := few("entries", len(in.Entries), hostkv.MaxMutations); err != nil {
		return nil, err
	}
	s, err := in.open(c)
	if err != nil {
		return nil, err
	}
	results := make([]result, len(in.Entries))
	var puts []kv.Mutation
	size := 0
	for i, e := range in.Entries {
		if err := e.Key.check("key"); err != nil {
			results[i].fail(err)
			continue
		}
		v, err := parseValue(e.Value, "value")
		if err != nil {
			results[i].fail(err)
			continue
		}
		size += len(e.Key) + len(v.Data)
		puts = append(puts, kv.Put(s.key(e.Key), v))
	}
	if len(puts) == 0 {
		return map[string]any{"BatchResults": results}, nil
	}
	if c.session == nil {
		if err := s.keepHistory(); err != nil {
			return nil, err
		}
	}
	r, err := s.write(size, puts...)
	for i := range results {
		if results[i].Error == nil {
			results[i].Version = s.version(r)
		}
	}
	return map[string]any{"BatchResults": results}, err
}

// keys are the keys of a batch.
type keys struct {
	target
	Keys []text `json:"keys" max:"10000"`
}

// check returns the keys of the entries. For a faulty key it calls fail, and the result has nil.
func (in *keys) check(s *space, most int, fail func(i int, err error)) ([]kv.Key, error) {
	if err := few("keys", len(in.Keys), most); err != nil {
		return nil, err
	}
	list := make([]kv.Key, len(in.Keys))
	for i, key := range in.Keys {
		if err := key.check("keys[" + strconv.Itoa(i) + "]"); err != nil {
			fail(i, err)
			continue
		}
		list[i] = s.key(key)
	}
	return list, nil
}

// kvBatchGet returns values.
type kvBatchGet struct {
	keys
	moment
}

func (in *kvBatchGet) run(c *call) (any, error) {
	type item struct {
		Value     *shown `json:"value,omitempty"` // absent if there is none
		Version   uint64 `json:"version,omitempty"`
		Timestamp int64  `json:"timestamp,omitempty"` // microseconds since 1970
		Error     string `json:"error,omitempty"`
	}
	s, err := in.open(c)
	if err != nil {
		return nil, err
	}
	items := make([]item, len(in.Keys))
	found, err := in.found(s, in.moment, func(i int, err error) {
		var r result
		r.fail(err)
		items[i].Error = *r.Error
	})
	if err != nil {
		return nil, err
	}
	for i, e := range found {
		if e == nil {
			continue
		}
		v := shown(e.Value)
		items[i].Value, items[i].Version = &v, e.Version
		if !e.Updated.IsZero() { // zero for a transaction's own write
			items[i].Timestamp = e.Updated.UnixMicro()
		}
	}
	return map[string]any{"BatchGetResults": items}, nil
}

// found returns the entries of the keys, in their order; nil for a missing one.
func (in *keys) found(s *space, at moment, fail func(i int, err error)) ([]*kv.Entry, error) {
	list, err := in.check(s, hostkv.MaxKeys, fail)
	if err != nil {
		return nil, err
	}
	from, err := s.entries(at)
	if err != nil {
		return nil, err
	}
	var asked []kv.Key
	for _, key := range list {
		if key != nil {
			asked = append(asked, key)
		}
	}
	out := make([]*kv.Entry, len(list))
	if asked == nil {
		return out, nil
	}
	found, err := from.GetMany(s.c.ctx, asked...)
	if err != nil {
		return nil, err
	}
	for i, key := range list {
		if key != nil {
			out[i], found = found[0], found[1:]
		}
	}
	return out, nil
}

// kvBatchExists says which keys have values. A faulty key fails the command.
type kvBatchExists struct {
	keys
	moment
}

func (in *kvBatchExists) run(c *call) (any, error) {
	s, err := in.open(c)
	if err != nil {
		return nil, err
	}
	var wrong error
	found, err := in.found(s, in.moment, func(_ int, err error) { wrong = cmp.Or(wrong, err) })
	if wrong != nil {
		return nil, wrong
	}
	list := make([]bool, len(found))
	for i, e := range found {
		list[i] = e != nil
	}
	return map[string]any{"BoolList": list}, err
}

// kvBatchDelete removes values with one commit. The version of an item is the version of the
// commit, or null if there was no value.
type kvBatchDelete struct{ keys }

func (in *kvBatchDelete) run(c *call) (any, error) {
	s, err := in.open(c)
	if err != nil {
		return nil, err
	}
	results := make([]result, len(in.Keys))
	list, err := in.check(s, hostkv.MaxMutations, func(i int, err error) { results[i].fail(err) })
	if err != nil {
		return nil, err
	}
	var deletes []kv.Mutation
	size := 0
	for i, key := range list {
		if key != nil {
			size += len(in.Keys[i])
			deletes = append(deletes, kv.Delete(key))
		}
	}
	answer := map[string]any{"BatchResults": results}
	if deletes == nil {
		return answer, nil
	}
	if err := c.AllowRead(); err != nil {
		return nil, err
	}
	c.link.existing = true
	r, err := s.write(size, deletes...)
	if missing(err) {
		return answer, s.there()
	}
	n := 0
	for i, key := range list {
		if key != nil && n < len(r.Results) {
			if r.Results[n].Deleted > 0 {
				results[i].Version = s.version(r)
			}
			n++
		}
	}
	return answer, err
}
