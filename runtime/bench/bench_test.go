package main

import (
	"testing"
	"time"
)

func BenchmarkDurable64x1000(b *testing.B) {
	x := &bench{dir: b.TempDir(), time: 3 * time.Second}
	b.ReportMetric(x.durable(64, 1000), "calls/s")
}

func BenchmarkDurable64x1(b *testing.B) {
	x := &bench{dir: b.TempDir(), time: 3 * time.Second}
	b.ReportMetric(x.durable(64, 1), "calls/s")
}
