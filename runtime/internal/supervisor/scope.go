package supervisor

import (
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/runtime/internal/schedule"
	"github.com/cairn-run/cairn/runtime/internal/streamlog"
)

// A scope is what a turn and a query have in common: rows of an actor as of one version, which a handler may read until it
// returns.
type scope interface {
	// enter locks the scope for one operation of the handler, and leave unlocks it.
	enter() error
	leave()
	// reader returns the rows.
	//
	// REQUIRES: enter
	reader() (engine.Reader, error)
	// now is the time as of which they are read, and id the actor's.
	now() time.Time
	id() keyspace.ActorID
}

// reading reads rows of a scope.
func reading[T any](s scope, read func(engine.Reader) (T, error)) (v T, err error) {
	if err := s.enter(); err != nil {
		return v, err
	}
	defer s.leave()
	rows, err := s.reader()
	if err != nil {
		return v, err
	}
	return read(rows)
}

// reads is what handlers read in turns and queries alike, as a part of host.Reader.
type reads struct {
	of  scope
	typ *actorType
}

// KVGet implements host.Reader.
func (r *reads) KVGet(key []byte) (e host.KVEntry, ok bool, err error) {
	e, err = reading(r.of, func(rows engine.Reader) (host.KVEntry, error) {
		var stored engine.Entry
		stored, ok, err = rows.Get(keyspace.AppendUserKV(nil, key))
		return kvEntry(stored), err
	})
	return e, ok, err
}

// KVList implements host.Reader.
func (r *reads) KVList(q host.KVQuery) (host.KVPage, error) {
	return reading(r.of, func(rows engine.Reader) (host.KVPage, error) { return kvList(rows, q) })
}

// Connections implements host.Reader.
func (r *reads) Connections(after string, limit int) ([]host.ConnectionState, error) {
	return reading(r.of, func(rows engine.Reader) ([]host.ConnectionState, error) { return connectionStates(rows, after, limit) })
}

// Connection implements host.Reader.
func (r *reads) Connection(id string) (state host.ConnectionState, ok bool, err error) {
	state, err = reading(r.of, func(rows engine.Reader) (host.ConnectionState, error) {
		var rec connectionRecord
		if rec, ok, err = readConnection(rows, id); !ok || err != nil {
			return host.ConnectionState{}, err
		}
		return rec.state(id), nil
	})
	return state, ok, err
}

// Schedules implements host.Reader.
func (r *reads) Schedules(name string) ([]host.Schedule, error) {
	return reading(r.of, func(rows engine.Reader) ([]host.Schedule, error) { return schedule.List(rows, name) })
}

// StreamInfo implements host.Reader.
func (r *reads) StreamInfo(stream string) (host.StreamInfo, error) {
	_, cfg, err := r.typ.streamOf(stream)
	if err != nil {
		return host.StreamInfo{}, err
	}
	return reading(r.of, func(rows engine.Reader) (host.StreamInfo, error) {
		info, err := streamlog.Info(rows, r.of.now(), cfg, stream)
		info.Life = r.of.id().String()
		return info, err
	})
}

// StreamRead implements host.Reader.
func (r *reads) StreamRead(stream string, after uint64, limit int) (host.StreamPage, error) {
	_, cfg, err := r.typ.streamOf(stream)
	if err != nil {
		return host.StreamPage{}, err
	}
	return reading(r.of, func(rows engine.Reader) (host.StreamPage, error) {
		return streamlog.Read(rows, r.of.now(), cfg, stream, after, limit, 0)
	})
}
