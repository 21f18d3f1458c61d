package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/docs/examples/flights/data"
	"github.com/cairn-run/cairn/docs/examples/flights/traffic"
)

// How the import runs. The window bounds how many calls are repeated after a crash.
const (
	importWorkers = 64
	importWindow  = 1024
	importBatch   = 64
)

// An importer replays flights: each is one durable call to its origin's actor.
//
// No flight counts twice, however often the import is interrupted. The position, which lives in an
// actor, says where to go on. Calls after the position that had been answered, or were under way,
// are made again with the same idempotency key: they get the reply of the first time and change
// nothing. And because the flights of an airport are replayed one by one, in order, the airport
// itself can tell a repeated number, which still holds when a month has passed and the runtime has
// forgotten the key.
//
// The order of each airport's flights is always the same, the order between airports is not.
type importer struct {
	node    actor.Node
	flights []data.Flight
	// rate is in flights per second; 0 for as fast as possible.
	rate     int
	progress func(done int)
}

// position returns how many flights are imported and durable.
func (i *importer) position(ctx context.Context) (int, error) {
	n, err := traffic.Position.Call(ctx, i.ref(), actor.None{})
	if err != nil {
		return 0, fmt.Errorf("read the position of the import: %w", err)
	}
	return int(n), nil
}

// run replays the flights from a position on. It returns when all are durable and the position says
// so.
func (i *importer) run(ctx context.Context, from int) error {
	r := replay{
		from: from, to: len(i.flights),
		workers: importWorkers, window: importWindow, batch: importBatch,
		rate: i.rate, progress: i.progress,
		lane: func(step int) string { return i.flights[step].Origin },
		do:   i.depart,
		save: i.advance,
	}
	if err := r.run(ctx); err != nil {
		return fmt.Errorf("import flights: %w", err)
	}
	return nil
}

func (i *importer) ref() actor.Ref[traffic.Import] { return traffic.Imports.Ref(i.node, data.Name) }

func (i *importer) depart(ctx context.Context, step int) error {
	f, number := i.flights[step], int64(step)+1
	origin := traffic.Airports.Ref(i.node, f.Origin)
	input := traffic.Flight{Number: number, Date: f.Date, Destination: f.Destination, Distance: f.Distance, Delay: f.Delay}
	err := patiently(ctx, func() error {
		_, err := traffic.Depart.Call(ctx, origin, input, actor.IdempotencyKey(fmt.Sprintf("flight-%d", number)))
		return err
	})
	if err != nil {
		return fmt.Errorf("flight %d from %s: %w", number, f.Origin, err)
	}
	return nil
}

// documents hands in, for each late flight whose claim is still open, what its passengers have: not
// all of them have everything. Until then the claims wait, however often the import is interrupted.
func (i *importer) documents(ctx context.Context) error {
	for step, f := range i.flights {
		if f.Delay <= traffic.ClaimAfter {
			continue
		}
		number := int64(step) + 1
		claim := traffic.Claims.Ref(i.node, traffic.ClaimKey(number))
		err := patiently(ctx, func() error {
			// A claim that has not been filed yet finds them when it is.
			known, err := traffic.LookAt.Call(ctx, claim, actor.None{})
			if err == nil && known.Ending != "" || err != nil && actor.CodeOf(err) != actor.NotFound {
				return err
			}
			_, err = traffic.Documents.Of(claim).Send(ctx, traffic.Papers{Complete: haveDocuments(number)}, actor.DedupID("papers"))
			return err
		})
		if err != nil {
			return fmt.Errorf("documents for flight %d: %w", number, err)
		}
	}
	return nil
}

// haveDocuments reports whether the passengers of a flight have kept their documents.
func haveDocuments(number int64) bool { return number%4 != 0 }

func (i *importer) advance(ctx context.Context, position int) error {
	return patiently(ctx, func() error {
		_, err := traffic.Advance.Call(ctx, i.ref(), int64(position))
		return err
	})
}

// patience is how long a retryable error may last.
const patience = 30 * time.Second

// patiently repeats a call that fails with a retryable error, as when the disk is full or a mailbox
// is, until it succeeds or patience has passed.
func patiently(ctx context.Context, call func() error) error {
	deadline := time.Now().Add(patience)
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		err := call()
		var failure *actor.Error
		if !errors.As(err, &failure) || !failure.Retryable || time.Now().After(deadline) {
			return err
		}
		if sleep(ctx, pause) != nil {
			return err
		}
	}
}
