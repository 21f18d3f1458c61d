package node

import (
	"testing"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/method"
)

// TestLookingAtAnActorDoesNotWakeIt calls each built-in method that reads on an actor that sleeps. The ones of workers and senders
// wake it, and so do statements in SQL, which may need the migrations of a wake.
func TestLookingAtAnActorDoesNotWakeIt(t *testing.T) {
	t.Parallel()
	wakes := map[string]bool{host.QueueHeld: true, host.QueueResult: true, host.SQLQuery: true}
	inputs := map[string]string{
		host.QueuePeek: `{"queue":"jobs"}`, host.QueueDeadList: `{"queue":"jobs"}`, host.ScheduleRuns: `{"name":"tick"}`, host.StreamRead: `{"stream":"out"}`,
		host.AlarmList: "", host.ActorWhy: "", host.TokenList: "", host.SQLStatus: "", host.WorkflowStatus: "", host.WorkflowExport: "",
	}
	g := newStage(t, nil, &puppetType{name: "p", queues: []host.Queue{{Name: "jobs"}}})
	g.kv("in.x=1")
	for _, row := range method.All() {
		if row.Kind != host.Query || wakes[row.Name] {
			continue
		}
		g.mustVerb("a", host.ActorSleep, nil, nil)
		input, set := inputs[row.Name]
		if !set {
			input = `{}`
		}
		_, err := g.Call(t.Context(), &host.Request{Address: pAddr("a"), Method: row.Name, Codec: host.JSON, Input: []byte(input), Existing: true})
		st, lookup := g.Lookup(t.Context(), pAddr("a"))
		if lookup != nil || st.State != host.Asleep {
			t.Errorf("after %s the actor is %s, %v: %v", row.Name, st.State, lookup, err)
		}
	}
}
