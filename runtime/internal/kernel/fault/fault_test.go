package fault

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace/testutil"
)

var at = host.Address{Type: "room", Key: []string{"a"}}

// reporter returns a Reporter and its log.
func reporter(translators ...Translator) (*Reporter, *bytes.Buffer) {
	log := new(bytes.Buffer)
	return &Reporter{Logger: slog.New(slog.NewTextHandler(log, nil)), Translators: translators}, log
}

func TestPublicErrorsSayWhatACallerCanDo(t *testing.T) {
	for _, c := range []struct {
		err    error
		code   host.Code
		hidden bool
	}{
		{NotFound(at), host.NotFound, false},
		{&engine.LimitError{What: "key bytes", Limit: 1, Actual: 2}, host.TooLarge, false},
		{&engine.QuotaError{Limit: 1, Need: 2}, host.QuotaExceeded, false},
		{engine.ErrCursor, host.InvalidArgument, false},
		{engine.ErrBusy, host.Overloaded, false},
		{engine.ErrDiskFull, host.Unavailable, false},
		{engine.ErrReadOnly, host.Unavailable, false},
		{engine.ErrClosed, host.Unavailable, false},
		{engine.ErrDamaged, host.Unavailable, true},
		{context.Canceled, host.Canceled, false},
		{context.DeadlineExceeded, host.DeadlineExceeded, false},
		{errors.New("the password is hunter2"), host.Internal, true},
		{&host.Error{Code: "made_up", Message: "hunter2"}, host.Internal, true},
	} {
		e, id := Public(fmt.Errorf("wrapped: %w", c.err), nil)
		errorIf(t, e.Code != c.code || (id != "") != c.hidden || strings.Contains(e.Message, "hunter2"),
			"%v: %v with id %q, want %s", c.err, e, id, c.code)
		errorIf(t, c.hidden && !strings.Contains(e.Message, id), "%v: the message %q does not name the id %s", c.err, e.Message, id)
	}
	if e, id := Public(nil, nil); e != nil || id != "" {
		t.Errorf("nil became %v", e)
	}
}

type translator struct{ of error }

func (t translator) Translate(err error) (*host.Error, string) {
	if errors.Is(err, t.of) {
		return host.Errorf(host.FailedPrecondition, "translated"), ""
	}
	return nil, ""
}

func TestErrorOfAPartIsTranslatedByIt(t *testing.T) {
	mine := errors.New("mine")
	r, _ := reporter(translator{errors.New("other")}, translator{mine})
	e, _ := r.PublicError(mine)
	errorIf(t, e.Code != host.FailedPrecondition, "%v", e)
}

func TestCauseOfATurnsErrorIsLoggedUnderTheIDThatCallersSee(t *testing.T) {
	r, log := reporter()
	e, reason := r.TurnError(at, "call", "say", errors.New("hunter2"))
	id := e.Metadata["error_id"]
	errorIf(t, id == "" || !strings.Contains(log.String(), id) || !strings.Contains(log.String(), "hunter2") ||
		reason != "hunter2 (error "+id+")",
		"%v, reason %q, log %s", e, reason, log)
	log.Reset()
	e, reason = r.TurnError(at, "call", "say", NotFound(at))
	errorIf(t, reason != e.Message || log.Len() > 0, "%v, reason %q, log %s", e, reason, log)
	if e := r.QueryError(at, "say", errors.New("hunter2")); !strings.Contains(log.String(), e.Metadata["error_id"]) {
		t.Errorf("%v, log %s", e, log)
	}
	log.Reset()
	if e := as(r.StoreError(errors.New("hunter2"))); !strings.Contains(log.String(), e.Metadata["error_id"]) {
		t.Errorf("%v, log %s", e, log)
	}
}

func TestFullDiskLogsOneLineOfACauseInASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, log := reporter()
		for range 100 {
			e := r.CommitError(at, engine.ErrDiskFull)
			fatalIf(t, e.Code != host.Unavailable, "%v", e)
		}
		n := strings.Count(log.String(), "commit failed")
		errorIf(t, n != 1, "%d lines", n)
		log.Reset()
		if e := r.CommitError(at, errors.New("hunter2")); e.Code != host.Unavailable || strings.Contains(e.Message, "hunter2") {
			t.Errorf("%v", e)
		}
		r.CommitError(at, engine.ErrClosed)
		n = strings.Count(log.String(), "commit failed")
		errorIf(t, n != 1, "%d lines of another cause", n)
	})
}

func TestPanicOfAPartBecomesAnErrorWithItsStackInTheLog(t *testing.T) {
	r, log := reporter()
	hook := func() (err error) {
		defer r.Contain(at, "Follow", translator{}, &err)
		panic("hunter2")
	}
	err := hook()
	if e := as(err); e.Code != host.Internal || strings.Contains(e.Message, "hunter2") ||
		!strings.Contains(log.String(), e.Metadata["error_id"]) || !strings.Contains(log.String(), "fault_test.go") {
		t.Errorf("%v, log %s", err, log)
	}
}

func TestOnlyAFullNodeIsFull(t *testing.T) {
	r, _ := reporter()
	for err, want := range map[error]bool{engine.ErrBusy: true, engine.ErrDiskFull: false, Overloaded(1, 0, "the mailbox"): false} {
		errorIf(t, r.Full(err) != want, "%v: %t", err, !want)
	}
}

func as(err error) *host.Error {
	e, _ := errors.AsType[*host.Error](err)
	return e
}

var fatalIf, errorIf = testutil.FatalIf, testutil.ErrorIf
