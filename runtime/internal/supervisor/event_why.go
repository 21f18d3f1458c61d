package supervisor

import (
	"fmt"
	"slices"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
)

// explain implements explainer.
func (*eventPart) explain(q *inquiry, _ *engine.Snapshot) error {
	sink := q.s.options.Changes
	if sink == nil || !slices.ContainsFunc(q.typ.Events, func(e host.Event) bool { return e.Durable }) {
		return nil
	}
	q.ask(rankPublisher, func() *host.Explanation {
		err := sink.Refuse()
		if err == nil {
			return nil
		}
		e, _ := q.s.publicError(err)
		return &host.Explanation{Why: host.WhyPublisher, Text: fmt.Sprintf("Turns that emit durable events are refused: %s.", e.Message),
			Details: map[string]string{"reason": e.Message}}
	})
	return nil
}
