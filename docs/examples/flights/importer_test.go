package main

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/actor/actortest"
	"github.com/cairn-run/cairn/docs/examples/flights/data"
	"github.com/cairn-run/cairn/docs/examples/flights/traffic"
	"github.com/cairn-run/cairn/keyspace/testutil"
)

// firstFlights returns the first n flights, and all airports.
func firstFlights(t *testing.T, n int) ([]data.Flight, map[string]data.Airport) {
	t.Helper()
	flights, err := data.Flights()
	must(t, err)
	airports, err := data.Airports()
	must(t, err)
	return flights[:n], airports
}

func tableOf(t *testing.T, node actor.Node, airports map[string]data.Airport) string {
	t.Helper()
	s, err := settledSurvey(t.Context(), node)
	must(t, err)
	var b strings.Builder
	must(t, report(&b, s, airports))
	return b.String()
}

func TestImportGoesOnAfterPowerCuts(t *testing.T) {
	const n = 100
	flights, airports := firstFlights(t, n)
	config := actortest.Config{UnsyncedPercent: 50}
	config.Run(t, func(t *testing.T, h *actortest.Harness) {
		for _, cut := range []int{1, importBatch, importBatch + 1, 90, n} {
			// Each run is cut off as soon as so many flights are done, with calls in flight.
			i := importer{node: h, flights: flights}
			from, err := i.position(t.Context())
			must(t, err)
			if from > cut {
				t.Fatalf("position %d, but only %d flights were done", from, cut)
			}
			ctx, cancel := context.WithCancel(t.Context())
			i.progress = func(done int) {
				if done >= cut {
					cancel()
				}
			}
			i.run(ctx, from)
			cancel()
			h.Crash()
			time.Sleep(time.Hour)
		}
		i := importer{node: h, flights: flights}
		from, err := i.position(t.Context())
		must(t, err)
		must(t, i.run(t.Context(), from))
		if at, err := i.position(t.Context()); err != nil || at != n {
			t.Errorf("position %d (%v), expected %d", at, err, n)
		}
		must(t, i.documents(t.Context()))
		if got, want := tableOf(t, h, airports), expected(t, n); got != want {
			t.Errorf("got\n%s\nexpected\n%s", got, want)
		}
	}, traffic.Definitions()...)
}

func TestImportCountsOnceWhatItRepeatsAfterTheKeysAreForgotten(t *testing.T) {
	const n = 100
	flights, airports := firstFlights(t, n)
	actortest.Run(t, func(t *testing.T, h *actortest.Harness) {
		i := importer{node: h, flights: flights}
		// The same flights twice from the start is what a crash before the first saved position
		// leads to.
		for range 2 {
			for step := range flights {
				must(t, i.depart(t.Context(), step))
			}
			time.Sleep(25 * time.Hour)
		}
		must(t, i.documents(t.Context()))
		if got, want := tableOf(t, h, airports), expected(t, n); got != want {
			t.Errorf("got\n%s\nexpected\n%s", got, want)
		}
	}, traffic.Definitions()...)
}

func TestRetryableErrorsAreWaitedOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		full := actor.Errorf(actor.Overloaded, "the mailbox is full").Retry()
		begin := time.Now()
		err := patiently(t.Context(), func() error {
			if calls++; calls < 5 {
				return full
			}
			return nil
		})
		if err != nil || calls != 5 || time.Since(begin) != 150*time.Millisecond {
			t.Errorf("error %v after %d calls and %v", err, calls, time.Since(begin))
		}
		begin = time.Now()
		if err := patiently(t.Context(), func() error { return full }); err != full || time.Since(begin) < patience {
			t.Errorf("error %v after %v, expected %v after %v", err, time.Since(begin), full, patience)
		}
		calls = 0
		final := actor.Errorf(actor.InvalidArgument, "no")
		err = patiently(t.Context(), func() error { calls++; return final })
		if err != final || calls != 1 {
			t.Errorf("error %v after %d calls, expected %v after 1", err, calls, final)
		}
	})
}

var must = testutil.Must
