package admin

import (
	"errors"
	"math"
	"strconv"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/runtime/internal/kernel"
	"github.com/cairn-run/cairn/runtime/internal/record"
)

// ControlRecord is the value of KindControl: what operators have set. An actor has one while it is paused or has limits of its
// own. Its row at 0 of the wake index is of kind WakePaused.
type ControlRecord struct {
	_      struct{} `cbor:",toarray"`
	Reason string
	Since  int64         // unix milliseconds; 0 if it is not paused
	Limits []LimitRecord // records of earlier versions have none
}

// LimitRecord is a limit of one actor.
type LimitRecord struct {
	_     struct{} `cbor:",toarray"`
	Name  string
	Whole int64
	Rate  float64
}

// controlKey is the logical key of what operators have set.
var controlKey = keyspace.AppendControl(nil)

// empty reports that operators have set nothing.
func (r *ControlRecord) empty() bool { return r.Since == 0 && len(r.Limits) == 0 }

// Pause returns the pause of a record, or nil.
func (r *ControlRecord) Pause() *host.Pause {
	if r.Since == 0 {
		return nil
	}
	return &host.Pause{Reason: r.Reason, Since: kernel.TimeMS(r.Since).UTC()}
}

// limited returns the limits of a record. One that this version does not know is passed over.
func (r *ControlRecord) limited() (set host.ActorLimits) {
	for _, l := range r.Limits {
		for _, f := range set.Fields() {
			switch {
			case f.Name != l.Name:
			case f.Whole != nil:
				*f.Whole = &l.Whole
			default:
				*f.Rate = &l.Rate
			}
		}
	}
	return set
}

// readControl reads what operators have set; the zero record if that is nothing.
func readControl(r engine.Reader) (rec ControlRecord, err error) {
	e, ok, err := r.Get(controlKey)
	if err != nil || !ok {
		return rec, err
	}
	return rec, record.Decode(e.Value, &rec)
}

// putControl writes what operators have set, or removes it if that is nothing.
func putControl(c *kernel.Core, rec ControlRecord) error {
	if rec.empty() {
		c.Arm(keyspace.WakePaused, false)
		_, err := c.Rows.Delete(controlKey)
		return err
	}
	value, err := record.Encode(&rec)
	if err != nil {
		return err
	}
	if err := c.Rows.Put(controlKey, value, engine.PutOptions{Exempt: true}); err != nil {
		return err
	}
	c.Arm(keyspace.WakePaused, true)
	return nil
}

// limitsOf makes the limits that operators have set for an actor of a type; nil if there are none. The error is one for the
// operator.
func limitsOf(t *kernel.Type, set host.ActorLimits) (*kernel.ActorLimits, error) {
	if set.Empty() {
		return nil, nil
	}
	for _, f := range set.Fields() {
		if f.Whole != nil && *f.Whole != nil && (**f.Whole < 1 || **f.Whole > math.MaxInt) {
			return nil, host.Errorf(host.InvalidArgument, "%s is %d; it must be 1 or more", f.Name, **f.Whole).With("field", f.Name)
		}
	}
	l, err := kernel.NewActorLimits(set.Apply(t.Base.Limits), t.Hooks.Limiters)
	if fault, ok := errors.AsType[*kernel.LimitsError](err); ok {
		e := host.Errorf(host.InvalidArgument, "%s", fault).With("field", fault.Name)
		if fault.Limit != 0 {
			e = e.With("limit", strconv.FormatInt(fault.Limit, 10)).With("actual", strconv.FormatInt(fault.Actual, 10))
		}
		return nil, e
	}
	return l, err
}

// Start implements kernel.Runner: it reads which actors are paused or have limits of their own.
func (*Part) Start(s *kernel.Kernel) {
	var after []byte
	for {
		rows, err := s.Store.Wakes(after, 0, 1024)
		if err != nil {
			s.Logger.Error("read which actors are paused", "error", err)
			return
		}
		for _, row := range rows {
			if row.Kind == keyspace.WakePaused {
				if err := load(s, row); err != nil {
					s.Logger.Error("read why an actor is paused", "actor_id", row.ID.String(), "error", err)
				}
			}
		}
		if len(rows) < 1024 {
			return
		}
		after = rows[len(rows)-1].Row
	}
}

// Stop implements kernel.Runner.
func (*Part) Stop(*kernel.Kernel) {}

// load reads what operators have set for the actor of a row.
func load(s *kernel.Kernel, row engine.Wake) error {
	ident, _, ok, err := s.Store.Identity(row.ID)
	if err != nil {
		return err
	}
	snap := s.Store.Snapshot(row.ID)
	defer snap.Close()
	rec, err := readControl(snap)
	if err != nil {
		return err
	}
	if !ok || rec.empty() {
		return s.Store.DropWakes([][]byte{row.Row}) // nothing stands behind it
	}
	if ident.Namespace != s.Options.Namespace {
		return nil
	}
	key := string(kernel.AppendAddress(nil, host.Address{Type: ident.Type, Key: ident.Key}))
	if pause := rec.Pause(); pause != nil {
		s.Pauses.Set(key, *pause)
	}
	if t := s.Types[ident.Type]; t != nil {
		l, err := limitsOf(t, rec.limited())
		if err != nil {
			return err
		}
		s.Overrides.Put(key, l)
	}
	return nil
}

// Report implements survey.Reporter.
func (*Part) Report(rows *engine.Snapshot, st *host.Status) error {
	rec, err := readControl(rows)
	if err != nil {
		return err
	}
	if st.Pause = rec.Pause(); st.Pause != nil {
		st.State = host.Paused
	}
	if set := rec.limited(); !set.Empty() {
		st.Limits = &set
	}
	return nil
}

// Destroy implements kernel.Destroyer: what operators have set ends with the actor.
func (*Part) Destroy(t *kernel.Turn) error {
	rec, err := readControl(t.Core.Rows)
	if err != nil {
		return err
	}
	t.Core.Arm(keyspace.WakePaused, false)
	a := t.Actor
	if rec.Since != 0 {
		t.Then(func() { a.Kernel.Unpause(a.Key) })
	}
	if len(rec.Limits) > 0 {
		t.Then(func() { a.Kernel.Override(a, nil) })
	}
	return nil
}
