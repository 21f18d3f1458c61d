package kv

import (
	"cmp"
	"errors"
	"strconv"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/kv"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/runtime/internal/kernel"
	"github.com/cairn-run/cairn/runtime/internal/kernel/clock"
	"github.com/cairn-run/cairn/runtime/internal/kernel/fault"
	kvrows "github.com/cairn-run/cairn/runtime/internal/part/kv/rows"
	"github.com/cairn-run/cairn/runtime/internal/part/kv/value"
)

// moment returns a reader of a branch, as it is or was.
func (r *reader) moment(m *kv.Moment) (*reader, error) {
	if *m == (kv.Moment{}) {
		return r, nil
	}
	v, err := r.view(m)
	if err != nil {
		return nil, err
	}
	then := *r
	then.rows = viewRows{v}
	return &then, nil
}

// view returns the entries of a branch, as they are or were.
func (r *reader) view(m *kv.Moment) (*kvrows.View, error) {
	if m.At > uint64(r.version) {
		return nil, host.Errorf(host.InvalidArgument,
			"version %d is not committed; the last one is %d", m.At, r.version).With("field", "at")
	}
	if m.Time != nil {
		if m.At != 0 {
			return nil, host.Errorf(host.InvalidArgument, "at and time are both given").With("field", "time")
		}
		v, err := kvrows.LookBack(r.rows, m.Branch, m.Time.UnixMilli(), r.version, r.now.UnixMilli())
		return v, of("branch", branched(trimmed(err)))
	}
	v, err := kvrows.Look(r.rows, m.Branch, engine.Version(m.At), r.version, r.now.UnixMilli())
	return v, branched(trimmed(err))
}

// versioned is view for methods that compare versions.
func (r *reader) versioned(m *kv.Moment) (*kvrows.View, error) {
	if m.Time != nil {
		return nil, host.Errorf(host.InvalidArgument, "this is about versions, not times").With("field", "time")
	}
	return r.view(m)
}

// viewRows are the rows of a view, with errors for callers.
type viewRows struct{ *kvrows.View }

// Get implements engine.Reader.
func (v viewRows) Get(key []byte) (engine.Entry, bool, error) {
	e, there, err := v.Entry(key)
	return e, there, trimmed(err)
}

// List implements engine.Reader.
func (v viewRows) List(q engine.ListQuery) (engine.Page, error) {
	page, err := v.View.List(q)
	return page, trimmed(err)
}

// Each implements engine.Reader.
func (v viewRows) Each(q engine.ListQuery, visit func(*engine.Entry) bool) error {
	return trimmed(v.View.Each(q, visit))
}

// reasonTrimmed is in the metadata of an error about a forgotten past.
const reasonTrimmed = "history_trimmed"

// trimmed turns an error of the past into one for callers.
func trimmed(err error) error {
	t, ok := errors.AsType[*kvrows.TrimmedError](err)
	if !ok {
		return err
	}
	when := "version " + strconv.FormatUint(uint64(t.Requested), 10)
	if t.Requested == 0 {
		when = clock.TimeMS(t.Time).UTC().Format(time.RFC3339Nano)
	}
	e := host.Errorf(host.FailedPrecondition, "what was at %s is not known", when).With("reason", reasonTrimmed)
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
	row, err := kvrows.RowIn(r.rows, in.Branch, key)
	if err != nil {
		return kv.HistoryOutput{}, branched(err)
	}
	list, more, floor, err := kvrows.History(r.rows, row, engine.Version(in.Before),
		cmp.Or(in.Limit, kv.DefaultPage), r.now.UnixMilli())
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
			if shown.Value, shown.Encoding, err = show(r.codec,
				value.Value{Encoding: host.Encoding(v.Encoding), Data: v.Value}); err != nil {
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
	return kv.PinOutput{Version: uint64(version),
		Expires: clock.TimeMS(t.Start.Add(ttl).UnixMilli()).UTC()}, fault.Limit(err)
}

// unpin implements kv.unpin.
func unpin(_ *kernel.Core, t *kernel.Turn, _ host.Codec, in *kv.UnpinInput) (kv.UnpinOutput, error) {
	if in.Version == 0 {
		return kv.UnpinOutput{}, host.Errorf(host.InvalidArgument, "the version is missing").With("field", "version")
	}
	removed, err := storeOf(t.Core).Unpin(engine.Version(in.Version))
	return kv.UnpinOutput{Removed: removed}, err
}
