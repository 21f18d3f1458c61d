// Package post is a post office as a durable actor: letters wait in a queue for carriers outside,
// an audit queue is handled by the actor itself, and a stream tells what was audited.
package post

import (
	"fmt"
	"strings"
	"time"

	"github.com/cairn-run/cairn/actor"
)

// The contract.
var (
	Offices = actor.NewType[Office]("office")
	// Accept takes a letter in: it goes to the carriers and to the audit, or to neither.
	Accept = actor.NewAction[Letter, actor.None](Offices, "accept")
	Totals = actor.NewQuery[actor.None, Office](Offices, "totals")

	// Letters are carried by workers: other processes, which may die at any moment.
	Letters = actor.NewQueue[Letter](Offices, "letters", actor.QueueConfig{Workers: true, Lock: 2 * time.Second, Backoff: []time.Duration{100 * time.Millisecond, 200 * time.Millisecond, 400 * time.Millisecond}})
	// Audit is handled by the actor, exactly once for each letter.
	Audit = actor.NewQueue[Letter](Offices, "audit", actor.QueueConfig{Backoff: []time.Duration{10 * time.Millisecond, 20 * time.Millisecond}})
	// Log is what was audited, in order.
	Log = actor.NewStream[string](Offices, "log", actor.StreamConfig{})
)

// An Office is the state of an actor.
type Office struct {
	// Accepted and Audited count letters; Attempts counts those audits that were begun and kept.
	Accepted, Audited int64
}

// A Letter is sent once, however often its sender says so.
type Letter struct {
	ID string `json:"id"`
	// Undeliverable letters end up among the dead letters.
	Undeliverable bool `json:"undeliverable,omitempty"`
}

// Definition is the type with its implementation.
func Definition() actor.Definition {
	return actor.Define(Offices, actor.Spec[Office]{},
		actor.On(Accept, (*Office).accept),
		actor.OnQuery(Totals, Office.totals),
		actor.OnMessage(Audit, (*Office).audit),
	)
}

func (o *Office) accept(ctx *actor.Context, l Letter) (actor.None, error) {
	if l.ID == "" {
		return actor.None{}, actor.Errorf(actor.InvalidArgument, "a letter needs an id")
	}
	sent, err := Letters.Put(ctx, l, actor.DedupID(l.ID))
	if err != nil || sent.Duplicate {
		return actor.None{}, err
	}
	o.Accepted++
	_, err = Audit.Put(ctx, l)
	return actor.None{}, err
}

// audit fails for some letters at first, as handlers do.
func (o *Office) audit(ctx *actor.Context, l Letter) error {
	o.Audited++
	if strings.HasSuffix(l.ID, "7") && ctx.Message().Attempt == 1 {
		return fmt.Errorf("letter %s is illegible at first sight", l.ID)
	}
	_, err := Log.Append(ctx, l.ID)
	return err
}

func (o Office) totals(*actor.ReadContext, actor.None) (Office, error) { return o, nil }
