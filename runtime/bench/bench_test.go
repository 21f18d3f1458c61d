package main

import (
	"testing"
	"time"
)

// The measurements as Go benchmarks, one run each, for profiles: go test -bench HTTP -benchtime 1x
// -cpuprofile cpu.out
func BenchmarkMeasurements(b *testing.B) {
	for _, r := range rows() {
		b.Run(r.name, func(b *testing.B) {
			x := &bench{dir: b.TempDir(), time: 3 * time.Second}
			for x.round = range b.N {
				f := x.figure(r.ours)
				b.ReportMetric(f.v, "cairn")
				b.ReportMetric(f.cpu*1e6, "cpu-us/op")
			}
		})
	}
}
