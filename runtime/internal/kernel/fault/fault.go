// Package fault makes the errors that callers of actors see. It keeps the causes that must not
// leave the node, and logs them under an id.
package fault

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/runtime/internal/kernel/address"
)

// Destroyed returns the error for followers of an actor that was destroyed.
func Destroyed() *host.Error { return host.Errorf(host.Destroyed, "the actor was destroyed") }

// Unavailable makes the error for a node that cannot take the call now and did nothing.
func Unavailable(message string) *host.Error {
	return host.Errorf(host.Unavailable, "%s", message).Retry()
}

// Uncertain makes the error for readers of an actor with a commit that never was durable.
func Uncertain(a host.Address) *host.Error {
	return host.Errorf(host.Unavailable,
		"the last commit of actor %s may be lost, because the disk failed before it was durable; "+
			"restart the node to see what was kept", address.Format(a)).With("reason", host.ReasonUncertain)
}

// DestroyedAt returns the error for calls to an actor that has been destroyed.
func DestroyedAt(addr host.Address) *host.Error {
	return host.Errorf(host.Destroyed, "the addressed actor %s was destroyed", address.Format(addr))
}

// Ended returns the error for a caller whose context has ended.
func Ended(ctx context.Context) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return host.Errorf(host.DeadlineExceeded, "the caller's deadline passed")
	}
	return host.Errorf(host.Canceled, "the caller gave up")
}

// NotFound returns the error for an address without an actor.
func NotFound(a host.Address) *host.Error {
	return host.Errorf(host.NotFound, "there is no actor %s", address.Format(a)).With("actor", address.Format(a))
}

// UnknownMethod returns the error for a method that the type does not have.
func UnknownMethod(typ, method string) *host.Error {
	return host.Errorf(host.UnknownMethod, "actor type %q has no method %q", typ, method).
		With("type", typ).With("method", method)
}

// UnknownType returns the error for a type that the node does not host.
func UnknownType(name string) *host.Error {
	return host.Errorf(host.UnknownType, "this node hosts no actor type %q", name).With("type", name)
}

// Overloaded makes the error for a bound that is reached, with the time after which another try may
// succeed.
func Overloaded(limit int64, after time.Duration, format string, args ...any) *host.Error {
	return host.Errorf(host.Overloaded, format, args...).Retry().
		With("limit", strconv.FormatInt(limit, 10)).
		With("retry_at", time.Now().Add(after).UTC().Format(time.RFC3339Nano))
}

// Cycle returns the error for a call that would make actors wait for each other.
func Cycle[A fmt.Stringer](cycle []A) error {
	names := make([]string, len(cycle))
	for i, a := range cycle {
		names[i] = a.String()
	}
	chain := strings.Join(names, " -> ")
	return host.Errorf(host.Cycle, "the call would make actors wait for each other: %s", chain).With("chain", chain)
}

// QueryWrites returns the error for a query that tries to write.
func QueryWrites() error {
	return host.Errorf(host.ReadOnly, "a query and its calls cannot change anything")
}

// TurnOver returns the error for a use of a turn whose handler has returned.
func TurnOver() error {
	return host.Errorf(host.FailedPrecondition,
		"the turn is over: a handler's context must not be used after it returned")
}

// Limit returns an error of the keyspace about a limit with the code by which handlers recognize
// it. It returns other errors as they are.
func Limit(err error) error {
	if errors.Is(err, &engine.LimitError{}) || errors.Is(err, &engine.QuotaError{}) {
		e, _ := Public(err, nil)
		return e
	}
	return err
}
