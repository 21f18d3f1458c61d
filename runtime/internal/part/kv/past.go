package kv

import (
	"cmp"
	"errors"
	"strconv"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/kv"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/runtime/internal/kernel"
	"github.com/cairn-run/cairn/runtime/internal/kernel/clock"
	"github.com/cairn-run/cairn/runtime/internal/kernel/fault"
	kvrows "github.com/cairn-run/cairn/runtime/internal/part/kv/rows"
	"github.com/cairn-run/cairn/runtime/internal/part/kv/value"
)

// at returns a reader of what was when a version was committed; 0 is the last one.
func (r *reader) at(version uint64) (*reader, error) {
	if version == 0 {
		return r, nil
	}
	if version > uint64(r.version) {
		return nil, host.Errorf(host.InvalidArgument, "version %d is not committed; the last one is %d", version, r.version).With("field", "at")
	}
	past, err := kvrows.At(r.rows, engine.Version(version), r.version, r.now.UnixMilli())
	if err != nil {
		return nil, err
	}
	then := *r
	then.rows = pastRows{past}
	return &then, nil
}

// pastRows has the user keys of a past version, for code that reads rows.
type pastRows struct{ *kvrows.Past }

// Get implements engine.Reader.
func (p pastRows) Get(key []byte) (engine.Entry, bool, error) {
	if !keyspace.UserKV.Has(key) {
		return engine.Entry{}, false, nil
	}
	v, there, err := p.Past.Get(key)
	if err != nil || !there {
		return engine.Entry{}, false, trimmed(err)
	}
	return entryAt(key, &v), true, nil
}

// List implements engine.Reader.
func (p pastRows) List(q engine.ListQuery) (page engine.Page, err error) {
	start, end, size := q.Start, q.End, 0
	switch {
	case q.After == nil:
	case q.Reverse:
		end = q.After
	default:
		start = append(q.After[:len(q.After):len(q.After)], 0)
	}
	limit, most := cmp.Or(q.Limit, engine.DefaultListEntries), cmp.Or(q.MaxBytes, engine.DefaultListBytes)
	for f, err := range p.All(start, end, q.Reverse) {
		if err != nil {
			return engine.Page{}, trimmed(err)
		}
		if n := len(page.Entries); n == limit || n > 0 && size >= most {
			page.Next = page.Entries[n-1].Key
			return page, nil
		}
		e := entryAt(f.Key, &f.Version)
		if q.KeysOnly {
			e.Value = nil
		}
		size += len(e.Key) + len(e.Value)
		page.Entries = append(page.Entries, e)
	}
	return page, nil
}

func entryAt(key []byte, v *kvrows.Version) engine.Entry {
	return engine.Entry{
		Key: key, Value: v.Value, Version: v.Version, Created: v.Created, Updated: v.Time, Expire: v.Expire, Size: len(v.Value), Encoding: v.Encoding, Found: true,
	}
}

// reasonTrimmed is in the metadata of an error about what is not known any longer.
const reasonTrimmed = "history_trimmed"

// trimmed makes an error of the past one for callers.
func trimmed(err error) error {
	t, ok := errors.AsType[*kvrows.TrimmedError](err)
	if !ok {
		return err
	}
	e := host.Errorf(host.FailedPrecondition, "what was at version %d is not known", t.Requested).With("reason", reasonTrimmed)
	if t.Earliest != 0 {
		e.Message += ", only from version " + strconv.FormatUint(uint64(t.Earliest), 10) + " on"
		e = e.With("earliest", strconv.FormatUint(uint64(t.Earliest), 10))
	}
	return e
}

var opWords = map[kvrows.Kind]string{kvrows.Set: "put", kvrows.Deleted: "delete", kvrows.Expired: "expire"}

// history implements kv.history.
func history(r *reader, in *kv.HistoryInput) (kv.HistoryOutput, error) {
	key, err := packed(in.Key)
	if err != nil {
		return kv.HistoryOutput{}, of("key", err)
	}
	list, more, floor, err := kvrows.History(r.rows, keyspace.UserKV.Append(nil, key), engine.Version(in.Before), cmp.Or(in.Limit, kv.DefaultPage), r.now.UnixMilli())
	if err != nil {
		return kv.HistoryOutput{}, err
	}
	out, size := kv.HistoryOutput{Versions: []kv.Version{}, Floor: uint64(floor)}, 0
	for i := range list {
		v := &list[i]
		if size >= pageBytes {
			more = true
			break
		}
		shown := kv.Version{Version: uint64(v.Version), Op: opWords[v.Kind], Time: clock.TimeMS(v.Time).UTC()}
		if v.Kind == kvrows.Set {
			if v.Expire != 0 {
				at := clock.TimeMS(v.Expire).UTC()
				shown.Expires = &at
			}
			if shown.Value, shown.Encoding, err = show(r.codec, value.Value{Encoding: host.Encoding(v.Encoding), Data: v.Value}); err != nil {
				return kv.HistoryOutput{}, err
			}
		}
		size += len(v.Value)
		out.Versions = append(out.Versions, shown)
	}
	if more && len(out.Versions) > 0 {
		out.Next = out.Versions[len(out.Versions)-1].Version
	}
	return out, nil
}

// pin implements kv.pin.
func pin(_ *kernel.Core, t *kernel.Turn, _ host.Codec, in *kv.PinInput) (kv.PinOutput, error) {
	ttl := time.Duration(cmp.Or(in.TTLMS, kv.DefaultPin)) * time.Millisecond
	version, err := storeOf(t.Core).Pin(ttl)
	return kv.PinOutput{Version: uint64(version), Expires: clock.TimeMS(t.Start.Add(ttl).UnixMilli()).UTC()}, fault.Limit(err)
}

// unpin implements kv.unpin.
func unpin(_ *kernel.Core, t *kernel.Turn, _ host.Codec, in *kv.UnpinInput) (kv.UnpinOutput, error) {
	if in.Version == 0 {
		return kv.UnpinOutput{}, host.Errorf(host.InvalidArgument, "the version is missing").With("field", "version")
	}
	removed, err := storeOf(t.Core).Unpin(engine.Version(in.Version))
	return kv.UnpinOutput{Removed: removed}, err
}
