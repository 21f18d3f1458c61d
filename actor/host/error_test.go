package host

import (
	"context"
	"errors"
	"fmt"
	"testing"
)

func TestErrorsHaveTheirCodes(t *testing.T) {
	err := fmt.Errorf("call: %w", Errorf(NotFound, "no actor %q", "a"))
	if !errors.Is(err, &Error{Code: NotFound}) || errors.Is(err, &Error{Code: Internal}) {
		t.Errorf("%v does not match by its code alone", err)
	}
	for _, c := range []struct {
		err  error
		want Code
	}{
		{nil, ""}, {Errorf(Cycle, ""), Cycle}, {fmt.Errorf("wrapped: %w", Errorf(Overloaded, "")),
			Overloaded}, {context.Canceled, Canceled},
		{fmt.Errorf("wrapped: %w", context.DeadlineExceeded), DeadlineExceeded}, {errors.New("secret"), Internal},
	} {
		got := CodeOf(c.err)
		errorIf(t, got != c.want, "CodeOf(%v) = %q, want %q", c.err, got, c.want)
	}
	seen := make(map[Code]bool)
	for _, c := range Codes() {
		errorIf(t, !c.Known() || seen[c], "code %q is unknown or listed twice", c)
		seen[c] = true
	}
	errorIf(t, Code("").Known() || Code("made_up").Known(), "a code that is not listed is known")
}

func TestWithAndRetryLeaveTheirReceiverAlone(t *testing.T) {
	e := Errorf(Unavailable, "busy")
	f := e.With("reason", "disk_full").Retry()
	g := f.With("reason", "other")
	if e.Metadata != nil || e.Retryable || f.Metadata["reason"] != "disk_full" || !f.Retryable ||
		g.Metadata["reason"] != "other" || !g.Retryable {
		t.Errorf("%+v, %+v, %+v", e, f, g)
	}
}
