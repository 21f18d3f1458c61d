package event

import (
	"fmt"
	"slices"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/runtime/internal/survey"
)

// Explain implements survey.Explainer.
func (*Part) Explain(q *survey.Inquiry, _ *engine.Snapshot) error {
	sink := q.S.Options.Changes
	if sink == nil || !slices.ContainsFunc(q.Typ.Events, func(e host.Event) bool { return e.Durable }) {
		return nil
	}
	q.Ask(survey.RankPublisher, func() *host.Explanation {
		err := sink.Refuse()
		if err == nil {
			return nil
		}
		e, _ := q.S.PublicError(err)
		return &host.Explanation{Why: host.WhyPublisher,
			Text:    fmt.Sprintf("Turns that emit durable events are refused: %s.", e.Message),
			Details: map[string]string{"reason": e.Message}}
	})
	return nil
}
