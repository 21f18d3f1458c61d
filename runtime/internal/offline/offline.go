// Package offline reads and controls the actors of a store that no node runs on.
package offline

import (
	"context"
	"log/slog"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/runtime/internal/call"
	"github.com/cairn-run/cairn/runtime/internal/kernel"
	"github.com/cairn-run/cairn/runtime/internal/kernel/fault"
	"github.com/cairn-run/cairn/runtime/internal/kernel/options"
	"github.com/cairn-run/cairn/runtime/internal/kernel/wire"
	"github.com/cairn-run/cairn/runtime/internal/node"
	"github.com/cairn-run/cairn/runtime/internal/part/sqlite"
	"github.com/cairn-run/cairn/runtime/internal/survey"
)

// StoredStatus describes an actor from a store, as if it slept.
func StoredStatus(store *engine.Store, namespace string, addr host.Address) (host.Status, error) {
	return survey.StoredStatus(node.Parts(new(node.Options)), store, namespace, addr)
}

// StoredList pages through the actors of a store, as if they slept.
func StoredList(store *engine.Store, namespace string, q host.ListQuery) (host.ListPage, error) {
	return survey.StoredList(node.Parts(new(node.Options)), store, namespace, q, nil)
}

// ControlStoredRun pauses or terminates a workflow run in a store that no node runs on. It commits
// the same as the verb on a node, and returns when that is durable; the next node sends messages of
// the run. It runs no code of an actor. The error code is NotFound if there is no such actor or it
// has no run, and InvalidArgument for another verb.
func ControlStoredRun(ctx context.Context, store *engine.Store, namespace string, addr host.Address,
	in host.RunControl) error {
	s, err := idle(store, namespace)
	if err != nil {
		return err
	}
	defer s.Kill() // nothing is left to drain: the effect of the verb is durable
	router := kernel.PartOf[*call.Router](s.Kernel)
	router.GoOffline()
	if router.Methods[in.Verb] == nil {
		return host.Errorf(host.InvalidArgument, "the verb is %q; without a node it is %q or %q",
			in.Verb, host.WorkflowPause, host.WorkflowTerminate)
	}
	if s.Types[addr.Type] == nil {
		return fault.NotFound(addr)
	}
	input, err := wire.Output.Marshal(&host.WorkflowControlInput{Reason: in.Reason, Entry: in.Entry, Run: in.Run})
	if err != nil {
		return err
	}
	_, err = s.Call(ctx, &host.Request{Address: addr, Method: in.Verb, Codec: host.CBOR, Input: input, Existing: true})
	return err
}

// QueryStored runs a statement on the databases of many actors of a store, as if they slept. It
// changes nothing.
func QueryStored(ctx context.Context, store *engine.Store, namespace string,
	in *host.QueryManyInput) (host.QueryManyOutput, error) {
	s, err := idle(store, namespace)
	if err != nil {
		return host.QueryManyOutput{}, err
	}
	defer s.Kill()
	return sqlite.QueryMany(ctx, s.Kernel, in, func(q host.ListQuery, after map[string]string) (host.ListPage, error) {
		return survey.StoredList(node.Parts(new(node.Options)), store, namespace, q, after)
	})
}

// idle makes a node that is not started: it fires nothing, takes nothing up, and does not mark in
// the store that a node runs or has stopped. Without behaviors every type is one without code. The
// caller must kill it.
func idle(store *engine.Store, namespace string) (*node.Node, error) {
	return node.New(node.Options{Options: options.Options{Store: store, Namespace: namespace,
		Logger: slog.New(errorsOnly{slog.Default().Handler()})}})
}

// errorsOnly passes the causes of errors that callers see only as an id. The operator of a verb
// needs no other log lines of it.
type errorsOnly struct{ slog.Handler }

// Enabled implements slog.Handler.
func (h errorsOnly) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelError && h.Handler.Enabled(ctx, level)
}
