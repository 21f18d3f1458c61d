// Package limit has the limits of actors: the defaults, the limits of types, and the limits that
// operators set for single actors.
package limit

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/runtime/internal/kernel/rate"
)

// The defaults of the limits.
const (
	DefaultTurnTimeout  = 30 * time.Second
	DefaultQueryTimeout = 10 * time.Second
	DefaultMailboxCount = 4096
	DefaultMailboxBytes = 32 << 20
	DefaultStateBytes   = 16 << 20
	DefaultEventHistory = 256
	DefaultSendAttempts = 16
	DefaultTaskGrace    = 5 * time.Second
)

// Defaults are the limits of types that set none, on a node that sets none. For fields that are 0,
// the engine or a part has the default.
func Defaults() host.Limits {
	return host.Limits{
		TurnTimeout: DefaultTurnTimeout, QueryTimeout: DefaultQueryTimeout, MailboxCount: DefaultMailboxCount, MailboxBytes: DefaultMailboxBytes,
		StateBytes: DefaultStateBytes, EventHistory: DefaultEventHistory, SendAttempts: DefaultSendAttempts, Connections: host.DefaultConnections,
		ConnectionBytes: host.DefaultConnectionBytes, ConnectionGrace: host.DefaultConnectionGrace, TaskGrace: DefaultTaskGrace,
	}
}

// Resolve returns l with the fields that are not set taken from d.
func Resolve(l, d host.Limits) host.Limits {
	set(&l.TurnTimeout, d.TurnTimeout)
	set(&l.QueryTimeout, d.QueryTimeout)
	set(&l.MailboxCount, d.MailboxCount)
	set(&l.MailboxBytes, d.MailboxBytes)
	set(&l.StateBytes, d.StateBytes)
	set(&l.ValueBytes, d.ValueBytes)
	set(&l.StorageBytes, d.StorageBytes)
	set(&l.WriteSetBytes, d.WriteSetBytes)
	set(&l.EventHistory, d.EventHistory)
	set(&l.SendAttempts, d.SendAttempts)
	set(&l.CallRate, d.CallRate)
	set(&l.CallBurst, d.CallBurst)
	set(&l.Connections, d.Connections)
	set(&l.ConnectionBytes, d.ConnectionBytes)
	set(&l.ConnectionGrace, d.ConnectionGrace)
	set(&l.TaskGrace, d.TaskGrace)
	set(&l.SQLMemoryBytes, d.SQLMemoryBytes)
	set(&l.SQLTemporaryBytes, d.SQLTemporaryBytes)
	set(&l.SQLTurnBytes, d.SQLTurnBytes)
	set(&l.SQLValueBytes, d.SQLValueBytes)
	return l
}

// set sets *p to v if it is zero.
func set[T comparable](p *T, v T) {
	var zero T
	if *p == zero {
		*p = v
	}
}

// A Set is the limits of an actor, or of a type, with values derived from them. It is immutable.
type Set struct {
	host.Limits
	Storage *engine.Limits
	// Roomy is Storage for turns that run no code of the actor and must not fail because its write
	// set is small: the verbs of operators, and the settlement of messages that were sent. It is
	// Storage if that is as large as the default.
	Roomy *engine.Limits
	Rate  *rate.Limit // of calls from outside; nil for none
}

// An Error says which limit of an actor, or of its type, is not possible.
type Error struct {
	// Name is the limit's name in requests and in the configuration file.
	Name string
	// Reason follows the name in the text.
	Reason string
	// Limit and Actual are the bound and the value that passes it, if the fault is about a bound.
	Limit, Actual int64
}

// Error returns the name and the reason.
func (e *Error) Error() string { return e.Name + " " + e.Reason }

// engineLimits are the names of the limits that the engine checks.
var engineLimits = map[string]string{"MaxValue": "value_bytes", "MaxWriteSet": "write_set_bytes",
	"Quota": "storage_bytes"}

// New checks limits, the limits of parts by the parts. The error is an *Error.
func New[Part interface{ CheckLimits(host.Limits) error }](l host.Limits, parts []Part) (*Set, error) {
	a := &Set{Limits: l,
		Storage: &engine.Limits{MaxValue: l.ValueBytes, MaxWriteSet: l.WriteSetBytes, Quota: l.StorageBytes}}
	a.Storage.EnsureDefaults()
	if fault, ok := errors.AsType[*engine.RangeError](a.Storage.Validate()); ok {
		e := &Error{Name: engineLimits[fault.Field], Limit: fault.High, Actual: fault.Value}
		if fault.Value < fault.Low {
			e.Limit = fault.Low
		}
		e.Reason = fmt.Sprintf("is %d; it must be from %d to %d", fault.Value, fault.Low, fault.High)
		return nil, e
	}
	if a.Roomy = a.Storage; a.Storage.MaxWriteSet < engine.DefaultMaxWriteSet {
		roomy := *a.Storage
		roomy.MaxWriteSet = engine.DefaultMaxWriteSet
		a.Roomy = &roomy
	}
	if err := CheckRate(l); err != nil {
		return nil, err
	}
	for _, p := range parts {
		if err := p.CheckLimits(l); err != nil {
			return nil, err
		}
	}
	for _, n := range []struct {
		name     string
		value    any
		negative bool
	}{
		{"turn_timeout", l.TurnTimeout, l.TurnTimeout < 0}, {"query_timeout", l.QueryTimeout, l.QueryTimeout < 0},
		{"mailbox_count", l.MailboxCount, l.MailboxCount < 0}, {"mailbox_bytes", l.MailboxBytes, l.MailboxBytes < 0},
		{"state_bytes", l.StateBytes, l.StateBytes < 0}, {"send_attempts", l.SendAttempts, l.SendAttempts < 0},
		{"connections", l.Connections, l.Connections < 0}, {"connection_bytes", l.ConnectionBytes,
			l.ConnectionBytes < 0},
		{"connection_grace", l.ConnectionGrace, l.ConnectionGrace < 0}, {"task_grace", l.TaskGrace, l.TaskGrace < 0},
	} {
		if n.negative {
			return nil, &Error{Name: n.name, Reason: fmt.Sprintf("is %v; it must not be negative", n.value)}
		}
	}
	if l.CallRate > 0 {
		a.Rate = rate.New(l.CallRate, l.CallBurst)
	}
	return a, nil
}

// CheckRate checks the rate of calls in l. The error is an *Error.
func CheckRate(l host.Limits) error {
	switch {
	case l.CallRate < 0 || math.IsNaN(l.CallRate) || math.IsInf(l.CallRate, 0):
		return &Error{Name: "call_rate", Reason: fmt.Sprintf("is %v, which is not a rate", l.CallRate)}
	case l.CallBurst < 0:
		return &Error{Name: "call_burst", Reason: fmt.Sprintf("is %d; it must not be negative", l.CallBurst)}
	case l.CallRate > 0 && max(1, float64(l.CallBurst))/l.CallRate > rate.MaxFill.Seconds():
		return &Error{Name: "call_burst",
			Reason: fmt.Sprintf("is %d, which takes more than a hundred years at a call_rate of %v",
				l.CallBurst, l.CallRate)}
	}
	return nil
}
