package main

import (
	"slices"

	"github.com/nats-io/nats.go"

	"github.com/cairn-run/cairn/runtime"
)

func rows() []row {
	return slices.Concat(nodeRows(), findRows(), kvRows(), storeRows(), searchRows(), sqlRows(), workflowRows())
}

func nodeRows() []row {
	return []row{
		{name: "durable action, one actor, one caller, p50 / one raw synced batch",
			target: "at most 1.1", latency: true,
			ours: (*bench).durableAlone, raw: (*bench).rawAlone},
		{name: "64 callers, one actor / raw pipelined, depth 64", target: "at least 0.95",
			ours: func(b *bench) float64 { return b.durable(64, 1) }, raw: func(b *bench) float64 { return b.rawPipelined(64) }},
		{name: "64 callers, 1,000 actors / 64 raw committers", target: "at least 0.7, at most 2 x the processor time",
			ours: func(b *bench) float64 { return b.durable(64, 1000) }, raw: func(b *bench) float64 { return b.rawCommitters(64, 1000) }},
		{name: "p99 of 100 calm actors, 64 callers flood another / nobody does", target: "at most 2", latency: true,
			ours: func(b *bench) float64 { return b.calmP99(64, runtime.Options{}) },
			raw:  func(b *bench) float64 { return b.calmP99(0, runtime.Options{}) }},
		{name: "p99 of 100 calm actors, one core, no sync, 64 callers flood another / nobody does",
			target: "(what the core allows)", latency: true,
			ours: func(b *bench) float64 { return b.calmOneCore(64) }, raw: func(b *bench) float64 { return b.calmOneCore(0) }},
		{name: "query, awake actor, one core", target: "at least 500,000/s", ours: (*bench).queries},
		{name: "wake and answer, 10,000 asleep, p50", target: "at most 30 us", latency: true, ours: (*bench).wakes},
		{name: "memory of an awake idle actor", target: "at most 2048 B", bytes: true, ours: (*bench).memoryAwake},
		{name: "memory of a sleeping actor", target: "0 B", bytes: true, ours: (*bench).memoryAsleep},
		httpRow(1, "one actor"),
		httpRow(1000, "1,000 actors"),
		{name: "durable HTTP call, one caller, p50 / bare handler, one synced commit",
			target: "at most 1.15", latency: true,
			ours: (*bench).httpAlone, raw: (*bench).httpRawAlone},
		{name: "queue: enqueued and handled, 1 producer / two raw synced commits of the same rows",
			target: "at least 0.5",
			ours:   func(b *bench) float64 { return b.queued(1) }, raw: (*bench).rawQueue},
		{name: "queue: enqueued and handled, 64 producers / the same commits pipelined, depth 64",
			target: "at least 0.5",
			ours:   func(b *bench) float64 { return b.queued(64) }, raw: func(b *bench) float64 { return b.rawQueuePipelined(64) }},
		{name: "queue: worker receives and acks a message, no sync, 1,000,000 wait, p50 / 1,000 wait", target: "at most 1.5", latency: true,
			ours: func(b *bench) float64 { return b.receivedOne(longQueue) }, raw: func(b *bench) float64 { return b.receivedOne(shortQueue) }},
		{name: "queue: worker receives and acks 100 at a time, no sync, 1,000,000 wait, p50 / 1,000 wait", target: "at most 1.5", latency: true,
			ours: func(b *bench) float64 { return b.receivedBatch(longQueue) }, raw: func(b *bench) float64 { return b.receivedBatch(shortQueue) }},
		{name: "fan-out of one actor's events to 1,000 WebSocket clients / bare loop", target: "at least 0.7",
			ours: func(b *bench) float64 { return b.fanOut(audienceSize, true).rate }, raw: func(b *bench) float64 { return b.rawFanOut(audienceSize, true).rate }},
		{name: "fan-out to 1,000 WebSocket clients, one event at a time, p99 of Emit to receipt / bare loop", latency: true,
			ours: func(b *bench) float64 { return b.aside(b.fanOut(audienceSize, true).p99) }, raw: func(b *bench) float64 { return b.aside(b.rawFanOut(audienceSize, true).p99) }},
		{name: "fan-out of one actor's events to 1,000 SSE clients / bare loop", target: "at least 0.7",
			ours: func(b *bench) float64 { return b.fanOut(audienceSize, false).rate }, raw: func(b *bench) float64 { return b.rawFanOut(audienceSize, false).rate }},
		{name: "fan-out to 1,000 SSE clients, one event at a time, p99 of Emit to receipt / bare loop", latency: true,
			ours: func(b *bench) float64 { return b.aside(b.fanOut(audienceSize, false).p99) }, raw: func(b *bench) float64 { return b.aside(b.rawFanOut(audienceSize, false).p99) }},
		{name: "NATS: events published from a full outbox / raw publish of the same messages", target: "at least 0.7",
			ours: func(b *bench) float64 { return b.published(publishedEvents, func(*nats.Msg) {}) },
			raw:  func(b *bench) float64 { return b.rawPublished(publishedEvents) }},
		{name: "alarms: 100,000 armed, 64 callers, 10,000 actors / 64 raw committers of the same rows",
			ours: func(b *bench) float64 { return b.alarms(pendingAlarms, dueAlarms).armed }, raw: func(b *bench) float64 { return b.rawArms(pendingAlarms) }},
		{name: "alarms: lag of 10,000 that fall due in one second, p50", latency: true,
			ours: func(b *bench) float64 { return b.aside(b.alarms(pendingAlarms, dueAlarms).p50) }},
		{name: "alarms: lag of 10,000 that fall due in one second, p99", latency: true,
			ours: func(b *bench) float64 { return b.aside(b.alarms(pendingAlarms, dueAlarms).p99) }},
		{name: "alarms: lag of 10,000 that fall due in one second, max", latency: true,
			ours: func(b *bench) float64 { return b.aside(b.alarms(pendingAlarms, dueAlarms).max) }},
		{name: "idle WebSocket, 10,000 of them, heap and stacks / bare server", bytes: true,
			ours: func(b *bench) float64 { return b.idle("node", idleSockets).heap }, raw: func(b *bench) float64 { return b.idle("bare", idleSockets).heap }},
		{name: "idle WebSocket, 10,000 of them, resident memory / bare server", bytes: true,
			ours: func(b *bench) float64 { return b.idle("node", idleSockets).resident }, raw: func(b *bench) float64 { return b.idle("bare", idleSockets).resident }},
		{name: "stream: items that a task appends one by one, followed over HTTP",
			ours: func(b *bench) float64 { return b.streamed(1) }},
		{name: "stream: items that a task appends 100 at a time, followed over HTTP",
			ours: func(b *bench) float64 { return b.streamed(100) }},
	}
}

// httpRow compares durable HTTP calls with two bare handlers: one commits the same rows, the other
// does nothing.
func httpRow(actors int, name string) row {
	return row{name: "durable HTTP call, 64 callers, " + name +
		" / bare handler, one synced commit", target: "at least 0.9",
		ours: func(b *bench) float64 { return b.httpDurable(64, actors) },
		raw:  func(b *bench) float64 { return b.httpRaw(64, actors) },
		more: []twin{{"  beside an empty handler", func(b *bench) float64 { return b.httpEmpty(64) }}}}
}
