package keyval

import (
	"context"
	"net/http"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/kv"
	"github.com/cairn-run/cairn/runtime/internal/gateway/kvrest"
	"github.com/cairn-run/cairn/runtime/internal/gateway/serve"
)

// Queue is the actor's queue for messages. Clients of Deno KV use the same.
const Queue = "kv"

// The limits that clients rely on.
const (
	maxDepth     = 20    // parts of a key
	maxPart      = 1_024 // of a part: UTF-16 units of a string, or bytes
	maxBatch     = 1_000 // keys
	maxChecks    = 100
	maxMutations = 1_000
	defaultLimit = 100
	maxLimit     = 1_000 // entries of a list; a greater limit counts as this
)

// A Node is the part of a node that the interface uses.
type Node interface {
	Call(context.Context, *host.Request) (host.Reply, error)
	kv.Watcher
}

// New returns the interface.
func New(node Node, operation func(typ, method string) serve.Operation) *kvrest.Interface {
	watch, m := watcher{node}, newMeter()
	return &kvrest.Interface{Call: node.Call, Operation: operation, Form: serve.Brief,
		Status: kvrest.Status, Observe: m.observe, Routes: []kvrest.Route{
			{Verb: http.MethodPost, Path: "api/atomic", Method: host.KVCommit, Answer: atomic, Counted: "atomic"},
			{Verb: http.MethodPost, Path: "api/keys/batch", Method: host.KVGetMany,
				Answer: getBatch, Counted: "get_batch"},
			{Verb: http.MethodPost, Path: "api/keys/delete-batch", Method: host.KVCommit,
				Answer: deleteBatch, Counted: "delete_batch"},
			{Verb: http.MethodGet, Path: "api/keys", Method: host.KVList, Answer: list, Counted: "list"},
			{Verb: http.MethodPost, Path: "api/keys/list", Method: host.KVList, Answer: listWhere, Counted: "list"},
			{Verb: http.MethodGet, Path: "api/keys/count", Method: host.KVCount, Answer: count, Counted: "count"},
			{Verb: http.MethodGet, Path: "api/keys/paginate", Method: host.KVList, Answer: paginate,
				Counted: "paginate"},
			{Verb: http.MethodGet, Path: "api/keys/**", Method: host.KVGet, Answer: get, Counted: "get"},
			{Verb: http.MethodPut, Path: "api/keys/**", Method: host.KVCommit, Answer: set, Counted: "set"},
			{Verb: http.MethodDelete, Path: "api/keys/**", Method: host.KVCommit, Answer: remove, Counted: "delete"},
			{Verb: http.MethodPost, Path: "api/indexes", Method: host.KVSetIndex, Answer: createIndex,
				Counted: "index_create"},
			{Verb: http.MethodGet, Path: "api/indexes", Method: host.KVIndexes, Answer: listIndexes,
				Counted: "index_list"},
			{Verb: http.MethodDelete, Path: "api/indexes", Method: host.KVRemoveIndex,
				Answer: removeIndex, Counted: "index_delete"},
			{Verb: http.MethodGet, Path: "api/search", Method: host.KVSearch, Answer: search, Counted: "search"},
			{Verb: http.MethodPost, Path: "api/search", Method: host.KVSearch, Answer: searchWhere, Counted: "search"},
			{Verb: http.MethodPost, Path: "api/queue/enqueue", Method: host.QueueSend, Answer: enqueue,
				Counted: "queue_enqueue"},
			{Verb: http.MethodGet, Path: "api/queue/listen", Method: host.QueueReceive, Stream: listen,
				Label: serve.LabelListen, Effect: true},
			{Verb: http.MethodGet, Path: "api/queue/poll", Method: host.QueueReceive, Answer: poll,
				Counted: "queue_poll", Effect: true},
			{Verb: http.MethodPost, Path: "api/queue/ack", Method: host.QueueAck, Answer: ack, Counted: "queue_ack"},
			{Verb: http.MethodPost, Path: "api/queue/nack", Method: host.QueueNack, Answer: nack,
				Counted: "queue_nack"},
			{Verb: http.MethodGet, Path: "api/queue/stats", Method: host.QueueStatsMethod,
				Answer: stats, Counted: "queue_stats"},
			{Verb: http.MethodGet, Path: "api/queue/dlq", Method: host.QueueDeadList,
				Answer: deadLetters, Counted: "dlq_list"},
			{Verb: http.MethodGet, Path: "api/queue/dlq/*", Method: host.QueueDeadList, Answer: getDead,
				Counted: "dlq_get"},
			{Verb: http.MethodPost, Path: "api/queue/dlq/*/requeue", Method: host.QueueDeadRequeue,
				Answer: requeue, Counted: "dlq_requeue"},
			{Verb: http.MethodDelete, Path: "api/queue/dlq/*", Method: host.QueueDeadDelete,
				Answer: deleteDead, Counted: "dlq_delete"},
			{Verb: http.MethodDelete, Path: "api/queue/dlq", Method: host.QueueDeadDelete,
				Answer: purge, Counted: "dlq_purge"},
			{Verb: http.MethodGet, Path: "api/metrics", Method: host.QueueStatsMethod, Answer: m.metrics},
			{Verb: http.MethodGet, Path: "api/metrics/prometheus", Method: host.QueueStatsMethod, Answer: m.prometheus},
			{Verb: http.MethodGet, Path: "api/watch", Method: host.KVWatch, Stream: watch.keys,
				Label: serve.LabelWatch},
			{Verb: http.MethodGet, Path: "api/watch/poll", Method: host.KVGetMany, Answer: pollKeys,
				Counted: "watch_poll"},
			{Verb: http.MethodGet, Path: "api/watch/prefix", Method: host.KVWatch, Stream: watch.prefix,
				Label: serve.LabelWatch},
			{Verb: http.MethodGet, Path: "api/watch/prefix/poll", Method: host.KVList,
				Answer: pollPrefix, Counted: "watch_poll"},
		}}
}
