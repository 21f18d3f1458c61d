package kvrows

import (
	"bytes"
	"fmt"

	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/runtime/internal/record"
)

// Handled is the progress of the handler of a map's changes in the log.
type Handled struct {
	_ struct{} `cbor:",toarray"`
	// After is the position, if there is something to handle.
	After uint64
	// Due is when the handler goes on, in Unix milliseconds, which has a row in the wake index; 0
	// if there is nothing to handle.
	Due int64
	// Attempts counts how often the handler has failed at the next change.
	Attempts int
	// Missed counts the changes that the log no longer had, for the handler.
	Missed uint64
}

// ReadHandled returns the progress of the handler of a map.
func ReadHandled(rows engine.Reader, name string) (h Handled, err error) {
	e, there, err := rows.Get(keyspace.KVHandled.Append(nil, name))
	if err != nil || !there {
		return h, err
	}
	if err := record.Decode(e.Value, &h); err != nil {
		return h, fmt.Errorf("the handler of the changes of %q: %w", name, err)
	}
	return h, nil
}

// SetHandled stores the progress of the handler of a map, and when it goes on.
func (s *Store) SetHandled(name string, h Handled) error {
	was, err := ReadHandled(s.WriteSet, name)
	if err != nil {
		return err
	}
	data, err := record.Encode(&h)
	if err != nil {
		return err
	}
	if err := s.WriteSet.Put(keyspace.KVHandled.Append(nil, name), data, engine.PutOptions{Exempt: true}); err != nil {
		return err
	}
	if was.Due != 0 && was.Due != h.Due {
		s.ClearWake(was.Due, keyspace.WakeChange, name, "")
	}
	if h.Due != 0 {
		s.SetWake(h.Due, keyspace.WakeChange, name, "")
	}
	known := s.scopes
	if known.rung == nil {
		known.rung = make(map[string]bool)
	}
	known.rung[name], known.changed = h.Due != 0, max(known.changed, s.Version())
	return nil
}

// ring schedules the handler for the change that was logged last, if the key belongs to a map with
// a handler.
func (s *Store) ring(sc *Scope, at uint64) error {
	name := s.handler(sc)
	if name == "" || s.scopes.rung[name] {
		return nil
	}
	h, err := ReadHandled(s.WriteSet, name)
	if err != nil || h.Due != 0 {
		return err
	}
	return s.SetHandled(name, Handled{After: at - 1, Due: max(s.Now(), 1), Missed: h.Missed})
}

// handler returns the map whose handler handles changes of entries of a scope; "" if there is none.
func (s *Store) handler(sc *Scope) string {
	if len(s.scopes.Handlers) == 0 {
		return ""
	}
	for ; sc != nil; sc = sc.outer {
		for i := range s.scopes.Handlers {
			if h := &s.scopes.Handlers[i]; bytes.Equal(h.Prefix, sc.Prefix) {
				return h.Map
			}
		}
	}
	return ""
}

// A Handler is a map of the actor's type whose changes are handled.
type Handler struct {
	Map    string
	Prefix []byte
}

// AllHandled visits the progress of each handler of an actor.
func AllHandled(rows engine.Reader, visit func(name string, h Handled)) error {
	q := engine.ListQuery{}
	q.Start, q.End = keyspace.KVHandled.Range()
	var err error
	each(rows, q, func(e *engine.Entry, eerr error) bool {
		var name string
		var h Handled
		if err = eerr; err == nil {
			name, err = keyspace.KVHandled.Parse(e.Key)
		}
		if err == nil {
			err = record.Decode(e.Value, &h)
		}
		if err == nil {
			visit(name, h)
		}
		return err == nil
	})
	return err
}
