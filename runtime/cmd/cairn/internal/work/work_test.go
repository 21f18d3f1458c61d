//go:build unix

package work

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-run/cairn/actor/host"
)

// A fakeQueue has one message and answers with what a test sets.
type fakeQueue struct {
	received          bool
	receive           func() // runs before the message is given
	ack, nack, extend func() (lost bool, err error)
	acked             []host.Raw
	nacked            []string
}

func (q *fakeQueue) Receive(context.Context, time.Duration, time.Duration) (*host.ReceivedMessage, error) {
	if q.receive != nil {
		q.receive()
	}
	if q.received {
		return nil, nil
	}
	q.received = true
	return &host.ReceivedMessage{ID: 1, Attempt: 1, Receipt: "r1"}, nil
}

func (q *fakeQueue) Ack(_ context.Context, _ string, reply host.Raw) (bool, error) {
	q.acked = append(q.acked, reply)
	return answer(q.ack)
}

func (q *fakeQueue) Nack(_ context.Context, _, cause string) (bool, error) {
	q.nacked = append(q.nacked, cause)
	return answer(q.nack)
}

func (q *fakeQueue) Extend(context.Context, string, time.Duration) (bool, error) {
	return answer(q.extend)
}

func answer(f func() (bool, error)) (bool, error) {
	if f == nil {
		return false, nil
	}
	return f()
}

// drain empties the queue with a command and returns the results.
func drain(t *testing.T, q *fakeQueue, command ...string) (results []Result, err error) {
	t.Helper()
	w := worker(q)
	w.Command, w.Report = command, func(r Result) { results = append(results, r) }
	done, failed, err := w.Run(t.Context())
	if int(done+failed) != len(results) {
		t.Errorf("%d done and %d failed, but %d results", done, failed, len(results))
	}
	return results, err
}

func worker(q *fakeQueue) *Worker {
	return &Worker{Queue: q, Count: 1, Lock: 30 * time.Second, Drain: true, Stdout: io.Discard, Stderr: io.Discard, Note: func(string) {}}
}

func away() (bool, error) { return false, host.Errorf(host.Unavailable, "starting") }

func TestAMessageThatCannotBeGivenBackSaysBothErrors(t *testing.T) {
	q := &fakeQueue{nack: func() (bool, error) { return false, host.Errorf(host.PermissionDenied, "not you") }}
	results, err := drain(t, q, "false")
	if err == nil || len(results) != 1 || results[0].Done ||
		!strings.Contains(results[0].Error, "exit status 1; and the message could not be given back: ") ||
		!strings.Contains(results[0].Error, "not you") {
		t.Errorf("%+v, %v", results, err)
	}
}

func TestALockThatIsLostWhenTheCommandHasEndedIsAFailure(t *testing.T) {
	for _, command := range []string{"true", "false"} {
		lost := func() (bool, error) { return true, nil }
		results, err := drain(t, &fakeQueue{ack: lost, nack: lost}, command)
		if err == nil || len(results) != 1 || results[0].Done || !strings.Contains(results[0].Error, "the lock was lost") {
			t.Errorf("%s: %+v, %v", command, results, err)
		}
	}
}

func TestSettlingGoesOnUntilAMinuteAfterTheLockHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, start, tries := worker(nil), time.Now(), 0
		err := w.settle(func() (bool, error) { tries++; return away() })
		if took := time.Since(start); host.CodeOf(err) != host.Unavailable || tries < 10 || took > 90*time.Second || took < 75*time.Second {
			t.Errorf("%d tries in %v, %v", tries, took, err)
		}
		tries = 0
		err = w.settle(func() (bool, error) {
			if tries++; tries < 4 {
				return away()
			}
			return false, nil
		})
		if err != nil || tries != 4 {
			t.Errorf("%d tries, %v", tries, err)
		}
	})
}

func TestALockIsExtendedAlsoAfterTheNodeWasAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var at []time.Duration
		start, ended := time.Now(), make(chan struct{})
		q := &fakeQueue{}
		q.extend = func() (bool, error) {
			switch at = append(at, time.Since(start)); len(at) {
			case 2, 3:
				return away()
			case 5:
				return true, nil // lost
			}
			return false, nil
		}
		killed := error(nil)
		worker(q).hold(t.Context(), &host.ReceivedMessage{}, ended, func(err error) { killed = err })
		want := []time.Duration{10 * time.Second, 20 * time.Second, 20*time.Second + 250*time.Millisecond,
			20*time.Second + 500*time.Millisecond,
			30*time.Second + 500*time.Millisecond}
		if !slices.Equal(at, want) || !errors.Is(killed, errLost) {
			t.Errorf("extended at %v, want %v; the command was ended because of %v", at, want, killed)
		}
		close(ended)
		worker(q).hold(t.Context(), &host.ReceivedMessage{}, ended, func(error) { t.Error("a command that had ended was ended") })
	})
}

func TestAMessageThatComesWithTheInterruptIsLeftToOthers(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	q := &fakeQueue{receive: cancel}
	w := worker(q)
	w.Command, w.Report = []string{"true"}, func(r Result) { t.Errorf("the message was handled: %+v", r) }
	if done, failed, err := w.Run(ctx); done != 0 || failed != 0 || err != nil || !q.received {
		t.Errorf("%d done, %d failed, %v", done, failed, err)
	}
}
