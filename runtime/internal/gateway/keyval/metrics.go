package keyval

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/kv"
	"github.com/cairn-run/cairn/runtime/internal/gateway/kvrest"
)

// figures are the actor's own counts, and the node's counts of its requests.
type figures struct {
	Operations struct {
		Operations map[string]operations `json:"operations"`
		Totals     struct {
			Operations uint64 `json:"operations"`
			Errors     uint64 `json:"errors"`
		} `json:"totals"`
	} `json:"operations"`
	Queue   queueCounts `json:"queue"`
	Storage storage     `json:"storage"`

	timings map[string]timing
}

// operations counts how often an operation was done, and how often it failed or was given up. The
// time is absent without requests.
type operations struct {
	Count        uint64   `json:"count"`
	Errors       uint64   `json:"errors"`
	AvgLatencyMS *float64 `json:"avgLatencyMs,omitempty"`
}

// storage is the size of the store. The bytes are absent unless the whole store is a scope, which
// counts them.
type storage struct {
	Entries   int64  `json:"entries"`
	SizeBytes *int64 `json:"sizeBytes,omitempty"`
}

// figures reads the figures of an actor.
func (m *meter) figures(r *kvrest.Request) (f figures, err error) {
	if _, err := r.Params(); err != nil {
		return f, err
	}
	stats, err := queueStats(r)
	if err != nil && host.CodeOf(err) != host.NotFound { // a type may have no such queue
		return f, err
	}
	f.Queue = countsOf(&stats)
	f.timings = m.of(r.Address)
	done := make(map[string]operations)
	for name, t := range f.timings {
		mean := t.sum / float64(t.count)
		done[name] = operations{t.count, t.errors, &mean}
	}
	// The queue counts all messages, of all interfaces.
	for name, n := range map[string]uint64{"queue_enqueue": stats.Sent, "queue_ack": stats.Done,
		"queue_dlq": stats.Failed} {
		o := done[name]
		o.Count = n
		done[name] = o
	}
	given := done["queue_dlq"]
	given.Errors = stats.Failed
	done["queue_dlq"] = given
	f.Operations.Operations = done
	for _, o := range done {
		f.Operations.Totals.Operations += o.Count
		f.Operations.Totals.Errors += o.Errors
	}
	f.Storage, err = stored(r)
	return f, err
}

// stored returns the counts of a scope of the whole store. Without one it counts the entries.
func stored(r *kvrest.Request) (s storage, err error) {
	var scopes kv.ScopesOutput // the scope of the whole store is the first
	if err := r.Do(host.KVScopes, &kv.ScopesInput{Limit: 1}, &scopes); err != nil {
		return s, err
	}
	if len(scopes.Scopes) > 0 && len(scopes.Scopes[0].Prefix) == 0 {
		all := &scopes.Scopes[0]
		return storage{all.Keys, &all.Bytes}, nil
	}
	s.Entries, err = countAll(r, kv.Key{})
	return s, err
}

// metrics answers GET api/metrics.
func (m *meter) metrics(r *kvrest.Request) (any, error) { return m.figures(r) }

// prometheus answers GET api/metrics/prometheus.
func (m *meter) prometheus(r *kvrest.Request) (any, error) {
	f, err := m.figures(r)
	if err != nil {
		return nil, err
	}
	var b strings.Builder
	family := func(name, kind, help string) { fmt.Fprintf(&b, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind) }
	done := f.Operations.Operations
	names := slices.Sorted(maps.Keys(done))
	family("keyval_operations_total", "counter", "Total operations by type")
	for _, name := range names {
		fmt.Fprintf(&b, "keyval_operations_total{operation=%q} %d\n", name, done[name].Count)
	}
	family("keyval_operation_errors_total", "counter", "Total errors by operation type")
	for _, name := range names {
		fmt.Fprintf(&b, "keyval_operation_errors_total{operation=%q} %d\n", name, done[name].Errors)
	}
	if len(f.timings) > 0 {
		family("keyval_operation_duration_ms", "histogram", "Duration of requests by operation type, in milliseconds")
	}
	for _, name := range slices.Sorted(maps.Keys(f.timings)) {
		t := f.timings[name]
		for i, bound := range bounds {
			fmt.Fprintf(&b, "keyval_operation_duration_ms_bucket{operation=%q,le=\"%g\"} %d\n",
				name, bound, t.buckets[i])
		}
		fmt.Fprintf(&b, "keyval_operation_duration_ms_bucket{operation=%q,le=\"+Inf\"} %d\n", name, t.count)
		fmt.Fprintf(&b, "keyval_operation_duration_ms_sum{operation=%q} %g\n", name, t.sum)
		fmt.Fprintf(&b, "keyval_operation_duration_ms_count{operation=%q} %d\n", name, t.count)
	}
	for _, gauge := range []struct {
		name, help string
		value      int64
	}{
		{"keyval_queue_pending", "Pending messages in queue", f.Queue.Pending},
		{"keyval_queue_processing", "Messages being processed", f.Queue.Processing},
		{"keyval_queue_dlq", "Messages in dead letter queue", f.Queue.DLQ},
		{"keyval_queue_total", "Total messages in queue", f.Queue.Total},
		{"keyval_entries_total", "Total entries in store", f.Storage.Entries},
	} {
		family(gauge.name, "gauge", gauge.help)
		fmt.Fprintf(&b, "%s %d\n", gauge.name, gauge.value)
	}
	if n := f.Storage.SizeBytes; n != nil {
		family("keyval_storage_bytes", "gauge", "Storage size in bytes")
		fmt.Fprintf(&b, "keyval_storage_bytes %d\n", *n)
	}
	return kvrest.Text{Type: "text/plain; version=0.0.4", Body: b.String()}, nil
}
