package node

import (
	"testing"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/method"
	"github.com/cairn-run/cairn/runtime/internal/call"
	"github.com/cairn-run/cairn/runtime/internal/kernel"
)

// A part that binds a method without a row keeps the node from starting, or does not compile.
func TestEachRowOfTheTableIsBound(t *testing.T) {
	t.Parallel()
	g := newStage(t, nil, &puppetType{name: "p"})
	for _, r := range method.All() {
		if kernel.PartOf[*call.Router](g.Kernel).Methods[r.Name] == nil {
			t.Errorf("no part has the built-in method %s", r.Name)
		}
	}
}

func TestAStoreWithoutANodeHasTheOfflineMethods(t *testing.T) {
	t.Parallel()
	g := newStage(t, nil, &puppetType{name: "p"})
	kernel.PartOf[*call.Router](g.Kernel).GoOffline()
	for _, r := range method.All() {
		if (kernel.PartOf[*call.Router](g.Kernel).Methods[r.Name] != nil) != r.Offline {
			t.Errorf("%s works on a store without a node: %v, want %v", r.Name, !r.Offline, r.Offline)
		}
	}
}

// TestMethodsHaveTheirKind: clients over NATS read the kinds, and repeat queries.
func TestMethodsHaveTheirKind(t *testing.T) {
	t.Parallel()
	g := newStage(t, nil, &puppetType{name: "p"})
	kinds := make(map[string]host.MethodKind)
	for _, m := range g.Methods(&host.Behavior{Methods: []host.Method{{Name: "open", Kind: host.Creation}}}) {
		kinds[m.Name] = m.Kind
	}
	for name, kind := range map[string]host.MethodKind{
		"open": host.Creation, host.QueueSend: host.Action, host.QueuePeek: host.Query, host.ActorWhy: host.Query, host.WorkflowStatus: host.Query,
		// What runs beside the actor changes something all the same.
		host.ActorWake: host.Action, host.ActorSleep: host.Action, host.ActorRetry: host.Action, host.SendSkip: host.Action,
		host.SQLMigrate: host.Action, host.SQLStatus: host.Query,
	} {
		if kinds[name] != kind {
			t.Errorf("%s is a %s, want %s", name, kinds[name], kind)
		}
	}
}
