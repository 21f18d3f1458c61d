package store

import (
	"context"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/kv"
)

// A KeyValue is a key of a group, and its value.
type KeyValue struct {
	Key, Value string
}

// MaxOffset is the greatest offset of [Store.GetPage].
const MaxOffset = 10_000

// Get returns the value of a key. The error for a missing key is [ErrNotFound].
func (s *Store) Get(group, key string) (string, error) {
	e, found, err := s.entry(group, key)
	if err == nil && !found {
		err = ErrNotFound
	}
	text := ""
	if err == nil {
		text, err = textOf(e.Value)
	}
	return text, s.fault("Get", err)
}

// Exists reports whether there is a key.
func (s *Store) Exists(group, key string) (bool, error) {
	_, found, err := s.entry(group, key)
	return found, s.fault("Exists", err)
}

func (s *Store) entry(group, key string) (kv.Entry, bool, error) {
	switch {
	case s.closed():
		return kv.Entry{}, false, ErrClosed
	case s.tx != nil:
		return s.tx.Get(s.ctx, keyOf(s.full(group), key))
	}
	return s.kv.Get(s.ctx, keyOf(s.full(group), key))
}

// GetSplit ranges over the parts of a value between separators.
func (s *Store) GetSplit(group, key, separator string) (iter.Seq[string], error) {
	text, err := s.Get(group, key)
	if err != nil {
		return nil, err
	}
	return strings.SplitSeq(text, separator), nil
}

// GetFields ranges over the parts of a value between white space.
func (s *Store) GetFields(group, key string) (iter.Seq[string], error) {
	text, err := s.Get(group, key)
	if err != nil {
		return nil, err
	}
	return strings.FieldsSeq(text), nil
}

// GetAll returns the keys and values of a group.
func (s *Store) GetAll(group string) (map[string]string, error) {
	all := make(map[string]string)
	for e, err := range s.all("GetAll", group) {
		if err != nil {
			return nil, err
		}
		all[e.Key] = e.Value
	}
	return all, nil
}

// All ranges over the keys and values of a group in the order of the keys, as of the beginning of
// the loop. The loop may change the store. An error ends it, and it may take up to an hour.
func (s *Store) All(group string) iter.Seq2[KeyValue, error] { return s.all("All", group) }

func (s *Store) all(op, group string) iter.Seq2[KeyValue, error] {
	return func(yield func(KeyValue, error) bool) {
		for it, err := range s.items(s.group(group),
			kv.ListConfig{Selection: kv.Selection{Prefix: prefixOf(s.full(group))}}) {
			e := KeyValue{Key: it.key}
			if err == nil {
				e.Value, err = textOf(it.value)
			}
			if err != nil {
				yield(KeyValue{}, s.fault(op, err))
				return
			}
			if !yield(e, nil) {
				return
			}
		}
	}
}

// AllSeq is All.
func (s *Store) AllSeq(group string) iter.Seq2[KeyValue, error] { return s.All(group) }

// GetPage returns up to limit keys and values of a group, after the first offset ones, in the order
// of the keys. An offset is up to [MaxOffset]. After changes, the next page may repeat or miss
// keys; with [Store.GetPageAfter] it does not.
func (s *Store) GetPage(group string, offset, limit int) ([]KeyValue, error) {
	if offset < 0 || limit < 0 {
		return nil, s.fault("GetPage",
			host.Errorf(host.InvalidArgument, "the offset %d or the limit %d is negative", offset, limit))
	}
	if offset > MaxOffset {
		return nil, s.fault("GetPage", host.OverLimit("offset", MaxOffset, int64(offset)).With("field", "offset"))
	}
	return s.page("GetPage", s.group(group), kv.Selection{Prefix: prefixOf(s.full(group))}, offset, limit)
}

// GetPageAfter returns up to limit keys and values of a group, in the order of the keys, from the
// first key greater than after.
func (s *Store) GetPageAfter(group, after string, limit int) ([]KeyValue, error) {
	if limit < 0 {
		return nil, s.fault("GetPageAfter", host.Errorf(host.InvalidArgument, "the limit %d is negative", limit))
	}
	// The key after comes first, if it exists.
	of := kv.Selection{Start: keyOf(s.full(group), after), End: append(prefixOf(s.full(group)), endOfKeys)}
	match := s.group(group)
	return s.page("GetPageAfter", func(it *item) bool { return match(it) && it.key > after }, of, 0, limit)
}

func (s *Store) page(op string, match func(*item) bool, of kv.Selection, offset, limit int) ([]KeyValue, error) {
	list := []KeyValue{}
	if s.closed() {
		return nil, s.fault(op, ErrClosed)
	}
	if limit == 0 {
		return list, nil
	}
	for it, err := range s.items(match,
		kv.ListConfig{Selection: of, Limit: min(offset+min(limit, pageSize)+1, pageSize)}) {
		text := ""
		if err == nil && offset > 0 {
			offset--
			continue
		}
		if err == nil {
			text, err = textOf(it.value)
		}
		if err != nil {
			return nil, s.fault(op, err)
		}
		if list = append(list, KeyValue{it.key, text}); len(list) == limit {
			break
		}
	}
	return list, nil
}

// Count returns how many keys a group has. It reads them all.
func (s *Store) Count(group string) (int, error) {
	n := 0
	for _, err := range s.items(s.group(group),
		kv.ListConfig{Selection: kv.Selection{Prefix: prefixOf(s.full(group))}, KeysOnly: true}) {
		if err != nil {
			return 0, s.fault("Count", err)
		}
		n++
	}
	return n, nil
}

// GroupExists reports whether a group has a key.
func (s *Store) GroupExists(group string) (bool, error) {
	for _, err := range s.items(s.group(group),
		kv.ListConfig{Selection: kv.Selection{Prefix: prefixOf(s.full(group))}, KeysOnly: true, Limit: 100}) {
		return err == nil, s.fault("GroupExists", err)
	}
	return false, nil
}

// CountAll returns the number of keys in the groups whose names begin with prefix, "" for all.
// Upper and lower case differ. It reads the keys, except for a whole namespace with a quota.
func (s *Store) CountAll(prefix string) (int, error) {
	n := int64(0)
	err := s.groups(prefix, func(_ string, keys int64) bool { n += keys; return true })
	return int(n), s.fault("CountAll", err)
}

// Groups returns the groups whose names begin with prefix, in order. In a namespace, the names are
// without the namespace.
func (s *Store) Groups(prefix string) ([]string, error) {
	list := []string{}
	for group, err := range s.groupsSeq("Groups", prefix) {
		if err != nil {
			return nil, err
		}
		list = append(list, group)
	}
	slices.Sort(list)
	return list, nil
}

// GroupsSeq ranges over the groups whose names begin with prefix, each once, namespace by
// namespace. An error ends the loop.
func (s *Store) GroupsSeq(prefix string) iter.Seq2[string, error] {
	return s.groupsSeq("GroupsSeq", prefix)
}

func (s *Store) groupsSeq(op, prefix string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		seen, first := make(map[string]bool), any(nil)
		err := s.groups(prefix, func(group string, _ int64) bool {
			// A group and the groups of a namespace with its name alternate.
			if part := prefixOf(group)[0]; part != first {
				first = part
				clear(seen)
			}
			if seen[group] {
				return true
			}
			seen[group] = true
			return yield(strings.TrimPrefix(group, s.namespace), nil)
		})
		if err != nil {
			yield("", s.fault(op, err))
		}
	}
}

// groups visits the groups whose names begin with prefix, with a number of keys. It visits a group
// once, or once for each of its keys.
func (s *Store) groups(prefix string, visit func(group string, keys int64) bool) error {
	if s.closed() {
		return ErrClosed
	}
	prefix = s.namespace + prefix
	of := beginning(prefix)
	if s.tx == nil && len(of.Prefix) == 1 { // all of a namespace
		if counted, err := s.counted(of.Prefix, visit); counted || err != nil {
			return err
		}
	}
	for it, err := range s.items(func(it *item) bool { return strings.HasPrefix(it.group, prefix) },
		kv.ListConfig{Selection: of, KeysOnly: true}) {
		if err != nil {
			return err
		}
		if !visit(it.group, 1) {
			return nil
		}
	}
	return nil
}

// counted is groups for a namespace whose scope counts its groups; it returns false for others.
func (s *Store) counted(namespace kv.Key, visit func(group string, keys int64) bool) (bool, error) {
	for g, err := range s.kv.Groups(s.ctx, namespace) {
		switch code := host.CodeOf(err); {
		case code == host.NotFound || code == host.FailedPrecondition:
			return false, nil
		case err != nil:
			return false, err
		}
		if group, ok := groupOf(append(namespace[:1:1], g.Part...)); ok && !visit(group, g.Keys) {
			break
		}
	}
	return true, nil
}

// Render fills a template of text/template with the values of a group: the value of the key a is
// {{.a}}, or {{get "a-b"}} if the name is no identifier. An absent key becomes <no value>. See
// [kv.RenderConfig] for the functions and bounds. Render fails in a transaction.
func (s *Store) Render(template, group string) (string, error) {
	return s.render(template, group, false)
}

// RenderStrict is Render, except that it fails for an absent key.
func (s *Store) RenderStrict(template, group string) (string, error) {
	return s.render(template, group, true)
}

func (s *Store) render(template, group string, strict bool) (string, error) {
	switch {
	case s.closed():
		return "", s.fault("Render", ErrClosed)
	case s.tx != nil:
		return "", s.fault("Render",
			host.Errorf(host.FailedPrecondition, "a template sees what is committed, so a transaction cannot use it"))
	}
	text, err := s.kv.Render(s.ctx,
		kv.RenderConfig{Template: template, Prefix: prefixOf(s.full(group)), Strict: strict})
	switch host.CodeOf(err) {
	case host.InvalidArgument:
		return "", s.fault("Render: parse", err)
	default:
		return text, s.fault("Render: exec", err)
	}
}

// An item is an entry of a group.
type item struct {
	group, key string
	value      kv.Value
}

// group matches the items of a group.
func (s *Store) group(name string) func(*item) bool {
	if s == nil {
		return nil
	}
	name = s.full(name)
	return func(it *item) bool { return it.group == name }
}

// items ranges over the items of a listing that match.
func (s *Store) items(match func(*item) bool, c kv.ListConfig) iter.Seq2[item, error] {
	return func(yield func(item, error) bool) {
		for e, err := range s.list(c) {
			if err != nil {
				yield(item{}, err)
				return
			}
			group, key, ok := split(e.Key)
			if it := (item{group, key, e.Value}); ok && match(&it) && !yield(it, nil) {
				return
			}
		}
	}
}

const (
	pageSize = 1000
	// pinned is how long a listing of more than one page may take.
	pinned = time.Hour
)

// list ranges over entries as of one commit, or page by page if the config has a limit.
func (s *Store) list(c kv.ListConfig) iter.Seq2[kv.Entry, error] {
	partial := c.Limit > 0
	if !partial {
		c.Limit = pageSize
	}
	switch {
	case s.closed():
		return func(yield func(kv.Entry, error) bool) { yield(kv.Entry{}, ErrClosed) }
	case s.tx != nil:
		return s.tx.All(s.ctx, c)
	case partial:
		return s.kv.All(s.ctx, c)
	}
	return func(yield func(kv.Entry, error) bool) {
		page, err := s.kv.List(s.ctx, c)
		if err != nil {
			yield(kv.Entry{}, err)
			return
		}
		if page.Cursor == "" {
			for _, e := range page.Entries {
				if !yield(e, nil) {
					return
				}
			}
			return
		}
		snapshot, err := s.kv.Pin(s.ctx, pinned)
		if err != nil {
			yield(kv.Entry{}, err)
			return
		}
		defer func() { _ = snapshot.Release(context.WithoutCancel(s.ctx)) }() // it also ends by itself
		for e, err := range snapshot.All(s.ctx, c) {
			if !yield(e, err) {
				return
			}
		}
	}
}
