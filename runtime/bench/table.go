package main

import "github.com/cairn-run/cairn/runtime"

func rows() []row {
	return []row{
		{name: "durable action, one actor, one caller, p50 / one raw synced batch", target: "at most 1.5", latency: true,
			ours: (*bench).durableAlone, raw: (*bench).rawAlone},
		{name: "64 callers, one actor / raw pipelined, depth 64", target: "at least 0.6",
			ours: func(b *bench) float64 { return b.durable(64, 1) }, raw: func(b *bench) float64 { return b.rawPipelined(64) }},
		{name: "64 callers, 1,000 actors / 64 raw committers", target: "at least 0.6",
			ours: func(b *bench) float64 { return b.durable(64, 1000) }, raw: func(b *bench) float64 { return b.rawCommitters(64, 1000) }},
		{name: "p99 of 100 calm actors, 64 callers flood another / nobody does", target: "at most 2", latency: true,
			ours: func(b *bench) float64 { return b.calmP99(64, runtime.Options{}) },
			raw:  func(b *bench) float64 { return b.calmP99(0, runtime.Options{}) }},
		{name: "p99 of 100 calm actors, one core, no sync, 64 callers flood another / nobody does", target: "(what the core allows)", latency: true,
			ours: func(b *bench) float64 { return b.calmOneCore(64) }, raw: func(b *bench) float64 { return b.calmOneCore(0) }},
		{name: "query, awake actor, one core", target: "at least 500,000/s", ours: (*bench).queries},
		{name: "wake and answer, 10,000 asleep, p50", target: "at most 30 us", latency: true, ours: (*bench).wakes},
		{name: "memory of an awake idle actor", target: "at most 2048 B", bytes: true, ours: (*bench).memoryAwake},
		{name: "memory of a sleeping actor", target: "0 B", bytes: true, ours: (*bench).memoryAsleep},
		{name: "durable HTTP call, 64 callers, one actor / empty handler", target: "at least 0.7",
			ours: func(b *bench) float64 { return b.httpDurable(64, 1) }, raw: func(b *bench) float64 { return b.httpEmpty(64) }},
		{name: "durable HTTP call, 64 callers, 1,000 actors / empty handler", target: "at least 0.7",
			ours: func(b *bench) float64 { return b.httpDurable(64, 1000) }, raw: func(b *bench) float64 { return b.httpEmpty(64) }},
		{name: "bare handler, one synced commit, 64 callers, 1,000 keys / empty handler", target: "(what the disk allows)",
			ours: func(b *bench) float64 { return b.httpRaw(64, 1000) }, raw: func(b *bench) float64 { return b.httpEmpty(64) }},
		{name: "durable HTTP call, one caller, p50 / bare handler, one synced commit", target: "at most 1.3", latency: true,
			ours: (*bench).httpAlone, raw: (*bench).httpRawAlone},
	}
}
