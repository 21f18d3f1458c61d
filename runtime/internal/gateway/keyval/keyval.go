package keyval

import (
	"context"
	"net/http"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/kv"
	"github.com/cairn-run/cairn/runtime/internal/gateway/kvrest"
	"github.com/cairn-run/cairn/runtime/internal/gateway/serve"
)

// Queue is the queue of the actor that messages go to. It is also that of clients of Deno KV.
const Queue = "kv"

// The limits that clients rely on.
const (
	maxDepth     = 20    // parts of a key
	maxPart      = 1_024 // of a part: UTF-16 units of a string, or bytes
	maxBatch     = 1_000 // keys
	maxChecks    = 100
	maxMutations = 1_000
	defaultLimit = 100
	maxLimit     = 1_000 // entries of a list; a greater limit is this one
)

// A Node is what the interface needs of a node.
type Node interface {
	Call(context.Context, *host.Request) (host.Reply, error)
	kv.Watcher
}

// New returns the interface.
func New(node Node, operation func(typ, method string) serve.Operation) *kvrest.Interface {
	watch := watcher{node}
	return &kvrest.Interface{Call: node.Call, Operation: operation, Form: serve.Brief, Status: kvrest.Status, Routes: []kvrest.Route{
		{Verb: http.MethodPost, Path: "api/atomic", Method: host.KVCommit, Answer: atomic},
		{Verb: http.MethodPost, Path: "api/keys/batch", Method: host.KVGetMany, Answer: getBatch},
		{Verb: http.MethodPost, Path: "api/keys/delete-batch", Method: host.KVCommit, Answer: deleteBatch},
		{Verb: http.MethodGet, Path: "api/keys", Method: host.KVList, Answer: list},
		{Verb: http.MethodPost, Path: "api/keys/list", Method: host.KVList, Answer: listWhere},
		{Verb: http.MethodGet, Path: "api/keys/count", Method: host.KVCount, Answer: count},
		{Verb: http.MethodGet, Path: "api/keys/paginate", Method: host.KVList, Answer: paginate},
		{Verb: http.MethodGet, Path: "api/keys/**", Method: host.KVGet, Answer: get},
		{Verb: http.MethodPut, Path: "api/keys/**", Method: host.KVCommit, Answer: set},
		{Verb: http.MethodDelete, Path: "api/keys/**", Method: host.KVCommit, Answer: remove},
		{Verb: http.MethodPost, Path: "api/indexes", Method: host.KVSetIndex, Answer: createIndex},
		{Verb: http.MethodGet, Path: "api/indexes", Method: host.KVIndexes, Answer: listIndexes},
		{Verb: http.MethodDelete, Path: "api/indexes", Method: host.KVRemoveIndex, Answer: removeIndex},
		{Verb: http.MethodGet, Path: "api/search", Method: host.KVSearch, Answer: search},
		{Verb: http.MethodPost, Path: "api/search", Method: host.KVSearch, Answer: searchWhere},
		{Verb: http.MethodPost, Path: "api/queue/enqueue", Method: host.QueueSend, Answer: enqueue},
		{Verb: http.MethodGet, Path: "api/queue/listen", Method: host.QueueReceive, Stream: listen, Label: serve.LabelListen, Effect: true},
		{Verb: http.MethodGet, Path: "api/queue/poll", Method: host.QueueReceive, Answer: poll, Effect: true},
		{Verb: http.MethodPost, Path: "api/queue/ack", Method: host.QueueAck, Answer: ack},
		{Verb: http.MethodPost, Path: "api/queue/nack", Method: host.QueueNack, Answer: nack},
		{Verb: http.MethodGet, Path: "api/queue/stats", Method: host.QueueStatsMethod, Answer: stats},
		{Verb: http.MethodGet, Path: "api/queue/dlq", Method: host.QueueDeadList, Answer: deadLetters},
		{Verb: http.MethodGet, Path: "api/queue/dlq/*", Method: host.QueueDeadList, Answer: getDead},
		{Verb: http.MethodPost, Path: "api/queue/dlq/*/requeue", Method: host.QueueDeadRequeue, Answer: requeue},
		{Verb: http.MethodDelete, Path: "api/queue/dlq/*", Method: host.QueueDeadDelete, Answer: deleteDead},
		{Verb: http.MethodDelete, Path: "api/queue/dlq", Method: host.QueueDeadDelete, Answer: purge},
		{Verb: http.MethodGet, Path: "api/metrics", Method: host.QueueStatsMethod, Answer: metrics},
		{Verb: http.MethodGet, Path: "api/metrics/prometheus", Method: host.QueueStatsMethod, Answer: prometheus},
		{Verb: http.MethodGet, Path: "api/watch", Method: host.KVWatch, Stream: watch.keys, Label: serve.LabelWatch},
		{Verb: http.MethodGet, Path: "api/watch/poll", Method: host.KVGetMany, Answer: pollKeys},
		{Verb: http.MethodGet, Path: "api/watch/prefix", Method: host.KVWatch, Stream: watch.prefix, Label: serve.LabelWatch},
		{Verb: http.MethodGet, Path: "api/watch/prefix/poll", Method: host.KVList, Answer: pollPrefix},
	}}
}
