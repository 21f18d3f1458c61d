package actor_test

import (
	"context"
	"fmt"

	"github.com/cairn-run/cairn/actor"
)

func ExampleCode() {
	for _, c := range []actor.Code{
		actor.InvalidArgument, actor.Unauthenticated, actor.PermissionDenied, actor.NotFound, actor.UnknownType, actor.UnknownMethod,
		actor.AlreadyExists, actor.FailedPrecondition, actor.Cycle, actor.Overloaded, actor.Canceled, actor.DeadlineExceeded,
		actor.TooLarge, actor.QuotaExceeded, actor.IdempotencyMismatch, actor.ReadOnly, actor.Destroyed, actor.StateTooNew,
		actor.ActorFailed, actor.ActorPaused, actor.Crashed, actor.Unavailable, actor.Internal,
	} {
		fmt.Println(c)
	}
	err := fmt.Errorf("cart: %w", actor.Errorf(actor.NotFound, "no article %q", "tea"))
	fmt.Println(actor.CodeOf(err) == actor.NotFound, actor.CodeOf(context.Canceled) == actor.Canceled)
	// Output:
	// invalid_argument
	// unauthenticated
	// permission_denied
	// not_found
	// unknown_type
	// unknown_method
	// already_exists
	// failed_precondition
	// cycle
	// overloaded
	// canceled
	// deadline_exceeded
	// too_large
	// quota_exceeded
	// idempotency_mismatch
	// read_only
	// destroyed
	// state_too_new
	// actor_failed
	// actor_paused
	// crashed
	// unavailable
	// internal
	// true true
}
