// Package control reads and writes the settings of operators for one actor: that it is paused, and
// limits of its own.
package control

import (
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/runtime/internal/record"
)

// A Record is the value of KindControl. Its fields are the format on the disk.
//
// Invariant: an actor has a record while it is paused or has limits of its own, and no longer.
type Record struct {
	_      struct{} `cbor:",toarray"`
	Reason string
	Since  int64   // unix milliseconds; 0 if the actor is not paused
	Limits []Limit // records of earlier versions have none
}

// A Limit is a limit of one actor. One of the values counts.
type Limit struct {
	_     struct{} `cbor:",toarray"`
	Name  string
	Whole int64
	Rate  float64
}

// key is the logical key of the record.
var key = keyspace.Control.Append(nil)

// Read reads the record of an actor; the zero record if it has none.
func Read(rows engine.Reader) (r Record, err error) {
	e, ok, err := rows.Get(key)
	if err != nil || !ok {
		return r, err
	}
	return r, record.Decode(e.Value, &r)
}

// Write writes the record, or removes it if it is empty.
func (r *Record) Write(rows engine.Writer) error {
	if r.Empty() {
		_, err := rows.Delete(key)
		return err
	}
	value, err := record.Encode(r)
	if err != nil {
		return err
	}
	return rows.Put(key, value, engine.PutOptions{Exempt: true})
}

// Empty reports whether operators have set nothing.
func (r *Record) Empty() bool { return r.Since == 0 && len(r.Limits) == 0 }

// Pause returns the pause of the actor, or nil.
func (r *Record) Pause() *host.Pause {
	if r.Since == 0 {
		return nil
	}
	return &host.Pause{Reason: r.Reason, Since: time.UnixMilli(r.Since).UTC()}
}

// SetPause sets the pause of the actor; nil removes it.
func (r *Record) SetPause(p *host.Pause) {
	if r.Reason, r.Since = "", 0; p != nil {
		r.Reason, r.Since = p.Reason, p.Since.UnixMilli()
	}
}

// Override returns the limits of the actor. It leaves out a limit that this version does not know.
func (r *Record) Override() (over host.ActorLimits) {
	for _, l := range r.Limits {
		for _, f := range over.Fields() {
			switch {
			case f.Name != l.Name:
			case f.Whole != nil:
				*f.Whole = &l.Whole
			default:
				*f.Rate = &l.Rate
			}
		}
	}
	return over
}

// SetOverride sets the limits of the actor.
func (r *Record) SetOverride(over *host.ActorLimits) {
	r.Limits = nil
	for _, f := range over.Fields() {
		switch {
		case f.Whole != nil && *f.Whole != nil:
			r.Limits = append(r.Limits, Limit{Name: f.Name, Whole: **f.Whole})
		case f.Rate != nil && *f.Rate != nil:
			r.Limits = append(r.Limits, Limit{Name: f.Name, Rate: **f.Rate})
		}
	}
}
