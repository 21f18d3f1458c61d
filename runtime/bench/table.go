package main

func rows() []row {
	return []row{
		{name: "durable action, one actor, one caller, p50", target: "at most 1.5", latency: true,
			ours: (*bench).durableAlone, raw: (*bench).rawAlone},
		{name: "64 callers, one actor / pipelined depth 64", target: "at least 0.6",
			ours: func(b *bench) float64 { return b.durable(64, 1) }, raw: func(b *bench) float64 { return b.rawPipelined(64) }},
		{name: "64 callers, 1,000 actors / 64 committers", target: "at least 0.6",
			ours: func(b *bench) float64 { return b.durable(64, 1000) }, raw: func(b *bench) float64 { return b.rawCommitters(64, 1000) }},
		{name: "query, awake actor, one core", target: "at least 500,000/s", ours: (*bench).queries},
		{name: "wake and answer, 10,000 asleep, p50", target: "at most 30 us", latency: true, ours: (*bench).wakes},
	}
}
